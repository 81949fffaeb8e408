"""Polynomial and dot-product kernels: their maps by the explicit formulas, bias, variance, estimators."""

from __future__ import annotations

import itertools
import math
import pickle

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from contracts import EPS, MapContract
from hypothesis import given
from hypothesis import strategies as st
from reductions import count_calls
from sklearn.base import clone
from sklearn.kernel_approximation import PolynomialCountSketch
from sklearn.metrics.pairwise import polynomial_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks
from strategies import chunk_bytes, chunked, dtypes

from distrf import (
    RandomMaclaurinFeatures,
    TensorSketchFeatures,
    load_model,
    save_model,
)
from distrf.cli.steps import Steps
from distrf.errors import InputError
from distrf.kernels import DOT_PRODUCTS, DotProductKernel, Exponential, Homogeneous, Polynomial, get_kernel
from distrf.maps import MaclaurinMap, TensorSketchMap

KERNELS = [
    Polynomial(1),
    Polynomial(2, 0.3, 0.7),
    Polynomial(3, 0.2, 0.0),
    Homogeneous(2, 0.5),
    Exponential(0.2),
]


# ---- kernels ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_series_is_the_kernel(kernel):
    t = np.linspace(-2, 2, 9)
    series = sum(kernel.coefficient(n) * t**n for n in range(40))
    np.testing.assert_allclose(series, kernel.of_products(t), rtol=1e-13, atol=1e-14)
    assert all(kernel.coefficient(n) >= 0 for n in range(40))
    assert get_kernel(kernel.spec()) == kernel


def test_polynomial_is_scikit_learns(rng):
    X, Y = rng.normal(size=(7, 4)), rng.normal(size=(5, 4))
    np.testing.assert_allclose(
        Polynomial(3, 0.4, 1.5)(X, Y), polynomial_kernel(X, Y, degree=3, gamma=0.4, coef0=1.5), rtol=1e-12
    )


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("sigmoid", {}, "unknown dot-product kernel 'sigmoid'; known: exponential, homogeneous, polynomial"),
        ("polynomial", {"degree": 0}, "degree must be an integer >= 1, got 0"),
        ("polynomial", {"degree": 2.5}, "an integer >= 1, got 2.5"),
        ("polynomial", {"coef0": -1}, "coef0 must be a finite number >= 0, got -1"),
        ("exponential", {"gamma": 0}, "gamma must be a finite number > 0, got 0"),
        ("homogeneous", {"gamma": math.nan}, "> 0, got nan"),
        ("exponential", {"degree": 2}, r"does not take the parameters \['degree'\]"),
    ],
)
def test_bad_kernels(name, parameters, message):
    with pytest.raises(InputError, match=message):
        get_kernel(name, DotProductKernel, **parameters)


# ---- TensorSketch -----------------------------------------------------------------------------------


def lifted(kernel, X):
    """(sqrt(gamma) x, sqrt(coef0)), whose dot product is gamma x.y + coef0."""
    return np.column_stack([np.sqrt(kernel.gamma) * X, np.full(len(X), np.sqrt(kernel.coef0))])


class TestTensorSketch(MapContract):
    @pytest.fixture(params=[Polynomial(1), Polynomial(2, 0.3, 0.7), Polynomial(3, 0.2, 0.0)], ids=repr)
    def make(self, request):
        return lambda d, D: TensorSketchMap(d, D, request.param, seed=5)

    def explicit(self, map_, X):
        """The count sketch of the tensor power, one index tuple after the other."""
        places, signs = map_.hashes()
        T, Z = lifted(map_.kernel, X), np.zeros((len(X), map_.n_components))
        for index in itertools.product(range(T.shape[1]), repeat=map_.kernel.degree):
            modes = range(len(index)), index
            Z[:, places[modes].sum() % map_.n_components] += signs[modes].prod() * T[:, index].prod(axis=1)
        return Z

    def tolerance(self, map_, X, dtype):
        # Spectra and convolutions of sketches are bounded by the 1-norm of the lifted row.
        p, D, d = map_.kernel.degree, map_.n_components, X.shape[1]
        size = abs(lifted(map_.kernel, X)).sum(axis=1)[:, None] ** p
        return np.broadcast_to(2 * EPS[dtype] * p * (d + 8 + 4 * np.log2(D)) * size, (len(X), D))

    def test_odd_sizes(self, make):
        for D in (1, 2, 7, 97):
            map_ = make(self.d, D)
            X = self.rows(5, self.d)
            assert (abs(map_(X) - self.explicit(map_, X)) <= self.tolerance(map_, X, X.dtype)).all()


def estimates(make, X, Y, seeds):
    """z(x).z(y) for each seed and pair, shape (seeds, n)."""
    maps = (make(seed) for seed in range(seeds))
    return np.array([np.einsum("ij,ij->i", m(X), m(Y)) for m in maps])


