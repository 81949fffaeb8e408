"""Reports: whole pages that load nothing, with all that was said, escaped."""

import base64
import sys
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.pipeline import make_pipeline

import distrf
from distrf import RandomFourierFeatures, StreamingRidge, StreamingRidgeClassifier, save_model
from distrf.cli.console import table
from distrf.errors import InputError, StoreError
from distrf.plot import write_report

EMPTY = {"meta", "img", "br"}
NASTY = "<b>a & \"b\" 'c'</b> $x$ <script>alert(1)</script>"


class Reader(HTMLParser):
    """Checks that tags are closed in order; collects tags, texts and what is loaded."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.loaded, self.words, self.sections = [], [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open
        self.text = " ".join(" ".join(self.words).split())
        self.images = [url for url in self.loaded if url.startswith("data:")]

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.loaded += [value for name, value in attrs if name in ("src", "href", "srcset", "action")]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "h2":
            self.sections.append(data)
        if self.open and self.open[-1] != "style":
            self.words.append(data)


def read(path):
    """The page; it is complete in itself, and not large."""
    data = path.read_bytes()
    assert len(data) < 1_000_000
    text = data.decode()
    page = Reader(text)
    assert text.startswith("<!DOCTYPE html>")
    assert not {"script", "link", "iframe", "object", "b"} & set(page.tags) - {"b"}
    assert all(url.startswith(("data:image/", "#s")) for url in page.loaded)
    assert "url(" not in text
    assert "@import" not in text
    for url in page.images:
        assert base64.b64decode(url.removeprefix("data:image/png;base64,"), validate=True).startswith(
            b"\x89PNG"
        )
    return page


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    return X, X[:, 0] + 0.3 * rng.normal(size=300)


def machine(model):
    return make_pipeline(RandomFourierFeatures(length_scale=3.0, n_components=32, random_state=0), model)


def test_evaluation__of_labels_that_are_markup(tmp_path, rows):
    X, z = rows
    y = np.where(z > 0, NASTY, "no\x07")
    model = machine(StreamingRidgeClassifier(1e-3, calibrate=True)).fit(X, y)
    by = np.where(X[:, 1] > 0, NASTY, "other")
    found = distrf.evaluate(model, X, y, by=by)
    write_report(
        found, tmp_path / "r.html", title=f"of {NASTY}", facts={"warnings": [NASTY], "seconds": 1.5},
        data={NASTY: NASTY}, command=f"distrf evaluate '{NASTY}'",
    )  # fmt: skip
    page = read(tmp_path / "r.html")
    assert page.sections == ["Warnings", "Command", "Data", "Scores", "Time", "Environment", "Result"]
    assert len(page.images) == 4
    assert page.text.count(NASTY) >= 8
    assert f"{found['accuracy']:.6g}" in page.text
    assert f"{found['roc_auc']:.6g}" in page.text


def test_evaluation__of_numbers(tmp_path, rows):
    X, z = rows
    model = machine(StreamingRidge(1e-3)).fit(X, z)
    write_report(model, tmp_path / "r.html")
    assert read(tmp_path / "r.html").images == []  # a model of one penalty leaves nothing to draw
    found = distrf.evaluate(model, X, z)
    write_report(found, tmp_path / "r.html")
    page = read(tmp_path / "r.html")
    assert len(page.images) == 1
    assert f"{found['rmse']:.6g}" in page.text
    assert "Warnings None." in page.text


@pytest.mark.slow
def test_model__fitted_and_from_its_folder(tmp_path, rows):
    X, z = rows
    model = distrf.train(X, z)
    write_report(model, tmp_path / "fitted.html")
    save_model(model, tmp_path / "m")
    write_report(tmp_path / "m", tmp_path / "folder.html")
    for name in ("fitted", "folder"):
        page = read(tmp_path / f"{name}.html")
        assert {"Warnings", "Model", "Environment", "Spec"} <= set(page.sections)
        assert len(page.images) == 1
        assert f"{model[-1].alpha_:.6g}" in page.text
        assert model.training_.choices[0].why in page.text
        assert '"class": "Pipeline"' in page.text


def test_refuses_places_and_things(tmp_path, rows):
    model = StreamingRidge(1e-3).fit(*rows)
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "file").write_text("")
    for name in ("r.txt", "r", "html"):
        with pytest.raises(InputError, match=r"ends in \.html"):
            write_report(model, tmp_path / name)
    assert {p.name for p in tmp_path.iterdir()} == {"folder.html", "file"}
    with pytest.raises(InputError, match="is a folder"):
        write_report(model, tmp_path / "folder.html")
    with pytest.raises(StoreError, match="cannot be written"):
        write_report(model, tmp_path / "file" / "r.html")
    with pytest.raises(InputError, match="got dict"):
        write_report({}, tmp_path / "r.html")


def test_missing_matplotlib__names_the_extra_before_anything_runs(cli, tables, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    given = [
        "train",
        tables / "train.parquet",
        tmp_path / "m",
        "--target",
        "y",
        "--report",
        tmp_path / "r.html",
    ]
    assert 'pip install "distrf[plot]"' in " ".join(cli(*given, code=1).err.split())
    assert not any(tmp_path.iterdir())


def test_is_whole_or_not_there(tmp_path, rows, monkeypatch):
    (tmp_path / "r.html").write_text("an older one")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space"):
        write_report(StreamingRidge(1e-3).fit(*rows), tmp_path / "r.html")
    assert [p.name for p in tmp_path.iterdir()] == ["r.html"]
    assert (tmp_path / "r.html").read_text() == "an older one"


def test_labels_print_as_given_and_long_tables_are_cut(tmp_path):
    y = 2019 + np.arange(2200) % 1100
    found = distrf.evaluate(StreamingRidgeClassifier(1e-3).fit(y[:, None], y), y[:, None], y)
    write_report(found, tmp_path / "r.html", facts={"rows": 1234})
    text = read(tmp_path / "r.html").text
    for words in (text, table("by class", [{"label": 2019, "rows": 1234}])):
        assert "2019" in words
        assert "1,234" in words
    assert "and 100 more rows" in text
    assert "more letters" in text


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A table of training rows, and one to score, with columns whose names are markup."""
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    a, city = rng.normal(size=400), np.array(["Köln", NASTY])[rng.integers(0, 2, 400)]
    y = np.where(a + (city == NASTY) + 0.3 * rng.normal(size=400) > 0, "<yes>", "no")
    table = pa.table({"age <years>": a, NASTY: city, "y": y})
    pq.write_table(table.slice(0, 300), folder / "train.parquet")
    pq.write_table(table.slice(300), folder / "test.parquet")
    return folder


