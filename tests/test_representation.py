"""What a notebook shows of plans, trainings, stores and tables."""

from __future__ import annotations

import json
import pickle
from xml.etree import ElementTree

import dask.array as da
import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from distrf import (
    RandomFourierFeatures,
    StreamingRidge,
    StreamingRidgeClassifier,
    evaluate,
    plan,
    train,
)
from distrf.record import Training
from distrf.representation import facts_html


def facts_of(text):
    """The facts of a table, which is well-formed."""
    rows = ElementTree.fromstring(text[text.index('<div class="distrf-facts"') :]).iter("tr")
    return {what.strip(): value for what, value in (["".join(cell.itertext()) for cell in row] for row in rows)}


X = np.random.default_rng(0).normal(size=(300, 4))
Y = (X[:, 0] > 0).astype(int)


def test_text_is_escaped():
    shown = facts_html("<b>", [("a & b", "<script>"), ("n", 12345), ("ok", True), ("s", 0.5), ("l", [1, 2])])
    assert "<script>" not in shown
    facts = facts_of(shown)
    assert facts == {"a & b": "<script>", "n": "12,345", "ok": "yes", "s": "0.5", "l": "1, 2"}
    assert len(facts_of(facts_html("t", [("long", "x" * 10_000)]))["long"]) == 500


def plan_facts(_):
    rows = da.from_array(X, chunks=(100, 4))
    made = plan(make_pipeline(RandomFourierFeatures(n_components=8), StreamingRidge()), rows, cluster="none")
    assert {what.strip() for what, _ in made.lines()} <= {what.strip() for what in facts_of(made._repr_html_())}
    return made, {"rows": "300 in 3 blocks of up to 100", "fits": "yes"}


def training_facts(_):
    made = train(X, Y, random_state=0).training_
    assert repr(made) == str(made)
    assert len(str(made).splitlines()) == len(made.choices + made.baseline + made.warnings)
    assert made.choices[0].why in facts_of(made._repr_html_())[made.choices[0].what.replace("_", " ")]
    return made, {"compared": str(made.baseline[-1])}


def evaluation_facts(_):
    found = evaluate(StreamingRidgeClassifier(0.1).fit(X, Y), X, Y, by=Y)
    facts = facts_of(found._repr_html_())
    assert next(iter(facts)) == found["score"]
    assert "log loss" not in facts  # not defined
    assert [line.split("  ")[0] for line in repr(found).splitlines()] == list(facts)
    assert json.loads(json.dumps(found)) == found == pickle.loads(pickle.dumps(found))
    return found, {"rows": "300", "positive": "1", "also holds": "classes, confusion_matrix, slices"}


@pytest.mark.parametrize("made", [plan_facts, training_facts, evaluation_facts, lambda _: (Training(), {})])
def test_objects_show_their_facts(made, tmp_path):
    found, facts = made(tmp_path)
    assert facts_of(found._repr_html_()).items() >= facts.items()
