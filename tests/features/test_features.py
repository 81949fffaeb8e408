"""Feature estimators: scikit-learn's checks, Dask as NumPy, laziness, length scales, scalings."""

from __future__ import annotations

import pickle
import threading

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from contracts import EPS, FourierContract
from hypothesis import given, settings
from hypothesis import strategies as st
from reductions import count_calls
from scipy.spatial.distance import cdist, pdist
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from strategies import chunk_bytes, chunked, dtypes, row_chunks, seeds
from threadpoolctl import threadpool_info

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
)
from distrf.errors import InputError
from distrf.execution.sampling import sampled_rows
from distrf.features.base import _ONE_BLAS_THREAD
from distrf.kernels import Gaussian, Matern


@parametrize_with_checks(
    [
        RandomFourierFeatures(n_components=16, random_state=0),
        RandomFourierFeatures("laplacian", length_scale="knn-cnm", phase="offset", n_components=16),
        RandomFourierFeatures(phase="offset", n_components=15),
        RandomFourierFeatures("matern", nu=2.5, length_scale="median", phase="offset", n_components=15),
        RandomFourierFeatures(phase="offset", n_components=15, metric="whiten", n_jobs=1),
        *(
            StreamingScaler(method)
            for method in ("standard", "minmax", "maxabs", "robust", "l1-rows", "l2-rows")
        ),
        StreamingScaler("divide", divisor=255.0),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def rows(n, d, dtype=np.float64, seed=0):
    return np.random.default_rng([n, d, seed]).normal(size=(n, d)).astype(dtype)


def counted(X, chunk, folder):
    """A lazy array that leaves one file in `folder` for each block that is read."""
    return da.from_array(X, chunks=(chunk, X.shape[1])).map_blocks(
        count_calls, str(folder), dtype=X.dtype, meta=np.empty((0, 0), X.dtype)
    )


def reads(folder):
    return len(list(folder.iterdir()))


# ---- the same numbers everywhere --------------------------------------------------------------------


@given(
    shape=chunked(),
    dtype=dtypes,
    kernel=st.sampled_from(["gaussian", "laplacian", "cauchy", "matern"]),
    phase=st.sampled_from(["paired", "offset"]),
    seed=seeds,
    chunk_bytes=chunk_bytes,
)
def test_same_seed_same_features(shape, dtype, kernel, phase, seed, chunk_bytes):
    """To rounding, for any row chunking; NumPy and Dask alike."""
    chunks, d = shape
    X = rows(sum(chunks), d, dtype)
    est = RandomFourierFeatures(kernel, length_scale=1.5, n_components=18, phase=phase, random_state=seed)
    Z = est.fit_transform(X)
    allowed = 2 * FourierContract().tolerance(est.map_, X.astype(np.float64), np.dtype(dtype))
    dX = da.from_array(X, chunks=(chunks, d))
    with dask.config.set({"array.chunk-size": f"{chunk_bytes}B", "scheduler": "sync"}):
        lazy = clone(est).fit(dX).transform(dX)
        made = lazy.compute()
    assert lazy.shape == Z.shape
    assert lazy.dtype == made.dtype == Z.dtype == dtype
    assert (abs(made - Z) <= allowed).all()
    row_bytes = max(18, d) * Z.itemsize
    assert max(lazy.chunks[0]) <= max(1, chunk_bytes // row_bytes)


def test_same_bits_for_one_and_two_workers(client, one_worker_client):
    X = rows(700, 9, np.float32)
    made = []
    for worker in (client, one_worker_client):
        with worker.as_current():
            dX = da.from_array(X, chunks=((1, 300, 250, 149), 9))
            model = make_pipeline(
                StreamingScaler(), RandomFourierFeatures(n_components=300, metric="whiten", random_state=3)
            )
            made.append(model.fit_transform(dX).compute())
            made.append(pickle.dumps(model[-1].map_.arrays))
    assert made[0].tobytes() == made[2].tobytes()
    assert made[1] == made[3]


@pytest.mark.parametrize("dtype", ["u1", "i2", "?", "i8", "f4", "f8"])
def test_dtypes(dtype):
    X = (rows(30, 4) > 0).astype(dtype)
    for est in (
        RandomFourierFeatures(length_scale=1.0, n_components=8, random_state=0),
        StreamingScaler("maxabs"),
    ):
        Z = est.fit_transform(X)
        lazy = est.transform(da.from_array(X, chunks=10))
        assert Z.dtype == lazy.dtype == lazy.compute().dtype
        assert Z.dtype == (np.float64 if dtype in ("i8", "f8") else np.float32)


@pytest.mark.parametrize("jobs", [None, 1, 2, -1, -2])
def test_n_jobs(jobs):
    X = rows(5000, 6)
    est = RandomFourierFeatures(length_scale=1.0, n_components=64, random_state=0, n_jobs=jobs)
    np.testing.assert_allclose(est.fit_transform(X), est.map_(X), atol=1e-14)
    np.testing.assert_allclose(est.transform(sp.csr_array(X)), est.map_(X), atol=1e-14)


DENSE = [
    RandomFourierFeatures(length_scale=1.0, n_components=8, random_state=0),
    RandomLaplaceFeatures(n_components=8, random_state=0),
    TensorSketchFeatures(n_components=8, random_state=0),
    NystroemFeatures("exponential_semigroup", n_components=8, random_state=0),
    CompactNonlinearMap(n_components=8, length_scale=1.0, n_epochs=1, random_state=0),
    TEFM(RandomFourierFeatures(length_scale=1.0, n_components=16), n_components=8, random_state=0),
    WithColumns(RandomFourierFeatures(length_scale=1.0, n_components=8), random_state=0),
]
BINNED = RandomBinningFeatures(length_scale=1.0, n_grids=4, n_components=64, random_state=0)


@pytest.mark.parametrize("est", [*DENSE, BINNED], ids=lambda est: type(est).__name__)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_threads_run_the_map(est, kind, monkeypatch):
    """Each thread waits for another one inside the map: alone it would wait in vain."""
    X = kind(abs(rows(4096, 3)))
    est = clone(est).set_params(n_jobs=2).fit(X[:100])
    whole = est.map_(X)
    method, both = "__call__" if est is BINNED or sp.issparse(whole) else "fill_columns", threading.Barrier(2)
    run = getattr(type(est.map_), method)

    def waits(*args):
        both.wait(timeout=60)
        return run(*args)

    monkeypatch.setattr(type(est.map_), method, waits)
    made = est.transform(X)
    np.testing.assert_allclose(
        *(Z.toarray() if sp.issparse(Z) else Z for Z in (made, whole)), rtol=0, atol=1e-10
    )


@pytest.mark.parametrize("est", [*DENSE, BINNED], ids=lambda est: type(est).__name__)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_threads_keep_the_bits(est, kind):
    X = kind(abs(rows(5000, 20)))
    wide = {name: 300 for name in est.get_params() if name.endswith("n_components")}
    est = clone(est).set_params(n_jobs=1, **wide).fit(X[:500])
    alone, together = est.transform(X), est.set_params(n_jobs=3).transform(X)
    for a, b in zip(*([Z.data, Z.indices] if sp.issparse(Z) else [Z] for Z in (alone, together)), strict=True):
        assert a.tobytes() == b.tobytes()


def test_threads_that_transform_at_once_leave_blas_as_it_was():
    """Its number of threads is that of the process: the last who leaves puts it back."""
    setting = {lib["filepath"]: lib["num_threads"] for lib in threadpool_info()}
    inside, left = threading.Event(), threading.Event()

    def first():
        with _ONE_BLAS_THREAD:
            inside.set()
            assert left.wait(60)
            limited.append({lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"})

    limited: list[set[int]] = []
    thread = threading.Thread(target=first)
    thread.start()
    assert inside.wait(60)
    RandomFourierFeatures(length_scale=2.0, n_components=8, random_state=0).fit_transform(rows(2000, 3))
    left.set()
    thread.join()
    assert limited == [{1}]
    assert {lib["filepath"]: lib["num_threads"] for lib in threadpool_info()} == setting


@pytest.mark.parametrize(
    "est",
    [
        *(est for est in DENSE if not isinstance(est, TensorSketchFeatures)),
        BINNED,
        RandomLaplaceFeatures(n_components=8, projection="circulant", random_state=0),
        WithColumns(DENSE[-2], random_state=0),
    ],
    ids=lambda est: type(est).__name__,
)
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_errors_name_the_row_of_the_array(est, jobs, dtype, monkeypatch):
    """However rows are cut: for threads, or for memory."""
    monkeypatch.setattr("distrf.maps.tiles._TILE_BYTES", 1)
    X = abs(rows(3000, 3)).astype(dtype)
    est = clone(est).set_params(n_jobs=jobs).fit(X)
    X[1300] = -1e20
    if getattr(est, "projection", "auto") == "circulant":
        X[1300] = 1e308 if dtype == "f8" else -1
    with pytest.raises(InputError, match=r"\brow 1300\b"):
        est.transform(X)


@pytest.mark.parametrize("solver", ["gram", "finder"])
def test_errors_of_passes_name_the_row_of_the_block(solver, monkeypatch):
    monkeypatch.setattr("distrf.maps.tiles._TILE_BYTES", 1)
    X = rows(3000, 3)
    X[1300] = 1e20
    base = RandomFourierFeatures(length_scale=1.0, n_components=16)
    with pytest.raises(InputError, match=r"\brow 1300 of the block"):
        TEFM(base, n_components=8, solver=solver, random_state=0).fit(X)


def test_n_jobs_of_zero():
    with pytest.raises(InputError, match=r"n_jobs must be a positive number of threads.* got 0"):
        RandomFourierFeatures(length_scale=1.0, n_jobs=0).fit_transform(rows(1000, 2))


def test_random_state():
    X = rows(20, 3)

    def features(state):
        return RandomFourierFeatures(length_scale=1.0, n_components=8, random_state=state).fit(X)

    np.testing.assert_array_equal(features(4).transform(X), features(np.int64(4)).transform(X))
    drawn = features(None)
    assert drawn.map_.seed != features(None).map_.seed
    again = pickle.loads(pickle.dumps(drawn))
    np.testing.assert_array_equal(again.transform(X), drawn.transform(X))
    assert len(pickle.dumps(drawn.map_)) < 1024


# ---- laziness ---------------------------------------------------------------------------------------


def test_nothing_is_read_before_it_is_asked_for(tmp_path):
    dX = counted(rows(100, 3), 10, tmp_path)
    fourier = RandomFourierFeatures(length_scale=1.0, n_components=8, random_state=0)
    model = make_pipeline(StreamingScaler("l2-rows"), StreamingScaler("divide", divisor=2.0), fourier)
    Z = model.fit(dX).transform(dX)
    assert reads(tmp_path) == 0
    Z[:10].compute(scheduler="sync")
    assert reads(tmp_path) == 1


def test_scaler_reads_once(tmp_path):
    dX = counted(rows(100, 3), 10, tmp_path)
    StreamingScaler().fit(dX).transform(dX)
    assert reads(tmp_path) == 10


def test_the_exact_kernel_of_whitened_rows(rng):
    X = rng.normal(size=(20, 3)) * [1.0, 10.0, 0.1]
    map_ = RandomFourierFeatures(length_scale=2.0, n_components=8, metric="whiten", random_state=0).fit(X).map_
    W = X @ map_.root
    np.testing.assert_allclose(map_.exact_kernel(X), rbf_kernel(W, gamma=1 / 8), rtol=1e-9)
    np.testing.assert_allclose(map_.exact_kernel(X, X[:5]), rbf_kernel(W, W[:5], gamma=1 / 8), rtol=1e-9)


def test_whitening_reads_once_and_a_few_rows(tmp_path):
    dX = counted(rows(6400, 3), 10, tmp_path)
    RandomFourierFeatures(length_scale=1.0, n_components=8, metric="whiten", random_state=0).fit(dX)
    assert 640 < reads(tmp_path) <= 640 + 64


@pytest.mark.parametrize("n", [2000, 100_000])
def test_length_scale_rules_read_only_the_blocks_of_their_rows(tmp_path, n):
    dX = counted(rows(n, 2, np.float32), 20, tmp_path)
    RandomFourierFeatures(length_scale="knn", n_components=8, random_state=5).fit(dX)
    wanted = {int(i) // 20 for i in sampled_rows(n, 1000, 5, "length-scale")}
    assert reads(tmp_path) == len(wanted)
    assert len(wanted) <= 250 or n == 2000


# ---- length scales ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [30, 400, 1000])
def test_rules_on_all_rows(n):
    X = rows(n, 5)

    def fitted(rule, kernel="gaussian"):
        return RandomFourierFeatures(kernel, length_scale=rule, n_components=2).fit(X).length_scale_

    k = min(50, n - 1)
    for kernel, norm in (("gaussian", "euclidean"), ("laplacian", "cityblock"), ("matern", "euclidean")):
        assert fitted("median", kernel) == pytest.approx(np.median(pdist(X, norm)), rel=1e-12)
        distances, _ = (
            NearestNeighbors(n_neighbors=k, metric=norm).fit(X).kneighbors()
        )  # without the row itself
        assert fitted("knn", kernel) == pytest.approx(distances[:, -1].mean(), rel=1e-12)
        assert fitted("knn-cnm", kernel) == pytest.approx(distances[:, -1].mean() / 2, rel=1e-12)
    gamma = 1 / (5 * X.var())
    assert fitted("scale") == pytest.approx((2 * gamma) ** -0.5, rel=1e-12)
    assert fitted("scale", "laplacian") == pytest.approx(1 / gamma, rel=1e-12)


def test_rules_on_a_sample():
    X = rows(3000, 4)
    chosen = X[sampled_rows(3000, 1000, 8, "length-scale")]
    est = RandomFourierFeatures(length_scale="median", n_components=2, random_state=8).fit(X)
    assert est.length_scale_ == pytest.approx(np.median(pdist(chosen)), rel=1e-12)
    assert est.length_scale_ == pytest.approx(np.median(pdist(X)), rel=0.05)


@settings(max_examples=12)
@given(
    chunks=row_chunks(most=900, blocks=6, rows=3),
    rule=st.sampled_from(["knn", "knn-cnm", "median", "scale"]),
)
def test_rules_do_not_depend_on_chunks(chunks, rule):
    X = rows(sum(chunks), 3)
    est = RandomFourierFeatures(length_scale=rule, n_components=2, random_state=1)
    whole = est.fit(X).length_scale_
    assert est.fit(da.from_array(X, chunks=(chunks, 3))).length_scale_ == whole
    # CSR products add the same numbers in another order.
    assert est.fit(sp.csr_array(X)).length_scale_ == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("gamma", [0.1, 2.0])
def test_gamma(gamma):
    X = rows(40, 3)
    est = RandomFourierFeatures(gamma=gamma, n_components=20_000, random_state=0)
    Z = est.fit_transform(X)
    K = rbf_kernel(X, gamma=gamma)
    assert est.length_scale_ == pytest.approx((2 * gamma) ** -0.5)
    # 780 pairs; each estimate has a standard deviation of at most sqrt(1 / 2m), m = 10,000
    assert abs(Z @ Z.T - K).max() < 5 * np.sqrt(1 / 20_000)
    assert RandomFourierFeatures("laplacian", gamma=gamma).fit(X).length_scale_ == 1 / gamma


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "sigmoid"}, "kernel must be 'gaussian', .* got 'sigmoid'"),
        (
            {"kernel": "cauchy", "gamma": 1.0, "length_scale": "knn"},
            "gamma is scikit-learn's parameter.* got kernel='cauchy'",
        ),
        ({"gamma": 1.0}, "gamma and length_scale exclude each other.* got gamma=1.0 and length_scale=1.0"),
        ({"kernel": "matern", "nu": 2.0}, "nu must be 0.5, 1.5 or 2.5, got 2.0"),
        ({"kernel": "matern", "length_scale": "scale"}, "give length_scale"),
        ({"gamma": -1.0}, "gamma must be a finite number > 0 or None, got -1.0"),
        ({"gamma": "scale"}, "gamma must be a finite number > 0 or None, got 'scale'"),
        ({"length_scale": 0}, "length_scale must be a finite number > 0, 'median'"),
        ({"length_scale": None}, "length_scale must be a finite number > 0, 'median'.* got None"),
        ({"length_scale": np.nan}, "length_scale must be a finite number > 0"),
        ({"length_scale": "mean"}, "length_scale must be .*'scale'.*, got 'mean'"),
        ({"n_components": 0}, "an integer >= 1, got 0"),
        ({"n_components": 8.0}, "n_components must be an integer >= 1, got 8.0"),
        ({"phase": "both"}, "'paired' or 'offset', got 'both'"),
        ({"projection": "sparse"}, "projection must be 'auto', 'dense'.* got 'sparse'"),
        ({"projection": "orthogonal", "kernel": "cauchy"}, "isotropic kernel"),
        ({"random_state": -3}, "random_state must be an integer >= 0.* got -3"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(InputError, match=message):
        RandomFourierFeatures(**({"length_scale": 1.0} | parameters)).fit(rows(20, 3))


def test_equal_rows_have_no_length_scale():
    for rule in ("knn", "median", "scale", "knn-cnm"):
        with pytest.raises(InputError, match=r"at least 2 distinct rows.*give a number"):
            RandomFourierFeatures(length_scale=rule).fit(np.ones((30, 3)))


def test_kernel_object():
    X = rows(20, 3)
    one = RandomFourierFeatures(Matern(2.5), length_scale=1.0, n_components=8, random_state=1).fit_transform(X)
    two = RandomFourierFeatures(
        "matern", nu=2.5, length_scale=1.0, n_components=8, random_state=1
    ).fit_transform(X)
    np.testing.assert_array_equal(one, two)


# ---- whitening --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["numpy", "dask", "csr"])
def test_whitening(kind):
    X = rows(500, 4) @ np.diag([1e3, 1.0, 1e-2, 5.0]) @ rows(4, 4, seed=1) + 7.0
    given_ = {"numpy": X, "dask": da.from_array(X, chunks=(90, 4)), "csr": sp.csr_array(X)}[kind]
    est = RandomFourierFeatures(metric="whiten", length_scale="median", n_components=20_000, random_state=2)
    Z = est.fit_transform(given_)
    A = est.map_.root
    np.testing.assert_allclose(np.cov((X @ A).T, bias=True), np.eye(4), atol=1e-6)
    assert est.length_scale_ == pytest.approx(np.median(pdist(X @ A)), rel=1e-6)
    K = Gaussian()(X[:40] @ A, None, est.length_scale_)
    Z = np.asarray(Z[:40])
    assert abs(Z @ Z.T - K).max() < 5 * np.sqrt(1 / 20_000)


def test_whitening_of_dependent_columns():
    """Directions without variance are dropped, and the rest is whitened."""
    X = rows(300, 3)
    X = np.column_stack([X, X.sum(axis=1), np.ones(300)])
    A = RandomFourierFeatures(metric="whiten", n_components=2).fit(X).map_.root
    C = np.cov((X @ A).T, bias=True)
    np.testing.assert_allclose(np.linalg.eigvalsh(C), [0, 0, 1, 1, 1], atol=1e-10)


def test_whitening_of_constant_columns():
    with pytest.raises(InputError, match="metric='whiten' needs columns that vary"):
        RandomFourierFeatures(metric="whiten").fit(np.ones((10, 2)))


# ---- scikit-learn's conventions ---------------------------------------------------------------------


def test_feature_names_and_frames():
    frame = pd.DataFrame(rows(20, 2), columns=["left", "right"])
    fourier = RandomFourierFeatures(length_scale=1.0, n_components=4, random_state=0).set_output(
        transform="pandas"
    )
    Z = fourier.fit_transform(frame)
    assert list(Z.columns) == [f"randomfourierfeatures{i}" for i in range(4)]
    np.testing.assert_array_equal(Z.to_numpy(), fourier.map_(frame.to_numpy()))
    scaler = StreamingScaler().set_output(transform="pandas").fit(frame)
    assert list(scaler.transform(frame).columns) == ["left", "right"]
    assert list(scaler.feature_names_in_) == ["left", "right"]
    scaler.fit(da.from_array(frame.to_numpy(), chunks=5))
    assert not hasattr(scaler, "feature_names_in_")


def test_frames_of_lazy_rows_are_refused():
    dX = da.ones((20, 2), chunks=5)
    scaler = StreamingScaler().fit(dX)
    with pytest.raises(InputError, match=r"output 'pandas' is for rows in memory; use set_output"):
        scaler.set_output(transform="pandas").transform(dX)
    with sklearn.config_context(transform_output="pandas"), pytest.raises(InputError, match="set_output"):
        StreamingScaler().fit(dX).transform(dX)


@pytest.mark.parametrize(
    "est", [RandomFourierFeatures(length_scale=1.0, n_components=4), StreamingScaler("maxabs")]
)
def test_bad_dask_input(est):
    dX = da.from_array(rows(20, 3), chunks=(5, 3))
    with pytest.raises(InputError, match=r"X has 2 features, but .* is expecting 3 features"):
        clone(est).fit(dX).transform(dX[:, :2])
    with pytest.raises(InputError, match="must be numeric, got dtype object"):
        clone(est).fit(dX.astype(object))
    with pytest.raises(InputError, match=r"chunks must be known; call X.compute_chunk_sizes"):
        clone(est).fit(dX[dX[:, 0] > 0])
    with pytest.raises(InputError, match="Expected 2D array"):
        clone(est).fit(dX[:, 0])
    with pytest.raises(InputError, match="0 sample"):
        clone(est).fit(dX[:0])
    with pytest.raises(InputError, match="must be an array, a SciPy CSR matrix, a data frame"):
        clone(est).fit(dask.delayed(np.ones((3, 3))))
    bad = dX.map_blocks(lambda b: np.where(b == b.max(), np.nan, b), dtype=float)
    with pytest.raises(InputError, match=r"of the block, column . is NaN"):
        clone(est).fit(dX).transform(bad).compute(scheduler="sync")


def test_dask_blocks_of_csr():
    X = rows(60, 5) * (rows(60, 5, seed=1) > 0.5)
    dX = da.from_array(X, chunks=(20, 5)).map_blocks(sp.csr_array)
    fourier = RandomFourierFeatures(length_scale="median", n_components=6, random_state=0)
    with dask.config.set({"array.chunk-size": "500B"}):
        Z = fourier.fit(dX).transform(dX)
        assert max(Z.chunks[0]) == 10
        np.testing.assert_allclose(Z.compute(scheduler="sync"), fourier.fit_transform(X), atol=1e-14)
    for method in ("maxabs", "l1-rows", "l2-rows", "divide"):
        scaler = StreamingScaler(method, divisor=3.0).fit(dX)
        blocks = [scaler.transform(dX).blocks[i].compute(scheduler="sync") for i in range(3)]
        assert all(sp.issparse(b) for b in blocks)
        np.testing.assert_allclose(sp.vstack(blocks).toarray(), scaler.fit_transform(X), rtol=1e-14)


# ---- scaling ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["standard", "minmax", "l2-rows"])
@pytest.mark.parametrize("factor", [2.0**-660, 2.0**660])
def test_rows_whose_squares_are_no_numbers_are_scaled(method, factor):
    """Rows of 1e200 became 0: their squares overflow."""
    X = np.random.default_rng(0).normal(size=(40, 3))
    plain = StreamingScaler(method).fit_transform(X)
    np.testing.assert_allclose(StreamingScaler(method).fit_transform(factor * X), plain, rtol=1e-12)
    lazy = StreamingScaler(method).fit_transform(da.from_array(factor * X, chunks=(11, 3)))
    np.testing.assert_allclose(lazy.compute(scheduler="sync"), plain, rtol=1e-12)
    if method == "l2-rows":
        sparse = StreamingScaler(method).fit_transform(sp.csr_array(factor * X))
        np.testing.assert_allclose(sparse.toarray(), plain, rtol=1e-12)
        narrow = StreamingScaler(method).fit_transform((2.0**100 * X).astype(np.float32))
        np.testing.assert_allclose(narrow, plain, rtol=1e-5)


PEERS = {
    "standard": StandardScaler(),
    "minmax": MinMaxScaler(),
    "maxabs": MaxAbsScaler(),
    "l1-rows": Normalizer("l1"),
    "l2-rows": Normalizer("l2"),
}


def mixed(n, d, dtype):
    """Columns of unlike size and mean, and one that is constant."""
    X = rows(n, d) * 10.0 ** np.arange(-2, d - 2) + np.arange(d)
    X[:, d // 2] = 3.0
    return X.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("method", PEERS)
@settings(max_examples=15)
@given(shape=chunked())
def test_scaler_is_scikit_learns(method, dtype, shape):
    chunks, d = shape
    X = mixed(sum(chunks), d, dtype)
    exact = clone(PEERS[method]).fit_transform(X.astype(np.float64))
    scaler = StreamingScaler(method)
    # The spread of two rows that nearly agree is the difference of rounded numbers: errors are relative to it.
    size = 1.0 if method.endswith("rows") else abs(exact) + abs(X).max(axis=0) / _spread(X)
    allowed = 40 * EPS[np.dtype(dtype)] * (size if dtype is np.float32 else size * len(X))
    dX = da.from_array(X, chunks=(chunks, d))
    for Z in (scaler.fit_transform(X), scaler.fit(dX).transform(dX).compute(scheduler="sync")):
        assert Z.dtype == dtype
        assert (abs(Z - exact) <= allowed).all()


def _spread(X):
    spread = X.astype(np.float64).std(axis=0)
    return np.where(spread > 0, spread, 1.0)


@pytest.mark.parametrize("method", ["maxabs", "l1-rows", "l2-rows"])
def test_scaling_csr(method):
    X = sp.random_array((60, 8), density=0.3, rng=np.random.default_rng(2), format="csr")
    Z = StreamingScaler(method).fit_transform(X)
    assert sp.issparse(Z)
    np.testing.assert_allclose(Z.toarray(), clone(PEERS[method]).fit_transform(X).toarray(), rtol=1e-14)


def test_robust_units_of_csr_rows_are_those_of_dense_ones_less_what_they_make_of_zero():
    X = sp.random_array((60, 8), density=0.3, rng=np.random.default_rng(2), format="csr").tolil()
    X[:, 2], X[:, 3] = np.linspace(2000, 2025, 60)[:, None], 0.0
    X = sp.csr_array(X)
    robust, kept = StreamingScaler("robust").fit(X.toarray()), StreamingScaler("robust-zeros").fit(X)
    Z = kept.transform(X)
    assert sp.issparse(Z)
    np.testing.assert_allclose(Z.toarray(), kept.transform(X.toarray()), atol=1e-14)
    expected = robust.transform(X.toarray()) - robust.transform(np.zeros((1, 8)))
    np.testing.assert_allclose(Z.toarray(), expected, atol=1e-12)
    assert Z.nnz == X.nnz


def test_zeros_that_csr_rows_store_are_zeros():
    X = sp.random_array((60, 8), density=0.1, rng=np.random.default_rng(2), format="csr")
    X.data[::2] = 0.0
    np.testing.assert_array_equal(
        *(StreamingScaler("robust-zeros").fit(given_).map_.scale for given_ in (X, X.toarray()))
    )


@pytest.mark.parametrize("method", ["standard", "minmax", "robust"])
def test_csr_is_not_shifted(method):
    """Nor is it read: lazy rows are refused before the pass."""
    X = sp.csr_array(rows(5, 2))
    lazy = da.from_array(X.toarray(), chunks=(2, 2)).map_blocks(no_block, meta=X[:0])
    for given_ in (X, lazy):
        with pytest.raises(InputError, match=f"scaling '{method}' shifts columns and would fill a sparse"):
            StreamingScaler(method).fit(given_)
    with pytest.raises(InputError, match="MinMaxScaler with these parameters does not take sparse rows"):
        Blockwise(MinMaxScaler()).fit(lazy)


def no_block(block):
    pytest.fail("a block was read")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_means(dtype):
    """A spread of 1 on a mean of 30,000 or 10^8: moments are merged about block means."""
    mean = 3e4 if dtype is np.float32 else 1e8
    X = (rows(2000, 3) + mean).astype(dtype)
    for given_ in (X, da.from_array(X, chunks=(77, 3))):
        map_ = StreamingScaler().fit(given_).map_
        np.testing.assert_allclose(map_.scale, X.astype(np.longdouble).std(axis=0).astype(float), rtol=1e-9)
        np.testing.assert_allclose(map_.shift, X.astype(np.longdouble).mean(axis=0).astype(float), rtol=1e-14)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e8 + 0.1, -1e-30])
@pytest.mark.parametrize("method", ["standard", "minmax"])
def test_constant_columns(method, value):
    X = np.full((1000, 2), value)
    X[:, 1] = rows(1000, 1)[:, 0]
    for given_ in (X, da.from_array(X, chunks=(7, 2))):
        Z = np.asarray(StreamingScaler(method).fit_transform(given_))
        assert abs(Z[:, 0]).max() <= 1e-12 * max(abs(value), 1)
        assert Z[:, 1].std() > 0.1


@pytest.mark.parametrize("chunks", [4, 2])
def test_integers_do_not_wrap(chunks):
    X = np.array([[-128], [127], [0], [5]], dtype=np.int8)
    for method in ("standard", "minmax", "maxabs"):
        exact = clone(PEERS[method]).fit_transform(X.astype(float))
        dX = da.from_array(X, chunks=(chunks, 1))
        np.testing.assert_allclose(StreamingScaler(method).fit_transform(dX).compute(), exact, rtol=1e-6)


def test_scaler_refuses():
    with pytest.raises(InputError, match=r"method must be 'standard', 'minmax'.* got 'quantile'"):
        StreamingScaler("quantile").fit(rows(3, 2))
    with pytest.raises(InputError, match=r"divisor must be a finite number > 0 or a finite number < 0, got 0"):
        StreamingScaler("divide", divisor=0).fit(rows(3, 2))
    X = rows(50, 2)
    X[33, 1] = np.inf
    with pytest.raises(InputError, match=r"row 3 of the block, column 1 is infinity.*\[block: rows 30 to 39\]"):
        StreamingScaler().fit(da.from_array(X, chunks=(10, 2)))


def test_columns_in_chunks_are_put_together(rng):
    """A union of maps concatenates columns; what follows it takes them whole."""
    X, y = rng.normal(size=(120, 3)), rng.normal(size=(120, 2))
    dX, dy = da.from_array(X, chunks=(40, 3)), da.from_array(y, chunks=(40, 1))
    union = FeatureUnion(
        [(str(k), RandomFourierFeatures(length_scale=2.0, n_components=8, random_state=k)) for k in range(2)]
    )
    lazy = make_pipeline(union, StreamingScaler(), StreamingRidge()).fit(dX, dy)
    now = make_pipeline(union, StreamingScaler(), StreamingRidge()).fit(X, y)
    np.testing.assert_allclose(lazy.predict(dX).compute(), now.predict(X), atol=1e-8)
    est = RandomFourierFeatures(length_scale=1.0, n_components=4, random_state=0).fit(dX.rechunk({1: 2}))
    np.testing.assert_array_equal(est.transform(dX.rechunk({1: 2})).compute(), est.transform(dX).compute())


@pytest.mark.parametrize("rule", ["knn", "median"])
def test_length_scales_of_wide_rows_are_those_of_all_distances(rule):
    """Wide and CSR rows take products of matrices; the number is that of `cdist`, far and equal rows among them."""
    X = np.random.default_rng(4).normal(size=(300, 80)) + 1e3
    X[7], X[9] = 1e9, X[8]
    D = cdist(X, X)
    wanted = {"knn": np.sort(D, axis=1)[:, 50].mean(), "median": np.median(D[np.triu_indices(300, 1)])}[rule]
    for rows_ in (X, da.from_array(X, chunks=(70, 80)), sp.csr_array(X)):
        found = RandomFourierFeatures(length_scale=rule, n_components=2, random_state=1).fit(rows_)
        assert found.length_scale_ == pytest.approx(wanted, rel=1e-9)


# ---- metrics ----------------------------------------------------------------------------------------


def test_a_metric_is_a_matrix_in_which_distances_are_measured(rng):
    X, A = rng.normal(size=(40, 5)) * [1, 10, 1e3, 1e-3, 1], rng.normal(size=(5, 5))
    M = A @ A.T / np.outer([1, 10, 1e3, 1e-3, 1], [1, 10, 1e3, 1e-3, 1])
    est = RandomFourierFeatures(metric=M, n_components=8, random_state=0).fit(X)
    np.testing.assert_allclose(est.map_.root @ est.map_.root.T, M, rtol=1e-9)
    squares = cdist(X, X, "mahalanobis", VI=M) ** 2
    np.testing.assert_allclose(
        est.map_.exact_kernel(X), np.exp(-squares / (2 * est.length_scale_**2)), atol=1e-9
    )
    white = RandomFourierFeatures(metric="whiten", n_components=8, random_state=0).fit(X)
    same = clone(white).set_params(metric=np.linalg.inv(np.cov(X.T, bias=True))).fit(X)
    np.testing.assert_allclose(same.map_.exact_kernel(X), white.map_.exact_kernel(X), rtol=1e-6)


def test_a_length_scale_for_each_column(rng):
    X, scales = rng.normal(size=(40, 3)), [0.5, 2.0, 8.0]
    est = RandomFourierFeatures(length_scale=scales, n_components=8, random_state=0)
    plain = RandomFourierFeatures(length_scale=1.0, n_components=8, random_state=0)
    Z = est.fit_transform(X)
    np.testing.assert_allclose(Z, plain.fit_transform(X / scales), atol=1e-14)
    assert est.planned_map(3).work() > plain.planned_map(3).work()
    assert est.planned_map(3).held_bytes(8) == 48
    lazy = est.fit(da.from_array(X, chunks=(7, 3))).transform(da.from_array(X, chunks=(7, 3)))
    np.testing.assert_allclose(lazy.compute(), Z, atol=1e-14)
    few = clone(est).set_params(order=2, column_weights=[1.0, 2.0, 3.0]).fit(X)
    assert few.projection_ == "quasi"
    assert (few.map_.frequencies() != 0).sum(axis=1).tolist() == [2] * 4


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"metric": np.eye(4)}, r"metric must have shape \(3, 3\), as X has 3 columns, got \(4, 4\)"),
        ({"metric": -np.eye(3)}, "metric is a matrix of zeros"),
        ({"metric": np.array([[1.0, 2, 0], [2, 1, 0], [0, 0, 1]])}, "no negative eigenvalues"),
        ({"metric": np.triu(np.ones((3, 3)))}, "metric must be 'whiten', a symmetric matrix"),
        ({"metric": np.eye(3), "length_scale": [1.0, 1.0, 1.0]}, "give metric= or length_scale=, not both"),
        ({"column_weights": [1.0, 1.0, 1.0]}, "give order=, too"),
        ({"length_scale": [1.0, 1.0]}, r"length_scale must have shape \(3,\)"),
        ({"gamma": 1.0, "length_scale": [1.0, 1.0, 1.0]}, "gamma and length_scale exclude each other"),
    ],
)
def test_metrics_that_are_refused(given, message, rng):
    with pytest.raises(InputError, match=message):
        RandomFourierFeatures(**given).fit(rng.normal(size=(10, 3)))
