"""What is done with a microbatch of rows, on a worker or here: features, gradient, losses. Number code: NumPy and CSR in and out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..errors import InputError, first_not_finite
from ..execution.segments import add_block
from ..losses import Loss
from ..maps import check_rows, working_dtype
from ..maps.base import ArraysApart
from ..targets import Targets
from .schedules import Batch, BlockRows, row_order, scored_rows

#: This many sums of microbatches are added in one task; the client adds the results.
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
            raise InputError(f"y must be finite, but row {first_row + bad[0]} is not")
        folds = (np.asarray(more[-1]),) if self.folded else ()
        weight = more[0] if len(more) > len(folds) else None
        return X, y, None if weight is None else np.asarray(weight), *folds

    def combine(self, left: Any, right: Any) -> Any:
        raise AssertionError("one block is loaded at a time")


class Sums(NamedTuple):
    """What a microbatch adds to its batch: weighted sums over its rows.

    gradient : shape of the weights; loss, weight : of the rows
    null : loss of the constant prediction that training starts from, on the same rows
    """

    gradient: np.ndarray
    loss: float
    weight: float
    null: float = 0.0


@dataclass(frozen=True)
class BatchWork:
    """How the rows of a microbatch are picked, featurised and scored. It has a few hundred bytes and goes with each task.

    constant : value of the constant column whose weight is the intercept; 0 without an intercept
    start : the constant prediction that training starts from, shape (C,) or ()
    shift : means to subtract from dense features, shape (D,), or None, see `Spectrum`
    """

    targets: Targets
    loss: Loss
    constant: float
    seed: int
    start: np.ndarray | float = 0.0
    shift: np.ndarray | None = None

    def take(
        self,
        loaded: Sequence[tuple[Any, ...]],
        maps: Sequence[Any],
        epoch: int,
        microbatch: Sequence[BlockRows],
    ) -> tuple[Any, ...]:
        """(features, encoded targets, weights) of a microbatch, rows in the order of the epoch; `loaded` are the blocks of its rows."""
        blocks = []
        for (X, y, weight, *folds), s in zip(loaded, microbatch, strict=True):
            rows = row_order(self.seed, epoch, s.block, X.shape[0], *folds)[s.first : s.last]
            blocks.append((X[rows], y[rows], None if weight is None else weight[rows]))
        joined = blocks[0] if len(blocks) == 1 else tuple(map(stack_rows, zip(*blocks, strict=True)))
        return self._features(joined, maps, slice(None))

    def _features(self, loaded: tuple[Any, ...], maps: Sequence[Any], rows: Any) -> tuple[Any, ...]:
        X, y, weight = loaded[:3]
        Z = X[rows]
        for function in maps:
            Z = function(Z)
        if self.shift is not None:
            Z = Z - self.shift.astype(np.result_type(Z.dtype, np.float32))
        dtype = working_dtype(Z.dtype)
        if Z.dtype != dtype:
            Z = Z.astype(dtype)
        Y, w = self.targets.encode(y[rows], None if weight is None else weight[rows])
        return Z, Y.astype(dtype), w

    def scores(self, Z: Any, W: np.ndarray) -> np.ndarray:
        """z.w + b, shape (b, C)."""
        W = W.astype(Z.dtype, copy=False)
        if not self.constant:
            return np.asarray(Z @ W)
        return np.asarray(Z @ W[:-1]) + self.constant * W[-1]

    def gradient(self, taken: Sequence[Any], W: np.ndarray) -> Sums:
        """Sums over the microbatch, the gradient of shape (P, C); two products for all classes."""
        Z, Y, w = taken
        value, slope = self.loss(self.scores(Z, W), Y)
        null = self.loss(np.broadcast_to(np.asarray(self.start, Y.dtype), Y.shape), Y)[0]
        if w is not None:
            slope = slope * w[:, None].astype(slope.dtype)
            value, null = value * w, null * w
        G = np.empty(W.shape, dtype=Z.dtype)
        G[: Z.shape[1]] = Z.T @ slope
        if self.constant:
            G[-1] = self.constant * slope.sum(axis=0, dtype=np.float64)
        total = float(len(value) if w is None else w.sum())
        return Sums(G, float(value.sum(dtype=np.float64)), total, float(null.sum(dtype=np.float64)))

    def losses(self, given: tuple[Any, ...], rows: np.ndarray, W: np.ndarray) -> np.ndarray:
        """[weight, loss], summed over some rows of (features, targets, weights or None)."""
        total, step = np.zeros(2), self.tile_rows(W)
        for a in range(0, len(rows), step):
            Z, Y, w = self._features(given, (), rows[a : a + step])
            w = np.ones(len(Y)) if w is None else w
            total += w.sum(), w @ self.loss(self.scores(Z, W), Y)[0]
        return total

    def tile_rows(self, W: np.ndarray) -> int:
        """The most rows that are scored at one time."""
        return scored_rows(len(W))


@dataclass(frozen=True)
class LossReduction(ArraysApart):
    """Adds up weights and losses of rows at given weights of the model, which each worker gets once.

    held : whether rows of fold 0 are summed, or the others; folded : whether there are folds, the last array
    """

    work: BatchWork
    weights: np.ndarray | None = field(compare=False)
    held: bool
    folded: bool
    nbytes: int = 16

    @property
    def flops_per_row(self) -> float:
        return 0.0 if self.weights is None else 4.0 * self.weights.size

    def initial(self) -> np.ndarray:
        return np.zeros(2)

    def update(self, state: np.ndarray, first_row: int, X: Any, y: Any, *more: Any) -> np.ndarray:
        assert self.weights is not None
        block = LoadReduction(X.shape[1], self.folded).update(None, first_row, X, y, *more)
        rows = np.flatnonzero((block[3] == 0) == self.held) if self.folded else np.arange(len(y))
        return state + self.work.losses(block[:3], rows, self.weights)

    def combine(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return left + right


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
    return Sums(G, *(float(sum(column)) for column in list(zip(*microbatches, strict=True))[1:]))


class LocalBatches:
    """Computes the gradients of a sequence of batches over blocks that `load` returns; methods as of DaskBatches."""

    def __init__(self, load: Callable[[int], Any], maps: Sequence[Any], work: BatchWork):
        self._load = load
        self._maps = list(maps)
        self.work = work
        self._held: dict[int, Any] = {}
        self._sequence: Iterator[tuple[int, Batch]] = iter(())

    def begin(self, sequence: Iterator[tuple[int, Batch]]) -> None:
        self._sequence = sequence

    def gradient(self, W: np.ndarray) -> tuple[int, Batch, Sums] | None:
        try:
            epoch, batch = next(self._sequence)
        except StopIteration:
            return None
        needed = set(batch.blocks)
        self._held = {b: rows for b, rows in self._held.items() if b in needed}
        sums = []
        for microbatch in batch.microbatches:
            loaded = [self._block(s.block) for s in microbatch]
            taken = self.work.take(loaded, self._maps, epoch, microbatch)
            sums.append(self.work.gradient(taken, W))
        sums = [add_sums(*sums[a : a + FAN_IN]) for a in range(0, len(sums), FAN_IN)]
        return epoch, batch, sums[0] if len(sums) == 1 else add_sums(*sums)

    def _block(self, block: int) -> Any:
        if block not in self._held:
            self._held[block] = self._load(block)
        return self._held[block]

    def close(self) -> None:
        self._held.clear()


def memory_loader(arrays: Sequence[Any], rows: Sequence[int], folded: bool = False) -> Callable[[int], Any]:
    """A function that returns one block of in-memory (X, y) or (X, y, weight), by its number.

    rows : number of rows of each block; folded : whether the last array has the folds of the rows
    """
    starts = np.concatenate([[0], np.cumsum(rows)]).tolist()
    reduction = LoadReduction(arrays[0].shape[1], folded)

    def load(block: int) -> Any:
        a, b = starts[block], starts[block + 1]
        return add_block(reduction, None, a, [array[a:b] for array in arrays])

    return load