@pytest.mark.slow
def test_commands(cli, tables, tmp_path):
    given = ["train", tables / "train.parquet", tmp_path / "m", "--target", "y", "--cluster", "none"]
    cli(*given, "--report", tmp_path / "t.html")
    page = read(tmp_path / "t.html")
    wanted = ["Warnings", "Command", "Data", "Model", "Time", "Memory", "Environment", "Spec"]
    assert page.sections == wanted
    assert "age <years>" in page.text
    assert NASTY in page.text
    assert f"distrf train {tables / 'train.parquet'}" in page.text
    assert "peak per worker" in page.text
    assert len(page.images) == 1  # penalties
    # a job that is done writes a report that is missing, and leaves one that is there
    (tmp_path / "t.html").write_text("mine")
    cli(*given, "--resume", "--report", tmp_path / "t.html")
    assert (tmp_path / "t.html").read_text() == "mine"
    cli(*given, "--resume", "--report", tmp_path / "other.html")
    assert "Model" in read(tmp_path / "other.html").sections
    given = ["evaluate", tmp_path / "m", tables / "test.parquet", "--by", NASTY, "--cluster", "none", "--json"]
    assert '"report"' in cli(*given, "--report", tmp_path / "e.html").out
    page = read(tmp_path / "e.html")
    assert {"Command", "Data", "Scores", "Time", "Memory", "Environment", "Result"} <= set(page.sections)
    assert f"By {NASTY}" in page.text
    assert len(page.images) == 4


def test_warnings_of_a_command_are_in_its_report(cli, rows, tmp_path):
    X, z = rows
    save_model(machine(StreamingRidgeClassifier(1e-3)).fit(X, np.where(z > 0, "yes", "no")), tmp_path / "m")
    distrf.write_rows(X, tmp_path / "rows.zarr", np.where(z > 0, NASTY, "no"))
    words = ["evaluate", tmp_path / "m", tmp_path / "rows.zarr", "--cluster", "none"]
    beware = "of the rows have a label that no training row had"
    assert beware in cli(*words, "--report", tmp_path / "e.html").err  # it is printed, too
    page = read(tmp_path / "e.html").text
    assert beware in page
    assert NASTY in page