def assert_moments(E, mean, variance):
    """Mean and variance of the estimates within 5 standard errors, computed from the sample."""
    n = len(E)
    assert (abs(E.mean(axis=0) - mean) <= 5 * np.sqrt(variance / n) + 1e-12 * abs(mean)).all()
    squares = (E - mean) ** 2
    assert (abs(squares.mean(axis=0) - variance) <= 5 * squares.std(axis=0) / np.sqrt(n) + 1e-12).all()


PAIRS = np.random.default_rng(8).normal(size=(2, 4, 3))
PAIRS[1, 0] = PAIRS[0, 0]  # x = y
PAIRS[1, 1] = -PAIRS[0, 1]
PAIRS[:, 2] = [[1, 0, 0], [0, 1, 0]]  # orthogonal


@pytest.mark.parametrize("D", [1, 5, 8])
@pytest.mark.parametrize("kernel", [Polynomial(1), Polynomial(2, 0.5, 0.0), Polynomial(3, 0.3, 0.5)], ids=repr)
def test_tensor_sketch_moments(kernel, D):
    X, Y = PAIRS
    E = estimates(lambda seed: TensorSketchMap(3, D, kernel, seed), X, Y, 500)
    assert_moments(E, np.diag(kernel(X, Y)), TensorSketchMap(3, D, kernel, 0).variance(X, Y))


def test_scikit_learns_sketch_has_the_same_law():
    X, Y = PAIRS
    kernel = Polynomial(2, 0.5, 1.0)

    def make(seed):
        peer = PolynomialCountSketch(degree=2, gamma=0.5, coef0=1, n_components=8, random_state=seed)
        return peer.fit(X).transform

    assert_moments(
        estimates(make, X, Y, 700), np.diag(kernel(X, Y)), TensorSketchMap(3, 8, kernel, 0).variance(X, Y)
    )


def test_tensor_sketch_is_for_polynomials():
    with pytest.raises(InputError, match="TensorSketch is for the polynomial kernel, got Exponential"):
        TensorSketchMap(3, 8, Exponential(), 0)


def test_hashes_cover_their_range():
    places, signs = TensorSketchMap(50_000, 100, Polynomial(2), 1).hashes()
    counts = np.bincount(places[0], minlength=100)
    assert places.max() < 100
    assert abs(counts - 500).max() < 6 * np.sqrt(500)
    assert abs(signs.mean()) < 5 / np.sqrt(signs.size)
    assert abs(np.corrcoef(places[0], places[1])[0, 1]) < 5 / np.sqrt(50_000)
    assert abs(np.corrcoef(places[0], signs[0])[0, 1]) < 5 / np.sqrt(50_000)


# ---- random Maclaurin features ----------------------------------------------------------------------


class TestMaclaurin(MapContract):
    @pytest.fixture(params=[-1, 0, 1])
    def exact(self, request):
        return request.param

    @pytest.fixture(params=[Polynomial(3, 0.2, 0.7), Homogeneous(2, 0.5), Exponential(0.1)], ids=repr)
    def make(self, request, exact):
        return lambda d, D: MaclaurinMap(d, D, request.param, 2.0, exact, seed=5)

    def parts(self, map_, X):
        """Features, and the size of the terms each is made of."""
        kernel, m = map_.kernel, map_.n_components - map_.n_exact
        columns, sizes = [], []
        if map_.n_constant:
            columns.append(np.full(len(X), np.sqrt(kernel.coefficient(0))))
            sizes.append(columns[-1])
        if map_.n_exact > map_.n_constant:
            columns += list(np.sqrt(kernel.coefficient(1)) * X.T)
            sizes += list(abs(np.sqrt(kernel.coefficient(1)) * X.T))
        W, at = map_.sign_vectors(0, m).astype(float), 0
        probability = dict(zip(map_.degrees.tolist(), map_.probabilities, strict=True))
        for n in map_.drawn_degrees(0, m):
            factor = np.sqrt(kernel.coefficient(int(n)) / (m * probability[n]))
            columns.append(factor * (X @ W[at : at + n].T).prod(axis=1))
            sizes.append(factor * abs(X).sum(axis=1) ** n * (n + 1))
            at += n
        assert at == len(W)
        return np.array(columns).T, np.array(sizes).T

    def explicit(self, map_, X):
        return self.parts(map_, X)[0]

    def tolerance(self, map_, X, dtype):
        return 2 * EPS[dtype] * (X.shape[1] + 6) * self.parts(map_, X)[1] + 1e-300

    def test_parts_of_blocks(self, make):
        map_ = make(self.d, 700)
        whole = map_.sign_vectors(0, 600)
        drawn = map_.drawn_degrees(0, 600)
        for a, b in [(0, 1), (100, 300), (255, 257), (511, 600)]:
            np.testing.assert_array_equal(map_.drawn_degrees(a, b), drawn[a:b])
            np.testing.assert_array_equal(map_.sign_vectors(a, b), whole[drawn[:a].sum() : drawn[:b].sum()])


