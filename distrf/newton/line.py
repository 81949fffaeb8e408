"""The loss along a line of weights and its gradient at some points of the line, in one pass over the rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..losses import Loss
from ..maps import check_rows, working_dtype
from ..maps.base import ArraysApart
from ..ridge.gram import ALL_ROWS, FoldRule
from ..subspace.sketches import add_product
from ..targets import Targets
from .hessian import SampledRows, scores

#: Rows of a tile, whose scores stay in the cache.
_TILE = 4096


@dataclass
class Points:
    """Loss and gradient at points of a line, of the mean over rows or of their sum.

    losses : shape (T,); slopes : shape (S, P, C) at the first S points, P = D + 1 with an intercept; weight : of all rows
    """

    losses: np.ndarray
    slopes: np.ndarray
    weight: float = 0.0


@dataclass(frozen=True)
class LineReduction(ArraysApart):
    """Adds up the loss at the weights W - t d for some t, and its gradient at the first few of them.

    Attributes
    ----------
    n_features : int, D
    targets : Targets
    loss : Loss
    intercept : bool, whether the last row of the weights is one
    rule : FoldRule, whose set 0 is left out where there is more than one
    steps : tuple of float, the T values of t; the first is 0 alone where there is no direction
    n_slopes : int, S, how many of them have a gradient
    exact : bool, whether products are made in float64
    weights, direction : arrays of shape (P, C), sent once to each worker
    shift : array of shape (D,), subtracted from dense rows in float64; or None
    """

    n_features: int
    targets: Targets
    loss: Loss
    intercept: bool = True
    rule: FoldRule = ALL_ROWS
    steps: tuple[float, ...] = (0.0,)
    n_slopes: int = 1
    exact: bool = False
    weights: np.ndarray | None = field(default=None, compare=False, repr=False)
    direction: np.ndarray | None = field(default=None, compare=False, repr=False)
    shift: np.ndarray | None = field(default=None, compare=False, repr=False)

    @property
    def _shape(self) -> tuple[int, int, int]:
        return self.n_slopes, self.n_features + self.intercept, self.targets.width

    @property
    def nbytes(self) -> int:
        return 8 * (int(np.prod(self._shape)) + len(self.steps) + 1)

    @property
    def flops_per_row(self) -> float:
        return 2.0 * self.n_features * self.targets.width * (self.n_slopes + 2)

    @property
    def scratch_bytes(self) -> int:
        """Scores, targets and slopes of a tile, and its rows in float64."""
        return 8 * _TILE * (6 * self.targets.width + self.exact * self.n_features)

    def initial(self) -> np.ndarray:
        """Sums of weights and losses, and of gradients, one after the other."""
        return np.zeros(self.nbytes // 8)

    def update(self, state: np.ndarray, first_row: int, Z: Any, y: Any, *more: Any) -> np.ndarray:
        assert self.weights is not None
        Z = check_rows(Z, self.n_features)
        folds, weight = self.rule.of_block(first_row, len(y), more)
        points = self._parts(state)
        for a in range(0, len(y), _TILE):
            part = slice(a, a + _TILE)
            tile = Z[part].astype(np.float64 if self.exact else working_dtype(Z.dtype), copy=False)
            tile = tile if self.shift is None else tile - self.shift
            Y, w = self.targets.encode(np.asarray(y[part]), None if weight is None else weight[part])
            w = np.ones(len(Y)) if w is None else w
            w = np.where(folds[part] == 0, 0.0, w) if self.rule.n_sets > 1 else w
            _add(points, tile, Y, w, self.loss, self.weights, self.direction, self.steps)
            state[0] += w.sum()
        return state

    def combine(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        left += right
        return left

    def _parts(self, state: np.ndarray) -> Points:
        T = len(self.steps)
        return Points(state[1 : T + 1], state[T + 1 :].reshape(self._shape), float(state[0]))

    def points(self, state: np.ndarray) -> Points:
        """The means over the rows, whose weights must not all be zero."""
        sums = self._parts(state)
        return Points(sums.losses / sums.weight, sums.slopes / sums.weight, sums.weight)


def sampled_points(
    rows: SampledRows, loss: Loss, W: np.ndarray, d: np.ndarray | None, steps: tuple[float, ...], slopes: int
) -> Points:
    """What a pass gives, on the sampled rows."""
    nothing = Points(np.zeros(len(steps)), np.zeros((slopes, *W.shape)))
    return _add(nothing, rows.Z, rows.Y, rows.weight, loss, W, d, steps)


def _add(
    points: Points, Z: Any, Y: np.ndarray, w: np.ndarray, loss: Loss, W: np.ndarray, d: Any, steps: tuple[float, ...]
) -> Points:  # fmt: skip
    """The points with the sums of rows added to the losses of all steps, and to the slopes of the first."""
    here, along, D = scores(Z, W), 0.0 if d is None else scores(Z, d), Z.shape[1]
    for i, t in enumerate(steps):
        value, slope = loss(here - t * along, Y)
        points.losses[i] += w @ value
        if i < len(points.slopes):
            slope = (slope * w[:, None]).astype(Z.dtype)
            add_product(Z, slope, points.slopes[i, :D])
            points.slopes[i, D:] += slope.sum(axis=0, dtype=np.float64)
    return points
