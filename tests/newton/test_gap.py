"""Fits by passes of problems on which the sample says little, against Newton's method on all rows in float64."""

from __future__ import annotations

import warnings
from unittest.mock import patch

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from distrf import RandomFourierFeatures, StreamingLinearClassifier, StreamingLinearRegressor
from distrf.losses import LOSSES
from distrf.newton import sample

#: A fit ends after so many passes.
MOST = 100


def labels(Z, rng, classes=2):
    """Classes of noisy linear scores."""
    scores = Z @ rng.normal(size=(Z.shape[1], classes)) / np.sqrt(np.square(Z).sum(axis=1).mean())
    return (scores + 0.5 * rng.normal(size=scores.shape)).argmax(axis=1)


def fourier(rng, n=4000, D=512):
    X = rng.normal(size=(n, 6))
    Z = RandomFourierFeatures(length_scale=3.0, n_components=D, random_state=0).fit_transform(X)
    return X, Z


def whole_numbers(rng):
    X = rng.integers(0, 256, size=(3000, 20)).astype(np.uint8)
    y = X @ rng.normal(size=20) + 10 * rng.normal(size=3000)
    return StreamingLinearRegressor("squared", alpha=1e-3), da.from_array(X, chunks=(500, -1)), y, None, 16_000


def groups(rng):
    """Columns that tell groups apart, of which only other rows of the same group are like it; folds of whole groups are given."""
    group = np.arange(1500) % 50
    Z = rng.normal(size=(50, 100))[group] + 0.1 * rng.normal(size=(1500, 100))
    y = (rng.normal(size=50)[group] + 0.3 * rng.normal(size=1500) > 0).astype(int)
    return StreamingLinearClassifier("logistic"), Z, y, {"folds": group % 5}, 16_000


def no_active_rows(rng):
    """All rows of class 0 have the weight 0: its intercept alone makes the squared hinge 0 on the others."""
    Z = rng.normal(size=(3000, 64)).astype(np.float32)
    y = 1 + labels(Z, rng)
    y[::10] = 0
    given = {"sample_weight": (y > 0).astype(float)}
    return StreamingLinearClassifier("squared_hinge", alpha=1e-8), Z, y, given, 1000


def mean_of_100(rng):
    Z = rng.normal(size=(4000, 20))
    Z[:, 3] += 100.0
    y = labels(Z - Z.mean(axis=0), rng)
    return StreamingLinearClassifier("logistic", alpha=1e-6, tol=1e-4), sp.csr_array(Z), y, None, 400


def fourier_squared(rng):
    X, Z = fourier(rng)
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=len(X))
    return StreamingLinearRegressor("squared", alpha=1e-6), Z, y, None, 256


def fourier_squared_hinge(rng):
    X, Z = fourier(rng)
    y = (np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=len(X)) > 0).astype(int)
    return StreamingLinearClassifier("squared_hinge", alpha=1e-6), Z, y, None, 256


def isotropic(rng):
    Z = rng.normal(size=(4000, 256))
    return StreamingLinearClassifier("logistic", alpha=1e-6), Z, labels(Z, rng), None, 400


def few_positives(rng):
    Z = rng.normal(size=(4000, 32))
    y = np.zeros(4000, dtype=int)
    y[np.argsort(Z[:, 0] + 0.5 * Z[:, 1] + 0.7 * rng.normal(size=4000))[-16:]] = 1
    return StreamingLinearClassifier("logistic", alpha=1e-6), Z, y, None, 400


def heavy_tails(rng):
    Z = rng.standard_t(1.2, size=(4000, 30))
    y = np.tanh(Z) @ rng.normal(size=30) + rng.normal(size=4000)
    return StreamingLinearRegressor("squared", alpha=1e-4), Z, y, None, 400


def heavy_weights(rng):
    Z = rng.normal(size=(4000, 30))
    weight = np.ones(4000)
    weight[[17, 2900]] = 1e5
    return StreamingLinearClassifier("logistic", alpha=1e-4), Z, labels(Z, rng), {"sample_weight": weight}, 400


def few_of_a_class(rng):
    """The loss of a rare class is no parabola yet where that of the others has all but ended."""
    Z = rng.normal(size=(4000, 16))
    scores = Z @ rng.normal(size=(16, 5)) / 4 + 0.1 * rng.normal(size=(4000, 5))
    y = 1 + scores[:, 1:].argmax(axis=1)
    y[np.argsort(scores[:, 0] + 0.3 * rng.normal(size=4000))[-7:]] = 0
    return StreamingLinearClassifier("squared_hinge", alpha=4e-5), Z, y, None, 2400