@pytest.mark.parametrize("exact", [-1, 0, 1])
@pytest.mark.parametrize(
    "kernel", [Polynomial(1), Polynomial(2, 0.5, 0.4), Homogeneous(3, 0.4), Exponential(0.3)], ids=repr
)
def test_maclaurin_moments(kernel, exact):
    X, Y = PAIRS / 2
    E = estimates(lambda seed: MaclaurinMap(3, 8, kernel, 2.0, exact, seed), X, Y, 500)
    assert_moments(E, np.diag(kernel(X, Y)), MaclaurinMap(3, 8, kernel, 2.0, exact, 0).variance(X, Y))


@pytest.mark.parametrize("base", [1.2, 2.0, 5.0])
def test_law_of_degrees(base):
    map_ = MaclaurinMap(3, 20_001, Exponential(), base, -1, 3)
    p = map_.probabilities
    np.testing.assert_allclose(p[:5], (base - 1) / base ** np.arange(1, 6), rtol=1e-12)
    assert p.sum() == pytest.approx(1)
    counts = np.bincount(map_.drawn_degrees(0, 20_000), minlength=len(p))
    assert (abs(counts - 20_000 * p) <= 5 * np.sqrt(20_000 * p) + 3).all()


def test_exact_columns_alone(rng):
    X = rng.normal(size=(6, 3))
    kernel = Polynomial(1, 0.5, 2.0)
    map_ = MaclaurinMap(3, 6, kernel, 2.0, 1, 0)
    np.testing.assert_allclose(map_(X) @ map_(X).T, kernel(X), rtol=1e-13)
    assert not map_(X)[:, 4:].any()


def test_exact_constant_helps():
    X, Y = PAIRS / 2
    few, more, most = (MaclaurinMap(3, 64, Exponential(0.3), 2.0, e, 0).variance(X, Y) for e in (-1, 0, 1))
    assert (more < few).all()
    assert (most <= more + 1e-12).all()


def test_bad_maclaurin():
    with pytest.raises(InputError, match=r"base must be a finite number above 1, got 1.0"):
        MaclaurinMap(3, 8, Polynomial(2), 1.0, 0, 0)
    with pytest.raises(InputError, match="exact is -1, 0 or 1"):
        MaclaurinMap(3, 8, Polynomial(2), 2.0, 2, 0)
    with pytest.raises(InputError, match=r"exact=1 takes 4 columns .* n_components=4"):
        MaclaurinMap(3, 4, Polynomial(2), 2.0, 1, 0)


# ---- estimators -------------------------------------------------------------------------------------

ESTIMATORS = [
    TensorSketchFeatures(n_components=16, random_state=0),
    TensorSketchFeatures(3, gamma=0.1, coef0=0.0, n_components=15),
    RandomMaclaurinFeatures(n_components=16, exact=-1, random_state=0),
    RandomMaclaurinFeatures("exponential", n_components=16, exact=-1, n_jobs=1),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def rows(n, d, dtype=np.float64):
    X = np.random.default_rng([n, d]).normal(size=(n, d))
    return (X * (abs(X) > 0.4)).astype(dtype)


@given(shape=chunked(), est=st.sampled_from(ESTIMATORS), dtype=dtypes, chunk_bytes=chunk_bytes)
def test_dask_is_numpy(shape, est, dtype, chunk_bytes):
    chunks, d = shape
    X = rows(sum(chunks), d, dtype)
    X[0] = 1.0  # no rule lacks a row that is not zero
    est = clone(est).set_params(random_state=3)
    Z = est.fit_transform(X)
    dX = da.from_array(X, chunks=shape)
    with dask.config.set({"array.chunk-size": f"{chunk_bytes}B", "scheduler": "sync"}):
        lazy = clone(est).fit(dX).transform(dX)
        made = lazy.compute()
    assert lazy.dtype == made.dtype == Z.dtype == dtype
    # Rows in tiles of other sizes round apart: 100 roundings of the largest feature of the row.
    np.testing.assert_allclose(made, Z, rtol=0, atol=100 * EPS[np.dtype(dtype)] * (1 + abs(Z).max()) * d)
    np.testing.assert_allclose(
        est.transform(sp.csr_array(X)), Z, rtol=0, atol=100 * EPS[np.dtype(dtype)] * (1 + abs(Z).max()) * d
    )


@pytest.mark.parametrize("est", ESTIMATORS, ids=repr)
def test_estimator(est, tmp_path):
    X = rows(3000, 6)
    est = clone(est).set_params(random_state=1).fit(X)
    Z = est.transform(X)
    assert len(pickle.dumps(est.map_)) < 1024
    save_model(est, tmp_path / "model")
    again = load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.transform(X), Z)
    assert repr(again) == repr(est)
    folder = tmp_path / "reads"
    folder.mkdir()
    dX = da.from_array(X, chunks=(100, 6)).map_blocks(
        count_calls, str(folder), dtype=X.dtype, meta=np.empty((0, 0))
    )
    lazy = clone(est).fit(dX).transform(dX)
    before = len(list(folder.iterdir()))
    assert before <= 30  # the sampled rows of a rule, at most
    lazy[:100].compute(scheduler="sync")
    assert len(list(folder.iterdir())) == before + 1


