"""What the command line does, a public function does: on lazy rows, on rows in memory, and on paths."""

from __future__ import annotations

import inspect

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import zarr
from sklearn.pipeline import make_pipeline
from stored_arrays import stored_array

import distrf
from distrf import RandomFourierFeatures, StreamingRidge, StreamingRidgeClassifier, open_rows
from distrf.errors import InputError, SpecMismatchError, StoreError

N = 300


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(N, 4)).astype(np.float32)
    return X, np.where(X[:, 0] ** 2 + X[:, 1] > 0.5, "in", "out")


def machine(X, y):
    features = RandomFourierFeatures(length_scale=2.0, n_components=32, random_state=0)
    model = StreamingRidgeClassifier(1e-3) if y.dtype.kind == "U" else StreamingRidge(1e-3)
    return make_pipeline(features, model).fit(X, y)


COMMANDS = (
    "add_rows", "append_rows", "connect", "evaluate", "featurize", "ingest", "load_model", "make_model", "permutation_importance", "plan", "predict", "save_model", "train",
    "tune", "write_rows",
)  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_every_function_says_what_it_takes(name):
    function = getattr(distrf, name)
    assert name in distrf.__all__
    assert "Parameters\n" in inspect.getdoc(function)
    for parameter, kind in inspect.signature(function).parameters.items():
        if kind.kind is not kind.VAR_KEYWORD:
            assert parameter in inspect.getdoc(function), parameter


# ---- writing rows -----------------------------------------------------------------------------------


def test_rows_to_parquet_and_csr_rows(rows, tmp_path):
    X, y = rows
    assert distrf.write_rows(da.from_array(X, chunks=(100, 4)), tmp_path / "r.parquet", y).blocks == 3
    back, labels = open_rows(tmp_path / "r.parquet", target="y")
    np.testing.assert_array_equal(back.compute(), X)
    np.testing.assert_array_equal(labels.compute(), y)
    csr = sp.random(N, 20, 0.1, format="csr", random_state=0)
    distrf.write_rows(csr, tmp_path / "csr.zarr", np.arange(N))
    assert (abs(open_rows(tmp_path / "csr.zarr")[0].compute() - csr) > 0).nnz == 0
    with pytest.raises(InputError, match="Parquet holds dense columns"):
        distrf.write_rows(csr, tmp_path / "csr.parquet")
    with pytest.raises(InputError, match="X must be finite"):
        distrf.write_rows(np.where(X > 2, np.nan, X), tmp_path / "nan.zarr")


# ---- features ---------------------------------------------------------------------------------------


def test_features_are_those_of_the_estimator(rows, tmp_path):
    X, y = rows
    features = RandomFourierFeatures(n_components=16, random_state=0)
    distrf.write_rows(X, tmp_path / "rows.zarr", y)
    expected = features.fit_transform(X)
    for name, given in (("path", tmp_path / "rows.zarr"), ("lazy", da.from_array(X, chunks=(100, 4)))):
        unfitted = RandomFourierFeatures(n_components=16, random_state=0)
        distrf.featurize(unfitted, given, tmp_path / f"{name}.zarr", save_map=tmp_path / f"{name}-map")
        assert not hasattr(unfitted, "map_")
        np.testing.assert_allclose(stored_array(tmp_path / f"{name}.zarr", "X"), expected, atol=1e-6)
    np.testing.assert_array_equal(stored_array(tmp_path / "path.zarr", "y"), y)
    distrf.featurize(tmp_path / "path-map", X + 1, tmp_path / "like.zarr")
    distrf.featurize(features, X + 1, tmp_path / "fitted.zarr")
    for name in ("like", "fitted"):
        made = stored_array(tmp_path / f"{name}.zarr", "X")
        np.testing.assert_allclose(made, features.transform(X + 1), atol=1e-6)


# ---- predictions ------------------------------------------------------------------------------------


