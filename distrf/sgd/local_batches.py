"""Batches in this process: the same microbatches and sums as on a cluster. Number code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..execution.segments import add_block
from .batch_work import FAN_IN, BatchWork, LoadReduction, Sums, add_sums
from .schedules import Batch


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

    def gradient(self, W: np.ndarray, **numbers: Any) -> tuple[int, Batch, Sums] | None:
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
            sums.append(self.work.gradient(taken, W, **numbers))
        while True:  # at least once: `add_sums` turns a single gradient into float64 too
            sums = [add_sums(*sums[a : a + FAN_IN]) for a in range(0, len(sums), FAN_IN)]
            if len(sums) == 1:
                return epoch, batch, sums[0]

    def _block(self, block: int) -> Any:
        if block not in self._held:
            self._held[block] = self._load(block)
        return self._held[block]

    def validate(self, W: np.ndarray, blocks: Sequence[int], held: bool = True) -> np.ndarray:
        total: Any = 0.0
        for block in blocks:
            loaded = self._held.get(block) or self._load(block)
            total = total + self.work.score_block(loaded, self._maps, block, W, held)
        return np.asarray(total)

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