def test_gamma_rule(rng):
    X = rng.normal(size=(500, 3)) * 7
    gamma = TensorSketchFeatures(n_components=8).fit(X).gamma_
    assert gamma == pytest.approx(1 / (X**2).sum(axis=1).mean())
    assert RandomMaclaurinFeatures(n_components=8).fit(X).map_.kernel.gamma == pytest.approx(gamma)
    kernel = Exponential(0.5)
    assert RandomMaclaurinFeatures(kernel, n_components=8).fit(X).map_.kernel == kernel
    for bad, message in (("scale", "or 'norm'"), (0, "finite number > 0"), (None, "got None")):
        with pytest.raises(InputError, match=message):
            TensorSketchFeatures(gamma=bad).fit(X)
    with pytest.raises(InputError, match="needs a row that is not all zeros"):
        TensorSketchFeatures().fit(np.zeros((5, 2)))


@pytest.mark.parametrize("name", DOT_PRODUCTS)
def test_kernels_by_name(name, rng):
    X = rng.normal(size=(20, 3))
    map_ = RandomMaclaurinFeatures(name, gamma=0.2, n_components=8).fit(X).map_
    assert map_.kernel.name == name
    assert map_.kernel.gamma == 0.2


@pytest.mark.parametrize("bad", [0, -1, 2.0, "8", True, None])
def test_bad_components(bad):
    for est in (TensorSketchFeatures, RandomMaclaurinFeatures):
        with pytest.raises(InputError, match="n_components must be an integer >= 1"):
            est(n_components=bad).fit(np.ones((3, 2)))


# ---- command line -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("tensor-sketch", {"degree": "3", "coef0": "0.5"}),
        ("maclaurin", {"kernel": "exponential", "gamma": "0.2"}),
        ("tefm", {"base": "fourier", "base__n_components": "32"}),
        ("tefm", {"base": "maclaurin"}),
        ("nystroem", {"kernel": "polynomial", "landmarks": "kmeans"}),
        ("nystroem", {"kernel": "matern", "nu": "2.5"}),
        ("blockwise", {"transformer": "AdditiveChi2Sampler"}),
        ("blockwise", {"transformer": "PCA"}),
    ],
)
def test_maps_of_the_command_line(name, options, rng):
    """What is planned before anything is read has the width and the work of what is fitted."""
    X = abs(rng.normal(size=(60, 5)))
    size = {} if name == "blockwise" else {"n_components": "16"}
    given = {f"map__{option}": text for option, text in options.items()}
    estimator = Steps({"map": name, "random_state": "3", "set": given} | size).made_map()
    planned, fitted = estimator.planned_map(5), estimator.fit(X).map_
    assert type(planned) is type(fitted)
    assert planned.n_components == fitted.n_components
    assert planned.work()[0] == pytest.approx(fitted.work()[0])


@pytest.mark.parametrize(
    ("kernel", "degree"), [("exponential", 2), ("polynomial", 50), ("homogeneous", 50), ("polynomial", 2000)]
)
def test_coefficients_beyond_float64_are_refused(kernel, degree):
    est = RandomMaclaurinFeatures(kernel, degree=degree, gamma=1e8, n_components=16, random_state=0)
    with pytest.raises(
        InputError, match=r"coefficient of \(x.y\)\^\d+ of .* beyond float64; choose a smaller gamma"
    ):
        est.fit(np.ones((4, 3)))


@pytest.mark.parametrize(
    "est",
    [
        TensorSketchFeatures(50, gamma=1e8, n_components=16, random_state=0),
        RandomMaclaurinFeatures("homogeneous", degree=4, gamma=1e25, n_components=64, random_state=0),
    ],
)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, lambda X: da.from_array(X, chunks=(10, 3))])
def test_features_beyond_their_dtype_are_refused(est, kind):
    X = rows(20, 3).astype(np.float32)
    with pytest.raises(InputError, match="features overflow float32"):
        np.asarray(clone(est).fit(kind(X)).transform(kind(X)))
    with pytest.raises(InputError, match="features overflow float32"):
        clone(est).fit(X).map_.columns(X, 0, 16)
    assert np.isfinite(clone(est).fit(X.astype(float)).transform(X.astype(float))).all()
