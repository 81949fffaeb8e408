"""Permutation importance is scikit-learn's, on a seeded sample of rows of every kind."""

from __future__ import annotations

import json

import dask.array as da
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
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
    open_rows,
    permutation_importance,
    save_model,
    write_rows,
)
from distrf.errors import InputError
from distrf.pipeline import importance as module

N, D = 600, 4


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
@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss", "r2", "neg_mean_squared_error", "several"])
def test_is_that_of_scikit_learn(rows, scoring, weighted, monkeypatch):
    """To the bit, with features made in blocks of few rows."""
    X, y, w = rows
    if scoring in ("accuracy", "neg_log_loss"):
        y, model = labels(y), StreamingSGDClassifier("multinomial", n_epochs=3, random_state=0)
    else:
        y, model = np.stack([y, 30 * X[:, 3] + y], axis=1) if scoring == "several" else y, None
    scoring = "r2" if scoring == "several" else scoring
    pipeline, given = machine(model).fit(X, y), {"sample_weight": w} if weighted else {}
    monkeypatch.setattr(module, "rows_per_block", lambda _: 128)
    found = permutation_importance(pipeline, X, y, scoring=scoring, n_repeats=3, **given)
    wanted = theirs(pipeline, X, y, scoring=scoring, n_repeats=3, random_state=0, **given)
    np.testing.assert_allclose(found.importances, wanted.importances, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found.importances_mean, wanted.importances_mean, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found.importances_std, wanted.importances_std, rtol=1e-9, atol=1e-14)
    assert (found.names, found.scoring, found.n_rows, found.rows) == (("x0", "x1", "x2", "x3"), scoring, N, N)


def test_rows_of_every_kind_are_alike(rows):
    X, y, _ = rows
    X, y = np.where(np.abs(X) < 0.5, 0, X), labels(y)
    pipeline = make_pipeline(
        RandomFourierFeatures(n_components=32, random_state=0), StreamingRidgeClassifier(1e-4)
    )
    plain = permutation_importance(pipeline.fit(X, y), X, y, n_rows=200)
    for other in (sp.csr_array(X), da.from_array(X, (70, D)), pd.DataFrame(X)):
        found = permutation_importance(pipeline, other, y, n_rows=200)
        np.testing.assert_array_equal(found.importances, plain.importances)
    assert (plain.n_rows, plain.rows) == (200, N)
    assert "on 200 rows sampled of 600" in str(plain)
    other = permutation_importance(pipeline, X, y, n_rows=200, random_state=1)
    assert (other.importances != plain.importances).any()


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
    assert found.order[0] == 1


def test_groups(rows):
    """Two columns that say the same: each alone is half as important as both, or less."""
    X = np.column_stack([rows[0], rows[0][:, 0]])
    model = StreamingRidge(alpha=1e-6).fit(X, X[:, 0])
    given = {"both": [0, "x4"], "first": ["x0"], "none": (1, 2, 3)}
    found = permutation_importance(model, X, X[:, 0], columns=given)
    both, first, none = found.importances_mean
    assert found.names == ("both", "first", "none")
    assert both > 3 * first > 0.1
    assert abs(none) < 1e-6
    some = permutation_importance(model, X, X[:, 0], columns=["x4", 0])
    assert some.names == ("x4", "x0")
    np.testing.assert_array_equal(some.importances[1], found.importances[1])


@pytest.mark.slow
def test_same_bits_for_one_and_two_workers(rows, one_worker_client, client):
    X, y, _ = rows
    pipeline, lazy, bits = machine().fit(X, y), da.from_array(X, (50, D)), []
    for workers in (one_worker_client, client):
        with workers.as_current():
            bits.append(permutation_importance(pipeline, lazy, y, n_rows=300).importances)
    np.testing.assert_array_equal(*bits)


