"""Kernels: exact values against scikit-learn, and the law of the weights against the values."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.stats
from contracts import SHIFT_INVARIANT
from sklearn.gaussian_process.kernels import Matern as SklearnMatern
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

from distrf.errors import InputError
from distrf.kernels import KERNELS, Cauchy, Gaussian, Kernel, Laplacian, Matern, get_kernel
from distrf.projections.dense import DenseProjection


def test_every_kernel_is_tested():
    assert {k.name for k in SHIFT_INVARIANT} == set(KERNELS)


@pytest.fixture
def X(rng):
    return rng.normal(size=(30, 4))


@pytest.fixture
def Y(rng):
    return rng.normal(size=(20, 4)) + 0.3


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.5])
class TestExactValues:
    def test_gaussian(self, X, Y, scale):
        np.testing.assert_allclose(Gaussian()(X, Y, scale), rbf_kernel(X, Y, 0.5 / scale**2), rtol=1e-12)

    def test_laplacian(self, X, Y, scale):
        np.testing.assert_allclose(Laplacian()(X, Y, scale), laplacian_kernel(X, Y, 1 / scale), rtol=1e-12)

    def test_cauchy(self, X, Y, scale):
        explicit = [
            [np.prod([1 / (1 + ((a - b) / scale) ** 2) for a, b in zip(x, y, strict=True)]) for y in Y]
            for x in X
        ]
        np.testing.assert_allclose(Cauchy()(X, Y, scale), explicit, rtol=1e-12)

    @pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
    def test_matern(self, X, Y, scale, nu):
        np.testing.assert_allclose(Matern(nu)(X, Y, scale), SklearnMatern(scale, nu=nu)(X, Y), rtol=1e-12)


@pytest.mark.parametrize("kernel", SHIFT_INVARIANT, ids=repr)
def test_one_argument_and_float32(kernel, X):
    K = kernel(X)
    np.testing.assert_allclose(K, kernel(X, X), rtol=1e-15)
    np.testing.assert_allclose(np.diag(K), 1.0, rtol=1e-15)
    assert kernel(X.astype(np.float32)).dtype == np.float64


@pytest.mark.parametrize("gamma", [0.1, 3.0])
def test_gamma_is_scikit_learns(X, Y, gamma):
    for kernel, peer in ((Gaussian(), rbf_kernel), (Laplacian(), laplacian_kernel)):
        scale = kernel.length_scale_of_gamma(gamma)
        np.testing.assert_allclose(kernel(X, Y, scale), peer(X, Y, gamma), rtol=1e-12)


@pytest.mark.parametrize("kernel", SHIFT_INVARIANT, ids=repr)
def test_weights_follow_bochner(kernel, rng):
    """The mean of cos(w.v) over m weights is k(v), with variance [(1 + k(2v)) / 2 - k(v)^2] / m."""
    m, d = 40_000, 3
    W = DenseProjection(kernel, d, m, seed=17).weights()
    V = np.concatenate([np.eye(d), rng.normal(size=(12, d)), 0.2 * rng.normal(size=(4, d)), [[3.0, -2.0, 4.0]]])
    zero = np.zeros((1, d))
    k, k2 = kernel(V, zero)[:, 0], kernel(2 * V, zero)[:, 0]
    error = np.cos(V @ W.T).mean(axis=1) - k
    standard = np.sqrt(((1 + k2) / 2 - k**2) / m)
    assert (abs(error) < 4.5 * standard).all()
    assert standard.max() < 0.005


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_matern_radii(nu):
    """|w|^2 of d coordinates is d times Fisher's F with (d, 2 nu) degrees of freedom."""
    d, m = 3, 20_000
    W = DenseProjection(Matern(nu), d, m, seed=5).weights()
    assert scipy.stats.kstest((W**2).sum(axis=1) / d, scipy.stats.f(d, 2 * nu).cdf).pvalue > 1e-3


def test_radii_by_position():
    whole = Matern(1.5).radii(3, 1, 50)
    np.testing.assert_array_equal(Matern(1.5).radii(3, 1, 20, start=13), whole[13:33])


@pytest.mark.parametrize("kernel", SHIFT_INVARIANT, ids=repr)
def test_spec_round_trip(kernel):
    assert get_kernel(json.loads(json.dumps(kernel.spec()))) == kernel
    assert get_kernel(kernel, Kernel) is kernel


def test_bad_parameters():
    with pytest.raises(InputError, match="does not take the parameters \\['nu'\\]"):
        get_kernel({"name": "gaussian", "nu": 1.5})
    for nu in (1.0, "1.5", None, np.inf):
        with pytest.raises(InputError, match=r"nu must be 0\.5, 1\.5 or 2\.5, got"):
            Matern(nu)
