"""Small problems of every odd kind: linear models are finite, no worse than a constant, and seldom warn.

Best constants and the minima of ridge are worked out here anew, in float64.
"""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from scipy.special import xlogy
from strategies import CLASS_LOSSES, Problem, draw_data, problems

from distrf import StreamingRidge, StreamingRidgeClassifier, StreamingSGDClassifier, StreamingSGDRegressor
from distrf.losses import LOSSES

EPSILON = 0.1


def encode(p, y):
    """Targets as float64 columns: -1 and 1 for classes, one column for two."""
    if not p.n_classes:
        return y[:, None].astype(float)
    Y = np.where(y[:, None] == np.arange(p.n_classes), 1.0, -1.0)
    return Y[:, 1:] if p.n_classes == 2 else Y


def losses(name, S, Y):
    """The loss of each row, shape (n,), and a subgradient of each score: see test_losses."""
    loss = LOSSES["logistic" if name == "multinomial" and Y.shape[1] == 1 else name](EPSILON)
    return loss(np.asarray(S, dtype=float), Y)


def best_constant(name, Y, w, intercept):
    """The smallest mean loss of scores that are the same for all rows; of zero scores without an intercept."""
    if not intercept:
        return w @ losses(name, np.zeros_like(Y), Y)[0]
    if name == "multinomial" and Y.shape[1] > 1:
        share = w @ (Y > 0)
        return -xlogy(share, share).sum()
    # Every loss is convex in b: halve an interval that holds a zero of its slope. 60 is far for a logistic score.
    low, high = Y.min(axis=0) - 60.0 * (name in CLASS_LOSSES), Y.max(axis=0) + 60.0 * (name in CLASS_LOSSES)
    for _ in range(120):
        b = (low + high) / 2
        rising = w @ losses(name, np.broadcast_to(b, Y.shape), Y)[1] > 0
        low, high = np.where(rising, low, b), np.where(rising, b, high)
    ends = [w @ losses(name, np.broadcast_to(b, Y.shape), Y)[0] for b in (low, high)]
    return min(ends)


def ridge_objective(X, Y, w, alpha, intercept):
    """The smallest mean squared loss with the penalty, by least squares on the rows with sqrt(alpha) I below them."""
    Z, T = X.astype(float), Y
    if intercept:
        Z, T = Z - w @ Z, T - w @ T
    D, root = Z.shape[1], np.sqrt(w)[:, None]
    A = np.concatenate([root * Z, np.sqrt(alpha) * np.eye(D)])
    B = np.concatenate([root * T, np.zeros((D, T.shape[1]))])
    U = np.linalg.lstsq(A, B, rcond=None)[0]
    return ((B - A @ U) ** 2).sum() / 2


@dataclass(frozen=True)
class Outcome:
    """failure : None, or what is wrong; ratio : objective / that of the best constant
    left : share of what can be learned that was not, nan where that is not known or next to nothing
    """

    failure: str | None
    warnings: tuple[str, ...]
    ratio: float = np.nan
    left: float = np.nan


def make_model(p, kind):
    if kind == "ridge":  # the smallest penalty stands for none named: ridge chooses
        maker = StreamingRidgeClassifier if p.n_classes else StreamingRidge
        return maker("auto" if p.alpha == 1e-6 else p.alpha, fit_intercept=p.intercept)
    given = {"alpha": p.alpha, "fit_intercept": p.intercept}
    if p.n_classes:
        return StreamingSGDClassifier(p.loss, **given)
    return StreamingSGDRegressor(p.loss, **given, epsilon=EPSILON)


def examine(p, kind):
    """Fit one problem by "sgd" or "ridge" and judge the model."""
    X, y, weight = draw_data(p)
    given = [X, y] if weight is None else [X, y, weight]
    if p.chunk:
        given = [da.from_array(a, chunks=(p.chunk, *a.shape[1:])) for a in given]
    model = make_model(p, kind)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(given[0], given[1], *given[2:])
            predicted = np.asarray(model.predict(given[0]))
        except Exception as error:
            return Outcome(f"crash: {type(error).__name__}: {error}"[:120], ())
    said = {f"{c.category.__name__}: {c.message}"[:120] for c in caught}
    told = tuple(sorted(each for each in said if "columns have sizes" not in each))  # as some are drawn
    w = np.full(p.n, 1.0 / p.n) if weight is None else weight / weight.sum()
    U, Y = np.atleast_2d(model.coef_).astype(float), encode(p, y)
    if not (np.isfinite(predicted).all() and np.isfinite(U).all() and np.isfinite(model.intercept_).all()):
        return Outcome("not finite", told, np.inf)
    name = "squared" if kind == "ridge" else p.loss
    S = X.astype(float) @ U.T + np.atleast_1d(model.intercept_)
    alpha = float(model.alpha_) if kind == "ridge" else p.alpha
    objective = w @ losses(name, S, Y)[0] + alpha / 2 * (U**2).sum()
    constant = best_constant(name, Y, w, p.intercept)
    rounding = 1e-5 * constant + 1e-12 * (w @ losses(name, np.zeros_like(Y), Y)[0])
    if name in CLASS_LOSSES:
        rounding += 2e-9 * Y.shape[1]  # shares of classes stay 1e-9 from 0 and 1, so that scores are finite
    if kind == "sgd" and p.n > 9_000 and name in ("huber", "epsilon_insensitive"):
        rounding += 1e-2 * constant  # their constant has no closed form, and is that of a sample of 9,000 rows
    ratio = objective / constant if constant > 0 else float(objective > rounding)
    if not objective <= constant + rounding:
        return Outcome("diverged" if ratio > 2 else "above the constant", told, ratio)
    left = np.nan
    if name == "squared":
        best = ridge_objective(X, Y, w, alpha, p.intercept)
        if constant - best > 0.1 * constant + rounding:
            left = (objective - best) / (constant - best)
    return Outcome(None, told, ratio, left)


def judge(kind, numbers, warnings_allowed):
    """Print what failed; raise unless none did, few warned, and few of those that did not learned little."""
    seen = {p: examine(p, kind) for p in map(Problem.drawn, numbers)}
    failed = {p: o for p, o in seen.items() if o.failure}
    warned = {p: o for p, o in seen.items() if o.warnings}
    silent = {p: o for p, o in seen.items() if not o.warnings and np.isfinite(o.left)}
    short = {p: o for p, o in silent.items() if o.left > 0.5}
    for title, found in (("failed", failed), ("warned", warned), ("learned little", short)):
        for p, o in found.items():
            print(f"{title}: {p}\n    {o}")
    kinds = Counter(o.failure.split(":")[0] for o in failed.values())
    print(
        f"{kind}: {len(failed)} of {len(seen)} failed {dict(kinds)}, {len(warned)} warned, "
        f"{len(short)} of {len(silent)} learned little without a warning"
    )
    assert not failed, f"{len(failed)} of {len(seen)} problems failed: {dict(kinds)}"
    assert len(warned) <= warnings_allowed * len(seen), f"{len(warned)} of {len(seen)} problems warned"
    assert len(short) <= 0.1 * len(silent), f"{len(short)} of {len(silent)} learned little without a warning"


@pytest.mark.parametrize("kind", ["sgd", "ridge"])
def test_twelve(kind):
    judge(kind, range(12), 0.2)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["sgd", "ridge"])
@given(problem=problems(first=200))
def test_any(kind, problem):
    """Others, and with DISTRF_HYPOTHESIS=explore new ones in each run."""
    outcome = examine(problem, kind)
    assert outcome.failure is None, outcome