def test_predictions_wherever_they_go(rows, tmp_path):
    X, y = rows
    model = machine(X, y)
    distrf.save_model(model, tmp_path / "m")
    distrf.write_rows(X, tmp_path / "rows.zarr", y)
    expected = model.predict(X)
    np.testing.assert_array_equal(distrf.predict(model, X), expected)
    np.testing.assert_array_equal(distrf.predict(tmp_path / "m", tmp_path / "rows.zarr").compute(), expected)
    for given in (model, tmp_path / "m"):
        distrf.predict(given, da.from_array(X, chunks=(100, 4)), tmp_path / "p.zarr", overwrite=True)
        np.testing.assert_array_equal(stored_array(tmp_path / "p.zarr", "prediction"), expected)
    written = distrf.predict(tmp_path / "m", tmp_path / "rows.zarr", tmp_path / "p.parquet")
    assert (written.info, written.computed) == (None, written.blocks)
    assert distrf.predict(model, X, tmp_path / "q.zarr").computed == 1
    assert distrf.predict(model, X, tmp_path / "q.zarr").computed == 0
    with pytest.raises(SpecMismatchError):  # of the same class, but other weights
        distrf.predict(machine(X[:200], y[:200]), X, tmp_path / "q.zarr")


def calibrated(X, y):
    features = RandomFourierFeatures(length_scale=2.0, n_components=32, random_state=0)
    model = StreamingRidgeClassifier if y.dtype.kind == "U" else StreamingRidge
    return make_pipeline(features, model(1e-3, calibrate=True)).fit(X, y)


def test_probabilities_go_to_parquet(rows, tmp_path):
    X, y = rows
    model, lazy = calibrated(X, y), da.from_array(X, chunks=(100, 4))
    p = model.predict_proba(X)
    distrf.predict(model, lazy, tmp_path / "p.parquet")
    table = pq.read_table(tmp_path / "p.parquet")
    assert table.column_names == ["prediction", "p_in", "p_out"]
    np.testing.assert_allclose(np.column_stack([table["p_in"], table["p_out"]]), p, atol=1e-5)
    assert table["prediction"].to_pylist() == model.predict(X).tolist()
    distrf.predict(model, lazy, tmp_path / "q.parquet", probabilities=False)
    assert pq.read_table(tmp_path / "q.parquet").column_names == ["prediction"]
    distrf.predict(machine(X, y), lazy, tmp_path / "r.parquet")  # has none
    assert pq.read_table(tmp_path / "r.parquet").column_names == ["prediction"]
    many = calibrated(X, np.array([f"c{i % 101}" for i in range(N)]))
    distrf.predict(many, lazy, tmp_path / "s.parquet")
    assert pq.read_table(tmp_path / "s.parquet").column_names == ["prediction"]
    distrf.predict(many, lazy, tmp_path / "t.parquet", probabilities=True)
    assert len(pq.read_table(tmp_path / "t.parquet").column_names) == 102
    distrf.predict(model, lazy, tmp_path / "p.zarr")
    assert "probability" not in set(zarr.open_group(tmp_path / "p.zarr").array_keys())
    distrf.predict(model, lazy, tmp_path / "q.zarr", probabilities=True)
    np.testing.assert_allclose(stored_array(tmp_path / "q.zarr", "probability"), p, atol=1e-5)
    np.testing.assert_array_equal(distrf.predict(model, X, probabilities=True), p)
    with pytest.raises(InputError, match="probabilities=True needs a classifier that was calibrated"):
        distrf.predict(machine(X, y), X, tmp_path / "u.zarr", probabilities=True)
    assert not (tmp_path / "u.zarr").exists()


