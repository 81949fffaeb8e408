"""Scores of a fitted linear model, one block at a time."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

from distrf import StreamingRidge, StreamingSGDRegressor
from distrf.linear_model.predictor import LinearPredictor


@pytest.mark.parametrize("model", [StreamingRidge, StreamingSGDRegressor])
@pytest.mark.parametrize("mean", [1e6, 1e7])
def test_single_precision_rows_far_from_zero(model, mean):
    """Products in float32 lost what the fit had kept: R^2 -0.45 where the same rows as float64 had 0.83."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 10))
    y = X @ rng.normal(size=10) + 0.3 * rng.normal(size=2000)
    Z = (X + mean).astype(np.float32)
    fitted = model().fit(Z, y)
    exact = fitted.score(Z.astype(np.float64), y)
    assert exact > 0.8
    assert fitted.predict(Z).dtype == np.float64
    assert fitted.score(Z, y) == pytest.approx(exact, abs=1e-4)
    lazy = fitted.predict(da.from_array(Z, chunks=(300, 10))).compute()
    np.testing.assert_allclose(lazy, fitted.predict(Z), rtol=1e-6)
    np.testing.assert_allclose(fitted.predict(sp.csr_matrix(Z)), fitted.predict(Z), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(("offset", "spread"), [(5.4e6, 2.0), (1.7e9, 100.0)])
def test_targets_of_large_offset(lazy, offset, spread):
    """In float32 the predictions of the first had nine values, and no interval held its target."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(2000, 3)).astype(np.float32)
    y = offset + spread * (Z @ [0.6, 0.6, 0.5] + 0.05 * rng.normal(size=2000))
    fitted = StreamingRidge(1e-6, calibrate=True).fit(Z, y)
    rows = da.from_array(Z, chunks=(300, 3)) if lazy else Z
    predicted, ends = fitted.predict(rows), fitted.predict_interval(rows, 0.9)
    assert predicted.dtype == ends.dtype == np.float64
    assert np.mean((np.asarray(predicted) - y) ** 2) < 0.01 * y.var()
    low, high = np.asarray(ends).T
    assert 0.87 < np.mean((low <= y) & (y <= high)) < 0.93


def test_ordinary_features_stay_in_single_precision():
    coef = np.ones((1, 20))
    assert not LinearPredictor(20, "score", coef, np.array([500.0]))._cancels
    assert LinearPredictor(20, "score", coef, np.array([1e5]))._cancels


def test_scores_that_are_no_numbers_are_told():
    coef = np.array([[np.inf, -np.inf]])
    with pytest.warns(RuntimeWarning, match="scores are NaN"):
        assert np.isnan(LinearPredictor(2, "score", coef, np.zeros(1))(np.ones((3, 2)))).all()
