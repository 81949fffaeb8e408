"""What every estimator of features does: a new map is one row of MAPS, a wrong parameter one row of REFUSED."""

from __future__ import annotations

import pickle
import threading

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, PolynomialFeatures, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from distrf import (
    TEFM,
    Blockwise,
    CompactNonlinearMap,
    NystroemFeatures,
    RandomBinningFeatures,
    RandomFourierFeatures,
    RandomLaplaceFeatures,
    StreamingRidge,
    StreamingScaler,
    TensorSketchFeatures,
    WithColumns,
    load_model,
    save_model,
)
from distrf.errors import InputError
from distrf.execution.row_blocks import ARRAYS_PREFIX
from distrf.kernels import Matern

SEED = {"random_state": 0}
FEW = {"n_components": 8, **SEED}
BASE = RandomFourierFeatures(length_scale=1.0, n_components=16)
MAPS = {
    "fourier": RandomFourierFeatures(length_scale=1.0, **FEW),
    "fourier odd": RandomFourierFeatures("laplacian", length_scale="knn-cnm", n_components=15, **SEED),
    "fourier offset": RandomFourierFeatures("matern", nu=2.5, length_scale="median", phase="offset", **FEW),
    "fourier object": RandomFourierFeatures(Matern(0.5), length_scale=1.0, **FEW),
    "fourier whitened": RandomFourierFeatures("cauchy", metric="whiten", **FEW),
    "laplace": RandomLaplaceFeatures(n_jobs=1, **FEW),
    "laplace mixed": RandomLaplaceFeatures("reciprocal_semigroup", projection="alternating_circulant-log2", **FEW),
    "laplace circulant": RandomLaplaceFeatures(projection="circulant", **FEW),
    "binning": RandomBinningFeatures(length_scale=1.0, n_grids=4, n_components=64, **SEED),
    "tensor sketch": TensorSketchFeatures(**FEW),
    "tensor sketch odd": TensorSketchFeatures(3, gamma=0.1, coef0=0.0, n_components=15, **SEED),
    "nystroem": NystroemFeatures("exponential_semigroup", **FEW),
    "nystroem kmeans": NystroemFeatures("laplacian", length_scale="median", landmarks="kmeans", **FEW),
    "nystroem polynomial": NystroemFeatures("polynomial", degree=3, landmarks="k-means++", **FEW),
    "nystroem rank": NystroemFeatures(Matern(0.5), landmarks="k-means++", rank=5, **FEW),
    "learned": CompactNonlinearMap(length_scale=1.0, n_epochs=1, **FEW),
    "tefm": TEFM(BASE, n_components=4, **SEED),
    "tefm srht": TEFM(BASE, n_components=2, solver="finder", sketch="srht", **SEED),
    "tefm gram": TEFM(BASE, n_components=2, solver="gram", **SEED),
    "tefm of rows": TEFM(n_components=1, **SEED),
    "with columns": WithColumns(BASE, **SEED),
    "with columns tefm": WithColumns(TEFM(BASE, n_components=4, **SEED), **SEED),
    "blockwise": Blockwise(StandardScaler(), **SEED),
    "blockwise stateless": Blockwise(Normalizer()),
    "blockwise pipeline": Blockwise(make_pipeline(StandardScaler(), PolynomialFeatures(2)), n_sample=20, **SEED),
    **{f"scaler {m}": StreamingScaler(m) for m in ("standard", "minmax", "maxabs", "robust", "l1-rows", "l2-rows")},
    "scaler divide": StreamingScaler("divide", divisor=255.0),
}  # fmt: skip
every = pytest.mark.parametrize("name", MAPS)
#: Those that run in threads; a scaler and scikit-learn's transformers do not.
threaded = pytest.mark.parametrize(
    "name", [name for name, est in MAPS.items() if "n_jobs" in est.get_params(False)]
)
CHUNKS = ((50, 3, 0, 90, 1), 5)


def rows(n=144, d=5, dtype=np.float64, seed=0):
    """Nonnegative, so that every map takes them; one entry in three is zero."""
    X = np.random.default_rng([n, d, seed]).gamma(1.0, size=(n, d))
    return np.where(X > 0.4, X, 0).astype(dtype)


def dense(Z):
    return Z.toarray() if sp.issparse(Z) else np.asarray(Z)


