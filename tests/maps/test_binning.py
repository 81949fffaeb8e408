"""Random binning features: grids, hashing, the estimator, out of core."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from contracts import MapContract

from distrf.errors import InputError
from distrf.kernels import Laplacian
from distrf.maps import BinningMap, map_from_spec


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


def test_wide_rows_by_blocks_of_grids():
    """So many columns that a block of 16 MiB holds one grid."""
    d = 400_000
    X = sp.random_array((5, d), density=1e-4, format="csr", rng=0)
    map_ = BinningMap(d, 64, Laplacian(), 1e3, 4, 0)
    assert (map_(X) != map_(X.toarray())).nnz == 0
    assert (map_.columns(X, 10, 40) != map_(X)[:, 10:40]).nnz == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_grids": 0}, "n_grids must be an integer >= 1, got 0"),
        ({"n_components": 2**31}, "n_components must be an integer between 1 and 2147483647, got 2147483648"),
        ({"length_scale": -1.0}, "length_scale must be a finite number > 0, got -1.0"),
    ],
)
def test_refuses(change, message):
    good = {"n_features_in": 3, "n_components": 64, "kernel": Laplacian(), "length_scale": 1.0}
    good |= {"n_grids": 8, "seed": 0}
    BinningMap(**good)
    with pytest.raises(InputError, match=message):
        BinningMap(**(good | change))


# ---- the estimator ----------------------------------------------------------------------------------


def rows(n, d, dtype=np.float64):
    return np.random.default_rng([n, d]).normal(size=(n, d)).astype(dtype)