#: {name: (problem, most passes)}
PROBLEMS = {
    "uint8 Dask rows, squared": (whole_numbers, 5),
    "folds of groups, alpha auto": (groups, 20),
    "a class without active rows, float32": (no_active_rows, 30),
    "CSR, a column of mean 100, tol 1e-4": (mean_of_100, 8),
    "Fourier, D = 512, sample 256, squared": (fourier_squared, 34),
    "the same, squared hinge": (fourier_squared_hinge, 80),
    "isotropic, D = 256, sample 400, logistic": (isotropic, 30),
    "16 positives of 4,000, logistic": (few_positives, 50),
    "Student t(1.2) columns, squared": (heavy_tails, 20),
    "two rows of weight 1e5, logistic": (heavy_weights, 45),
    "7 rows of a class, squared hinge": (few_of_a_class, 25),
}


def least(Z, Y, weight, loss, alpha):
    """The least objective of each column's own problem, summed: damped Newton steps on all rows, the intercept last."""
    Z = np.c_[Z, np.ones(len(Z))]
    weight, penalty, total = weight / weight.sum(), np.append(np.full(Z.shape[1] - 1, alpha), 0.0), 0.0
    for y in Y.T[:, :, None]:

        def at(w, y=y):
            value, slope = loss((Z @ w)[:, None], y)
            bend = loss.second(slope)[:, 0] * weight
            return (
                weight @ value + 0.5 * penalty @ w**2,
                Z.T @ (weight * slope[:, 0]) + penalty * w,
                (Z.T * bend) @ Z + np.diag(penalty + 1e-14 * (bend @ np.square(Z)).max() + 1e-14),
            )

        w = np.zeros(Z.shape[1])
        for _ in range(200):
            value, slope, H = at(w)
            step = np.linalg.solve(H, slope)
            t = next((t for t in 0.5 ** np.arange(40) if at(w - t * step)[0] < value), None)
            if t is None or slope @ step < 1e-14 * value:
                break
            w = w - t * step
        total += value
    return total


def measured(name):
    """True gap, estimate, passes, ratios of the estimates to the true gaps along the way, and the model."""
    problem, _ = PROBLEMS[name]
    model, Z, y, given, size = problem(np.random.default_rng(0))
    lazy = isinstance(Z, da.Array)
    with warnings.catch_warnings(), patch.object(sample, "_ROWS", size):
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.set_params(max_passes=MOST).fit(Z, da.from_array(y, chunks=500) if lazy else y, **given or {})
    rows = np.asarray(Z) if lazy else Z.toarray() if sp.issparse(Z) else Z
    weight = (given or {}).get("sample_weight", np.ones(len(y)))
    kinds = np.unique(y)
    if isinstance(model, StreamingLinearRegressor):
        Y = (y - y.mean())[:, None]
    else:
        Y = np.where(y[:, None] == (kinds[1:] if len(kinds) == 2 else kinds), 1.0, -1.0)
    best = least(rows.astype(np.float64), Y, weight, LOSSES[model.loss](), model.alpha_)
    scores = rows.astype(np.float64) @ np.atleast_2d(model.coef_).T.astype(float) + model.intercept_
    scores = scores - y.mean() if isinstance(model, StreamingLinearRegressor) else scores
    here = (
        weight @ LOSSES[model.loss]()(scores, Y)[0] / weight.sum() + 0.5 * model.alpha_ * (model.coef_**2).sum()
    )
    true = [(look["loss"] - best) / look["loss"] for look in model.descent_]
    ratios = [look["gap"] / gap for look, gap in zip(model.descent_, true, strict=True) if gap > 1e-6]
    return (here - best) / here, model.gap_, model.n_iter_, min(ratios, default=np.inf), model


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_gap_is_honest_and_passes_are_few(name):
    true, gap, passes, ratio, model = measured(name)
    print(
        f"{name}: true gap {true:.1e}, gap_ {gap:.1e}, {passes} passes, least ratio {ratio:.2f}, alpha {model.alpha_:.1e}"
    )
    assert gap > 0.5 * true - 1e-8
    assert ratio > 0.25  # along the way: where a descent ends, it looks twice
    assert gap <= model.tol
    assert passes <= PROBLEMS[name][1]
    if "folds" in name:  # at random, other rows of a group are known and alpha=1e-5 is the best
        assert model.alpha_ > 1e-2
