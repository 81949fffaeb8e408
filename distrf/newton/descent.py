"""L-BFGS, preconditioned by the Hessian of a sample, whose every step is one look at the rows. Number code.

A look gives the loss at several points of a line, and the gradient at two of them: the loss is convex, so that of these points the
lowest is taken, and no look is lost. (Nocedal & Wright, Numerical Optimization, 2006, Algorithm 7.4, with P^-1 in place of
their multiple of the identity.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from .hessian import SampledHessian
from .line import Points

#: Lengths of a step at which a look takes the gradient, and further ones at which it takes the loss.
SLOPED, STEPS = 2, (1.0, 0.3, 3.0, 0.1, 0.03, 0.01)
#: Pairs of L-BFGS.
_PAIRS = 10
#: The sample's Hessian is taken anew where a step lowers the estimate of the gap by less than this factor.
_SLOW = 3.0
#: The estimate of the gap over that of a Hessian with a larger penalty, of a sample, and at a place where the loss may still bend.
_CAUTION = 2.0
#: Where the loss falls at no step of this factor, it falls by no more than rounding.
_LEAST_SCALE = 1e-3


#: Mean loss plus penalty at the weights W - t d, with gradients at the first few: called with W, d or None, all t, and how many.
Objective = Callable[[np.ndarray, np.ndarray | None, tuple[float, ...], int], Points]


@dataclass
class Descent:
    """What a descent has come to.

    weights : array of shape (P, C); value : the objective there; gap : estimate of (value - minimum) / value, see `unit` of `descend`
    history : for each look at the rows "loss" and "gap"
    """

    weights: np.ndarray
    value: float
    gap: float
    history: list[dict[str, float]] = field(default_factory=list)


def descend(
    objective: Objective,
    weights: np.ndarray,
    hessian: Callable[[np.ndarray, bool], SampledHessian],
    *,
    tol: float,
    most: int,
    unit: float = 0.0,
    slow: float = _SLOW,
    shifts: bool = False,
    remark: Callable[[Descent], None] = lambda _: None,
) -> Descent:
    """Minimise from some weights on, until the estimated gap is at most `tol`, or for `most` looks at the rows.

    Parameters
    ----------
    objective : Objective
    weights : array of shape (P, C)
    hessian : callable
        The sample's Hessian at some weights, or its bound.
    tol : float
    most : int
    unit : float
        The gap is a share of this where the value is less.
    slow : float
        The Hessian is taken anew where a step lowers the estimate by less than this factor.
    shifts : bool
        Whether a number added to all scores of a row changes nothing. Then the least weights have sums of 0 over columns, and
        only the penalty bends the loss elsewhere, which the Hessian of each column by itself does not see.
    remark : callable, optional
        Called with what the descent has come to after each look.
    """
    weights = _centred(weights, shifts)
    P, pairs, age = hessian(weights, False), list[tuple[np.ndarray, np.ndarray]](), 0
    points = objective(weights, None, (0.0,), 1)
    now, slope = Descent(weights, float(points.losses[0]), np.inf), points.slopes[0]
    while True:
        size = max(abs(now.value), unit, np.finfo(float).tiny)
        direction, gap = _newton(P, pairs, slope, size)
        if (age and gap > max(tol, now.gap / slow)) or (P.bound and gap <= tol):
            P, age = hessian(now.weights, False), 0
            direction, gap = _newton(P, pairs, slope, size)
        now.gap = gap = min(gap, abs(now.value) / size)  # no loss is below 0
        now.history.append({"loss": now.value, "gap": gap})
        remark(now)
        if gap <= tol or len(now.history) >= most:
            return now
        scale = 1.0
        while True:
            direction, steps = _centred(direction, shifts), tuple(scale * t for t in STEPS)
            points = objective(now.weights, direction, steps, SLOPED)
            best, lowest = int(np.argmin(points.losses[:SLOPED])), int(np.argmin(points.losses))
            if points.losses[best] < now.value:
                break
            if points.losses[lowest] < now.value:
                scale = steps[lowest]
            elif not P.bound:  # the loss bends more than the Hessian says: nowhere, perhaps, at these weights
                P, pairs = hessian(now.weights, True), []
                direction = P.solve(slope)
            elif scale > _LEAST_SCALE:
                scale *= steps[-1]
            else:
                return now  # rounding is larger than what is left
        step = -steps[best] * direction
        change = points.slopes[best] - slope
        if (step * change).sum() > 0:
            pairs = [*pairs, (step, change)][-_PAIRS:]
        now.weights, now.value, slope, age = (
            now.weights + step,
            float(points.losses[best]),
            points.slopes[best],
            age + 1,
        )


def _centred(weights: np.ndarray, shifts: bool) -> np.ndarray:
    return weights - weights.mean(axis=1, keepdims=True) if shifts and weights.shape[1] > 1 else weights


def _newton(
    P: SampledHessian, pairs: list[tuple[np.ndarray, np.ndarray]], slope: np.ndarray, unit: float
) -> tuple[np.ndarray, float]:
    """The direction of L-BFGS, and the gap (g'P^-1 g / 2, or with the pairs where that is more) as a share of the unit."""
    alone = direction = P.solve(slope)
    if pairs:
        direction, shares = slope.copy(), []
        for step, change in reversed(pairs):
            shares.append((step * direction).sum() / (step * change).sum())
            direction -= shares[-1] * change
        direction = P.solve(direction)
        for (step, change), share in zip(pairs, reversed(shares), strict=True):
            direction += (share - (change * direction).sum() / (step * change).sum()) * step
    fall = max(float((slope * direction).sum()), float((slope * alone).sum()))
    return direction, _CAUTION * 0.5 * fall / unit


def penalised(
    points: Points,
    weights: np.ndarray,
    direction: np.ndarray | None,
    steps: tuple[float, ...],
    alpha: float,
    intercept: bool,
) -> Points:
    """The points with alpha |u|^2 / 2 added, u being the weights without the intercept."""
    for i, t in enumerate(steps):
        u = weights.copy() if direction is None else weights - t * direction
        if intercept:
            u[-1] = 0.0
        points.losses[i] += 0.5 * alpha * float((u * u).sum())
        if i < len(points.slopes):
            points.slopes[i] += alpha * u
    return points
