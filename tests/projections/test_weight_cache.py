"""Weights that exceed the cache are made once for a block of rows, not once for every tile of it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from distrf.kernels import Gaussian, Laplacian, ReciprocalSemigroup
from distrf.maps import BinningMap, FourierMap, LaplaceMap
from distrf.projections.base import weight_cache
from distrf.projections.dense import DenseProjection


@pytest.fixture
def made(monkeypatch):
    """A cache of 200 kB, and the count of numbers made for it."""
    count = [0]

    def counted(cls, name):
        plain = getattr(cls, name)

        def call(*args):
            out = plain(*args)
            count[0] += out.size
            return out

        monkeypatch.setattr(cls, name, call)

    counted(DenseProjection, "weights")
    counted(BinningMap, "_words")
    monkeypatch.setattr(weight_cache, "max_bytes", 200_000)
    weight_cache.clear()
    yield count
    weight_cache.clear()


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weights_are_made_once(kind, dtype, made):
    X = np.random.default_rng(0).random((3000, 40)).astype(dtype)
    X[X < 0.96] = 0
    maps = [
        FourierMap(40, 2048, Gaussian(), 1.0, "dense", "paired", 0),
        FourierMap(40, 1500, Gaussian(), 1.0, "dense", "offset", 0),
        LaplaceMap(40, 1024, ReciprocalSemigroup(1.0), "dense", 0),
        BinningMap(40, 4096, Laplacian(), 1.0, 512, 0),
    ]
    for map_ in maps:
        made[0] = 0
        Z = map_(kind(X))
        numbers = 512 * 41 if isinstance(map_, BinningMap) else 40 * map_.projector.n_frequencies
        print(f"{type(map_).__name__}: numbers made {made[0] / numbers:.3g} times")
        assert made[0] == numbers
        few = map_(kind(X[-40:]))
        if sp.issparse(Z):
            assert (few != Z[-40:]).nnz == 0
        else:
            np.testing.assert_allclose(few, Z[-40:], atol=1e-6)
