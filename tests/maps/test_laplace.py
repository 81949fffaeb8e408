"""Random Laplace features: the maps, the paper's theorems, numbers of every size, the estimator."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from contracts import EPS, MapContract

from distrf import RandomLaplaceFeatures
from distrf.errors import InputError
from distrf.kernels import (
    ExponentialSemigroup,
    ReciprocalSemigroup,
    SemigroupKernel,
    get_kernel,
)
from distrf.maps import LaplaceMap
from distrf.maps.laplace import LAPLACE_PROJECTIONS
from distrf.randomness import variates

KERNELS = [ExponentialSemigroup(0.6), ReciprocalSemigroup(0.8)]
MIXED = {"circulant": 1, "alternating_circulant": 2, "alternating_circulant-log2": 3}  # at d = 8


# ---- kernels and laws -------------------------------------------------------------------------------


def test_exact_kernels():
    X, Y = np.random.default_rng(0).gamma(0.5, size=(2, 5, 7))
    Z = X[:, None] + Y
    np.testing.assert_allclose(
        ExponentialSemigroup(0.3)(X, Y), np.exp(-0.3 * np.sqrt(Z).sum(axis=2)), rtol=1e-14
    )
    np.testing.assert_allclose(ReciprocalSemigroup(2.0)(X, Y), (2 / (Z + 2)).prod(axis=2), rtol=1e-13)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("s", [0.01, 1.0, 7.0])
def test_weight_law(kernel, s):
    """E exp(-w s) = k_1(s), with the variance k_1(2 s) - k_1(s)^2 (Theorem 1)."""
    n = 200_000
    w = kernel.weight_scale * variates(3, "test", 0, n, kernel.law)
    assert (w > 0).all()
    k, k2 = kernel.of_sum(np.array([[s], [2 * s]]))
    assert abs(np.exp(-w * s).mean() - k) < 4.5 * np.sqrt((k2 - k**2) / n)


@pytest.mark.parametrize("kernel", [ExponentialSemigroup(), ReciprocalSemigroup()], ids=repr)
def test_median_rule(kernel):
    for scale in (1e-8, 1.0, 1e6):
        Z = scale * np.random.default_rng(1).gamma(0.2, size=(301, 20))
        made = kernel.with_median(Z)
        assert np.median(made.of_sum(Z)) == pytest.approx(np.exp(-1), rel=1e-6)


def test_kernel_registry():
    for kernel in KERNELS:
        assert get_kernel(kernel.spec()) == kernel
    with pytest.raises(InputError, match="unknown semigroup kernel 'gaussian'; known: exponential_semigroup"):
        get_kernel("gaussian", SemigroupKernel)
    with pytest.raises(InputError, match=r"does not take the parameters \['lam'\]; it takes beta"):
        get_kernel({"name": "exponential_semigroup", "lam": 1.0})
    for bad in (0.0, -1.0, np.nan, np.inf, 1e80):
        with pytest.raises(InputError, match="beta must be a finite number > 1e-75 and < 1e\\+75"):
            ExponentialSemigroup(bad)


def test_negative_entries_of_a_kernel():
    with pytest.raises(InputError, match=r"row 1 of Y, column 2 is -1\.0 \(1 such"):
        ExponentialSemigroup()(np.ones((2, 3)), np.array([[0, 0, 0], [0, 0, -1.0]]))


# ---- the map ----------------------------------------------------------------------------------------


class TestLaplace(MapContract):
    @pytest.fixture(params=KERNELS, ids=repr)
    def make(self, request, projection):
        return lambda d, D: LaplaceMap(d, D, request.param, projection, seed=5)

    @pytest.fixture(params=LAPLACE_PROJECTIONS)
    def projection(self, request):
        return request.param

    def rows(self, n, d):
        return abs(super().rows(n, d))

    def explicit(self, map_, X):
        return np.exp(-(X @ map_.weights().T)) / np.sqrt(map_.n_components)

    def tolerance(self, map_, X, dtype):
        # Phases p are sums of d nonnegative terms: relative error (d + 4) eps, and p e^-p < 0.37; an FFT may
        # add 1e-8. The cast to float32 is the last step.
        fft = 1e-8 * (map_.projection in MIXED)
        phase = 0.37 * (X.shape[1] + 4) * 2 * EPS[np.dtype(np.float64)] + fft
        return np.full((len(X), map_.n_components), (phase + EPS[dtype]) / np.sqrt(map_.n_components))

    def test_pickle_is_small(self, make, projection):
        if projection == "quasi":
            pytest.skip("refuses 100,000 columns")
        super().test_pickle_is_small(make)

    @pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "csr"])
    def test_negative(self, map_, kind):
        X = np.ones((20, self.d))
        X[3, 5], X[13, 7], X[15, 0] = 0, -0.25, -1e-300
        for call in (map_, lambda X: map_.columns(X, 0, 2)):
            with pytest.raises(InputError, match=r"row 13 of the block, column 7 is -0\.25 \(2 such"):
                call(kind(X))

    def test_zeros_and_minus_zero(self, map_):
        Z = map_(np.array([[0.0] * self.d, [-0.0] * self.d]))
        np.testing.assert_array_equal(Z, np.full(Z.shape, 1 / np.sqrt(self.D)))


def test_refuses():
    with pytest.raises(InputError, match=r"n_components must be an integer .*, got 0"):
        LaplaceMap(3, 0, ExponentialSemigroup(), "dense", 0)
    with pytest.raises(InputError, match=r"kernel must be a .*SemigroupKernel, got 'gaussian'"):
        LaplaceMap(3, 8, "gaussian", "dense", 0)


# ---- numbers of every size -------------------------------------------------------------


def cases(d):
    rng = np.random.default_rng(d)
    histogram = rng.gamma(0.3, size=(4, d))
    histogram /= histogram.sum(axis=1, keepdims=True)
    sparse = histogram * (rng.random((4, d)) < 0.1)
    one_hot = np.zeros((6, d))
    one_hot[np.arange(6), rng.integers(0, d, 6)] = 10.0 ** np.arange(-3, 15, 3)
    one_large = histogram[[0] * 6].copy()
    one_large[:, 7] = 10.0 ** np.arange(0, 18, 3)
    return {
        "histograms": histogram,
        "sparse histograms": sparse / np.maximum(sparse.sum(axis=1, keepdims=True), 1e-30),
        "one-hot": one_hot,
        "very small": 1e-12 * histogram,
        "subnormal": 1e-310 * histogram,
        "very large": 1e6 * histogram,
        "one large entry": one_large,
        "all decades": 10.0 ** rng.uniform(-12, 6, (4, d)),
        "counts": rng.poisson(0.2, (4, d)).astype(float),
        "zeros": np.zeros((2, d)),
    }


@pytest.mark.parametrize("d", [11, 300, 1024])
@pytest.mark.parametrize(
    "kernel",
    [
        ExponentialSemigroup(1.0),
        ExponentialSemigroup(0.05),
        ExponentialSemigroup(0.002),
        ReciprocalSemigroup(0.1),
    ],
    ids=repr,
)
@pytest.mark.parametrize("projection", ["circulant", "alternating_circulant", "alternating_circulant-log2"])
def test_all_sizes_agree_with_the_dense_product(d, kernel, projection):
    """To 1e-7 of the feature's scale, 1 / sqrt(D), for entries of every size; the random error is 1e-2."""
    D = 2 * d + 3 if d < 1000 else d
    map_ = LaplaceMap(d, D, kernel, projection, seed=d)
    W = map_.weights()
    for name, X in cases(d).items():
        exact = np.exp(-(X @ W.T))
        for rows in (X, sp.csr_array(X)):
            wrong = abs(np.sqrt(D) * map_(rows) - exact).max()
            assert wrong < 1e-7, name
        if "histograms" in name:  # float32 rows are exact numbers like others; the cast of Z comes last
            single = X.astype(np.float32)
            Z = map_(single.astype(np.float64))
            np.testing.assert_array_equal(map_(single), Z.astype(np.float32))


