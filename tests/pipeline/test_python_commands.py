"""What the command line does, a public function does: on lazy rows, on rows in memory, and on paths."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import zarr
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from stored_arrays import stored_array

import distrf
from distrf import RandomFourierFeatures, StreamingRidge, StreamingRidgeClassifier, open_rows
from distrf.errors import InputError, SpecMismatchError, StoreError

N = 300
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4)).astype(np.float32)
Y = np.where(X[:, 0] ** 2 + X[:, 1] > 0.5, "in", "out")
LAZY = da.from_array(X, chunks=(100, 4))


def machine(y=Y, rows=X, **options):
    features = RandomFourierFeatures(length_scale=2.0, n_components=32, random_state=0)
    model = StreamingRidgeClassifier if y.dtype.kind == "U" else StreamingRidge
    return make_pipeline(features, model(1e-3, **options)).fit(rows, y)


def test_rows_to_parquet_and_csr_rows(tmp_path):
    assert distrf.write_rows(LAZY, tmp_path / "r.parquet", Y).blocks == 3
    back, labels = open_rows(tmp_path / "r.parquet", target="y")
    np.testing.assert_array_equal(back.compute(), X)
    np.testing.assert_array_equal(labels.compute(), Y)
    csr = sp.random(N, 20, 0.1, format="csr", random_state=0)
    distrf.write_rows(csr, tmp_path / "csr.zarr", np.arange(N))
    assert (abs(open_rows(tmp_path / "csr.zarr")[0].compute() - csr) > 0).nnz == 0
    with pytest.raises(InputError, match="Parquet holds dense columns"):
        distrf.write_rows(csr, tmp_path / "csr.parquet")
    with pytest.raises(InputError, match="X must be finite"):
        distrf.write_rows(np.where(X > 2, np.nan, X), tmp_path / "nan.zarr")


def test_features_are_those_of_the_estimator(tmp_path):
    features = RandomFourierFeatures(n_components=16, random_state=0)
    distrf.write_rows(X, tmp_path / "rows.zarr", Y)
    expected = features.fit_transform(X)
    for name, given in (("path", tmp_path / "rows.zarr"), ("lazy", LAZY)):
        unfitted = RandomFourierFeatures(n_components=16, random_state=0)
        distrf.featurize(unfitted, given, tmp_path / f"{name}.zarr", save_map=tmp_path / f"{name}-map")
        assert not hasattr(unfitted, "map_")
        np.testing.assert_allclose(stored_array(tmp_path / f"{name}.zarr", "X"), expected, atol=1e-6)
    np.testing.assert_array_equal(stored_array(tmp_path / "path.zarr", "y"), Y)
    uneven = da.from_array(X, chunks=((100, 20, 180), 4))
    distrf.write_rows(uneven, tmp_path / "rows.parquet")
    distrf.featurize(features, tmp_path / "rows.parquet", tmp_path / "beside.zarr", Y)
    np.testing.assert_array_equal(stored_array(tmp_path / "beside.zarr", "y"), Y)
    for name, made in (("like", tmp_path / "path-map"), ("fitted", features)):
        distrf.featurize(made, X + 1, tmp_path / f"{name}.zarr")
        made = stored_array(tmp_path / f"{name}.zarr", "X")
        np.testing.assert_allclose(made, features.transform(X + 1), atol=1e-6)


# ---- predictions ------------------------------------------------------------------------------------


P = ["prediction", "p_in", "p_out"]


@pytest.mark.parametrize(
    ("kind", "options", "columns"),
    [
        ("calibrated", {}, P), ("calibrated", {"probabilities": False}, P[:1]), ("plain", {}, P[:1]),
        ("many", {}, P[:1]), ("many", {"probabilities": True}, ["prediction", *(f"p_{i}" for i in range(101))]),
        ("numbers", {"interval": 0.8}, ["prediction", "low", "high"]),
        ("several", {"interval": 0.8}, [f"{name}_{i}" for name in ("prediction", "low", "high") for i in range(2)]),
    ],
)  # fmt: skip
def test_probabilities_and_intervals_are_written(kind, options, columns, tmp_path):
    """Of few classes to Parquet where nothing is said, to Zarr where they are asked for; returned without `out`."""
    y = {"many": np.arange(N) % 101, "numbers": X[:, 0], "several": X[:, :2] ** 2}.get(kind, Y)
    model = machine(y.astype(str) if kind == "many" else y, calibrate=kind != "plain")
    distrf.predict(model, LAZY, tmp_path / "p.parquet", **options)
    table = pd.read_parquet(tmp_path / "p.parquet")
    assert sorted(table.columns) == sorted(columns)
    written = distrf.predict(model, LAZY, tmp_path / "p.zarr", **options)
    names = {*zarr.open_group(tmp_path / "p.zarr").array_keys()}
    if "interval" in options:
        ends = distrf.predict(model, X, **options)
        np.testing.assert_array_equal(ends, model[-1].predict_interval(model[:-1].transform(X), 0.8))
        for i, name in enumerate(("low", "high")):
            np.testing.assert_allclose(stored_array(tmp_path / "p.zarr", name), ends[..., i], atol=1e-5)
            parts = table[[column for column in columns if column.startswith(name)]]
            np.testing.assert_allclose(parts, ends[..., i].reshape(N, -1), atol=1e-5)
        with pytest.raises(SpecMismatchError, match=r"spec\.interval"):
            distrf.predict(model, LAZY, tmp_path / "p.zarr", interval=0.9)
    else:
        assert ("probability" in names) == (options.get("probabilities") is True)
        with pytest.raises(SpecMismatchError):  # of the same class, but other weights
            distrf.predict(clone(model).fit(X[::-1], y.astype(str)), LAZY, tmp_path / "p.zarr", **options)
    if len(columns) > 1 and "interval" not in options:
        p = distrf.predict(model, X, probabilities=True)
        np.testing.assert_array_equal(p, model.predict_proba(X))
        classes = [f"p_{label}" for label in model.classes_]
        np.testing.assert_allclose(table[classes], p, atol=1e-5)
        if "probability" in names:
            np.testing.assert_allclose(stored_array(tmp_path / "p.zarr", "probability"), p, atol=1e-5)
    assert written.blocks == 3


@pytest.mark.parametrize("ending", ["csv", "NPY", "csv.gz", "parquet"])
def test_an_output_named_like_another_format_is_refused(tmp_path, ending):
    """A Zarr store named out.csv would be a folder that no one expects."""
    out, source = tmp_path / f"out.{ending}", tmp_path / "rows.npy"
    np.save(source, X)
    calls = [
        lambda: distrf.ingest(source, out),
        lambda: distrf.featurize(RandomFourierFeatures(length_scale=1.0), X, out),
        lambda: distrf.predict(machine(), X, out),
        lambda: distrf.write_rows(X, out),
    ]
    for call in calls[: 2 if ending == "parquet" else 4]:
        with pytest.raises(StoreError, match=r"ends in \.zarr; .*ends in \.parquet"):
            call()
    assert not out.exists()


ROWS = r"rows are a table or an array .* make a table of it: pandas.DataFrame\("


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda out: distrf.evaluate(machine(), X), "evaluation needs a target"),
        (lambda out: distrf.predict(machine()[0], X), "ends in a classifier or a regressor"),
        (lambda out: distrf.predict(machine(), X, keys=["id"]), "keys= goes with out="),
        (lambda out: distrf.predict(machine(), X, out / "p.parquet", keys=["id"]), "keys= goes with out="),
        (lambda out: distrf.predict(machine(calibrate=True), out / "r.parquet", out / "p.parquet", keys=["low", "p_in", "x"]), r"keys= has \['low', 'p_in'\], names that"),
        (lambda out: distrf.predict(machine(), X, out / "p.zarr", probabilities=True), "probabilities=True needs a classifier that was calibrated"),
        (lambda out: distrf.featurize(make_pipeline(StreamingRidge().fit(X, X[:, 0])), X, out / "f.zarr"), "featurize takes a feature estimator"),
        *(
            (lambda out, row=row, call=call: call(row, out), ROWS)
            for row in ({"a": 1.0}, pd.Series([1.0, 2.0]), [{"a": 1.0}])
            for call in (
                lambda row, out: distrf.predict(machine(), row), lambda row, out: distrf.evaluate(machine(), row),
                lambda row, out: distrf.featurize(machine()[0], row, out / "f.zarr"),
            )
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused(call, match, tmp_path):
    pd.DataFrame(X, columns=["x", "low", "p_in", "z"]).to_parquet(tmp_path / "r.parquet")
    with pytest.raises(InputError, match=match):
        call(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["r.parquet"]


@pytest.mark.filterwarnings("ignore::distrf.pipeline.training.BaselineWarning")
def test_a_training_is_kept_resumed_and_done_once(tmp_path):
    """Its state lies beside the model until that is there."""
    rows, read, stops, state = X[:200, :3].astype(float), [], [27], tmp_path / "m-state"
    y = (rows[:, 0] > 0).astype(int)

    def fails_once(block):
        read.append(len(block))
        if stops and len(read) == stops[0]:
            stops.clear()
            raise RuntimeError("stopped")
        return block

    lazy = da.from_array(rows, chunks=(50, 3)).map_blocks(fails_once, dtype=float, name="rows")
    base = distrf.RandomFourierFeatures(n_components=64, length_scale=2.0, random_state=0)
    made_map = distrf.TEFM(base, n_components=8, solver="finder", n_iter=2, random_state=0)
    kept = {
        "X": lazy,
        "y": y,
        "map": made_map,
        "model": "ridge-classifier",
        "scale": None,
        "out": tmp_path / "m",
    }
    with dask.config.set(scheduler="synchronous"):
        with pytest.raises(RuntimeError, match="stopped"):
            distrf.train(**kept)
        for changed in ({"y": 1 - y}, {"map": distrf.TEFM(base, n_components=4, solver="finder")}):
            with pytest.raises(SpecMismatchError, match="is of another job"):
                distrf.train(**kept | changed, resume=True)
        with pytest.raises(SpecMismatchError, match="resume=True continues it"):
            distrf.train(**kept)
        assert state.exists()
        read.clear()
        resumed, fewer = distrf.train(**kept, resume=True), len(read)
        assert not state.exists()
        whole = distrf.train(**kept | {"out": None})
    assert fewer < len(read) - fewer
    assert made_map.checkpoint is None
    with pytest.raises(SpecMismatchError, match="holds a model already"):
        distrf.train(**kept)
    with pytest.raises(SpecMismatchError, match="model of another job"):
        distrf.train(**kept | {"scale": "standard"}, resume=True)
    for model in (resumed, distrf.train(**kept, resume=True)):
        np.testing.assert_array_equal(model["model"].coef_, whole["model"].coef_)
    with pytest.raises(InputError, match="resume=True needs out="):
        distrf.train(lazy, y, resume=True)
    assert distrf.evaluate(tmp_path / "m", rows, y)["accuracy"] > 0.7


def test_a_model_of_a_store_reads_a_table_as_the_store_was_made(tmp_path):
    """By the names of its columns, whatever their order; nulls are missing values there and here."""
    a, b = np.random.default_rng(0).normal(size=(2, 400))
    frame = pd.DataFrame({"key": range(400), "text": "t", "b": b, "a": a, "label": (a > b).astype(int)})
    frame.loc[::20, "a"] = None
    frame.to_parquet(tmp_path / "rows.parquet")
    distrf.ingest(tmp_path / "rows.parquet", tmp_path / "rows.zarr", target="label", columns=["a", "b"])
    model = distrf.train(tmp_path / "rows.zarr", map="none", model="ridge-classifier", out=tmp_path / "model")
    wanted = np.asarray(model.predict(open_rows(tmp_path / "rows.zarr")[0]))
    distrf.predict(tmp_path / "model", tmp_path / "rows.parquet", tmp_path / "out.parquet", keys=["key"])
    np.testing.assert_array_equal(pd.read_parquet(tmp_path / "out.parquet")["prediction"], wanted)
    scores = distrf.evaluate(tmp_path / "model", tmp_path / "rows.parquet", target="label")
    assert scores["accuracy"] == np.mean(wanted == frame["label"]) > 0.9
