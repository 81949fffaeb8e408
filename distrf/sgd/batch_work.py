"""What a worker does with a microbatch of rows: features, gradient, scores. Number code: NumPy and CSR in and out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..errors import InputError, first_not_finite
from ..losses import Loss
from ..maps import check_rows, working_dtype
from ..targets import Targets, r2_of_sums
from .preconditioner import Preconditioner
from .schedules import BlockRows, Holdout, given_order, row_order, scored_rows

#: This many sums of microbatches are added in one task. With more there is a tree of sums.
FAN_IN = 8


@dataclass(frozen=True)
class LoadReduction:
    """Checks the rows of one block and returns them as (X, y, weight), so that they stay on a worker.

    folded : whether the last array of a block has the folds of its rows: they are one more in the result
    """

    n_columns: int
    folded: bool = False
    nbytes: int = 0
    flops_per_row: float = 0.0

    def initial(self) -> None:
        return None

    def update(self, state: Any, first_row: int, X: Any, y: Any, *more: Any) -> tuple[Any, ...]:
        X = check_rows(X, self.n_columns)
        y = np.asarray(y)
        if bad := first_not_finite(y):
            raise InputError(f"y must be finite, but row {bad[0]} is not")
        folds = (np.asarray(more[-1]),) if self.folded else ()
        weight = more[0] if len(more) > len(folds) else None
        return X, y, None if weight is None else np.asarray(weight), *folds

    def combine(self, left: Any, right: Any) -> Any:
        raise AssertionError("one block is loaded at a time")


class Sums(NamedTuple):
    """What a microbatch adds to its batch: weighted sums over its rows, and one largest value.

    gradient : shape of the weights; loss, weight : of the rows
    curved : curvature of the rows, each as a share of the largest that the loss can have
    null : loss of the constant prediction that training starts from, on the same rows
    longest : the largest weight times z'P z of a row; 0 unless it is measured
    """

    gradient: np.ndarray
    loss: float
    weight: float
    curved: float = 0.0
    null: float = 0.0
    longest: float = 0.0


@dataclass(frozen=True)
class RowLengths:
    """Computes z'P z of rows. Like a map, it travels without its arrays, which each worker gets once."""

    preconditioner: Preconditioner

    def __call__(self, Z: Any, constant: float) -> np.ndarray:
        return self.preconditioner.lengths(Z, constant)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return {"directions": self.preconditioner.directions, "shrink": self.preconditioner.shrink}

    def with_arrays(self, arrays: dict[str, np.ndarray]) -> RowLengths:
        preconditioner = replace(self.preconditioner, directions=arrays["directions"], shrink=arrays["shrink"])
        return RowLengths(preconditioner)

    def without_arrays(self) -> RowLengths:
        return self.with_arrays({"directions": np.empty(0), "shrink": np.empty(0)})


