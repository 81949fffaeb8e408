"""Frozen maps: the contract, the Fourier formula, its bias and its variance."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from contracts import EPS, SHIFT_INVARIANT, FourierContract, MapContract, fourier_formula

from distrf.errors import InputError, SpecMismatchError
from distrf.kernels import Cauchy, Gaussian, Laplacian, Matern
from distrf.maps import FourierMap, ScalingMap, map_from_spec
from distrf.maps.scaling import METHODS, SHIFTING
from distrf.projections import PROJECTIONS

PHASES = ("paired", "offset")


#: Kernel, projection, phase, order, and how many features fewer than are asked for.
FOURIER = [
    *((kernel, "dense", phase, None, 0) for kernel in SHIFT_INVARIANT for phase in PHASES),
    *((Gaussian(), projection, phase, None, 0) for projection in sorted(set(PROJECTIONS) - {"dense"}) for phase in PHASES),
    # An odd number: one cosine with an offset after the pairs.
    *((Gaussian(), projection, "paired", None, 1) for projection in ("dense", "circulant", "structured_orthogonal")),
    *((Gaussian(), projection, "offset", 2, 0) for projection in ("dense", "quasi")),
]  # fmt: skip


class TestFourier(FourierContract):
    @pytest.fixture(params=FOURIER, ids=lambda row: "-".join(map(str, row)))
    def make(self, request):
        kernel, projection, phase, order, fewer = request.param
        return lambda d, D: FourierMap(d, D - fewer, kernel, 1.3, projection, phase, 5, order)

    def test_pickle_is_small(self, make):
        try:
            make(100_000, 1_000_000)
        except InputError as error:  # this projection refuses so large a map, and says what to do
            refusal = str(error)
        else:
            super().test_pickle_is_small(make)
            return
        assert "use projection=" in refusal
        assert len(pickle.dumps(make(1000, 10_000))) < 1024


def test_offsets_are_drawn_once_for_all_tiles(monkeypatch):
    drawn, offsets = [], FourierMap.offsets
    monkeypatch.setattr(FourierMap, "offsets", lambda *given: drawn.append(given) or offsets(*given))
    FourierMap(8, 24, Gaussian(), 1.3, "circulant", "offset", 5)(np.zeros((2000, 8)))
    assert len(drawn) == 1


def test_an_odd_number_of_features_is_unbiased(rng):
    X = rng.normal(size=(4, 11))
    maps = (FourierMap(11, 3, Gaussian(), 4.0, "dense", "paired", seed) for seed in range(2000))
    products = np.array([Z @ Z.T for Z in (map_(X) for map_ in maps)])
    assert (
        abs(products.mean(axis=0) - Gaussian()(X, None, 4.0))
        <= 4.5 * products.std(axis=0) / np.sqrt(2000) + 1e-15
    ).all()


class TestWhitenedFourier(FourierContract):
    seeded = False

    @pytest.fixture
    def make(self):
        def make(d, D):
            A = np.random.default_rng(2).normal(size=(d, d))
            return FourierMap(d, D, Gaussian(), 1.3, "dense", "paired", seed=5, root=A @ A.T / d)

        return make

    def tolerance(self, map_, X, dtype):
        # Whitened rows are rounded once more, by norms of X and of the columns of the matrix.
        A, W = map_.root, map_.without_arrays().frequencies()
        rounded = np.linalg.norm(X, axis=1)[:, None] * (np.linalg.norm(A, axis=0).sum() * abs(W).max(axis=1))
        extra = EPS[dtype] * (X.shape[1] + 4) * np.repeat(rounded, 2, axis=1)
        return super().tolerance(map_, X, dtype) + np.sqrt(2.0 / map_.n_components) * extra

    def test_token_knows_the_matrix(self, map_):
        from dask.base import tokenize

        other = map_.with_arrays({"root": 2 * map_.root})
        assert tokenize(other) != tokenize(map_)


class TestDiagonalFourier(FourierContract):
    """Length scales of columns, and frequencies of few of them."""

    seeded = False

    @pytest.fixture(params=[None, 3], ids=["all", "order"])
    def make(self, request):
        def make(d, D):
            root, q = np.random.default_rng(2).uniform(0.5, 2.0, size=d), request.param
            weights = None if q is None else np.arange(1.0, d + 1)
            return FourierMap(d, D, Gaussian(), 1.3, "dense", "paired", 5, q, root, weights)

        return make

    def test_spec_with_a_missing_entry(self, map_):
        for name in ("order", "kernel"):
            with pytest.raises(SpecMismatchError, match=f"lacks the entry '{name}'"):
                map_from_spec({k: v for k, v in map_.spec().items() if k != name}, map_.arrays)


class TestScaling(MapContract):
    seeded = False

    @pytest.fixture(params=METHODS)
    def make(self, request):
        def make(d, D):
            rng = np.random.default_rng(d)
            learned = request.param in ("standard", "minmax", "maxabs", "robust", "robust-zeros")
            shift = np.zeros(d) if request.param == "maxabs" else rng.normal(size=d)
            scale = rng.uniform(0.5, 2.0, size=d)
            return ScalingMap(d, d, request.param, 3.7, *((shift, scale) if learned else (None, None)))

        return make

    def explicit(self, map_, X):
        if map_.method == "divide":
            return X / 3.7
        if map_.learned:
            units = (X - map_.shift) / map_.scale
            zero = np.arcsinh(map_.shift / map_.scale) if map_.method == "robust-zeros" else 0
            return np.arcsinh(units) + zero if map_.method.startswith("robust") else units
        order = 1 if map_.method == "l1-rows" else 2
        norms = np.linalg.norm(X, ord=order, axis=1)
        return X / np.where(norms == 0, 1, norms)[:, None]

    def tolerance(self, map_, X, dtype):
        # The divisor, the difference and the quotient are rounded; a row norm has d additions.
        steps = 4 if map_.learned or map_.method == "divide" else X.shape[1] + 4
        size = abs(X) + (abs(map_.shift) if map_.learned else 0)
        scale = map_.scale if map_.learned else 3.7 if map_.method == "divide" else 1.0
        values = abs(self.explicit(map_, X)) if map_.method.endswith("rows") else size / scale
        if map_.method.startswith("robust"):  # which shrinks errors; its own is a few roundings of the result
            values = values + 4 * abs(self.explicit(map_, X))
        return steps * EPS[dtype] * values

    @pytest.fixture(autouse=True)
    def _sparse(self, request, map_):
        self.sparse = map_.method not in SHIFTING

    def test_arrays_travel_apart(self, map_):
        if not map_.learned:
            pytest.skip("a scaling that learns nothing has no arrays")
        super().test_arrays_travel_apart(map_)

    def test_spec_with_a_missing_entry(self, map_):
        spec = map_.spec()
        for name in ("method", "divisor", "n_features_in"):
            with pytest.raises(SpecMismatchError, match=f"lacks the entry '{name}'"):
                map_from_spec({k: v for k, v in spec.items() if k != name}, map_.arrays)

    def test_csr_stays_csr(self, map_):
        X = sp.csr_array(self.rows(20, self.d))
        if self.sparse:
            assert sp.issparse(map_(X))
            assert map_(X).nnz == X.nnz
        else:
            with pytest.raises(InputError, match="would fill a sparse block"):
                map_(X)

    def test_a_row_of_zeros(self, map_):
        Z = map_(np.zeros((1, self.d)))
        moved = map_.learned and map_.method != "robust-zeros"
        expected = -map_.shift / map_.scale if moved else np.zeros(self.d)
        np.testing.assert_array_equal(Z[0], np.arcsinh(expected) if map_.method == "robust" else expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"phase": "both"}, "phase must be 'paired' or 'offset', got 'both'"),
        ({"n_components": 0}, r"n_components must be an integer .*, got 0"),
        ({"length_scale": 0.0}, r"length_scale must be a finite number .* got 0.0"),
        ({"projection": "sparse"}, "projection must be 'dense', .*got 'sparse'"),
        ({"projection": "orthogonal", "kernel": Laplacian()}, "isotropic.* got kernel='laplacian'; use"),
        ({"order": 4}, "order=4 .* 3 such columns"),
        ({"order": 3, "column_weights": np.array([1.0, 0.0, 2.0])}, "order=3 .* 2 such columns"),
        ({"order": 2, "projection": "circulant"}, "of projection 'dense' or 'quasi'"),
    ],
)
def test_fourier_refuses(change, message):
    good = {"n_features_in": 3, "n_components": 8, "kernel": Gaussian(), "length_scale": 1.0}
    good |= {"projection": "dense", "phase": "paired", "seed": 0}
    FourierMap(**good)
    with pytest.raises(InputError, match=message):
        FourierMap(**(good | change))
    with pytest.raises(InputError, match="order=2 is a mean of too many kernels"):
        FourierMap(**good | {"order": 2}).exact_kernel(np.ones((2, 3)))


@pytest.mark.parametrize("projection", sorted(PROJECTIONS))
@pytest.mark.parametrize("kind", ["diagonal", "matrix"])
def test_a_root_stands_before_every_projection(projection, kind, rng):
    """Features in a metric are those of rows times its root; CSR rows as dense ones."""
    root = rng.uniform(0.5, 2, 40) if kind == "diagonal" else rng.normal(size=(40, 40))
    X = rng.normal(size=(30, 40)) * (rng.random((30, 40)) < 0.04)
    plain = FourierMap(40, 128, Gaussian(), 1.3, projection, "paired", 5)
    map_ = replace(plain, root=root)
    moved = X * root if kind == "diagonal" else X @ root
    np.testing.assert_allclose(map_(X), plain(moved), atol=1e-13)
    np.testing.assert_allclose(map_(sp.csr_array(X)), plain(moved), atol=1e-13)
    np.testing.assert_allclose(map_(X), fourier_formula(map_, X), atol=1e-11)
    np.testing.assert_allclose(map_.exact_kernel(X), plain.exact_kernel(moved), atol=1e-13)


@pytest.mark.parametrize("kernel", [Gaussian(), Laplacian(), Cauchy(), Matern(1.5)], ids=repr)
def test_frequencies_of_two_columns_estimate_the_mean_of_their_kernels(kernel, rng):
    X, d, D = rng.normal(size=(6, 4)), 4, 2**16
    map_ = FourierMap(d, D, kernel, 2.0, "dense", "paired", 5, order=2)
    assert ((map_.frequencies() != 0).sum(axis=1) == 2).all()
    factor = 2.0 if kernel.heavy_tailed else np.sqrt(2.0)
    expected = np.mean(
        [kernel(factor * X[:, S], None, 2.0) for S in map(list, combinations(range(d), 2))], axis=0
    )
    Z = map_(X)
    np.testing.assert_allclose(Z @ Z.T, expected, atol=5 / np.sqrt(D / 2))


def test_columns_are_drawn_by_weight():
    """As one after the other, in proportion to the weights of those that are left."""
    weights = np.array([4.0, 2.0, 1.0, 0.0])
    map_ = FourierMap(4, 20_000, Gaussian(), 1.0, "quasi", "offset", 5, order=2, column_weights=weights)
    drawn = map_.frequencies() != 0
    p = weights / weights.sum()
    pairs = {(i, j): p[i] * p[j] / (1 - p[i]) + p[j] * p[i] / (1 - p[j]) for i, j in combinations(range(3), 2)}
    for pair, chance in pairs.items():
        assert abs(drawn[:, pair].all(axis=1).mean() - chance) < 4 * np.sqrt(chance * (1 - chance) / 20_000)
    assert not drawn[:, 3].any()


def test_the_checksum_of_few_columns_of_many_tells_seeds():
    """The first 64 columns of a frequency are zeros then, of every seed."""
    map_ = FourierMap(784, 512, Gaussian(), 1.0, "quasi", "paired", 5, order=2)
    assert len({replace(map_, seed=seed).checksum() for seed in range(20)}) == 20


@pytest.mark.parametrize("d", [1, 3, 40])
def test_a_frequency_is_the_same_in_every_map(d):
    """Feature k depends on the seed and on k, not on how many features there are."""
    few, many = (FourierMap(d, D, Gaussian(), 1.0, "dense", "offset", 3) for D in (300, 3000))
    np.testing.assert_array_equal(few.frequencies(), many.frequencies(0, 300))
    np.testing.assert_array_equal(few.offsets(), many.offsets(0, 300))
    np.testing.assert_array_equal(many.frequencies(255, 300), few.frequencies()[255:])


def test_heavy_tails_in_float32():
    """Cauchy weights make phases of 10^5 turns: their fractions survive float32 rows."""
    X = np.random.default_rng(0).normal(size=(50, 30)).astype(np.float32)
    map_ = FourierMap(30, 2000, Laplacian(), 0.01, "dense", "offset", 1)
    assert abs(X @ map_.frequencies().T).max() > 2 * np.pi * 1e5
    np.testing.assert_allclose(map_(X), fourier_formula(map_, X.astype(np.float64)), atol=2e-8 + 2e-7 / 30)


def moments(kernel, v, phase):
    """Variance and fourth central moment of one frequency's term of the estimate of k(v).

    Paired: cos w.v. Offset: cos w.v + cos u with u uniform and independent of w.
    """
    k, k2, k3, k4 = (kernel(j * v[None], np.zeros((1, len(v))))[0, 0] for j in (1, 2, 3, 4))
    variance = (1 + k2) / 2 - k**2
    second, third, fourth = (1 + k2) / 2, (3 * k + k3) / 4, (3 + 4 * k2 + k4) / 8  # E cos^j w.v
    central = fourth - 4 * k * third + 6 * k**2 * second - 3 * k**4
    if phase == "offset":
        return variance + 0.5, central + 3 * variance + 3 / 8
    return variance, central


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("kernel", SHIFT_INVARIANT, ids=repr)
@pytest.mark.parametrize("v", [[0.3, -0.2, 0.1], [1.5, 0.4, -0.9]], ids=["near", "far"])
def test_bias_and_variance(kernel, phase, v):
    """Over seeds the estimate z(x).z(y) has mean k(x - y) and, with m frequencies, the variance
    paired: (1 + k(2v) - 2 k(v)^2) / 2m; offset: (2 + k(2v) - 2 k(v)^2) / 2m."""
    seeds, m, length_scale = 500, 8, 1.7
    x = np.array([0.4, 1.1, -0.5])
    X = np.stack([x, x - length_scale * np.array(v)])
    D = 2 * m if phase == "paired" else m
    Z = [FourierMap(3, D, kernel, length_scale, "dense", phase, seed)(X) for seed in range(seeds)]
    estimates = np.array([z[0] @ z[1] for z in Z])

    k = kernel(X[:1], X[1:], length_scale)[0, 0]
    one, fourth = moments(kernel, np.array(v), phase)
    variance = one / m
    k2 = kernel(2 * np.array([v]), np.zeros((1, 3)))[0, 0]
    assert variance == pytest.approx(((1 if phase == "paired" else 2) + k2 - 2 * k**2) / (2 * m))
    assert abs(estimates.mean() - k) < 4.5 * np.sqrt(variance / seeds)

    fourth_of_mean = (fourth + 3 * (m - 1) * one**2) / m**3
    spread = np.sqrt((fourth_of_mean - variance**2 * (seeds - 3) / (seeds - 1)) / seeds)
    assert abs(((estimates - k) ** 2).mean() - variance) < 4.5 * spread
    assert spread < 0.25 * variance
