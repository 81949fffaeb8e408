"""`add_rows`: a saved model with more rows is the one of all rows, whole or not at all."""

from __future__ import annotations

import os
import shutil
from contextvars import Context

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

import distrf
from distrf import (
    RandomFourierFeatures,
    StreamingRidge,
    StreamingRidgeClassifier,
    StreamingScaler,
    StreamingSGDRegressor,
    add_rows,
    load_model,
    save_model,
    write_rows,
)
from distrf.errors import InputError, InUseError, SpecMismatchError
from distrf.store import read_spec
from distrf.store.outputs import hold

N, D = 400, 48


RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3)).astype(np.float32)
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=N)


def machine(model=None):
    features = RandomFourierFeatures(length_scale=2.0, n_components=D, random_state=0)
    model = StreamingRidge(alpha=(1e-4, 1e-2), keep_state=True) if model is None else model
    return make_pipeline(StreamingScaler(), features, model)


def assert_is_of_all_rows(pipeline, rows=X, y=Y):
    """The last step is that of one fit to all rows, after steps that were fitted to the first ones."""
    other = StreamingRidge(alpha=pipeline[-1].alpha_).fit(pipeline[:-1].transform(rows), y)
    assert pipeline[-1].state_.rows == len(y)
    np.testing.assert_allclose(pipeline[-1].coef_, other.coef_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(pipeline[-1].intercept_, other.intercept_, rtol=1e-8)


@pytest.mark.parametrize(
    "more", [(X[300:], Y[300:]), (da.from_array(X[300:], (33, 3)), da.from_array(Y[300:], 50))]
)
def test_in_memory(more):
    pipeline = machine().fit(X[:300], Y[:300])
    assert add_rows(pipeline, *more) is pipeline
    assert_is_of_all_rows(pipeline)


def test_a_folder_is_written_anew(tmp_path):
    write_rows(X[:300], tmp_path / "a.zarr", Y[:300])
    write_rows(X[300:], tmp_path / "b.zarr", Y[300:])
    model = StreamingRidge(alpha="auto", keep_state=True)
    distrf.train(*distrf.open_rows(tmp_path / "a.zarr"), model=model, n_components=D, out=tmp_path / "m")
    before = load_model(tmp_path / "m")
    grown = add_rows(tmp_path / "m", tmp_path / "b.zarr")
    loaded, details = load_model(tmp_path / "m"), read_spec(tmp_path / "m")
    np.testing.assert_array_equal(loaded[-1].coef_, grown[-1].coef_)
    assert loaded.training_ == before.training_
    np.testing.assert_array_equal(before[:-1].transform(X), loaded[:-1].transform(X))
    assert_is_of_all_rows(loaded)
    assert [part["rows"] for part in details["trained_on"]] == [300, 100]
    assert [(a["rows"], os.path.basename(a["source"])) for a in details["added"]] == [(100, "b.zarr")]
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "b.zarr", "m"]


def test_rows_are_added_once(tmp_path):
    """Those of a training too; arrays are known by what they hold."""
    model, more = tmp_path / "m", tmp_path / "b.zarr"
    distrf.train(X[:300], Y[:300], model=StreamingRidge(1e-3, keep_state=True), map=machine()[1], out=model)
    write_rows(X[300:], more, Y[300:])
    add_rows(model, more)
    shutil.copytree(more, tmp_path / "copy.zarr")
    add_rows(model, X[:10], Y[:10])
    before = (model / "model.json").read_bytes()
    for n, known in (
        (100, [more]),
        (100, [tmp_path / "copy.zarr"]),
        (300, [X[:300], Y[:300]]),
        (10, [X[:10].copy(), Y[:10]]),
    ):
        with pytest.raises(SpecMismatchError, match=rf"all {n} rows are in the model already.*again=True"):
            add_rows(model, *known)
    assert (model / "model.json").read_bytes() == before
    assert add_rows(model, more, again=True)[-1].state_.rows == 510
    add_rows(model, X[:10], Y[:10] + 1)


def test_of_a_folder_of_files_only_the_new_ones_are_added(tmp_path):
    """New files stand before, between and behind those that are known."""
    folder, frame = tmp_path / "files", pd.DataFrame(X, columns=list("abc")).assign(y=Y)
    folder.mkdir()
    cuts = {"1": (0, 50), "2": (50, 120), "3": (120, 200), "4": (200, 310), "5": (310, 400), "6": (0, 7)}
    for names, n in (("24", 180), ("135", 400), ("6", 407)):
        for name in names:
            frame[slice(*cuts[name])].to_parquet(folder / f"{name}.parquet")
        if n == 180:
            options = {"model": StreamingRidge(1e-3, keep_state=True), "scale": "standard", "map": machine()[1]}
            distrf.train(folder, target="y", out=tmp_path / "m", **options)
        else:
            assert add_rows(tmp_path / "m", folder)[-1].state_.rows == n
        if n == 400:
            assert_is_of_all_rows(load_model(tmp_path / "m"))
    with pytest.raises(SpecMismatchError, match="all 407 rows"):
        add_rows(tmp_path / "m", folder)


