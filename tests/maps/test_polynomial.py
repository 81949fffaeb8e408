"""Polynomial and dot-product kernels: their maps by the explicit formulas, bias, variance, estimators."""

from __future__ import annotations

import itertools

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from contracts import EPS, MapContract
from sklearn.base import clone
from sklearn.metrics.pairwise import polynomial_kernel

from distrf import NystroemFeatures, TensorSketchFeatures
from distrf.errors import InputError
from distrf.kernels import DotProductKernel, Exponential, Polynomial, get_kernel
from distrf.maps import TensorSketchMap

# ---- kernels ----------------------------------------------------------------------------------------


def test_polynomial_is_scikit_learns(rng):
    X, Y = rng.normal(size=(7, 4)), rng.normal(size=(5, 4))
    np.testing.assert_allclose(
        Polynomial(3, 0.4, 1.5)(X, Y), polynomial_kernel(X, Y, degree=3, gamma=0.4, coef0=1.5), rtol=1e-12
    )


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("sigmoid", {}, "unknown dot-product kernel 'sigmoid'; known: exponential, polynomial"),
        ("exponential", {"gamma": 0}, "gamma must be a finite number > 0, got 0"),
        ("exponential", {"degree": 2}, r"does not take the parameters \['degree'\]"),
    ],
)
def test_bad_kernels(name, parameters, message):
    with pytest.raises(InputError, match=message):
        get_kernel({"name": name} | parameters, DotProductKernel)


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


def variance(kernel, D, X, Y):
    """That of z(x).z(y) over seeds, by the formula at the head of `distrf.maps.tensor_sketch`; shape (n,)."""
    gamma, coef0, p = kernel.gamma, kernel.coef0, kernel.degree
    s2 = (gamma * (X * Y).sum(axis=1) + coef0) ** 2
    q = gamma**2 * (X * X * Y * Y).sum(axis=1) + coef0**2
    XY = (gamma * (X * X).sum(axis=1) + coef0) * (gamma * (Y * Y).sum(axis=1) + coef0)
    straight, crossed, both = (s2 + XY - q) ** p, (2 * s2 - q) ** p, (2 * s2 + XY - 2 * q) ** p
    c = 2.0 - D % 2
    return (straight + crossed - 2 * s2**p) / D + c * (both - straight - crossed + s2**p) / D**2


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
    assert_moments(E, np.diag(kernel(X, Y)), variance(kernel, D, X, Y))


def test_tensor_sketch_is_for_polynomials():
    with pytest.raises(InputError, match="kernel must be a polynomial kernel, got Exponential"):
        TensorSketchMap(3, 8, Exponential(), 0)


# ---- estimators -------------------------------------------------------------------------------------


def rows(n, d, dtype=np.float64):
    X = np.random.default_rng([n, d]).normal(size=(n, d))
    return (X * (abs(X) > 0.4)).astype(dtype)


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


# ---- command line -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, lambda X: da.from_array(X, chunks=(10, 3))])
def test_features_beyond_their_dtype_are_refused(kind):
    est = TensorSketchFeatures(50, gamma=1e8, n_components=16, random_state=0)
    X = rows(20, 3).astype(np.float32)
    with pytest.raises(InputError, match="features overflow float32"):
        np.asarray(clone(est).fit(kind(X)).transform(kind(X)))
    with pytest.raises(InputError, match="features overflow float32"):
        clone(est).fit(X).map_.columns(X, 0, 16)
    assert np.isfinite(clone(est).fit(X.astype(float)).transform(X.astype(float))).all()
