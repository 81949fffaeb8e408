"""Losses: values by their formulas, gradients by finite differences, smoothness by second differences."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import hinge_loss, log_loss

from distrf.errors import InputError
from distrf.losses import LOSSES, get_loss


def task_of(name):
    return "classification" if LOSSES[name].task in ("classification", "both") else "regression"


def problem(name, b=40, C=3, seed=0):
    rng = np.random.default_rng(seed)
    scores = 2.0 * rng.normal(size=(b, C))
    if task_of(name) == "regression":
        return scores, rng.normal(size=(b, C))
    targets = np.full((b, C), -1.0)
    targets[np.arange(b), rng.integers(C, size=b)] = 1.0
    return scores, targets


@pytest.mark.parametrize("name", LOSSES)
def test_gradient_is_the_derivative(name):
    loss = get_loss(name, 3, 0.3)
    scores, targets = problem(name)
    _, gradient = loss(scores, targets)
    h = 1e-6
    for c in range(scores.shape[1]):
        moved = scores.copy()
        moved[:, c] += h
        up = loss(moved, targets)[0]
        moved[:, c] -= 2 * h
        down = loss(moved, targets)[0]
        np.testing.assert_allclose((up - down) / (2 * h), gradient[:, c], atol=1e-8)


@pytest.mark.parametrize("name", [n for n in LOSSES if LOSSES[n].smoothness])
def test_smoothness_bounds_the_second_derivative_and_is_nearly_reached(name):
    loss = get_loss(name, 3, 0.3)
    rng = np.random.default_rng(1)
    C = 2 if name == "multinomial" else 1
    scores = np.linspace(-3, 3, 4001)[:, None] * np.ones((1, C)) * np.array([1.0, -1.0])[:C]
    targets = np.tile(np.array([[1.0, -1.0]])[:, :C], (4001, 1))
    step = rng.normal(size=(1, C)) if C == 1 else np.array([[1.0, -1.0]])
    h = 1e-4
    change = loss(scores + h * step, targets)[1] - loss(scores - h * step, targets)[1]
    slope = np.linalg.norm(change, axis=1) / (2 * h * np.linalg.norm(step))
    assert slope.max() <= loss.smoothness * (1 + 1e-6)
    assert slope.max() >= loss.smoothness * 0.99


@pytest.mark.parametrize("name", [n for n in LOSSES if LOSSES[n].smoothness])
def test_second_derivatives(name):
    loss = get_loss(name, 3, 0.3)
    scores, targets = problem(name)
    second, h = loss.second(loss(scores, targets)[1]), 1e-4
    for c, e in enumerate(np.eye(3)):
        change = loss(scores + h * e, targets)[1] - loss(scores - h * e, targets)[1]
        np.testing.assert_allclose(second[:, c], change[:, c] / (2 * h), atol=1e-6)


def test_values_against_scikit_learn():
    scores, targets = problem("multinomial")
    y = targets.argmax(axis=1)
    mean = get_loss("multinomial", 3)(scores, targets)[0].mean()
    assert mean == pytest.approx(log_loss(y, LOSSES["multinomial"]().probabilities(scores)))
    binary = np.where(y == 0, 1.0, -1.0)[:, None]
    mean = get_loss("logistic", 2)(scores[:, :1], binary)[0].mean()
    assert mean == pytest.approx(
        log_loss(binary[:, 0], LOSSES["logistic"]().probabilities(scores[:, :1])[:, 1])
    )
    assert get_loss("hinge")(scores[:, :1], binary)[0].mean() == pytest.approx(
        hinge_loss(binary[:, 0], scores[:, 0])
    )


def test_extreme_scores_stay_finite():
    for name in LOSSES:
        loss = get_loss(name, 3)
        scores, targets = problem(name)
        value, gradient = loss(1e4 * scores, targets)
        assert np.isfinite(value).all()
        assert np.isfinite(gradient).all()


@pytest.mark.parametrize("name", LOSSES)
def test_dtype_and_no_rows(name):
    loss = get_loss(name, 3)
    scores, targets = problem(name)
    assert loss(scores.astype(np.float32), targets.astype(np.float32))[1].dtype == np.float32
    value, gradient = loss(scores[:0], targets[:0])
    assert value.shape == (0,)
    assert gradient.shape == (0, 3)


def test_probabilities():
    scores, _ = problem("logistic")
    for name in ("logistic", "multinomial"):
        p = LOSSES[name]().probabilities(scores)
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        np.testing.assert_array_equal(p.argmax(axis=1), scores.argmax(axis=1))


def test_refusals():
    with pytest.raises(InputError, match="epsilon of the huber loss must be positive"):
        get_loss("huber", epsilon=0.0)
    assert get_loss("multinomial", 2).name == "logistic"
