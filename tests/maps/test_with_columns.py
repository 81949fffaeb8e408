"""Columns beside features: the contract of maps, the estimator, what is refused."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from contracts import EPS, FourierContract, fourier_formula

from distrf import RandomBinningFeatures, RandomFourierFeatures, WithColumns
from distrf.errors import InputError, SpecMismatchError
from distrf.kernels import Gaussian
from distrf.maps import FourierMap, WithColumnsMap, map_from_spec


class TestWithColumns(FourierContract):
    @pytest.fixture
    def make(self):
        return lambda d, D: WithColumnsMap.over(
            FourierMap(d, D, Gaussian(), 1.3, "dense", "offset", seed=5), 2.5
        )

    def explicit(self, map_, X):
        return np.hstack([X / map_.scale, fourier_formula(map_.base, X)])

    def test_spec_that_was_edited(self, map_):
        spec = map_.spec()
        with pytest.raises(SpecMismatchError, match="makes other weights"):
            map_from_spec(spec | {"base": spec["base"] | {"seed": 6}})
        with pytest.raises(InputError, match="columns beside 24 features of 11 columns are 35, got 34"):
            map_from_spec(spec | {"n_components": 34})

    def tolerance(self, map_, X, dtype):
        return np.hstack([2 * EPS[dtype] * abs(X), super().tolerance(map_.base, X, dtype)])


def test_the_columns_weigh_as_much_as_the_features(rng):
    X = rng.normal(size=(500, 7)) * 40
    base = RandomFourierFeatures(n_components=64, random_state=3)
    made = WithColumns(base, random_state=1).fit(X)
    Z = made.transform(X)
    assert (Z[:, :7] ** 2).sum(axis=1).mean() == pytest.approx(1.0)
    np.testing.assert_array_equal(Z[:, 7:], base.fit_transform(X))
    lazy = WithColumns(base, random_state=1).fit(da.from_array(X, chunks=(90, 7)))
    assert lazy.map_ == made.map_
    assert WithColumns(base, random_state=1).fit(sp.csr_array(X)).map_.scale == pytest.approx(made.map_.scale)


def test_refusals(rng):
    X = rng.normal(size=(20, 2))
    for made, message in (
        (WithColumns("fourier"), "base must be a feature estimator"),
        (WithColumns(scale="unit"), "scale must be a finite number > 0 or 'norm', got 'unit'"),
        (WithColumns(scale=0.0), "scale must be a finite number > 0"),
        (WithColumns(RandomBinningFeatures(n_components=64)), "columns join dense features"),
    ):
        with pytest.raises(InputError, match=message):
            made.fit(X)
