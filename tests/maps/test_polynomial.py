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
    NystroemFeatures,
    TensorSketchFeatures,
    load_model,
    save_model,
)
from distrf.errors import InputError
from distrf.kernels import DotProductKernel, Exponential, Polynomial, get_kernel
from distrf.maps import TensorSketchMap
from distrf.pipeline.options import Options, unfitted_map

KERNELS = [
    Polynomial(1),
    Polynomial(2, 0.3, 0.7),
    Polynomial(3, 0.2, 0.0),
    Exponential(0.2),
]


# ---- kernels ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_spec_is_the_kernel(kernel):
    assert get_kernel(kernel.spec()) == kernel


def test_polynomial_is_scikit_learns(rng):
    X, Y = rng.normal(size=(7, 4)), rng.normal(size=(5, 4))
    np.testing.assert_allclose(
        Polynomial(3, 0.4, 1.5)(X, Y), polynomial_kernel(X, Y, degree=3, gamma=0.4, coef0=1.5), rtol=1e-12
    )


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("sigmoid", {}, "unknown dot-product kernel 'sigmoid'; known: exponential, polynomial"),
        ("polynomial", {"degree": 0}, "degree must be an integer >= 1, got 0"),
        ("polynomial", {"degree": 2.5}, "an integer >= 1, got 2.5"),
        ("polynomial", {"coef0": -1}, "coef0 must be a finite number >= 0, got -1"),
        ("exponential", {"gamma": 0}, "gamma must be a finite number > 0, got 0"),
        ("polynomial", {"gamma": math.nan}, "> 0, got nan"),
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


# ---- estimators -------------------------------------------------------------------------------------

ESTIMATORS = [
    TensorSketchFeatures(n_components=16, random_state=0),
    TensorSketchFeatures(3, gamma=0.1, coef0=0.0, n_components=15),
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
    assert NystroemFeatures("exponential", n_components=8).fit(X).map_.kernel.gamma == pytest.approx(gamma)
    kernel = Exponential(0.5)
    assert NystroemFeatures(kernel, n_components=8).fit(X).map_.kernel == kernel
    for bad, message in (("scale", "or 'norm'"), (0, "finite number > 0"), (None, "got None")):
        with pytest.raises(InputError, match=message):
            TensorSketchFeatures(gamma=bad).fit(X)
    with pytest.raises(InputError, match="needs a row that is not all zeros"):
        TensorSketchFeatures().fit(np.zeros((5, 2)))


@pytest.mark.parametrize("bad", [0, -1, 2.0, "8", True, None])
def test_bad_components(bad):
    with pytest.raises(InputError, match="n_components must be an integer >= 1"):
        TensorSketchFeatures(n_components=bad).fit(np.ones((3, 2)))


# ---- command line -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("tensor-sketch", {"degree": "3", "coef0": "0.5"}),
        ("tefm", {"base": "fourier", "base__n_components": "32"}),
        ("tefm", {"base": "tensor-sketch"}),
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
    estimator = unfitted_map(Options(map=name, set=given, **size), None, 3)
    planned, fitted = estimator.planned_map(5), estimator.fit(X).map_
    assert type(planned) is type(fitted)
    assert planned.n_components == fitted.n_components
    assert planned.work()[0] == pytest.approx(fitted.work()[0])


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, lambda X: da.from_array(X, chunks=(10, 3))])
def test_features_beyond_their_dtype_are_refused(kind):
    est = TensorSketchFeatures(50, gamma=1e8, n_components=16, random_state=0)
    X = rows(20, 3).astype(np.float32)
    with pytest.raises(InputError, match="features overflow float32"):
        np.asarray(clone(est).fit(kind(X)).transform(kind(X)))
    with pytest.raises(InputError, match="features overflow float32"):
        clone(est).fit(X).map_.columns(X, 0, 16)
    assert np.isfinite(clone(est).fit(X.astype(float)).transform(X.astype(float))).all()
