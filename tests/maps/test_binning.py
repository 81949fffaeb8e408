"""Random binning features: grids, hashing, the estimator, out of core."""

from __future__ import annotations

import pickle

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from contracts import MapContract
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from distrf import (
    RandomBinningFeatures,
    StreamingRidge,
    StreamingRidgeClassifier,
    load_model,
    open_rows,
    save_model,
)
from distrf.compiled.binning import bin_hashes, signed_columns
from distrf.errors import InputError
from distrf.execution.writing import write_rows
from distrf.kernels import Cauchy, Gaussian, Laplacian, Matern
from distrf.maps import BinningMap, map_from_spec
from distrf.randomness import raw_words


class Dense(BinningMap):
    """The same map with dense results, for the contract's arithmetic."""

    def columns(self, X, start, stop):
        return super().columns(X, start, stop).toarray()


def bins(map_, X):
    """Bin of each row in each grid, shape (n, P, d), from the definition."""
    pitches, shifts = map_.grids()
    return np.floor(X[:, None] / pitches + shifts).astype(np.int64)


def hashes(map_, X):
    """The hash of the bins in Python's whole numbers."""
    words = map_._words(0, map_.n_grids)
    out = np.empty((len(X), map_.n_grids), dtype=np.uint64)
    for i, row in enumerate(bins(map_, X)):
        for p, b in enumerate(row):
            m = [int(word) for word in words[p]]
            out[i, p] = (m[0] + sum(w * int(k) for w, k in zip(m[1:], b, strict=True))) % 2**64
    return out


class TestHashed(MapContract):
    @pytest.fixture(params=[(7, 24), (24, 24), (5, 24), (40, 24)], ids=str)
    def make(self, request):
        grids, _ = request.param
        return lambda d, D: Dense(d, D, Laplacian(), 3.0, grids, seed=5)

    def explicit(self, map_, X):
        P, D = map_.n_grids, map_.n_components
        Z = np.zeros((len(X), D))
        for i, row in enumerate(hashes(map_, X)):
            for p, h in enumerate(row):
                top = int(h) >> 32
                first, stop = p * D // P, max(p * D // P + 1, (p + 1) * D // P)
                place = first + (((top % 2**31) * (stop - first)) >> 31)
                Z[i, place] += (-1.0 if top >> 31 else 1.0) / np.sqrt(P)
        return Z

    def tolerance(self, map_, X, dtype):
        return np.full((len(X), map_.n_components), 8 * np.finfo(dtype).eps)

    def test_spec_round_trip(self, map_):
        again = map_from_spec(map_.spec())
        assert type(again) is BinningMap
        X = self.rows(9, self.d)
        np.testing.assert_array_equal(again(X).toarray(), map_(X))

    def test_token(self, map_, make):
        from dask.base import tokenize

        assert tokenize(map_) == tokenize(make(self.d, self.D))
        assert tokenize(map_) != tokenize(make(self.d + 1, self.D))


def test_rows_have_one_entry_a_grid():
    X = np.random.default_rng(0).normal(size=(40, 6))
    Z = BinningMap(6, 1000, Laplacian(), 2.0, 64, 1)(X)
    assert isinstance(Z, sp.csr_array)
    assert Z.has_canonical_format
    np.testing.assert_array_equal(np.diff(Z.indptr), 64)
    np.testing.assert_array_equal(abs(Z.data), 1 / 8)
    np.testing.assert_array_equal((Z * Z).sum(axis=1), 1.0)
    assert (Z.data < 0).any()


def test_pitch_law():
    """p(u) = u k''(u) = u e^-u / l^2, Gamma(2, l): mean 2 l, variance 2 l^2."""
    u = BinningMap(5000, 8, Laplacian(), 3.0, 40, 1).grids()[0].ravel()
    n = u.size
    assert abs(u.mean() - 6.0) < 4.5 * np.sqrt(18 / n)
    assert abs((u < 3.0).mean() - (1 - 2 / np.e)) < 4.5 * 0.5 / np.sqrt(n)


@pytest.mark.slow
@pytest.mark.parametrize("D", [64, 96, 1000, 5])
def test_unbiased_with_its_variance(D):
    """Mean k; variance k (1 - k) / P + (1 - k) / D for D >= P (the hash's share: different bins, one column)."""
    P, seeds = 32, 1500
    X = np.array([[0.0, 0.0, 0.0], [0.3, -0.1, 0.1], [1.0, 0.4, -0.8]])
    Z = [BinningMap(3, D, Laplacian(), 1.5, P, seed)(X) for seed in range(seeds)]
    for i, j in ((0, 1), (0, 2)):
        k = Laplacian()(X[[i]], X[[j]], 1.5)[0, 0]
        estimates = np.array([z[[i]].toarray()[0] @ z[[j]].toarray()[0] for z in Z])
        assert abs(estimates.mean() - k) < 4.5 * estimates.std() / np.sqrt(seeds)
        if D % P == 0:
            squares = (estimates - k) ** 2
            assert abs(squares.mean() - k * (1 - k) / P - (1 - k) / D) < 4.5 * squares.std() / np.sqrt(seeds)


