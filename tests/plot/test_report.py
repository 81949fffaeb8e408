"""Reports: whole pages that load nothing, with all that was said, escaped."""

import base64
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

import distrf
from distrf import RandomFourierFeatures, StreamingRidge, StreamingRidgeClassifier, save_model
from distrf.errors import InputError, StoreError
from distrf.plot import write_report

NASTY = "<b>a & \"b\" 'c'</b> $x$ <script>alert(1)</script>"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
Z = X[:, 0] + 0.3 * RNG.normal(size=300)


class Page(HTMLParser):
    """A page that is complete in itself, and not large: its texts, sections and images. Its tags are closed in order."""

    def __init__(self, path):
        super().__init__()
        self.open, self.words, self.sections, self.images = [], [], [], []
        data = path.read_bytes()
        assert len(data) < 1_000_000
        assert data.startswith(b"<!DOCTYPE html>")
        assert not re.search(rb"url\(|@import", data)
        self.feed(data.decode())
        assert not self.open
        self.text = " ".join(" ".join(self.words).split())
        png = [
            base64.b64decode(url.removeprefix("data:image/png;base64,"), validate=True) for url in self.images
        ]
        assert all(image.startswith(b"\x89PNG") for image in png)

    def handle_starttag(self, tag, attrs):
        assert tag not in {"script", "link", "iframe", "object"}
        harmless = {"lang", "charset", "name", "content", "class", "open", "src", "alt"}
        assert {name for name, _ in attrs} <= harmless
        self.images += [value for name, value in attrs if name == "src"]
        self.open += [] if tag in {"meta", "img", "br"} else [tag]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.sections += [data] if self.open[-1:] == ["h2"] else []
        self.words += [] if self.open[-1:] == ["style"] else [data]


def machine(model):
    return make_pipeline(RandomFourierFeatures(length_scale=3.0, n_components=32, random_state=0), model)


def test_evaluation__of_labels_that_are_markup(tmp_path):
    y = np.where(Z > 0, NASTY, "no\x07")
    model = machine(StreamingRidgeClassifier(1e-3, calibrate=True)).fit(X, y)
    found = distrf.evaluate(model, X, y)
    write_report(
        found, tmp_path / "r.html", title=f"of {NASTY}", data={NASTY: NASTY}, command=f"distrf evaluate '{NASTY}'",
        facts={"warnings": [NASTY], "seconds": 1.5},
    )  # fmt: skip
    page = Page(tmp_path / "r.html")
    assert page.sections == ["Warnings", "Command", "Data", "Scores", "Time"]
    assert len(page.images) == 4
    assert page.text.count(NASTY) >= 7
    for value in (found["accuracy"], found["roc_auc"]):
        assert f"{value:.6g}" in page.text


def test_evaluation__of_numbers(tmp_path):
    model = machine(StreamingRidge(1e-3)).fit(X, Z)
    found = distrf.evaluate(model, X, Z)
    write_report(found, tmp_path / "r.html")
    page = Page(tmp_path / "r.html")
    assert page.images == []
    assert f"{found['rmse']:.6g}" in page.text
    assert "Warnings None." in page.text


@pytest.mark.slow
def test_model__fitted_and_from_its_folder(tmp_path):
    model = distrf.train(X, Z)
    write_report(model, tmp_path / "fitted.html")
    save_model(model, tmp_path / "m")
    write_report(tmp_path / "m", tmp_path / "folder.html")
    for name in ("fitted", "folder"):
        page = Page(tmp_path / f"{name}.html")
        assert {"Warnings", "Model"} <= set(page.sections)
        for words in (
            f"{model[-1].alpha_:.6g}",
            model.training_.choices[0].why,
            model.training_.candidates[0][0],
        ):
            assert words in page.text


@pytest.mark.parametrize(
    ("result", "name", "error", "match"),
    [
        (StreamingRidge(), "r.txt", InputError, r"ends in \.html"),
        (StreamingRidge(), "html", InputError, r"ends in \.html"),
        (StreamingRidge(), "folder.html", InputError, "is a folder"),
        (StreamingRidge(), "file/r.html", StoreError, "cannot be written"),
        ({}, "r.html", InputError, "got dict"),
    ],
)
def test_refuses_places_and_things(tmp_path, result, name, error, match):
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(error, match=match):
        write_report(result, tmp_path / name)
    assert {p.name for p in tmp_path.iterdir()} == {"folder.html", "file"}


def test_labels_print_as_given_and_long_tables_are_cut(tmp_path):
    y = 2019 + np.arange(2200) % 1100
    found = distrf.evaluate(StreamingRidgeClassifier(1e-3).fit(y[:, None], y), y[:, None], y)
    write_report(found, tmp_path / "r.html", facts={"rows": 1234})
    text = Page(tmp_path / "r.html").text
    assert all(words in text for words in (" 2019 ", "1,234", "and 100 more rows"))


@pytest.fixture
def tables(tmp_path):
    """A table of training rows, and one to score, with columns whose names are markup."""
    a, city = RNG.normal(size=400), np.array(["Köln", NASTY])[RNG.integers(0, 2, 400)]
    y = np.where(a + (city == NASTY) + 0.3 * RNG.normal(size=400) > 0, "<yes>", "no")
    table = pd.DataFrame({"age <years>": a, NASTY: city, "y": y})
    table[:300].to_parquet(tmp_path / "train.parquet")
    table.loc[300, "y"] = "new"
    table[300:].to_parquet(tmp_path / "test.parquet")
    return tmp_path


@pytest.mark.slow
def test_commands(cli, tables):
    given = ["train", tables / "train.parquet", tables / "m", "--target", "y", "--cluster", "none"]
    cli(*given, "--report", tables / "t.html")
    page = Page(tables / "t.html")
    assert page.sections == ["Warnings", "Command", "Data", "Model", "Time"]
    for words in ("age <years>", NASTY, f"distrf train {tables / 'train.parquet'}"):
        assert words in page.text
    cli(*given, "--resume", "--report", tables / "other.html")  # of a job that is done
    assert "Model" in Page(tables / "other.html").sections
    given = ["evaluate", tables / "m", tables / "test.parquet", "--cluster", "none", "--json"]
    said = cli(*given, "--report", tables / "e.html")
    assert '"report"' in said.out
    page = Page(tables / "e.html")
    assert {"Command", "Data", "Scores", "Time"} <= set(page.sections)
    assert len(page.images) == 4
    beware = "of the rows have a label that no training row had"
    assert beware in said.out
    assert beware in page.text


def test_missing_matplotlib__names_the_extra_before_anything_runs(cli, tables, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    before, given = {*tables.iterdir()}, ["train", tables / "train.parquet", tables / "m", "--target", "y"]
    assert 'pip install "distrf[plot]"' in " ".join(
        cli(*given, "--report", tables / "r.html", code=1).err.split()
    )
    assert {*tables.iterdir()} == before