@pytest.mark.parametrize("outputs", [2])
def test_intervals_are_written(rows, tmp_path, outputs):
    X, _ = rows
    y = X[:, 0] if outputs == 1 else X[:, :outputs] ** 2
    model, lazy = calibrated(X, y), da.from_array(X, chunks=(100, 4))
    ends = model[-1].predict_interval(model[:-1].transform(X), 0.8)
    assert ends.shape == ((N, 2) if outputs == 1 else (N, 2, 2))
    np.testing.assert_array_equal(distrf.predict(model, X, interval=0.8), ends)
    distrf.predict(model, lazy, tmp_path / "p.zarr", interval=0.8)
    for i, name in enumerate(("low", "high")):
        np.testing.assert_allclose(stored_array(tmp_path / "p.zarr", name), ends[..., i], atol=1e-5)
    distrf.predict(model, lazy, tmp_path / "p.parquet", interval=0.8)
    names = ["prediction", "low", "high"]
    if outputs == 2:
        names = [f"{name}_{i}" for name in names for i in range(2)]
    assert pq.read_table(tmp_path / "p.parquet").column_names == names
    with pytest.raises(SpecMismatchError, match=r"spec\.interval"):
        distrf.predict(model, lazy, tmp_path / "p.zarr", interval=0.9)
    plain = make_pipeline(StreamingRidge(1e-3, calibrate=True)).fit(X, y)  # no step before the model
    assert distrf.predict(plain, X, interval=0.5).shape == ends.shape


def test_keys_named_like_predictions(rows, tmp_path):
    X, y = rows
    names = ["x", "low", "p_in", "z"]
    pq.write_table(pa.table({name: X[:, i] for i, name in enumerate(names)}), tmp_path / "rows.parquet")
    model, source = calibrated(X, y), str(tmp_path / "rows.parquet")
    with pytest.raises(InputError, match=r"keys= has \['low', 'p_in'\], names that predictions have"):
        distrf.predict(model, source, tmp_path / "p.parquet", keys=["low", "p_in", "x"])


@pytest.mark.parametrize("ending", ["csv", "NPY", "csv.gz", "parquet"])
def test_an_output_named_like_another_format_is_refused(rows, tmp_path, ending):
    """A Zarr store named out.csv would be a folder that no one expects."""
    X, y = rows
    out, source = tmp_path / f"out.{ending}", tmp_path / "rows.npy"
    np.save(source, np.asarray(X))
    calls = [
        lambda: distrf.ingest(source, out),
        lambda: distrf.featurize(RandomFourierFeatures(length_scale=1.0), X, out),
    ]
    if ending != "parquet":
        calls += [lambda: distrf.predict(machine(X, y), X, out), lambda: distrf.write_rows(X, out)]
    for call in calls:
        with pytest.raises(StoreError, match=r"ends in \.zarr; .*ends in \.parquet"):
            call()
    assert not out.exists()


def test_what_cannot_be_done_is_refused(rows, tmp_path):
    X, y = rows
    model = machine(X, y)
    with pytest.raises(InputError, match="evaluation needs a target"):
        distrf.evaluate(model, X)
    with pytest.raises(InputError, match="ends in a classifier or a regressor"):
        distrf.predict(model[0], X)
    with pytest.raises(InputError, match="give out="):
        distrf.predict(model, X, keys=["id"])
    with pytest.raises(InputError, match="keys= goes with a"):
        distrf.predict(model, X, tmp_path / "p.parquet", keys=["id"])
    for row in ({"a": 1.0}, pd.Series([1.0, 2.0]), [{"a": 1.0}]):
        for call in (
            distrf.predict,
            distrf.evaluate,
            lambda _, row: distrf.featurize(model[0], row, tmp_path / "f.zarr"),
        ):
            with pytest.raises(
                InputError, match=r"rows are a table or an array .* make a table of it: pandas.DataFrame\("
            ):
                call(model, row)
    with pytest.raises(InputError, match="featurize takes a feature estimator"):
        distrf.featurize(make_pipeline(StreamingRidge().fit(X, X[:, 0])), X, tmp_path / "f.zarr")