@pytest.mark.slow
def test_unsigned_hashing_is_biased():
    """Without signs two bins that share a column always add: E = k + (1 - k) P / D."""
    P, D, seeds = 32, 128, 400
    X = np.array([[0.0, 0.0], [1.0, 0.9]])
    k = Laplacian()(X[:1], X[1:], 1.5)[0, 0]
    signed, unsigned = [], []
    for seed in range(seeds):
        Z = BinningMap(2, D, Laplacian(), 1.5, P, seed)(X).toarray()
        signed.append(Z[0] @ Z[1])
        unsigned.append(abs(Z[0]) @ abs(Z[1]))
    for values, mean in ((signed, k), (unsigned, k + (1 - k) * P / D)):
        assert abs(np.mean(values) - mean) < 4.5 * np.std(values) / np.sqrt(seeds)
    assert np.mean(unsigned) > k + 20 * np.std(unsigned) / np.sqrt(seeds)


@pytest.mark.slow
def test_hash_is_pairwise_independent():
    """Over the draw of the words: columns and signs of two bins, one step or 2^31 steps apart, are independent."""
    n, width = 40_000, 4
    for step in (1, 6, 2**31):
        X = np.array([[0.0], [float(step)]])
        words = np.stack([raw_words(seed, "test", 0, 2) for seed in range(n)]).view(np.int64)
        out = np.empty((2, n), dtype=np.uint64)
        bin_hashes(X, np.ones((n, 1)), np.full((n, 1), 0.5), words, out)
        columns, values = np.empty((2, n), dtype=np.int32), np.empty((2, n))
        signed_columns(out, np.zeros(n, np.int64), np.full(n, width), columns, values, 1.0)
        cells = (columns + width * (values > 0)).astype(int)
        counts = np.bincount(cells[0] * 2 * width + cells[1], minlength=4 * width**2)
        expected = n / (4 * width**2)
        chi2 = ((counts - expected) ** 2 / expected).sum()
        assert abs(chi2 - 63) < 4.5 * np.sqrt(2 * 63)


def test_large_entries_stay_in_their_bins():
    X = np.array([[1e11, -1e11, 0.0], [1e10, 1.0, -1e-300], [5e11, 0, 0]])
    map_ = BinningMap(3, 64, Laplacian(), 1e-3, 16, 0)
    assert (map_(X) != map_(sp.csr_array(X))).nnz == 0
    assert not np.array_equal(map_(X)[[0]].toarray(), map_(X)[[2]].toarray())
    for rows in (X * 1e289, sp.csr_array(X * 1e289)):  # all in the last bin that is counted
        with pytest.raises(InputError, match=r"row 0 of the block .* float64 tells no two rows apart"):
            map_(rows)


def test_wide_rows_by_blocks_of_grids():
    """So many columns that a block of 16 MiB holds one grid."""
    d = 400_000
    X = sp.random_array((5, d), density=1e-4, format="csr", rng=0)
    map_ = BinningMap(d, 64, Laplacian(), 1e3, 4, 0)
    assert (map_(X) != map_(X.toarray())).nnz == 0
    assert (map_.columns(X, 10, 40) != map_(X)[:, 10:40]).nnz == 0


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (Gaussian(), "gaussian': k'' < 0 for u < l, so that p"),
        (Cauchy(), "cauchy': k'' < 0 for u < l / sqrt"),
        (Matern(1.5), "matern': it depends on .* no product"),
    ],
)
def test_kernels_without_a_pitch_law(kernel, why):
    with pytest.raises(InputError, match=f"convex and decreasing on .*{why}.* use kernel='laplacian'"):
        BinningMap(3, 64, kernel, 1.0, 8, 0)
    with pytest.raises(InputError, match=why):
        RandomBinningFeatures(kernel).fit(np.random.default_rng(0).normal(size=(20, 3)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_components": 0}, "at least 1, got 0 and 8"),
        ({"n_grids": 0}, "at least 1, got 64 and 0"),
        ({"n_components": 2**31}, "below 2\\^31"),
        ({"length_scale": -1.0}, "length_scale must be a positive number, got -1.0"),
    ],
)
def test_refuses(change, message):
    good = {"n_features_in": 3, "n_components": 64, "kernel": Laplacian(), "length_scale": 1.0}
    good |= {"n_grids": 8, "seed": 0}
    BinningMap(**good)
    with pytest.raises(InputError, match=message):
        BinningMap(**(good | change))


