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
SLOPED = 2
STEPS: tuple[float, ...] = (1.0, 0.3, 3.0, 0.1, 0.03, 0.01)
#: Pairs of L-BFGS.
_PAIRS = 20
#: A step along which the slope falls by a lesser share is no pair: along what is nearly a line the next step would be far too long.
_LEAST_BEND = 1e-3
#: The sample's Hessian is taken anew where a step lowers the estimate of the gap by less than this factor, and where the descent would end:
#: a row at the corner of its loss may have most of the curvature on one side, and none on the other.
_SLOW = 3.0
#: The estimate of the gap over that of a Hessian with a larger penalty, of a sample, and at a place where the loss may still bend; and over
#: that of the tilted sample, whose curvature is no more certain.
_CAUTION = 2.0
#: What a failed step adds to the Hessian, see `SampledHessian`; each further one ten times more. After so many, a loss that falls at
#: no length of a step falls by no more than rounding.
_DAMPING, _FAILURES = 0.1, 6

#: Mean loss plus penalty at the weights W - t d, with gradients at the first few: called with W, d or None, all t, and how many.
Objective = Callable[[np.ndarray, np.ndarray | None, tuple[float, ...], int], Points]


@dataclass
class Descent:
    """What a descent has come to.

    weights : array of shape (P, C); value : the objective there; gap : estimate of (value - minimum) / value, see `unit` of `descend`
    looks : at the rows, those of failed steps included; history : for each look at the rows "loss" and "gap"
    """

    weights: np.ndarray
    value: float
    gap: float
    looks: int = 1
    history: list[dict[str, float]] = field(default_factory=list)


def descend(
    objective: Objective, weights: np.ndarray, hessian: Callable[[np.ndarray, float], SampledHessian], *, tol: float, most: int,
    unit: float = 0.0, slow: float = _SLOW, shifts: bool = False, quadratic: bool = False, exact: bool = False,
    doubt: Callable[[np.ndarray, np.ndarray, float], float] = lambda weights, slope, gap: 0.0,
    remark: Callable[[Descent], None] = lambda _: None,
) -> Descent:  # fmt: skip
    """Minimise from some weights on, until the estimated gap is at most `tol`, or for `most` looks at the rows.

    Parameters
    ----------
    objective : Objective
    weights : array of shape (P, C)
    hessian : callable
        The sample's Hessian at some weights, with some damping. The gap is that of the Hessian without any: damping makes it too small.
    tol : float
    most : int
    unit : float
        The gap is a share of this where the value is less.
    slow : float
        The Hessian is taken anew where a step lowers the estimate by less than this factor.
    shifts : bool
        Whether a number added to all scores of a row changes nothing. Then the least weights have sums of 0 over columns, and
        only the penalty bends the loss elsewhere, which the Hessian of each column by itself does not see.
    quadratic : bool
        Whether the loss is a quadratic: one point then tells the lowest of its line, and no step fails.
    exact : bool
        Whether the Hessian is that of all rows. Its direction is then right, and a failed step only too long.
    doubt : callable, optional
        How much the loss may fall from some weights, where it has some gradient and a parabola has some gap. The descent does not end
        before that, too, is at most `tol`.
    remark : callable, optional
        Called with what the descent has come to after each look.
    """
    weights = _centred(weights, shifts)
    points = objective(weights, None, (0.0,), 1)
    P, Q, level, age, sloped = hessian(weights, 0.0), None, 0, 0, 1 if quadratic else SLOPED
    # Where rows of large weight are not in the sample, the others are a lesser share of all rows than of the sample.
    caution = _CAUTION * max(1.0, points.weight / P.rows.total)
    now, slope = Descent(weights, float(points.losses[0]), np.inf), points.slopes[0]
    pairs = list[tuple[np.ndarray, np.ndarray]]()
    while True:
        size = max(abs(now.value), unit, np.finfo(float).tiny)
        direction, gap = _newton(P, pairs, slope, size / caution)
        if age and not quadratic and not tol < gap <= now.gap / slow:
            del P, Q  # before there are others
            P, Q, age = hessian(now.weights, 0.0), None, 0
            direction, gap = _newton(P, pairs, slope, size / caution)
        if gap <= tol and not quadratic:
            gap = max(gap, caution * doubt(now.weights, slope, gap) / size)
        now.gap = gap = min(gap, abs(now.value) / size)  # no loss is below 0
        now.history.append({"loss": now.value, "gap": gap})
        remark(now)
        if gap <= tol or now.looks >= most:
            return now
        failed, steps = exact, STEPS[:1] if quadratic else STEPS
        while True:
            if level:
                Q = Q or hessian(now.weights, _DAMPING * 10.0 ** (level - 1))
                direction = _newton(Q, pairs, slope, size)[0]
            direction = _centred(direction, shifts)
            points = objective(now.weights, direction, steps, sloped)
            now.looks += 1
            best = int(np.argmin(points.losses[:sloped]))
            length = _to_lowest(points, now.value, slope, direction) if quadratic else steps[best]
            if points.losses[best] < now.value:
                break
            lower, failures = points.losses.min() < now.value, 1 if exact else _FAILURES
            if now.looks >= most or quadratic or (level >= failures and not lower):
                return now
            if exact and lower:
                steps = tuple(steps[int(np.argmin(points.losses))] * t for t in STEPS)
                continue
            if failed:
                pairs = []
            level, Q, failed = level + 1, None, True
        if level and points.losses[2] < now.value:  # a step three times as long would not have failed
            level, Q = level - 1, None
        step = -length * direction
        change = points.slopes[best] - slope
        if (step * change).sum() > _LEAST_BEND * abs((step * slope).sum()):
            pairs = [*pairs, (step, change)][-_PAIRS:]
        now.weights, now.value = now.weights + step, float(points.losses[best])
        slope, age = points.slopes[best], age + 1


def _to_lowest(points: Points, value: float, slope: np.ndarray, direction: np.ndarray) -> float:
    """The length of the step to the lowest point of a line of a quadratic, whose loss and gradient become those of `points`."""
    change = points.slopes[0] - slope
    fall, bend = float((slope * direction).sum()), -float((change * direction).sum())
    length = fall / bend if bend > 0 else 0.0
    points.losses[0], points.slopes[0] = value - 0.5 * length * fall, slope + length * change
    return length


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
    return direction, 0.5 * fall / unit


def penalised(
    points: Points, weights: np.ndarray, direction: np.ndarray | None, steps: tuple[float, ...], alpha: float,
    intercept: bool,
) -> Points:  # fmt: skip
    """The points with alpha |u|^2 / 2 added, u being the weights without the intercept."""
    for i, t in enumerate(steps):
        u = weights.copy() if direction is None else weights - t * direction
        if intercept:
            u[-1] = 0.0
        points.losses[i] += 0.5 * alpha * float((u * u).sum())
        if i < len(points.slopes):
            points.slopes[i] += alpha * u
    return points