@pytest.mark.filterwarnings("ignore::distrf.pipeline.training.BaselineWarning")
def test_a_training_is_kept_resumed_and_done_once(tmp_path):
    """Its state lies beside the model until that is there."""
    rows = np.random.default_rng(0).normal(size=(200, 3))
    y, read, stops, state = (rows[:, 0] > 0).astype(int), [], [27], tmp_path / "m-state"

    def fails_once(block):
        read.append(len(block))
        if stops and len(read) == stops[0]:
            stops.clear()
            raise RuntimeError("stopped")
        return block

    X = da.from_array(rows, chunks=(50, 3)).map_blocks(fails_once, dtype=float, name="rows")
    base = distrf.RandomFourierFeatures(n_components=64, length_scale=2.0, random_state=0)
    made_map = distrf.TEFM(base, n_components=8, solver="finder", n_iter=2, random_state=0)
    kept = {"map": made_map, "model": "ridge-classifier", "scale": None, "out": tmp_path / "m"}
    with dask.config.set(scheduler="synchronous"):
        with pytest.raises(RuntimeError, match="stopped"):
            distrf.train(X, y, **kept)
        for changed in ({"y": 1 - y}, {"map": distrf.TEFM(base, n_components=4, solver="finder")}):
            with pytest.raises(SpecMismatchError, match="is of another job"):
                distrf.train(**{"X": X, "y": y} | kept | changed, resume=True)
        with pytest.raises(SpecMismatchError, match="resume=True continues it"):
            distrf.train(X, y, **kept)
        assert state.exists()
        read.clear()
        resumed, fewer = distrf.train(X, y, **kept, resume=True), len(read)
        assert not state.exists()
        whole = distrf.train(X, y, **kept | {"out": None})
    assert fewer < len(read) - fewer
    assert made_map.checkpoint is None
    np.testing.assert_array_equal(resumed["model"].coef_, whole["model"].coef_)
    with pytest.raises(SpecMismatchError, match="holds a model already"):
        distrf.train(X, y, **kept)
    with pytest.raises(SpecMismatchError, match="model of another job"):
        distrf.train(X, y, **kept | {"scale": "standard"}, resume=True)
    done = distrf.train(X, y, **kept, resume=True)
    np.testing.assert_array_equal(done["model"].coef_, whole["model"].coef_)
    with pytest.raises(InputError, match="resume=True needs out="):
        distrf.train(X, y, resume=True)
    assert distrf.evaluate(tmp_path / "m", rows, y)["accuracy"] > 0.7
    plain = {"map": None, "model": "ridge-classifier", "scale": None, "random_state": np.random.default_rng(1)}
    distrf.train(rows, y, out=tmp_path / "drawn", **plain)
    assert (tmp_path / "drawn" / "model.json").exists()


def test_a_model_of_a_store_reads_a_table_as_the_store_was_made(tmp_path):
    """By the names of its columns, whatever their order; nulls are missing values there and here."""
    rng = np.random.default_rng(0)
    a, b, gaps = rng.normal(size=400), rng.normal(size=400), np.arange(400) % 20 == 0
    names = ["key", "text", "b", "a", "label"]
    parts = [np.arange(400), ["t"] * 400, b, pa.array(a, mask=gaps), (a > b).astype(np.int64)]
    pq.write_table(pa.table(parts, names=names), tmp_path / "rows.parquet")
    distrf.ingest(tmp_path / "rows.parquet", tmp_path / "rows.zarr", target="label", columns=["a", "b"])
    model = distrf.train(tmp_path / "rows.zarr", map="none", model="ridge-classifier", out=tmp_path / "model")
    X, y = open_rows(tmp_path / "rows.zarr")
    distrf.predict(tmp_path / "model", tmp_path / "rows.parquet", tmp_path / "out.parquet", keys=["key"])
    np.testing.assert_array_equal(
        pq.read_table(tmp_path / "out.parquet")["prediction"], np.asarray(model.predict(X))
    )
    scores = distrf.evaluate(tmp_path / "model", tmp_path / "rows.parquet", target="label")
    assert scores["accuracy"] == np.mean(np.asarray(model.predict(X)) == np.asarray(y)) > 0.9
