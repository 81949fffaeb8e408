"""`add_rows`: a saved model with more rows is the one of all rows, whole or not at all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import dask.array as da
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
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
from distrf.persistence import model_details

N, D = 400, 48


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(N, 3)).astype(np.float32)
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=N)


def machine(model=None):
    features = RandomFourierFeatures(length_scale=2.0, n_components=D, random_state=0)
    model = StreamingRidge(alpha=(1e-4, 1e-2), keep_state=True) if model is None else model
    return make_pipeline(StreamingScaler(), features, model)


def one_fit(pipeline, X, y):
    """The last step fitted to all rows, after steps that were fitted to the first ones."""
    Z = pipeline[:-1].transform(X)
    return StreamingRidge(alpha=pipeline[-1].alpha_).fit(Z, y)


def assert_same_weights(model, other):
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(model.intercept_, other.intercept_, rtol=1e-8)


def test_in_memory(rows):
    X, y = rows
    pipeline = machine().fit(X[:300], y[:300])
    grown = add_rows(pipeline, X[300:], y[300:])
    assert grown is pipeline
    assert_same_weights(pipeline[-1], one_fit(pipeline, X, y))
    assert pipeline[-1].state_.rows == N
    lazy = machine().fit(X[:300], y[:300])
    add_rows(lazy, da.from_array(X[300:], (33, 3)), da.from_array(y[300:], 50))
    assert_same_weights(lazy[-1], pipeline[-1])


def test_a_folder_is_written_anew(rows, tmp_path):
    X, y = rows
    write_rows(X[:300], tmp_path / "a.zarr", y[:300])
    write_rows(X[300:], tmp_path / "b.zarr", y[300:])
    model = StreamingRidge(alpha="auto", keep_state=True)
    distrf.train(*distrf.open_rows(tmp_path / "a.zarr"), model=model, n_components=D, out=tmp_path / "m")
    before = load_model(tmp_path / "m")
    grown = add_rows(tmp_path / "m", tmp_path / "b.zarr")
    loaded = load_model(tmp_path / "m")
    np.testing.assert_array_equal(loaded[-1].coef_, grown[-1].coef_)
    assert loaded.training_ == before.training_
    np.testing.assert_array_equal(before[:-1].transform(X), loaded[:-1].transform(X))
    assert_same_weights(loaded[-1], one_fit(loaded, X, y))
    details = model_details(tmp_path / "m")
    assert [part["rows"] for part in details["trained_on"]] == [300, 100]
    assert [(a["rows"], os.path.basename(a["source"])) for a in details["added"]] == [(100, "b.zarr")]
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "b.zarr", "m"]


def test_rows_are_added_once(rows, tmp_path):
    X, y = rows
    save_model(machine().fit(X[:300], y[:300]), tmp_path / "m")
    more = tmp_path / "b.zarr"
    write_rows(X[300:], more, y[300:])
    add_rows(tmp_path / "m", more)
    shutil.copytree(more, tmp_path / "copy.zarr")
    model = (tmp_path / "m/model.json").read_bytes()
    for known in (more, tmp_path / "copy.zarr"):
        with pytest.raises(SpecMismatchError, match=r"all 100 rows are in the model already.*again=True"):
            add_rows(tmp_path / "m", known)
    assert (tmp_path / "m/model.json").read_bytes() == model
    twice = add_rows(tmp_path / "m", more, again=True)
    assert twice[-1].state_.rows == 500
    # Arrays are known by what they hold.
    add_rows(tmp_path / "m", X[:10], y[:10])
    with pytest.raises(SpecMismatchError, match="all 10 rows"):
        add_rows(tmp_path / "m", X[:10].copy(), y[:10].copy())
    add_rows(tmp_path / "m", X[:10], y[:10] + 1)


def test_what_a_model_was_trained_on_is_known(rows, tmp_path):
    X, y = rows
    write_rows(X, tmp_path / "a.zarr", y)
    distrf.train(tmp_path / "a.zarr", model=StreamingRidge(keep_state=True), n_components=D, out=tmp_path / "m")
    distrf.train(X, y, model=StreamingRidge(keep_state=True), n_components=D, out=tmp_path / "n")
    for model, given in (("m", (tmp_path / "a.zarr",)), ("n", (X, y))):
        with pytest.raises(SpecMismatchError, match="in the model already"):
            add_rows(tmp_path / model, *given)


def table(path, X, y):
    pq.write_table(pa.table({**{f"x{j}": X[:, j] for j in range(X.shape[1])}, "y": y}), path)


def test_of_a_folder_of_files_only_the_new_ones_are_added(rows, tmp_path):
    """New files stand before, between and behind those that are known."""
    X, y = rows
    folder = tmp_path / "files"
    folder.mkdir()
    cuts = {"1": (0, 50), "2": (50, 120), "3": (120, 200), "4": (200, 310), "5": (310, 400)}
    for name in ("2", "4"):
        table(folder / f"{name}.parquet", X[slice(*cuts[name])], y[slice(*cuts[name])])
    data = distrf.pipeline.rows.open_input(str(folder), "y")
    model = machine(StreamingRidge(alpha=1e-3, keep_state=True)).fit(*data.rows())
    save_model(
        model,
        tmp_path / "m",
        input=data.description,
        trained_on=[{"data": d, "rows": n} for d, n in data.parts],
    )
    for name in ("1", "3", "5"):
        table(folder / f"{name}.parquet", X[slice(*cuts[name])], y[slice(*cuts[name])])
    grown = add_rows(tmp_path / "m", folder)
    assert grown[-1].state_.rows == N
    assert_same_weights(grown[-1], one_fit(grown, X, y))
    table(folder / "6.parquet", X[:7], y[:7])
    assert add_rows(tmp_path / "m", folder)[-1].state_.rows == N + 7
    with pytest.raises(SpecMismatchError, match="all 407 rows"):
        add_rows(tmp_path / "m", folder)


def test_new_labels(rows, tmp_path):
    X, _ = rows
    y = np.where(X[:, 0] > 0, "up", "down")
    y[320:340] = "new"
    save_model(
        machine(StreamingRidgeClassifier(alpha=1e-2, keep_state=True)).fit(X[:300], y[:300]), tmp_path / "m"
    )
    with pytest.raises(InputError, match=r"\['new'\]"):
        add_rows(tmp_path / "m", X[300:], y[300:])
    grown = add_rows(tmp_path / "m", X[300:], y[300:], new_classes=True)
    assert grown[-1].classes_.tolist() == ["down", "new", "up"]
    alone = StreamingRidgeClassifier(alpha=1e-2).fit(grown[:-1].transform(X), y)
    assert_same_weights(grown[-1], alone)


def test_models_that_cannot_take_rows(rows, tmp_path):
    X, y = rows
    save_model(machine(StreamingRidge(alpha=0.1)).fit(X, y), tmp_path / "plain")
    with pytest.raises(InputError, match="model__keep_state"):
        add_rows(tmp_path / "plain", X, y)
    with pytest.raises(InputError, match="only ridge keeps sums"):
        add_rows(machine(StreamingSGDRegressor(n_epochs=1)).fit(X, y), X, y)
    kept = machine().fit(X, y)
    with pytest.raises(InputError, match="regressor"):
        add_rows(kept, X, y, new_classes=True)
    with pytest.raises(InputError, match="needs a target"):
        add_rows(kept, X)
    with pytest.raises(InputError, match="features"):
        add_rows(kept, X[:, :2], y)


def test_rows_inside_the_model_and_models_in_use(rows, tmp_path):
    X, y = rows
    save_model(machine().fit(X, y), tmp_path / "m")
    write_rows(X, tmp_path / "m/rows.zarr", y)
    with pytest.raises(Exception, match="the model"):
        add_rows(tmp_path / "m", tmp_path / "m/rows.zarr")
    left = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path / "m")], stdout=subprocess.PIPE)
    try:
        assert left.stdout.readline() == b"held\n"
        with pytest.raises(InUseError, match="being written by another job"):
            add_rows(tmp_path / "m", X, y)
    finally:
        left.kill()
        left.wait()
        left.stdout.close()


HOLDER = """
import sys, time
from distrf.store.job_lock import hold
with hold(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


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
    data = distrf.pipeline.loaded.Loaded.of(model).open(folder, target="price", needs_target=True)
    Z = data.rows()[0]
    for step in loaded[:-1]:
        Z = step.transform(Z)
    assert_same_weights(loaded[-1], StreamingRidge(alpha=loaded[-1].alpha_).fit(Z, data.rows()[1]))
    assert load_model(model)[-1].state_.state.weight.sum() == 400
    in_memory = add_rows(loaded, frame[:5], frame["price"][:5])
    assert in_memory[-1].state_.rows == 405
    (tmp_path / "unweighted.csv").write_text(frame[:3].drop(columns="w").to_csv(index=False))
    with pytest.raises(InputError, match="'w'"):
        add_rows(model, tmp_path / "unweighted.csv")


def test_wide_rows_without_a_map_keep_their_sums(rng, monkeypatch):
    """Where `train` would take conjugate gradients, which have none."""
    monkeypatch.setattr("distrf.pipeline.making._GRAM_COLUMNS", 4)
    X = rng.normal(size=(300, 6))
    y = X[:, 0] - X[:, 1]
    assert distrf.train(X, y, map=None)[-1].solver == "cg"
    model = distrf.train(X[:200], y[:200], map=None, model=StreamingRidge(keep_state=True))
    added = distrf.add_rows(model, X[200:], y[200:])
    np.testing.assert_allclose(added.predict(X), y, atol=0.05)
