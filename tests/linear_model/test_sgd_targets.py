"""Several targets at once: each learns as it does alone, whatever the units of the others."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import r2_score

from distrf import StreamingSGDRegressor

LOSSES = "squared", "huber", "epsilon_insensitive"


def linear_rows(n=1500):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(n, 6))
    return Z, Z @ rng.normal(size=6) + 0.3 * rng.normal(size=n), rng.normal(size=n)


def scores(model, Z, Y):
    return r2_score(Y, model.predict(Z), multioutput="raw_values")


@pytest.mark.parametrize(("loss", "penalty"), [*((loss, "l2") for loss in LOSSES), ("squared", "l1")])
def test_targets_of_unlike_spreads(loss, penalty):
    """Steps and one epsilon for the widest target gave R^2 -14 on the other."""
    Z, y, noise = linear_rows()
    for other, least in ((1e6 + 1e3 * y, 0.96), (1e4 * noise, -0.02), (1e-4 * y + 7, 0.96)):
        Y = np.c_[y, other]
        model = StreamingSGDRegressor(loss, penalty=penalty).fit(Z, Y)
        assert (scores(model, Z, Y) > [0.96, least]).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_an_automatic_epsilon_for_each_target(loss):
    Z, y, _ = linear_rows()
    both = StreamingSGDRegressor(loss).fit(Z, np.c_[y, 1024 * y])
    alone = StreamingSGDRegressor(loss).fit(Z, y)
    if loss == "squared":
        assert both.epsilon_ == alone.epsilon_
    else:
        np.testing.assert_allclose(both.epsilon_, alone.epsilon_ * np.array([1, 1024]))
    np.testing.assert_allclose(both.coef_, np.outer([1, 1024], alone.coef_), rtol=0.02, atol=1e-3 * 1024)


@pytest.mark.parametrize(("loss", "penalty"), [*((loss, "l2") for loss in LOSSES), ("squared", "l1")])
def test_numbers_are_in_the_units_of_the_targets(loss, penalty):
    """A given alpha and a given epsilon mean the same for a target, whatever stands beside it."""
    Z, y, _ = linear_rows()
    Y = np.c_[y, 64 * y]
    options = {"penalty": penalty, "alpha": 0.01, "epsilon": 0.5, "tol": None, "n_epochs": 60}
    both = StreamingSGDRegressor(loss, **options).fit(Z, Y)
    assert both.epsilon_ == 0.5
    for j in (0, 1):
        alone = StreamingSGDRegressor(loss, **options).fit(Z, Y[:, j])
        size = np.abs(alone.coef_).max()
        np.testing.assert_allclose(both.coef_[j], alone.coef_, atol=0.02 * size)
        assert both.intercept_[j] == pytest.approx(alone.intercept_, abs=0.02 * size)


@pytest.mark.parametrize("loss", LOSSES)
def test_streams_and_warm_starts_know_the_units(loss):
    Z, y, _ = linear_rows()
    Y = np.c_[y, 1e6 + 1e3 * y]
    model = StreamingSGDRegressor(loss)
    for a in range(0, 1500, 50):
        model.partial_fit(Z[a : a + 50], Y[a : a + 50])
    assert scores(model, Z, Y).min() > 0.96
    model = StreamingSGDRegressor(loss).fit(Z, Y).partial_fit(Z[:100], Y[:100])
    assert scores(model, Z, Y).min() > 0.95
    warm = StreamingSGDRegressor(loss, warm_start=True).fit(Z, Y)
    losses = [warm.history_[0]["loss"], warm.fit(Z, Y).history_[0]["loss"]]
    assert losses[1] < 0.8 * losses[0]


def test_the_validation_score_of_a_constant_target():
    """An output without spread counts 1 if it is predicted exactly, else 0, as scikit-learn's r2_score has it."""
    from distrf.sgd.batch_work import validation_score

    sums = np.array(
        [[4.0, 4.0], [1.0, 1.0], [8.0, 4.0], [16.0, 8.0], [0.0, 0.0]]
    )  # weight, errors, y, y^2, loss
    assert validation_score(sums, False) == (1.0 + 0.75) / 2
