"""Nystroem features: the formula, scikit-learn's, landmarks, degenerate landmarks, Dask, files."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from contracts import EPS, SHIFT_INVARIANT, MapContract
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem

from distrf import NystroemFeatures
from distrf.errors import InputError
from distrf.kernels import (
    FAMILIES,
    Exponential,
    ExponentialSemigroup,
    Gaussian,
    Kernel,
    Laplacian,
    Polynomial,
    ReciprocalSemigroup,
    SemigroupKernel,
    get_kernel,
)
from distrf.maps import NystroemMap
from distrf.maps.nystroem import LANDMARKS, choose_landmarks

KERNELS = [
    *SHIFT_INVARIANT,
    ExponentialSemigroup(0.3),
    ReciprocalSemigroup(2.0),
    Polynomial(2, 0.3, 0.7),
    Exponential(0.2),
]


def exact(kernel, X, Y, length_scale):
    return kernel(X, Y, length_scale) if isinstance(kernel, Kernel) else kernel(X, Y)


class TestNystroem(MapContract):
    seeded = False

    @pytest.fixture(params=KERNELS, ids=repr)
    def make(self, request):
        def make(d, D):
            L = self.rows(D, d)
            return NystroemMap.of_landmarks(request.param, 1.3, L)

        return make

    @pytest.fixture
    def map_(self, make):
        return make(self.d, self.D)

    def rows(self, n, d):
        return abs(super().rows(n, d))

    def explicit(self, map_, X):
        return exact(map_.kernel, X, map_.landmarks, map_.length_scale) @ map_.normalization

    def tolerance(self, map_, X, dtype):
        L, eps, (m, d) = map_.landmarks, EPS[np.dtype(np.float64)], map_.landmarks.shape
        K = exact(map_.kernel, X, L, map_.length_scale)
        norms = (X**2).sum(axis=1)[:, None] + (L**2).sum(axis=1)
        if isinstance(map_.kernel, Kernel):
            # A squared distance is a difference of sums of this size; no kernel here is steeper in it than 3/2.
            error = 1.5 * 8 * (d + 6) * norms / map_.length_scale**2 + 10 * (d + 6)
        elif isinstance(map_.kernel, Polynomial):
            error = 4 * (d + 6) * (map_.kernel.gamma * norms + map_.kernel.coef0) ** 2
        else:  # an exponent, summed over d
            error = 4 * (d + 6) * K * (1 + norms)
        M = abs(map_.normalization)
        return 2 * eps * (error + m * K) @ M + 2 * EPS[dtype] * (abs(K @ map_.normalization) + 1e-300)

    def test_span_of_landmarks(self, map_):
        """Exact between landmarks and on them."""
        Z = map_(map_.landmarks)
        K = map_.exact_kernel(map_.landmarks)
        np.testing.assert_allclose(Z @ Z.T, K, atol=1e-9 * K.max())

    def test_negative_rows(self, map_):
        X = np.ones((4, self.d))
        X[2, 3] = -1
        if isinstance(map_.kernel, SemigroupKernel):
            for kind in (np.asarray, sp.csr_array):
                with pytest.raises(InputError, match=r"row 2 of the block, column 3 is -1"):
                    map_(kind(X))
        else:
            assert np.isfinite(map_(X)).all()


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_sparse_landmarks(kernel):
    """Text-like rows: CSR rows against CSR landmarks inside."""
    X = sp.random_array((60, 300), density=0.02, rng=np.random.default_rng(1), format="csr")
    map_ = NystroemMap.of_landmarks(kernel, 1.0, X[:20].toarray())
    Z = map_(X)
    np.testing.assert_allclose(Z, map_(X.toarray()), atol=1e-9 * abs(map_.normalization).max() * abs(Z).max())
    np.testing.assert_allclose(Z[:20] @ Z[:20].T, map_.exact_kernel(X[:20].toarray()), atol=1e-9)


def test_every_registered_kernel(rng):
    X = abs(rng.normal(size=(40, 4)))
    for family in FAMILIES:
        for name in family.registry:
            est = NystroemFeatures(name, n_components=40, random_state=0).fit(X)
            Z = est.transform(X)
            np.testing.assert_allclose(Z @ Z.T, est.map_.exact_kernel(X), atol=1e-8)
            assert get_kernel(est.map_.kernel.spec()) == est.map_.kernel


@pytest.mark.parametrize(
    ("kernel", "peer"),
    [
        (Gaussian(), {"kernel": "rbf", "gamma": 0.5 / 2.25}),
        (Laplacian(), {"kernel": "laplacian", "gamma": 1 / 1.5}),
        (Polynomial(3, 0.2, 1.0), {"kernel": "poly", "degree": 3, "gamma": 0.2, "coef0": 1.0}),
    ],
    ids=repr,
)
def test_same_as_scikit_learns(kernel, peer, rng):
    """With its landmarks: equal kernels, and equal features up to a rotation."""
    X, Y = rng.normal(size=(200, 6)), rng.normal(size=(50, 6))
    theirs = Nystroem(n_components=30, random_state=0, **peer).fit(X)
    ours = NystroemMap.of_landmarks(kernel, 1.5, theirs.components_)
    A, B = theirs.transform(Y), ours(Y)
    np.testing.assert_allclose(A @ A.T, B @ B.T, atol=1e-6)
    R = np.linalg.lstsq(A, B, rcond=None)[0]
    np.testing.assert_allclose(R.T @ R, np.eye(30), atol=1e-6)


# ---- degenerate landmarks ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_landmarks(dtype, rng):
    X = rng.normal(size=(12, 4)).astype(dtype)
    once = NystroemMap.of_landmarks(Gaussian(), 2.0, X)
    thrice = NystroemMap.of_landmarks(Gaussian(), 2.0, np.concatenate([X, X, X]))
    assert thrice.n_components == once.n_components == 12
    Y = rng.normal(size=(30, 4))
    np.testing.assert_allclose(thrice(Y) @ thrice(Y).T, once(Y) @ once(Y).T, atol=1e-9)


def test_all_rows_equal():
    est = NystroemFeatures(length_scale=1.0, n_components=5).fit(np.ones((20, 3)))
    np.testing.assert_allclose(est.transform(np.ones((4, 3))), np.ones((4, 1)), rtol=1e-12)
    for rule in LANDMARKS:
        made = clone(est).set_params(landmarks=rule).fit_transform(np.ones((100, 3)))
        assert made.shape == (100, 1)


def test_rank(rng):
    X = rng.normal(size=(60, 3))
    full = NystroemFeatures(length_scale=1.0, n_components=60, random_state=0).fit(X)
    part = clone(full).set_params(rank=7).fit(X)
    assert part.transform(X).shape == (60, 7)
    np.testing.assert_array_equal(part.map_.normalization, full.map_.normalization[:, :7])
    values, vectors = np.linalg.eigh(full.map_.exact_kernel(X))
    best = (vectors[:, -7:] * values[-7:]) @ vectors[:, -7:].T
    np.testing.assert_allclose(part.transform(X) @ part.transform(X).T, best, atol=1e-9)
    assert clone(full).set_params(rank=1000).fit(X).transform(X).shape == full.transform(X).shape


def test_zero_kernel():
    with pytest.raises(InputError, match="zero between all landmarks"):
        NystroemFeatures("polynomial", coef0=0.0, gamma=1.0).fit(np.zeros((5, 2)))
    with pytest.raises(InputError, match="the kernel overflows between landmarks"):
        NystroemFeatures("exponential", gamma=1.0).fit(np.full((5, 2), 1e3))


# ---- landmarks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", LANDMARKS)
def test_landmarks(rule, rng):
    X = rng.normal(size=(900, 3)).astype(np.float32)

    def made(X, seed=7, m=40):
        return choose_landmarks(rule, X, m, seed)

    L = made(X)
    assert L.shape == (40, 3)
    assert L.dtype == np.float32
    assert len(np.unique(L, axis=0)) == 40
    for same in (da.from_array(X, chunks=(70, 3)), sp.csr_array(X)):
        np.testing.assert_array_equal(made(same), L)
    assert not np.array_equal(made(X, 8), L)
    np.testing.assert_array_equal(made(X[:30]), X[:30])
    if rule != "kmeans":
        assert (L[:, None] == X).all(axis=2).any(axis=1).all()  # rows of X


# ---- estimator --------------------------------------------------------------------------------------


def test_bad_rows(rng):
    with pytest.raises(InputError, match=r"sampled row .* column . is -"):
        NystroemFeatures("exponential_semigroup").fit(rng.normal(size=(20, 3)))
    X = np.ones((20, 2))
    X[3, 1] = np.nan
    with pytest.raises(InputError, match="sampled rows hold NaN or infinity"):
        NystroemFeatures(length_scale=1.0).fit(da.from_array(X, chunks=(5, 2)))
