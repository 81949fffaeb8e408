"""What is printed of a plan, a training, an evaluation and a table."""

from __future__ import annotations

import json
import pickle

import dask.array as da
import numpy as np
import pyarrow as pa
from sklearn.pipeline import make_pipeline

from distrf import (
    RandomFourierFeatures,
    StreamingRidge,
    StreamingRidgeClassifier,
    evaluate,
    open_table,
    plan,
    train,
)
from distrf.plain_data import shown
from distrf.record import Training

X = np.random.default_rng(0).normal(size=(300, 4))
Y = (X[:, 0] > 0).astype(int)


def test_values():
    assert [shown(value) for value in (12345, True, 0.5, [1, 2])] == ["12,345", "yes", "0.5", "1, 2"]
    assert len(shown("x" * 10_000)) == 500


def test_a_plan():
    rows = da.from_array(X, chunks=(100, 4))
    made = plan(make_pipeline(RandomFourierFeatures(n_components=8), StreamingRidge()), rows, cluster="none")
    assert "300 in 3 blocks of up to 100" in repr(made)


def test_a_training():
    made = train(X, Y, random_state=0).training_
    assert repr(made) == str(made)
    assert len(str(made).splitlines()) == len(made.choices + made.baseline + made.warnings)
    assert repr(Training()) == "Training()"


def test_an_evaluation():
    found = evaluate(StreamingRidgeClassifier(0.1).fit(X, Y), X, Y)
    facts = dict(line.split("  ", 1) for line in repr(found).splitlines())
    assert next(iter(facts)) == found["score"]
    assert "log loss" not in facts  # not defined
    assert facts["also holds"].strip() == "classes, confusion_matrix"
    assert json.loads(json.dumps(found)) == found == pickle.loads(pickle.dumps(found))


def test_a_table():
    table = open_table(pa.table({"age": [31.0, None], "left": [True, False]}), target="left")
    assert repr(table) == "Table(n=2, target='left', path=None, dropped=0)"