def test_constant_targets_and_columns(rows):
    X, y = rows[0], np.full(N, 3.0)
    X[:, 2] = 5.0
    found = permutation_importance(StreamingRidge(alpha=1.0).fit(X, y), X, y)
    assert np.isfinite(found.importances).all()
    assert (found.importances[2] == 0).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["nope"]}, "'nope' is not among"),
        ({"columns": [4]}, "4 is not among"),
        ({"columns": []}, "columns must be"),
        ({"columns": {"a": [0, 0]}}, "columns must be"),
        ({"columns": {}}, "columns must be"),
        ({"n_repeats": 0}, "n_repeats must be"),
        ({"n_rows": 1}, "n_rows must be"),
        ({"scoring": "auc"}, "scoring must be"),
        ({"scoring": "accuracy"}, "'accuracy' does not go with this model"),
        ({"y": None}, "needs a target"),
        ({"sample_weight": np.zeros(N)}, "zero everywhere"),
        ({"sample_weight": -np.ones(N)}, "sample_weight must hold"),
        ({"y": np.full(N, "a")}, "holds text"),
    ],
)
def test_what_is_refused(rows, options, message):
    X, y, _ = rows
    model = StreamingRidge(alpha=1.0).fit(X, y)
    with pytest.raises(InputError, match=message):
        permutation_importance(model, X, **{"y": y} | options)


def test_models_that_are_refused(rows):
    X, y, _ = rows
    with pytest.raises(InputError, match="predicts"):
        permutation_importance(StreamingScaler().fit(X), X, y)
    model = StreamingRidgeClassifier(alpha=1.0).fit(X, labels(y))
    with pytest.raises(InputError, match="holds numbers"):
        permutation_importance(model, X, y > 0)
    with pytest.raises(InputError, match=r"'neg_log_loss' does not go .* predict_proba"):
        permutation_importance(model, X, labels(y), scoring="neg_log_loss")


@pytest.mark.slow
def test_command(rows, tmp_path, cli):
    X, y, _ = rows
    table = {f"c{j}": X[:, j].astype("f4") for j in range(D)} | {"price": y}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    model = tmp_path / "m"
    cli("train", tmp_path / "a.parquet", model, "--target", "price", "-D", 64, "--alpha", 1e-4)
    words = ["evaluate", model, tmp_path / "a.parquet", "--importance"]
    said = json.loads(cli(*words, "--json").out)["importance"]
    assert [c["name"] for c in said["columns"]][:2] == ["c0", "c1"]
    assert said["scoring"] == "r2"
    direct = permutation_importance(model, tmp_path / "a.parquet")
    assert said["columns"][0]["each"] == direct.importances[0].tolist()


@pytest.mark.slow
def test_tables(rng, tmp_path, cli):
    """Columns as they are in the table, a category with all its encoding; those that the encoder leaves out do nothing."""
    frame = pd.DataFrame({"number": rng.normal(size=400), "colour": rng.choice(["red", "blue", "green"], 400)})
    frame["same"] = 7
    frame["price"] = frame["number"] + 3.0 * (frame["colour"] == "red")
    frame.to_csv(tmp_path / "a.csv", index=False)
    cli("train", tmp_path / "a.csv", tmp_path / "m", "--target", "price", "--alpha", 1e-4, "-D", 64)
    found = permutation_importance(tmp_path / "m", tmp_path / "a.csv", n_repeats=2)
    large = dict(zip(found.names, (found.importances_mean > 0.1).tolist(), strict=True))
    assert large == {"number": True, "colour": True, "same": False}
    assert found.names[found.order[0]] == "colour"
    same = permutation_importance(tmp_path / "m", frame.drop(columns="price"), frame["price"], n_repeats=2)
    np.testing.assert_allclose(same.importances, found.importances, rtol=1e-9)
    assert same.names == found.names


def test_stores_without_names(rows, tmp_path):
    X, y, _ = rows
    write_rows(X, tmp_path / "a.zarr", y)
    save_model(machine().fit(*open_rows(tmp_path / "a.zarr")), tmp_path / "m")
    assert permutation_importance(tmp_path / "m", tmp_path / "a.zarr", n_repeats=1).names[0] == "x0"
