"""Linear models by passes against scikit-learn's solutions on the same features, and their rules."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from peaks import traced
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import HuberRegressor, Ridge

from distrf import StreamingLinearClassifier, StreamingLinearRegressor, plan
from distrf.newton import fit, sample
from distrf.newton.fit import held_out_rule

ALPHA = 1e-3


def rows(n=2000, d=8, classes=0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.arange(1, d + 1) ** -0.5 + 0.3
    scores = X @ rng.normal(size=d) + 5.0 + 0.5 * rng.standard_t(3, n)
    return X, np.digitize(scores, np.quantile(scores, np.arange(1, classes) / classes)) if classes else scores


# ---- the same solutions as scikit-learn's --------------------------------------------------------------


def test_huber_of_several_targets():
    """scikit-learn's scales epsilon by a spread that it learns: without one, its spread is given by ours."""
    X, y = rows()
    Y = np.stack([y, 100.0 * y], axis=1)
    ours = StreamingLinearRegressor(alpha=1e-6, tol=1e-8).fit(X, Y)
    theirs = HuberRegressor(epsilon=1.345, alpha=1e-9, max_iter=1000).fit(X, y)
    assert np.allclose(ours.coef_[0], theirs.coef_, atol=0.05)
    assert ours.coef_[1] == pytest.approx(100.0 * ours.coef_[0], rel=1e-2)
    assert ours.epsilon_[1] == pytest.approx(100.0 * ours.epsilon_[0])
    squared = StreamingLinearRegressor("squared", alpha=1e-6).fit(X, np.where(np.arange(len(y)) % 20, y, 1e3))
    huber = StreamingLinearRegressor(alpha=1e-6).fit(X, np.where(np.arange(len(y)) % 20, y, 1e3))
    assert huber.score(X, y) > 0.5 > squared.score(X, y)


# ---- rows, weights, workers ----------------------------------------------------------------------------


def test_resumed_after_each_pass_to_the_same_bits(tmp_path, monkeypatch, dies):
    monkeypatch.setattr(sample, "_ROWS", 200)
    X, y = rows(classes=3)
    model = StreamingLinearClassifier(alpha=ALPHA, tol=1e-6, checkpoint=str(tmp_path / "kept"))
    expected = clone(model).set_params(checkpoint=None).fit(X, y)
    for _ in range(expected.n_iter_ - 1):
        dies(fit, "run_pass", 2)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
    passes = dies(fit, "run_pass", 0)
    found = model.fit(X, y)
    assert len(passes) == 1
    assert found.coef_.tobytes() == expected.coef_.tobytes()


# ---- what it says --------------------------------------------------------------------------------------


def test_too_few_passes_are_warned_of(monkeypatch):
    monkeypatch.setattr(sample, "_ROWS", 100)
    X, y = rows(classes=2)
    with pytest.warns(ConvergenceWarning, match="above its least, more than tol"):
        model = StreamingLinearClassifier("squared_hinge", alpha=1e-6, tol=1e-9, max_passes=2).fit(X, y)
    assert model.gap_ > 1e-9


def test_passes_are_those_over_the_rows(monkeypatch, dies):
    """Those of failed steps, too: the sample says nothing about most of the columns."""
    monkeypatch.setattr(sample, "_ROWS", 100)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 256))
    y = (X @ rng.normal(size=256) + 10 * rng.normal(size=2000) > 0).astype(int)
    calls = dies(fit, "run_pass", 0)
    with pytest.warns(ConvergenceWarning, match="after 8 passes"):
        model = StreamingLinearClassifier("logistic", alpha=1e-6, max_passes=8).fit(X, y)
    assert len(calls) == model.n_iter_ == 8


def test_targets_in_unlike_units_are_as_near():
    X, y = rows()
    Y = np.stack([y, 1e4 * X[:, 0] * y], axis=1)
    both = StreamingLinearRegressor("squared", alpha=ALPHA, tol=1e-9).fit(X, Y)
    alone = Ridge(alpha=len(X) * ALPHA).fit(X, Y)
    np.testing.assert_allclose(both.predict(X) / Y.std(axis=0), alone.predict(X) / Y.std(axis=0), atol=1e-3)


@pytest.mark.parametrize("given", [False, True])
def test_calibration_rows_enter_nothing_else(monkeypatch, given):
    """Other held-out rows change the calibration alone: not the sample, alpha, epsilon or weights."""
    monkeypatch.setattr(sample, "_ROWS", 500)
    X, y = rows(n=3000, classes=3)
    folds = np.arange(3000) % 4 if given else None
    held = folds == 0 if given else held_out_rule(None, 3).of(np.arange(3000)) == 0
    model = StreamingLinearClassifier("squared_hinge", calibrate=True, random_state=3)
    first = clone(model).fit(X, y, folds=folds)
    X[held], y[held] = 5.0 - X[held], 2 - y[held]
    second = clone(model).fit(X, y, folds=folds)
    assert second.alpha_ == first.alpha_
    assert np.array_equal(second.coef_, first.coef_)
    assert not np.allclose(second.calibration_, first.calibration_)


@pytest.mark.parametrize(
    ("n", "D", "classes", "alpha", "size"),
    [
        (3000, 400, 5, 1e-4, 1000),
        (2000, 800, 2, 1e-6, 300),  # fewer sampled rows than features
        (3000, 400, 2, "auto", 3000),
    ],
)
def test_the_client_needs_what_its_plan_says(monkeypatch, n, D, classes, alpha, size):
    monkeypatch.setattr(sample, "_ROWS", size)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, D)).astype(np.float32), rng.integers(0, classes, n)
    model = StreamingLinearClassifier("logistic", alpha=alpha, max_passes=4)
    planned = plan(model, X, y).client_peak
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        peak = traced(lambda: model.fit(X, y))[1]
    assert planned / 5 < peak < planned