def test_new_labels(tmp_path):
    y = np.where(X[:, 0] > 0, "up", "down")
    y[320:340] = "new"
    learner = StreamingRidgeClassifier(alpha=1e-2, keep_state=True)
    save_model(machine(learner).fit(X[:300], y[:300]), tmp_path / "m")
    with pytest.raises(InputError, match=r"\['new'\]"):
        add_rows(tmp_path / "m", X[300:], y[300:])


@pytest.mark.parametrize(
    ("learner", "given", "match"),
    [
        (StreamingRidge(alpha=0.1), (X, Y), "model__keep_state"),
        (StreamingSGDRegressor(n_epochs=1, tol=None), (X, Y), "which only ridge keeps"),
        (None, (X,), "needs a target"),
        (None, (X[:, :2], Y), "features"),
    ],
)
def test_models_that_cannot_take_rows(learner, given, match):
    kept = machine(learner).fit(X, Y)
    with pytest.raises(InputError, match=match):
        add_rows(kept, *given)


def test_rows_inside_the_model_and_models_in_use(tmp_path):
    save_model(machine().fit(X, Y), tmp_path / "m")
    write_rows(X, tmp_path / "m/rows.zarr", Y)
    with pytest.raises(Exception, match="the model"):
        add_rows(tmp_path / "m", tmp_path / "m/rows.zarr")
    with hold(tmp_path / "m"), pytest.raises(InUseError, match="being written by another job"):
        Context().run(add_rows, tmp_path / "m", X, Y)


@pytest.mark.filterwarnings("ignore::distrf.pipeline.training.BaselineWarning")
def test_tables(tmp_path, rng):
    """A table with categories and missing values: coded as the first rows were; CSV files that a folder gets later."""
    frame = pd.DataFrame({
        "size": rng.normal(size=400), "colour": rng.choice(["red", "blue", "green"], 400), "price": np.nan, "w": 1.0,
    })  # fmt: skip
    frame["price"] = frame["size"] + (frame["colour"] == "red") + 0.1 * rng.normal(size=400)
    frame.loc[::7, "size"] = np.nan
    folder, model = tmp_path / "rows", tmp_path / "m"
    folder.mkdir()
    frame[:300].to_csv(folder / "1.csv", index=False)
    learner = StreamingRidge(alpha=1e-3, keep_state=True)
    distrf.train(folder, target="price", sample_weight="w", model=learner, n_components=64, out=model)
    frame[300:].to_csv(folder / "2.csv", index=False)
    loaded = add_rows(model, folder)
    assert loaded[-1].state_.rows == 400
    assert_is_of_all_rows(loaded, frame, frame["price"])
    assert load_model(model)[-1].state_.state.weight.sum() == 400
    in_memory = add_rows(loaded, frame[:5], frame["price"][:5])
    assert in_memory[-1].state_.rows == 405
    (tmp_path / "unweighted.csv").write_text(frame[:3].drop(columns="w").to_csv(index=False))
    with pytest.raises(InputError, match="'w'"):
        add_rows(model, tmp_path / "unweighted.csv")


def test_wide_rows_without_a_map_keep_their_sums(rng, monkeypatch):
    """Where `train` would fit by passes, which have none."""
    monkeypatch.setattr("distrf.pipeline.making._GRAM_COLUMNS", 4)
    X = rng.normal(size=(300, 6))
    y = X[:, 0] - X[:, 1]
    assert distrf.train(X, y, map=None)[-1].solver == "passes"
    model = distrf.train(X[:200], y[:200], map=None, model=StreamingRidge(keep_state=True))
    added = distrf.add_rows(model, X[200:], y[200:])
    np.testing.assert_allclose(added.predict(X), y, atol=0.05)


@pytest.mark.filterwarnings("ignore:.*rows have no target:distrf.tables.kinds.ColumnWarning")
@pytest.mark.parametrize("later", ["a", "z"])
def test_rows_without_a_target_are_in_no_part(later, tmp_path, rng):
    """Parts are counted as they are read: of a file before or behind the first one, all rows with a target are added, once."""
    for n, name in ((500, "m"), (300, later)):
        frame = pd.DataFrame({"a": rng.normal(size=n)})
        frame["y"] = frame["a"] + 0.1 * rng.normal(size=n)
        frame.loc[::5, "y"] = np.nan
        (tmp_path / "rows").mkdir(exist_ok=True)
        frame.to_parquet(tmp_path / f"rows/{name}.parquet")
        if name == "m":
            given = {"drop_missing_target": True, "map": None, "set": {"model__keep_state": True}}
            distrf.train(tmp_path / "rows", target="y", out=tmp_path / "model", **given)
    assert distrf.add_rows(tmp_path / "model", tmp_path / "rows")[-1].state_.rows == 400 + 240
