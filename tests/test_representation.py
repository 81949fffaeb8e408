"""What a notebook shows of maps, models, plans, stores and tables."""

from __future__ import annotations

import json
import pickle
from html.parser import HTMLParser

import dask.array as da
import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from distrf import (
    RandomFourierFeatures,
    StreamingRidge,
    StreamingRidgeClassifier,
    StreamingSGDClassifier,
    evaluate,
    load_model,
    plan,
    save_model,
    train,
    write_rows,
)
from distrf.record import Training
from distrf.representation import facts_html


class Tables(HTMLParser):
    """Facts of the boxes, and the tags that are open at the end."""

    def __init__(self, text):
        super().__init__()
        self.facts, self.open, self._cells, self._inside = {}, [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag == "div" and ("class", "distrf-facts") in attrs:
            self._inside = True
        if tag == "tr":
            self._cells = []
        if tag in ("th", "td"):
            self._cells.append("")

    def handle_data(self, data):
        if self._inside and self.open and self.open[-1] in ("th", "td"):
            self._cells[-1] += data

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag == "tr" and self._inside:
            self.facts[self._cells[0]] = self._cells[1]


def facts_of(value):
    text = value._repr_html_()
    parsed = Tables(text[text.index('<div class="distrf-facts"') :])
    assert parsed.open == []
    return parsed.facts


@pytest.fixture
def problem():
    X = np.random.default_rng(0).normal(size=(300, 4))
    return X, (X[:, 0] > 0).astype(int)


def test_text_is_escaped():
    shown = facts_html("<b>", [("a & b", "<script>"), ("n", 12345), ("ok", True), ("s", 0.5), ("l", [1, 2])])
    assert "<script>" not in shown
    facts = Tables(shown).facts
    assert facts == {"a & b": "<script>", "n": "12,345", "ok": "yes", "s": "0.5", "l": "1, 2"}
    assert len(Tables(facts_html("t", [("long", "x" * 10_000)])).facts["long"]) == 500


@pytest.mark.parametrize(
    "model", [StreamingRidge(alpha=0.5), StreamingSGDClassifier("logistic", n_epochs=2, tol=None)]
)
def test_models(problem, model, tmp_path):
    assert "distrf-facts" not in model._repr_html_()
    model.fit(*problem)
    save_model(model, tmp_path / "model")
    for one in (model, load_model(tmp_path / "model")):
        facts = facts_of(one)
        assert facts["features"] == "4"
        assert facts["on the wire"].endswith("once to each worker")
    assert facts.get("classes", "0, 1") == "0, 1"
    assert facts.get("alpha", "0.5") is not None


def test_plan(problem):
    X = da.from_array(problem[0], chunks=(100, 4))
    made = plan(make_pipeline(RandomFourierFeatures(n_components=8), StreamingRidge()), X, cluster="none")
    facts = facts_of(made)
    assert facts["rows"] == "300 in 3 blocks of up to 100"
    assert facts["fits"] == "yes"
    assert {what.strip() for what, _ in made.lines()} <= {what.strip() for what in facts}


def test_training(problem):
    made = train(*problem, random_state=0).training_
    facts, choice = facts_of(made), made.choices[0]
    assert choice.why in facts[choice.what.replace("_", " ")]
    assert facts["compared"] in [str(comparison) for comparison in made.baseline]
    assert repr(made) == str(made)
    assert len(str(made).splitlines()) == len(made.choices + made.baseline + made.warnings)
    assert facts_of(Training()) == {}
    assert repr(Training()) == "Training()"


def test_evaluation(problem):
    found = evaluate(StreamingRidge(0.1).fit(problem[0], problem[1] + 0.5), problem[0], problem[1] + 0.5)
    assert str(found).splitlines()[0] == f"r2             {found['r2']:.6g}"
    assert dict(found) == {name: found[name] for name in found}
    assert json.loads(json.dumps(found)) == found
    labelled = evaluate(StreamingRidgeClassifier(0.1).fit(*problem), *problem, by=problem[1])
    facts = facts_of(labelled)
    assert next(iter(facts)) == labelled["score"]
    assert facts["rows"] == "300"
    assert facts["positive"] == "1"
    assert facts["also holds"] == "classes, confusion_matrix, slices"
    assert "log loss" not in facts  # not defined
    assert [line.split("  ")[0] for line in repr(labelled).splitlines()] == list(facts)
    assert pickle.loads(pickle.dumps(labelled)) == labelled


def test_stores(problem, tmp_path):
    path = tmp_path / "rows.zarr"
    X = da.from_array(problem[0], chunks=(100, 4))
    written = write_rows(X, path, da.from_array(problem[1], chunks=100))
    assert str(written) == f"300 rows in {written.info.path}: 3 of 3 blocks computed"