@pytest.mark.parametrize("projection", list(MIXED))
def test_rows_that_leave_float64_are_refused(projection):
    X = np.ones((40, 11))
    X[35, 1] = 1e300
    map_ = LaplaceMap(11, 30, ExponentialSemigroup(1.0), projection, seed=0)
    if np.isfinite(X @ map_.weights().T).all():
        X[35, 1] = 1e308
    with pytest.raises(InputError, match=r"row 35 of the block is too large for circulant products"):
        map_(X)


# ---- the theorems -----------------------------------------------------------------------------------

SUMS = {"far": [0.3, 1.1, 0.2, 0.7, 0.1, 0.4, 2.0, 0.6], "constant": [0.5] * 8, "one": [1.5] + [0.0] * 7}


def second_moment(kernel, z, m, delta):
    """E[exp(-(W z)_k) exp(-(W z)_{k + delta})] of one block, masks drawn too: Theorem 3 for any distance.

    Index i of the vectors meets columns j and j + delta, so that E is a trace over each cycle of j -> j + delta:
    [prod (a_j + (m - 1) b_j) + (m - 1) prod (a_j - b_j)] / m^length, a_j = k_1(z_j + z_{j + delta}), and
    b_j = k_1(z_j) k_1(z_{j + delta}).
    """
    L = len(z)
    a = kernel.of_sum((z + np.roll(z, -delta))[:, None])
    b = kernel.of_sum(z[:, None]) * kernel.of_sum(np.roll(z, -delta)[:, None])
    total, cycles = 1.0, np.gcd(delta, L) if delta else L
    for start in range(cycles):
        on = np.arange(start, start + L * max(delta, 1), max(delta, 1))[: L // cycles] % L if delta else [start]
        if not delta:
            total *= kernel.of_sum(np.array([2 * z[start]]))
            continue
        total *= (np.prod(a[on] + (m - 1) * b[on]) + (m - 1) * np.prod(a[on] - b[on])) / m ** len(on)
    return float(total)


def block_variance(kernel, z, m):
    """Variance of the mean of exp(-(W z)_k) over one block of L rows."""
    L, k = len(z), float(kernel.of_sum(z))
    return sum(second_moment(kernel, z, m, delta) - k**2 for delta in range(L)) / L


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("z", SUMS.values(), ids=SUMS.keys())
@pytest.mark.parametrize("projection", list(MIXED))
def test_moments_of_a_block(kernel, z, projection):
    """Means, products (Theorems 2 and 3) and variance over seeds, each within 4.5 standard errors."""
    z, seeds = np.array([*z, *[0.0] * 8]), 2000  # rows are padded to blocks of 16
    maps = (LaplaceMap(8, 16, kernel, projection, seed) for seed in range(seeds))
    F = np.exp(-np.stack([map_.weights() @ z[:8] for map_ in maps]))  # (seeds, 16)
    k = float(kernel.of_sum(z))

    def agrees(values, expected):
        assert abs(values.mean() - expected) < 4.5 * values.std() / np.sqrt(seeds) + 1e-12

    agrees(F[:, 0], k)
    agrees(F.mean(axis=1), k)
    for delta in range(16):
        agrees(
            (F * np.roll(F, -delta, axis=1)).mean(axis=1), second_moment(kernel, z, MIXED[projection], delta)
        )
    agrees((F.mean(axis=1) - k) ** 2, block_variance(kernel, z, MIXED[projection]))


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("projection", ["dense", "quasi"])
def test_theorem_1(kernel, projection):
    """z(x).z(y) has mean k(x, y) and, for independent rows, the variance (k(2z) - k(z)^2) / D."""
    X = np.array([[0.1, 0.9, 0.0, 0.3], [0.2, 0.2, 0.2, 0.4]])
    seeds, D = 700, 8
    Z = [LaplaceMap(4, D, kernel, projection, seed)(X) for seed in range(seeds)]
    estimates = np.array([a @ b for a, b in Z])
    z = X.sum(axis=0)
    k = kernel(X[:1], X[1:])[0, 0]
    variance = (kernel.of_sum(2 * z) - k**2) / D
    assert abs(estimates.mean() - k) < 4.5 * estimates.std() / np.sqrt(seeds)
    squares = (estimates - k) ** 2
    if projection == "dense":
        assert abs(squares.mean() - variance) < 4.5 * squares.std() / np.sqrt(seeds)
    else:  # evenly spread points: less than independent ones
        assert squares.mean() < variance


# ---- the estimator ----------------------------------------------------------------------------------


def histograms(n, d, dtype=np.float64):
    X = np.random.default_rng([n, d]).gamma(0.4, size=(n, d))
    return (X / X.sum(axis=1, keepdims=True)).astype(dtype)


def test_defaults_are_explained_by_the_rows():
    X = histograms(400, 25)
    for name in ("exponential_semigroup", "reciprocal_semigroup"):
        est = RandomLaplaceFeatures(name, n_components=8, random_state=0).fit(X)
        rng = np.random.default_rng(0)
        pairs = est.kernel_.of_sum(X[rng.permutation(400)] + X[rng.permutation(400)])
        assert np.median(pairs) == pytest.approx(np.exp(-1), rel=0.03)
    assert RandomLaplaceFeatures(beta=0.25, n_components=8).fit(X).kernel_ == ExponentialSemigroup(0.25)
    kernel = ReciprocalSemigroup(3.0)
    assert RandomLaplaceFeatures(kernel, n_components=8).fit(X).kernel_ is kernel


def test_negative_rows():
    X = histograms(40, 6)
    X[17, 2] = -0.5
    with pytest.raises(InputError, match=r"Negative values in data: .*row 17, column 2 is -0\.5"):
        RandomLaplaceFeatures().fit(X)
    with pytest.raises(InputError, match=r"row 17, column 2 is -0\.5"):
        RandomLaplaceFeatures().fit(sp.csr_array(X))
    dX = da.from_array(X, chunks=(10, 6))
    with pytest.raises(InputError, match=r"sampled row 17, column 2"):
        RandomLaplaceFeatures(random_state=0).fit(dX)
    lazy = RandomLaplaceFeatures(beta=0.1, random_state=0).fit(dX).transform(dX)
    with pytest.raises(InputError, match=r"row 7 of the block, column 2 is -0\.5"):
        lazy.compute(scheduler="sync")