#: Of the one that is learned in tests/learned, with what it may fail.
@parametrize_with_checks([est for name, est in MAPS.items() if name not in ("learned", "blockwise pipeline")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lazy_and_csr_rows_are_rows(name, dtype):
    """Of any chunks and of any `array.chunk-size`, to the rounding of tiles of other sizes."""
    X = rows(dtype=dtype)
    est = clone(MAPS[name]).fit(X)
    Z = est.transform(X)
    close = {"rtol": 0, "atol": {np.float32: 2e-5, np.float64: 1e-9}[dtype] * (1 + abs(dense(Z)).max())}
    dX = da.from_array(X, chunks=CHUNKS)
    # Sums of other batches are other maps where they are learned step by step.
    lazy = est if name == "learned" else clone(est).fit(dX)
    for chunk_size in ("200B", "128MiB"):
        with dask.config.set({"array.chunk-size": chunk_size, "scheduler": "sync"}):
            made = lazy.transform(dX)
            now = made.compute()
        assert made.shape == Z.shape
        assert made.dtype == now.dtype == Z.dtype == dtype
        assert sp.issparse(made._meta) == sp.issparse(now) == sp.issparse(Z)
        np.testing.assert_allclose(dense(now), dense(Z), **close)
    try:
        sparse = est.transform(sp.csr_array(X))
    except ValueError as error:
        assert "sparse" in str(error)  # noqa: PT017
    else:
        np.testing.assert_allclose(dense(sparse), dense(Z), **close)


@every
def test_saved_and_pickled(name, tmp_path):
    X = rows()
    est = clone(MAPS[name]).fit(X)
    save_model(est, tmp_path / "model")
    for again in (load_model(tmp_path / "model"), pickle.loads(pickle.dumps(est))):
        assert repr(again) == repr(est)
        assert again.map_ == est.map_
        np.testing.assert_array_equal(dense(again.transform(X)), dense(est.transform(X)))


@every
def test_arrays_travel_once(name):
    """What is in the message of a task is a seed, whatever was learned."""
    dX = da.from_array(rows(), chunks=(10, 5))
    est = clone(MAPS[name]).fit(rows())
    assert len(pickle.dumps(est.map_.without_arrays())) < 1024
    graph = dict(est.transform(dX).__dask_graph__())
    assert sum(str(key).startswith(ARRAYS_PREFIX) for key in graph) == bool(est.map_.arrays)


@pytest.mark.parametrize("name", [name for name in MAPS if name not in ("tefm of rows", "blockwise stateless")])
def test_what_is_planned_is_what_is_fitted(name):
    """Before anything is read: the width and the work."""
    planned, fitted = clone(MAPS[name]).planned_map(5), clone(MAPS[name]).fit(rows()).map_
    assert type(planned) is type(fitted)
    assert planned.n_components == fitted.n_components
    assert planned.work()[0] == pytest.approx(fitted.work()[0])


@every
def test_nothing_is_read_before_it_is_asked_for(name):
    def refuse(block):
        pytest.fail("a block was read")

    X = rows()
    lazy = da.from_array(X, chunks=(50, 5)).map_blocks(refuse, meta=X[:0])
    clone(MAPS[name]).fit(X).transform(lazy)


@threaded
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_threads_keep_the_bits(name, kind):
    X = kind(rows(5000, 20))
    wide = (
        {option: 300 for option in MAPS[name].get_params() if option.endswith("n_components")}
        if name != "tefm of rows"
        else {}
    )
    est = clone(MAPS[name]).set_params(n_jobs=1, **wide).fit(X[:500])
    alone, together = est.transform(X), est.set_params(n_jobs=3).transform(X)
    for a, b in zip(*([Z.data, Z.indices] if sp.issparse(Z) else [Z] for Z in (alone, together)), strict=True):
        assert a.tobytes() == b.tobytes()


@threaded
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_threads_run_the_map(name, kind, monkeypatch):
    """Each thread waits for another one inside the map: alone it would wait in vain."""
    X = kind(rows(4096, 3))
    est = clone(MAPS[name]).set_params(n_jobs=2).fit(X[:100])
    whole = est.map_(X)
    method, both = "__call__" if sp.issparse(whole) else "fill_columns", threading.Barrier(2)
    run = getattr(type(est.map_), method)

    def waits(*args):
        both.wait(timeout=60)
        return run(*args)

    monkeypatch.setattr(type(est.map_), method, waits)
    np.testing.assert_allclose(
        dense(est.transform(X)), dense(whole), rtol=0, atol=1e-9 * (1 + abs(whole).max())
    )


@pytest.mark.parametrize(
    "name",
    [
        "fourier",
        "fourier whitened",
        "laplace",
        "binning",
        "nystroem",
        "learned",
        "tefm",
        "with columns",
        "with columns tefm",
    ],
)
@pytest.mark.parametrize("jobs", [1, 2])
def test_errors_name_the_row_of_the_array(name, jobs, monkeypatch):
    """However rows are cut: for threads, or for memory."""
    monkeypatch.setattr("distrf.maps.tiles._TILE_BYTES", 1)
    X = rows(3000, 3)
    est = clone(MAPS[name]).set_params(n_jobs=jobs).fit(X)
    X[1300] = -1e20
    with pytest.raises(InputError, match=r"\brow 1300\b"):
        est.transform(X)


@pytest.mark.parametrize("name", ["fourier", "nystroem kmeans", "blockwise", "scaler standard", "tefm"])
def test_same_bits_for_one_and_two_workers(name, client, one_worker_client):
    dX, made = da.from_array(rows(700, 9, np.float32), chunks=((1, 300, 250, 149), 9)), []
    for worker in (client, one_worker_client):
        with worker.as_current():
            est = clone(MAPS[name]).fit(dX)
            made.append((est.transform(dX).compute().tobytes(), pickle.dumps(est.map_.arrays)))
    assert made[0] == made[1]


@pytest.mark.parametrize(
    "name", ["fourier", "laplace", "binning", "tensor sketch", "nystroem kmeans", "tefm", "blockwise"]
)
def test_a_pipeline_trains_out_of_core(name, client, tmp_path):
    X = rows(1000, 3)
    y = np.sin(X[:, 0]) + X[:, 1]
    dX, dy = da.from_array(X, chunks=(300, 3)), da.from_array(y, chunks=300)
    wide = {option: 150 for option in MAPS[name].get_params() if option.endswith("n_components")}
    model = make_pipeline(clone(MAPS[name]).set_params(**wide), StreamingRidge(1e-6))
    lazy, now = clone(model).fit(dX, dy), clone(model).fit(X, y)
    predicted = lazy.predict(dX).compute()
    np.testing.assert_allclose(predicted, now.predict(X), atol=2e-3)
    assert np.mean((predicted - y) ** 2) < 0.15 * y.var()
    save_model(lazy, tmp_path / "m")
    np.testing.assert_array_equal(load_model(tmp_path / "m").predict(X), lazy.predict(X))


@every
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X[:, :2], r"X has 2 features, but .* is expecting 5 features"),
        (lambda X: X.astype(object), "numeric, got dtype object"),
        (lambda X: X[X[:, 0] > 0], r"chunks must be known; call X.compute_chunk_sizes"),
        (lambda X: X[:, 0], "Expected 2D array"),
        (lambda X: X[:0], "0 sample"),
        (lambda X: dask.delayed(np.ones((3, 5))), "must be an array, a SciPy CSR matrix, a data frame"),
        (lambda X: X.map_blocks(lambda b: np.where(b == b.max(), np.inf, b), meta=np.zeros((0, 0))), r"row \d+ of the block, column . is inf"),
    ],
    ids=["width", "dtype", "unknown rows", "one dimension", "no rows", "another type", "infinity"],
)  # fmt: skip
def test_lazy_rows_that_are_refused(name, change, message):
    dX = da.from_array(rows(), chunks=(50, 5))
    est = clone(MAPS[name]).fit(dX)
    with dask.config.set(scheduler="sync"), pytest.raises(InputError, match=message):
        np.asarray(est.transform(change(dX)))


def test_columns_at_fault_are_named():
    frame = pd.DataFrame({"age": [1.0, 2.0, np.nan], "name": ["x", "y", "z"], "size": [1.0, 2.0, 3.0]})
    with pytest.raises(InputError, match="not only finite numbers in the columns age, name; "):
        RandomFourierFeatures(n_components=4).fit(frame)


def test_a_length_scale_of_each_column_is_no_fact():
    X = np.random.default_rng(0).normal(size=(50, 2))
    shared, each = (RandomFourierFeatures(length_scale=scale).fit(X).facts() for scale in (3.0, [1.0, 2.0]))
    assert (shared["length_scale"], "length_scale" in each) == (3.0, False)
