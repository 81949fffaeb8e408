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
    assert fitted.predict(Z).dtype == np.float32
    assert fitted.score(Z, y) == pytest.approx(exact, abs=1e-4)
    lazy = fitted.predict(da.from_array(Z, chunks=(300, 10))).compute()
    np.testing.assert_allclose(lazy, fitted.predict(Z), rtol=1e-6)
    np.testing.assert_allclose(fitted.predict(sp.csr_matrix(Z)), fitted.predict(Z), rtol=1e-4, atol=1e-3)


def test_ordinary_features_stay_in_single_precision():
    coef = np.ones((1, 20))
    assert not LinearPredictor(20, "score", coef, np.array([500.0]))._cancels
    assert LinearPredictor(20, "score", coef, np.array([1e5]))._cancels


def test_scores_that_are_no_numbers_are_told():
    coef = np.array([[np.inf, -np.inf]])
    with pytest.warns(RuntimeWarning, match="scores are NaN"):
        assert np.isnan(LinearPredictor(2, "score", coef, np.zeros(1))(np.ones((3, 2)))).all()
