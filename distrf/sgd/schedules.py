"""Which rows a batch takes: seeded, new in each epoch, a function of the blocks and never of the workers.

A *shuffle window* is the blocks that are held at a time: one drawn from each set of neighbours. Each batch
takes as many rows of every block of its window, so a batch mixes files that are sorted by date or class. What it takes
from neighbouring blocks of the window is a *microbatch*, whose gradient is one summand. Number code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..randomness import permutation

#: Blocks of a shuffle window, and their bytes, at most, unless one batch needs more; the next window is read meanwhile.
_WINDOW_BLOCKS = 16
_WINDOW_BYTES = 512 * 2**20
#: Orders of rows that a process keeps: of the blocks of two windows.
ORDERS = 2 * _WINDOW_BLOCKS
#: Rows of a microbatch, at most; a quarter of them makes microbatches of their own until a batch has four. A task costs some
#: milliseconds whatever it does, and more workers want more tasks.
MICROBATCH_ROWS = 1024
_MICROBATCHES = 4
#: Blocks side by side in a batch of whole blocks.
LOCAL_BLOCKS = 8


@dataclass(frozen=True)
class BlockRows:
    """Rows first:last of the seeded permutation of a block's usable rows."""

    block: int
    first: int
    last: int


@dataclass(frozen=True)
class Batch:
    """The rows of one step.

    window, blocks : number of the shuffle window in the epoch, and its blocks
    microbatches : of each, the rows that it takes of some blocks
    """

    window: int
    blocks: tuple[int, ...]
    microbatches: tuple[tuple[BlockRows, ...], ...]

    @property
    def rows(self) -> int:
        return sum(s.last - s.first for microbatch in self.microbatches for s in microbatch)


@dataclass(frozen=True)
class Schedule:
    """Batches of about `batch_size` rows over blocks of the given numbers of usable rows.

    rows : usable rows of each block; 0 leaves it out
    block_bytes : of the largest block as it is held
    whole_blocks : batches are whole blocks, each a microbatch, whatever `batch_size`
    microbatch_rows : rows of a microbatch, at most
    """

    rows: tuple[int, ...]
    batch_size: int
    block_bytes: int
    seed: int
    shuffle: bool = True
    whole_blocks: bool = False
    microbatch_rows: int = MICROBATCH_ROWS

    @property
    def n_rows(self) -> int:
        return sum(self.rows)

    def windows(self, epoch: int) -> list[list[int]]:
        """Blocks of each shuffle window, in the order of an epoch.

        With `shuffle` each window gets at most one block of every set of neighbours, at random.
        """
        used = [i for i, r in enumerate(self.rows) if r]
        most = max(2, min(_WINDOW_BLOCKS, _WINDOW_BYTES // max(1, self.block_bytes)))
        count = max(1, min(-(-len(used) // most), self.n_rows // self.batch_size))
        if not self.shuffle:
            return list(split_evenly(used, count))
        windows: list[list[int]] = [[] for _ in range(count)]
        for neighbours, a in enumerate(range(0, len(used), count)):
            order = permutation(self.seed, f"sgd blocks {epoch}", neighbours, count)
            for block, window in zip(used[a : a + count], order.tolist(), strict=False):
                windows[window].append(block)
        return windows

    def batches(self, epoch: int) -> Iterator[Batch]:
        """The batches of an epoch, in order; every usable row is in exactly one."""
        microbatches = microbatch_count(self.batch_size, self.microbatch_rows)
        for g, blocks in enumerate(self.windows(epoch)):
            if self.whole_blocks:
                for some in split_evenly(blocks, -(-len(blocks) // LOCAL_BLOCKS)):
                    yield Batch(g, tuple(some), tuple((BlockRows(b, 0, self.rows[b]),) for b in some))
                continue
            count = max(1, round(sum(self.rows[b] for b in blocks) / self.batch_size))
            sets = list(split_evenly(list(enumerate(blocks)), min(len(blocks), microbatches)))
            cuts = -(-microbatches // len(sets)) if sets else 0
            ranges = count * cuts  # of the rows of each block
            for r in range(count):
                taken = []
                for members in sets:
                    for k in range(r * cuts, (r + 1) * cuts):
                        # Blocks with few rows give them in different batches.
                        offsets = ((b, self.rows[b], ranges * i // len(blocks)) for i, b in members)
                        cut = (
                            BlockRows(b, (n * k + shift) // ranges, (n * (k + 1) + shift) // ranges)
                            for b, n, shift in offsets
                        )
                        taken.append(tuple(s for s in cut if s.last > s.first))
                if any(taken):
                    yield Batch(g, tuple(blocks), tuple(microbatch for microbatch in taken if microbatch))

    def count(self, epoch: int) -> int:
        """Batches of an epoch."""
        return sum(1 for _ in self.batches(epoch))


def microbatch_count(batch_size: int, microbatch_rows: int) -> int:
    """Microbatches of a batch: a power of two, so that they go evenly to most numbers of workers."""
    wanted = max(min(_MICROBATCHES, 4 * batch_size // microbatch_rows), -(-batch_size // microbatch_rows), 1)
    return 1 << (wanted - 1).bit_length()


def split_evenly(items: list, count: int) -> Iterator[list]:
    """`count` lists of neighbours, of nearly equal length."""
    for i in range(count):
        yield items[len(items) * i // count : len(items) * (i + 1) // count]


@dataclass(frozen=True)
class Holdout:
    """Rows kept out for validation: seeded rows of every block, since blocks may be sorted by class or date."""

    fraction: float
    seed: int

    def usable(self, block: int, rows: int) -> int:
        """Rows of a block left for training."""
        return rows - round(self.fraction * rows) if rows > 1 else rows

    def blocks(self, rows: Sequence[int]) -> list[int]:
        """Blocks, of all of so many rows, that have rows kept out."""
        return [i for i, r in enumerate(rows) if r and self.usable(i, r) < r]

    def split(self, block: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
        """(training rows, validation rows) of a block, ascending indices."""
        keep = self.usable(block, rows)
        if keep in (0, rows):
            every = np.arange(rows)
            return every[:keep], every[keep:]
        order = permutation(self.seed, "sgd validation", block, rows)
        return np.sort(order[:keep]), np.sort(order[keep:])


def order_bytes(blocks: Sequence[int]) -> int:
    """What the orders of rows kept by a process take, for blocks of so many rows."""
    return min(len(blocks), ORDERS) * 4 * max(blocks)


@lru_cache(maxsize=ORDERS)
def row_order(seed: int, epoch: int, block: int, rows: int, shuffle: bool, holdout: Holdout) -> np.ndarray:
    """Training rows of a block in the order of an epoch, int32; `rows` counts all rows of the block."""
    usable = holdout.split(block, rows)[0].astype(np.int32)
    return usable[permutation(seed, f"sgd rows {epoch}", block, len(usable))] if shuffle else usable