# ---- the estimator ----------------------------------------------------------------------------------


@parametrize_with_checks(
    [
        RandomBinningFeatures(n_grids=8, n_components=64, random_state=0),
        RandomBinningFeatures(n_grids=8, gamma=0.5, n_components=20),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def rows(n, d, dtype=np.float64):
    return np.random.default_rng([n, d]).normal(size=(n, d)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dask_as_numpy_and_csr(dtype):
    X = rows(203, 5, dtype)
    X[abs(X) < 0.3] = 0
    settings = {"length_scale": 4.0, "n_grids": 16, "n_components": 100, "random_state": 3}
    est = RandomBinningFeatures(**settings)
    Z = est.fit_transform(X)
    assert sp.issparse(Z)
    assert Z.dtype == dtype
    dX = da.from_array(X, chunks=((50, 3, 100, 50), 5))
    lazy = RandomBinningFeatures(**settings).fit(dX)
    made = lazy.transform(dX)
    assert sp.issparse(made._meta)
    assert made.shape == Z.shape
    assert made.dtype == dtype
    blocks = [made.blocks[i].compute() for i in range(4)]
    assert all(isinstance(block, sp.csr_array) for block in blocks)
    assert (sp.vstack(blocks, format="csr") != Z).nnz == 0
    whole = made.compute()
    assert sp.issparse(whole)
    assert (sp.csr_array(whole) != Z).nnz == 0
    sparse = RandomBinningFeatures(**settings).fit(sp.csr_array(X))
    assert (sparse.transform(sp.csr_array(X)) != Z).nnz == 0
    assert len(pickle.dumps(est.map_.without_arrays())) < 1024


def test_products_near_the_share_of_common_bins():
    """Hashing adds noise of mean zero to it, less with more columns."""
    X = rows(30, 3)
    in_bins = bins(BinningMap(3, 400, Laplacian(), 3.0, 400, 0), X)
    K = (in_bins[:, None] == in_bins).all(axis=3).mean(axis=2)
    errors = []
    for D in (400, 4_000, 400_000):
        est = RandomBinningFeatures(length_scale=3.0, n_grids=400, n_components=D, random_state=0)
        hashed = est.fit_transform(X)
        errors.append(abs((hashed @ hashed.T).toarray() - K).max())
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.02
    off = ~np.eye(30, dtype=bool)
    assert abs(K - est.map_.exact_kernel(X))[off].max() < 5.5 * 0.5 / np.sqrt(400)


def test_ridge_out_of_core(client):
    """CSR blocks through a pass on two workers: the same model as in memory."""
    X = rows(4000, 4, np.float32)
    y = np.sign(X[:, 0]) + abs(X[:, 1])
    settings = {"length_scale": 3.0, "n_grids": 64, "n_components": 512, "random_state": 0}
    model = make_pipeline(RandomBinningFeatures(**settings), StreamingRidge(1e-4)).fit(X, y)
    assert model.score(X, y) > 0.9
    dX, dy = da.from_array(X, chunks=(700, 4)), da.from_array(y, chunks=700)
    out = make_pipeline(RandomBinningFeatures(**settings), StreamingRidge(1e-4)).fit(dX, dy)
    np.testing.assert_allclose(out[-1].coef_, model[-1].coef_, atol=1e-6)
    np.testing.assert_allclose(out.predict(dX).compute(), model.predict(X), atol=1e-5)


def test_features_in_a_store(tmp_path):
    """CSR features are written as CSR rows."""
    X = rows(90, 3)
    est = RandomBinningFeatures(length_scale=3.0, n_grids=10, n_components=80, random_state=0).fit(X)
    lazy = est.transform(da.from_array(X, chunks=(40, 3)))
    write_rows(tmp_path / "z.zarr", {"X": lazy}, kind="features", spec={"map": est.map_.spec()})
    stored, _ = open_rows(tmp_path / "z.zarr")
    blocks = [sp.csr_array(block.compute()) for block in stored.blocks]
    assert (sp.vstack(blocks, format="csr") != est.transform(X)).nnz == 0


def test_save_and_load(tmp_path):
    X = rows(300, 3)
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    est = RandomBinningFeatures(length_scale=3.0, n_grids=50, n_components=400, random_state=0)
    model = make_pipeline(est, StreamingRidgeClassifier(1e-4)).fit(X, y)
    assert model.score(X, y) > 0.9
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
