"""Permutation importance is scikit-learn's, on a seeded sample of rows of every kind."""

from __future__ import annotations

import json

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.compose import ColumnTransformer
from sklearn.inspection import permutation_importance as theirs
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from distrf import (
    RandomFourierFeatures,
    StreamingRidge,
    StreamingRidgeClassifier,
    StreamingScaler,
    StreamingSGDClassifier,
    permutation_importance,
)
from distrf.errors import InputError

N, D = 1200, 4


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(N, D))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=N), rng.uniform(0.2, 2.0, size=N)


def labels(y):
    return np.array(["high", "low", "middle"])[np.digitize(y, [-0.5, 0.5])]


def machine(model=None):
    features = RandomFourierFeatures(length_scale=2.0, n_components=64, random_state=0)
    return make_pipeline(StreamingScaler(), features, StreamingRidge(alpha=1e-4) if model is None else model)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scoring", ["neg_log_loss", "r2"])
def test_is_that_of_scikit_learn(rows, scoring, weighted):
    """To the last digits, with features made in two blocks; from rows of every kind."""
    X, y, w = rows
    X, model = np.where(np.abs(X) < 0.5, 0, X), None
    if scoring == "neg_log_loss":
        y, model = labels(y), StreamingSGDClassifier("multinomial", n_epochs=3, random_state=0)
    pipeline, given = machine(model).fit(X, y), {"sample_weight": w} if weighted else {}
    found = permutation_importance(pipeline, X, y, scoring=scoring, n_repeats=3, **given)
    wanted = theirs(pipeline, X, y, scoring=scoring, n_repeats=3, random_state=0, **given)
    np.testing.assert_allclose(found.importances, wanted.importances, rtol=1e-12, atol=1e-14)
    assert (found.names, found.scoring, found.n_rows, found.rows) == (("x0", "x1", "x2", "x3"), scoring, N, N)
    some = permutation_importance(pipeline, X, y, n_rows=200, **given)
    assert "on 200 rows sampled of 1,200" in str(some)
    for other in (sp.csr_array(X), da.from_array(X, (70, D)), pd.DataFrame(X)):
        again = permutation_importance(pipeline, other, y, n_rows=200, **given)
        np.testing.assert_array_equal(again.importances, some.importances)


def test_data_frames_keep_their_columns(rows):
    """Steps of scikit-learn that take columns by name, and a model of its own."""
    X = rows[0]
    frame = pd.DataFrame({"number": X[:, 0], "colour": np.where(X[:, 1] > 0, "red", "blue"), "unused": X[:, 2]})
    frame.index = np.arange(N) / 2  # no numbers of rows
    encode = ColumnTransformer(
        [("one", OneHotEncoder(), ["colour"]), ("as", "passthrough", ["number", "unused"])]
    )
    target = np.where(frame["colour"] == "red", "yes", "no")
    pipeline = make_pipeline(encode, LogisticRegression()).fit(frame, target)
    found = permutation_importance(pipeline, frame, target, scoring="neg_log_loss")
    wanted = theirs(pipeline, frame, target, scoring="neg_log_loss", random_state=0).importances
    np.testing.assert_allclose(found.importances, wanted, rtol=1e-12)
    assert found.names == ("number", "colour", "unused")
    assert found.to_dict()["columns"][0]["name"] == "colour"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_rows": 1}, "n_rows must be"),
        ({"scoring": "auc"}, "the score 'auc' does not go"),
        ({"scoring": "accuracy"}, "'accuracy' does not go with this model"),
        ({"y": None}, "needs a target"),
        ({"sample_weight": np.zeros(N)}, "zero everywhere"),
        ({"y": np.full(N, "a")}, "holds text"),
        ({"columns": ["a"]}, "columns= names the columns of rows at a path"),
    ],
)
def test_what_is_refused(rows, options, message):
    X, y, _ = rows
    model = StreamingRidge(alpha=1.0).fit(X, y)
    with pytest.raises(InputError, match=message):
        permutation_importance(model, X, **{"y": y} | options)
    model = StreamingRidgeClassifier(alpha=1.0).fit(X, labels(y))
    with pytest.raises(InputError, match=r"'neg_log_loss' does not go .* predict_proba"):
        permutation_importance(model, X, labels(y), scoring="neg_log_loss")


@pytest.mark.slow
def test_tables_and_the_command(rng, tmp_path, cli):
    """Columns as they are in the table, a category with all its encoding; those that the encoder leaves out do nothing."""
    frame = pd.DataFrame({"number": rng.normal(size=400), "colour": rng.choice(["red", "blue", "green"], 400)})
    frame["same"] = 7
    frame["price"] = frame["number"] + 3.0 * (frame["colour"] == "red")
    frame.to_csv(tmp_path / "a.csv", index=False)
    cli("train", tmp_path / "a.csv", tmp_path / "m", "--target", "price", "--alpha", 1e-4, "-D", 64)
    found = permutation_importance(tmp_path / "m", tmp_path / "a.csv")
    large = dict(zip(found.names, (found.importances_mean > 0.1).tolist(), strict=True))
    assert large == {"number": True, "colour": True, "same": False}
    same = permutation_importance(tmp_path / "m", frame.drop(columns="price"), frame["price"])
    np.testing.assert_allclose(same.importances, found.importances, rtol=1e-9)
    words = ["evaluate", tmp_path / "m", tmp_path / "a.csv", "--importance", "--json"]
    said = json.loads(cli(*words).out)["importance"]
    assert [column["name"] for column in said["columns"]] == ["colour", "number", "same"]
    assert said["columns"][0]["each"] == found.importances[1].tolist()


def test_columns_that_are_too_many_are_refused(rng):
    """A million hashed ones never came to an end."""
    X = sp.csr_array(rng.random((20, 5001)) * (rng.random((20, 5001)) < 0.01))
    model = StreamingRidge(alpha=1.0).fit(X, np.arange(20.0))
    with pytest.raises(InputError, match="of at most 5,000 columns; the rows have 5,001; look at the weights"):
        permutation_importance(model, X, np.arange(20.0))
