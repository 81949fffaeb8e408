"""Feature estimators: scikit-learn's checks, Dask as NumPy, laziness, length scales, scalings."""

from __future__ import annotations

import threading

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from contracts import EPS
from hypothesis import given, settings
from hypothesis import strategies as st
from reductions import count_calls
from scipy.spatial.distance import cdist, pdist
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler
from strategies import chunked, row_chunks
from threadpoolctl import threadpool_info

from distrf import Blockwise, RandomFourierFeatures, StreamingScaler
from distrf.errors import InputError
from distrf.execution.sampling import sampled_rows
from distrf.execution.scheduler import ONE_BLAS_THREAD


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


def test_threads_that_transform_at_once_leave_blas_as_it_was():
    """Its number of threads is that of the process: the last who leaves puts it back."""
    setting = {lib["filepath"]: lib["num_threads"] for lib in threadpool_info()}
    inside, left = threading.Event(), threading.Event()

    def first():
        with ONE_BLAS_THREAD:
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


# ---- laziness ---------------------------------------------------------------------------------------


def test_scaler_reads_once(tmp_path):
    dX = counted(rows(100, 3), 10, tmp_path)
    StreamingScaler().fit(dX).transform(dX)
    assert reads(tmp_path) == 10


def test_whitening_reads_once(tmp_path):
    dX = counted(rows(6400, 3), 10, tmp_path)
    RandomFourierFeatures(length_scale=1.0, n_components=8, metric="whiten", random_state=0).fit(dX)
    assert reads(tmp_path) == 640


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


@settings(max_examples=12)
@given(
    chunks=row_chunks(most=900, blocks=6, rows=3), rule=st.sampled_from(["knn", "knn-cnm", "median", "scale"])
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
        (
            {"kernel": "cauchy", "gamma": 1.0, "length_scale": "knn"},
            "gamma is scikit-learn's parameter.* got kernel='cauchy'",
        ),
        ({"gamma": 1.0}, "gamma and length_scale exclude each other.* got gamma=1.0 and length_scale=1.0"),
        ({"kernel": "matern", "length_scale": "scale"}, "give length_scale"),
        ({"projection": "orthogonal", "kernel": "cauchy"}, "isotropic kernel"),
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
def test_bad_parameters(parameters, message):
    with pytest.raises(InputError, match=message):
        RandomFourierFeatures(**({"length_scale": 1.0} | parameters)).fit(rows(20, 3))


def test_equal_rows_have_no_length_scale():
    for rule in ("knn", "median", "scale", "knn-cnm"):
        with pytest.raises(InputError, match=r"at least 2 distinct rows.*give a number"):
            RandomFourierFeatures(length_scale=rule).fit(np.ones((30, 3)))


# ---- scikit-learn's conventions ---------------------------------------------------------------------


def test_dask_blocks_of_csr():
    X = rows(60, 5) * (rows(60, 5, seed=1) > 0.5)
    dX = da.from_array(X, chunks=(20, 5)).map_blocks(sp.csr_array)
    fourier = RandomFourierFeatures(length_scale="median", n_components=6, random_state=0)
    with dask.config.set({"array.chunk-size": "500B"}):
        Z = fourier.fit(dX).transform(dX)
        assert max(Z.chunks[0]) == 10
        np.testing.assert_allclose(Z.compute(scheduler="sync"), fourier.fit_transform(X), atol=1e-14)


# ---- scaling ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["minmax", "l2-rows"])
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
    with pytest.raises(InputError, match=r"'standard' takes columns of a size between .* multiply it"):
        StreamingScaler().fit(factor * X)


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


@pytest.mark.parametrize("value", [0.0, 0.1, 1e8 + 0.1, -1e-30])
@pytest.mark.parametrize("method", ["standard", "minmax"])
def test_constant_columns(method, value):
    X = np.full((1000, 2), value)
    X[:, 1] = rows(1000, 1)[:, 0]
    for given_ in (X, da.from_array(X, chunks=(7, 2))):
        Z = np.asarray(StreamingScaler(method).fit_transform(given_))
        assert abs(Z[:, 0]).max() <= 1e-12 * max(abs(value), 1)
        assert Z[:, 1].std() > 0.1


def test_scaler_refuses():
    with pytest.raises(InputError, match=r"method must be 'standard', 'minmax'.* got 'quantile'"):
        StreamingScaler("quantile").fit(rows(3, 2))
    with pytest.raises(InputError, match=r"divisor must be a finite number > 0 or a finite number < 0, got 0"):
        StreamingScaler("divide", divisor=0).fit(rows(3, 2))
    X = rows(50, 2)
    X[33, 1] = np.inf
    with pytest.raises(InputError, match=r"row 3 of the block, column 1 is infinity.*\[block: rows 30 to 39\]"):
        StreamingScaler().fit(da.from_array(X, chunks=(10, 2)))


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
