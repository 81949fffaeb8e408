"""Rounds in this process: the same parcels and sums as on a cluster. Number code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..blocks.graphs import add_block
from .schedules import Round
from .slices import FAN_IN, LoadReduction, SliceWork, Sums, add_sums


class LocalRounds:
    """Gradients of a sequence of rounds over blocks that `load` returns; see DaskRounds for the methods."""

    def __init__(self, load: Callable[[int], Any], maps: Sequence[Any], work: SliceWork):
        self._load = load
        self._maps = list(maps)
        self._work = work
        self._held: dict[int, Any] = {}
        self._sequence: Iterator[tuple[int, Round]] = iter(())
        self.most_held = 0

    def begin(self, sequence: Iterator[tuple[int, Round]]) -> None:
        self._sequence = sequence

    def gradient(self, W: np.ndarray, **numbers: Any) -> tuple[int, Round, Sums] | None:
        try:
            epoch, round_ = next(self._sequence)
        except StopIteration:
            return None
        wanted = set(round_.blocks)
        self._held = {b: rows for b, rows in self._held.items() if b in wanted}
        sums = []
        for parcel in round_.parcels:
            loaded = [self._block(s.block) for s in parcel]
            taken = self._work.take(loaded, self._maps, epoch, parcel)
            sums.append(self._work.gradient(taken, W, **numbers))
        while True:  # at least once: sums are in float64
            sums = [add_sums(*sums[a : a + FAN_IN]) for a in range(0, len(sums), FAN_IN)]
            if len(sums) == 1:
                return epoch, round_, sums[0]

    def _block(self, block: int) -> Any:
        if block not in self._held:
            self._held[block] = self._load(block)
            self.most_held = max(self.most_held, len(self._held))
        return self._held[block]

    def validate(self, W: np.ndarray, blocks: Sequence[int], held: bool = True) -> np.ndarray:
        total: Any = 0.0
        for block in blocks:
            loaded = self._held.get(block) or self._load(block)
            total = total + self._work.score_block(loaded, self._maps, block, W, held)
        return np.asarray(total)

    def close(self) -> None:
        self._held.clear()


def memory_loader(arrays: Sequence[Any], rows: Sequence[int]) -> Callable[[int], Any]:
    """Blocks of in-memory (X, y) or (X, y, weight), cut after the given numbers of rows."""
    starts = np.concatenate([[0], np.cumsum(rows)]).tolist()
    reduction = LoadReduction(arrays[0].shape[1])

    def load(block: int) -> Any:
        a, b = starts[block], starts[block + 1]
        return add_block(reduction, None, a, [array[a:b] for array in arrays])

    return load