@dataclass(frozen=True)
class BatchWork:
    """How the rows of a microbatch are picked, featurised and scored. It has a few hundred bytes and goes with each task.

    constant : value of the constant column whose weight is the intercept; 0 without an intercept
    start : the constant prediction that training starts from, shape (C,); None is 0
    probed : number of epochs in which the lengths of rows are measured; if > 0, the last of `maps` is a RowLengths
    shift : means to subtract from dense features, shape (D,), or None, see `Spectrum`
    units : factors on the shifted features, shape (D,), or None, see `Spectrum`
    """

    targets: Targets
    loss: Loss
    constant: float
    seed: int
    shuffle: bool
    holdout: Holdout
    start: np.ndarray | None = None
    probed: int = 0
    shift: np.ndarray | None = None
    units: np.ndarray | None = None

    def take(
        self,
        loaded: Sequence[tuple[Any, ...]],
        maps: Sequence[Any],
        epoch: int,
        microbatch: Sequence[BlockRows],
    ) -> tuple[Any, ...]:
        """(features, encoded targets, weights, `Sums.longest`) of a microbatch; `loaded` are the blocks of its rows."""
        joined = self.joined(loaded, epoch, microbatch)
        if not self.probed:
            return (*self._features(joined, maps, slice(None)), 0.0)
        Z, Y, w = self._features(joined, maps[:-1], slice(None))
        if epoch >= self.probed:
            return Z, Y, w, 0.0
        lengths = maps[-1](Z, self.constant)
        return Z, Y, w, float((lengths if w is None else lengths * w).max(initial=0.0))

    def joined(self, loaded: Sequence[tuple[Any, ...]], epoch: int, microbatch: Sequence[BlockRows]) -> Any:
        """(X, y, weight) of a microbatch, rows in the order of the epoch."""
        blocks = []
        for (X, y, weight, *folds), s in zip(loaded, microbatch, strict=True):
            if self.holdout.given:
                order = given_order(self.seed, epoch, s.block, folds[0], self.shuffle, self.holdout)
            else:
                order = row_order(self.seed, epoch, s.block, X.shape[0], self.shuffle, self.holdout)
            rows = order[s.first : s.last]
            blocks.append((X[rows], y[rows], None if weight is None else weight[rows]))
        return (
            blocks[0] if len(blocks) == 1 else tuple(stack_rows(column) for column in zip(*blocks, strict=True))
        )

    def _features(self, loaded: tuple[Any, ...], maps: Sequence[Any], rows: Any) -> tuple[Any, ...]:
        X, y, weight = loaded[:3]
        Z = X[rows]
        for function in maps:
            Z = function(Z)
        Z = self.moved(Z)
        dtype = working_dtype(Z.dtype)
        if Z.dtype != dtype:
            Z = Z.astype(dtype)
        Y, w = self.targets.encode(y[rows], None if weight is None else weight[rows])
        return Z, Y.astype(dtype), w

    def moved(self, Z: Any) -> Any:
        """Features minus `shift`, times `units`: the ones that the weights are trained on."""
        dtype = np.result_type(Z.dtype, np.float32)
        if self.shift is not None:
            Z = Z - self.shift.astype(dtype)
        if self.units is None:
            return Z
        # Multiplied in float64: a factor may be outside the range of float32 although the product is not.
        if sp.issparse(Z):
            data = (Z.data * self.units[Z.indices]).astype(dtype)
            return type(Z)((data, Z.indices, Z.indptr), shape=Z.shape)
        return (Z * self.units).astype(dtype)

    def scores(self, Z: Any, W: np.ndarray) -> np.ndarray:
        """z.w + b, shape (b, C)."""
        if not self.constant:
            return np.asarray(Z @ W)
        return np.asarray(Z @ W[:-1]) + self.constant * W[-1]

    def gradient(self, taken: Sequence[Any], W: np.ndarray) -> Sums:
        """Sums over the microbatch, the gradient of shape (P, C); two products for all classes."""
        Z, Y, w, *longest = taken
        value, slope = self.loss(self.scores(Z, W.astype(Z.dtype)), Y)
        curved = self.loss.curved(slope)
        null = self.loss(np.broadcast_to(self._start.astype(Y.dtype), Y.shape), Y)[0]
        if w is not None:
            slope = slope * w[:, None].astype(slope.dtype)
            value, curved, null = value * w, curved * w, null * w
        G = np.empty(W.shape, dtype=Z.dtype)
        G[: Z.shape[1]] = Z.T @ slope
        if self.constant:
            G[-1] = self.constant * slope.sum(axis=0, dtype=np.float64)
        total = float(len(value) if w is None else w.sum())
        losses = (
            float(value.sum(dtype=np.float64)),
            total,
            float(curved.sum()),
            float(null.sum(dtype=np.float64)),
        )
        return Sums(G, *losses, *longest)

    @property
    def _start(self) -> np.ndarray:
        return np.zeros(self.targets.width) if self.start is None else self.start

    def score_block(
        self, loaded: tuple[Any, ...], maps: Sequence[Any], block: int, W: np.ndarray, held: bool = True
    ) -> np.ndarray:
        """Score sums of the rows of a block that are `held` out, or of its training rows: see `validation_score`."""
        rows = self.holdout.split(block, loaded[0].shape[0], *loaded[3:])[1 if held else 0]
        maps = maps[:-1] if self.probed else maps
        total = np.zeros((5, W.shape[1]))
        step = scored_rows(len(W))
        for a in range(0, len(rows), step):
            Z, Y, w = self._features(loaded, maps, rows[a : a + step])
            total += score_sums(self.targets, self.loss, self.scores(Z, W.astype(Z.dtype)), Y, w)
        return total


#: Rows of the score sums: the weight; correct labels, or squared errors; targets and their squares; the loss.
WEIGHT, RIGHT, TARGETS, SQUARES, LOSS = range(5)


def score_sums(targets: Targets, loss: Loss, scores: np.ndarray, Y: np.ndarray, w: Any) -> np.ndarray:
    """Sums over rows, shape (5, C), in the order WEIGHT, RIGHT (or squared errors), TARGETS, SQUARES, LOSS."""
    total = np.zeros((5, Y.shape[1]))
    w = np.ones(len(Y)) if w is None else w
    total[WEIGHT], value = w.sum(), w @ loss(scores, Y)[0]
    if targets.classes is None:
        # Targets are centred, so the variance that the score divides by loses no digits to a large mean.
        Y = Y.astype(np.float64)
        total[[RIGHT, TARGETS, SQUARES]] = w @ (scores - Y) ** 2.0, w @ Y, w @ Y**2.0
    elif Y.shape[1] == 1:
        total[RIGHT] = w @ ((scores[:, 0] > 0) == (Y[:, 0] > 0))
    else:
        total[RIGHT] = w @ (scores.argmax(axis=1) == Y.argmax(axis=1))
    total[LOSS] = value
    return total


def validation_score(total: np.ndarray, classes: bool) -> float:
    """Accuracy, or R^2 averaged over outputs, from the score sums."""
    weight = max(total[WEIGHT, 0], np.finfo(float).tiny)
    if classes:
        return float(total[RIGHT, 0] / weight)
    spread = total[SQUARES] - total[TARGETS] ** 2 / weight
    return float(r2_of_sums(total[RIGHT], spread, total[SQUARES]).mean())


def stack_rows(blocks: Sequence[Any]) -> Any:
    """The rows of several blocks as one array or CSR matrix; None for weights that are None."""
    if blocks[0] is None:
        return None
    return sp.vstack(blocks, format="csr") if sp.issparse(blocks[0]) else np.concatenate(blocks)


def add_sums(*microbatches: Sums) -> Sums:
    """Sums of microbatches added in the order given, in float64."""
    G = microbatches[0].gradient.astype(np.float64)
    for m in microbatches[1:]:
        G += m.gradient
    return Sums(
        G,
        sum(m.loss for m in microbatches),
        sum(m.weight for m in microbatches),
        sum(m.curved for m in microbatches),
        sum(m.null for m in microbatches),
        max(m.longest for m in microbatches),
    )
