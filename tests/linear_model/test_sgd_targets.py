"""Several targets at once: each learns as it does alone, whatever the units of the others."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import r2_score

from distrf import CompactNonlinearRegressor, StreamingRidge, StreamingSGDRegressor

LOSSES = "squared", "huber", "epsilon_insensitive"


def linear_rows(n=1500):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(n, 6))
    return Z, Z @ rng.normal(size=6) + 0.3 * rng.normal(size=n), rng.normal(size=n)


def scores(model, Z, Y):
    return r2_score(Y, model.predict(Z), multioutput="raw_values")


@pytest.mark.parametrize("loss", LOSSES)
def test_targets_of_unlike_spreads(loss):
    """Steps and one epsilon for the widest target gave R^2 -14 on the other."""
    Z, y, noise = linear_rows()
    for other, least in ((1e6 + 1e3 * y, 0.96), (1e4 * noise, -0.02), (1e-4 * y + 7, 0.96)):
        Y = np.c_[y, other]
        model = StreamingSGDRegressor(loss).fit(Z, Y)
        assert (scores(model, Z, Y) > [0.96, least]).all()


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_numbers_are_in_the_units_of_the_targets(loss):
    """A given alpha and a given epsilon mean the same for a target, whatever stands beside it."""
    Z, y, _ = linear_rows()
    Y = np.c_[y, 64 * y]
    options = {"alpha": 0.01, "epsilon": 0.5, "tol": None, "n_epochs": 60}
    both = StreamingSGDRegressor(loss, **options).fit(Z, Y)
    assert both.epsilon_ == 0.5
    for j in (0, 1):
        alone = StreamingSGDRegressor(loss, **options).fit(Z, Y[:, j])
        size = np.abs(alone.coef_).max()
        np.testing.assert_allclose(both.coef_[j], alone.coef_, atol=0.02 * size)
        assert both.intercept_[j] == pytest.approx(alone.intercept_, abs=0.02 * size)


@pytest.mark.parametrize(
    "model",
    [
        StreamingRidge(1e-3),
        StreamingRidge(1e-3, calibrate=True),
        StreamingSGDRegressor(alpha=1e-3, n_epochs=3, tol=None),
        StreamingSGDRegressor("huber", alpha=1e-3, n_epochs=3, tol=None),
        CompactNonlinearRegressor(4, random_state=0, n_epochs=2),
    ],
)
@pytest.mark.parametrize("factor", [2.0**-170, 2.0**100])
def test_weights_of_any_size(model, factor):
    """Float32 has no 1e-50: such weights gave a constant. Divided by a power of two near their mean they give the same bits."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(600, 1100 if isinstance(model, StreamingRidge) else 6)).astype(np.float32)
    y, w = Z[:, 0] - 2.0 * Z[:, 1], rng.uniform(0.5, 2.0, 600)
    plain = model.fit(Z, y, w).predict(Z)
    assert model.score(Z, y) > 0.1
    np.testing.assert_array_equal(model.fit(Z, y, factor * w).predict(Z), plain)
    if hasattr(model, "partial_fit") and not getattr(model, "calibrate", False):
        calls = [clone(model).partial_fit(Z[:300], y[:300], s * w[:300]).partial_fit(Z[300:], y[300:], s * w[300:])
                 for s in (1.0, factor)]  # fmt: skip
        np.testing.assert_array_equal(calls[0].coef_, calls[1].coef_)


def test_offset_targets_keep_their_digits():
    """The loss of held-out rows is that of the same targets around zero: squares of 1e6 cancel."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5))
    y = X @ np.ones(5) + rng.normal(size=3000)
    near, far = (
        StreamingSGDRegressor(early_stopping=True).fit(X, y + offset).history_[-1]["validation_loss"]
        for offset in (0.0, 1e8)
    )
    assert 0.4 < near < 0.6  # half of the variance of the noise
    assert far == pytest.approx(near, abs=1e-6)
