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
from sklearn.metrics import log_loss
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
RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(N, D)), RNG.uniform(0.2, 2.0, size=N)
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * RNG.normal(size=N)


def losses(found):
    """{column: what each repeat loses}."""
    return {column["name"]: column["each"] for column in found["columns"]}


LABELS = np.array(["high", "low", "middle"])[np.digitize(Y, [-0.5, 0.5])]


@pytest.mark.parametrize("given", [{}, {"sample_weight": W}], ids=["alike", "weighted"])
@pytest.mark.parametrize(
    ("scoring", "y", "model"),
    [
        ("neg_log_loss", LABELS, StreamingSGDClassifier("multinomial", n_epochs=3, random_state=0)),
        ("r2", Y, StreamingRidge(alpha=1e-4)),
    ],
)
def test_is_that_of_scikit_learn(scoring, y, model, given):
    """To the last digits, with features made in two blocks; from rows of every kind."""
    rows = np.where(np.abs(X) < 0.5, 0, X)
    features = RandomFourierFeatures(length_scale=2.0, n_components=64, random_state=0)
    pipeline = make_pipeline(StreamingScaler(), features, model).fit(rows, y)
    found = permutation_importance(pipeline, rows, y, scoring=scoring, n_repeats=3, **given)
    wanted = theirs(pipeline, rows, y, scoring=scoring, n_repeats=3, random_state=0, **given)
    each = [losses(found)[f"x{j}"] for j in range(D)]
    np.testing.assert_allclose(each, wanted.importances, rtol=1e-12, atol=1e-14)
    assert (found["scoring"], found["n_rows"], found["rows"], len(found["columns"])) == (scoring, N, N, D)
    some = permutation_importance(pipeline, rows, y, n_rows=200, **given)
    assert "on 200 rows sampled of 1,200" in str(some)
    for other in (sp.csr_array(rows), da.from_array(rows, (70, D)), pd.DataFrame(rows)):
        again = permutation_importance(pipeline, other, y, n_rows=200, **given)
        assert again == some


def test_data_frames_keep_their_columns():
    """Steps of scikit-learn that take columns by name, and a model of its own."""
    colours = np.where(X[:, 1] > 0, "red", "blue")
    frame = pd.DataFrame({"number": X[:, 0], "colour": colours, "unused": X[:, 2]}, index=np.arange(N) / 2)
    coded = ("one", OneHotEncoder(), ["colour"]), ("as", "passthrough", ["number", "unused"])
    target = np.where(frame["colour"] == "red", "yes", "no")
    pipeline = make_pipeline(ColumnTransformer(list(coded)), LogisticRegression()).fit(frame, target)
    found = permutation_importance(pipeline, frame, target, scoring="neg_log_loss")
    wanted = theirs(pipeline, frame, target, scoring="neg_log_loss", random_state=0).importances
    each = [losses(found)[name] for name in ("number", "colour", "unused")]
    np.testing.assert_allclose(each, wanted, rtol=1e-12, atol=1e-14)
    assert found["columns"][0]["name"] == "colour"


def test_a_rare_class_is_judged_by_its_probabilities(rng):
    """By accuracy nothing is lost: no row is given the label."""
    rows = rng.normal(size=(2000, 2))
    y = rng.random(2000) < 0.03 * np.exp(rows[:, 0])
    model = StreamingSGDClassifier("logistic", n_epochs=5, random_state=0).fit(rows, y)
    found = permutation_importance(model, rows, y)
    first = found["columns"][0]
    assert (found["scoring"], first["name"]) == ("neg_log_loss", "x0")
    assert first["mean"] > 5 * first["std"] > 0
    assert permutation_importance(StreamingRidgeClassifier(1.0).fit(rows, y), rows, y)["scoring"] == "accuracy"
    common = permutation_importance(model, rows[~y], y[~y])  # a sample may have no row of it
    assert common["baseline"] == pytest.approx(
        -log_loss(y[~y], model.predict_proba(rows[~y]), labels=[False, True])
    )


HASHED = sp.csr_array(([1.0], ([0], [5000])), shape=(N, 5001))  # a million of them never came to an end


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_rows": 1}, "n_rows must be"),
        ({"y": None}, "needs a target"),
        ({"sample_weight": np.zeros(N)}, "zero everywhere"),
        ({"y": np.full(N, "a")}, "holds text"),
        ({"columns": ["a"]}, "names a column of a table or of rows at a path"),
        ({"X": HASHED}, "of at most 5,000 columns; the rows have 5,001; look at the weights"),
    ],
)
def test_what_is_refused(options, message):
    given = {"X": X, "y": Y} | options
    model = StreamingRidge(1.0).fit(given["X"], Y)
    with pytest.raises(InputError, match=message):
        permutation_importance(model, **given)


@pytest.mark.slow
def test_tables_and_the_command(tmp_path, cli):
    """Columns as they are in the table, a category with all its encoding; those that the encoder leaves out do nothing."""
    frame = pd.DataFrame({"number": X[:400, 0], "colour": RNG.choice(["red", "blue", "green"], 400), "same": 7})
    frame["price"] = frame["number"] + 3.0 * (frame["colour"] == "red")
    frame.to_csv(tmp_path / "a.csv", index=False)
    cli("train", tmp_path / "a.csv", tmp_path / "m", "--target", "price", "--alpha", 1e-4, "-D", 64)
    found = permutation_importance(tmp_path / "m", tmp_path / "a.csv")
    assert {c["name"]: c["mean"] > 0.1 for c in found["columns"]} == {
        "number": True,
        "colour": True,
        "same": False,
    }
    same = permutation_importance(tmp_path / "m", frame.drop(columns="price"), frame["price"])
    assert losses(same) == pytest.approx(losses(found), rel=1e-9)
    said = json.loads(cli("evaluate", tmp_path / "m", tmp_path / "a.csv", "--importance", "--json").out)
    assert [column["name"] for column in said["importance"]["columns"]] == ["colour", "number", "same"]
    assert said["importance"] == found
