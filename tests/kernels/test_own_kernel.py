"""A kernel from outside the package: one class and one line make it known to everything."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

import dask.array as da
import numpy as np
import pytest

from distrf import NystroemFeatures, RandomFourierFeatures, load_model, save_model
from distrf.kernels import KERNELS, Kernel, register_kernel
from distrf.kernels.base import REGISTRY
from distrf.maps import map_from_spec
from distrf.metrics import kernel_error
from distrf.parameters import number, param
from distrf.randomness import uniforms


@dataclass(frozen=True)
class Mixture(Kernel):
    """(1 - share) exp(-|v|^2 / 2 l^2) + share exp(-|v|^2 / 18 l^2)."""

    share: float = param(default=0.25, rule=number(0, 1), kw_only=False)

    name = "toy_mixture"
    law = "normal"
    isotropic = True

    def of_squares(self, squares):
        return (1 - self.share) * np.exp(-0.5 * squares) + self.share * np.exp(-squares / 18)

    def radii(self, seed, block, count, start=0):
        return np.where(uniforms(seed, "toy radius", block, count, start) < self.share, 1 / 3, 1.0)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    for registry in (REGISTRY, KERNELS):
        monkeypatch.setitem(registry, "toy_mixture", Mixture)  # taken back when the test ends
        del registry["toy_mixture"]
    register_kernel(Mixture)


@pytest.mark.parametrize("kernel", ["toy_mixture", Mixture(0.6)], ids=repr)
@pytest.mark.parametrize("projection", ["dense", "orthogonal", "fastfood"])
def test_fourier_features(kernel, projection, rng, tmp_path, client):
    X = rng.normal(size=(60, 8))
    est = RandomFourierFeatures(kernel, n_components=4096, projection=projection, random_state=3).fit(X)
    Z = est.transform(X)
    assert est.map_.kernel == (Mixture() if kernel == "toy_mixture" else kernel)
    assert abs(Z @ Z.T - est.map_.exact_kernel(X)).max() < 0.12  # five deviations of 1 / sqrt(2 D)
    assert kernel_error(est, X) < 0.1
    np.testing.assert_allclose(est.transform(da.from_array(X, chunks=(20, 8))).compute(), Z, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(est)).transform(X), Z)
    np.testing.assert_array_equal(map_from_spec(est.map_.spec(), {})(X), Z)
    save_model(est, tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").transform(X), Z)


def test_nystroem(rng):
    X = rng.normal(size=(40, 3))
    est = NystroemFeatures("toy_mixture", n_components=40, length_scale=1.3, random_state=0).fit(X)
    Z = est.transform(X)
    np.testing.assert_allclose(Z @ Z.T, Mixture()(X, None, 1.3), atol=1e-8)
