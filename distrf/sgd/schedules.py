"""Which rows a round takes: seeded, new in each epoch, a function of the blocks and never of the workers.

A *group* of blocks is resident at a time, one drawn from each stretch of the data, and each round takes an equal
share of every block of its group: so rounds mix files that are sorted by date or class. What a round takes from
neighbours in the group is a *parcel*, the work of one task. Number code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..randomness import permutation

#: Blocks of a group, and their bytes, at most, unless one round needs more; the next group is read meanwhile.
_GROUP_BLOCKS = 16
_GROUP_BYTES = 512 * 2**20
#: Orders of rows that a process keeps: of the blocks of two groups.
ORDERS = 2 * _GROUP_BLOCKS
#: Rows of a parcel, at most; a quarter of them makes parcels of their own until a round has four. A task costs some
#: milliseconds whatever it does, and more workers want more tasks.
PARCEL_ROWS = 1024
_PARCELS = 4
#: Blocks side by side in a round of whole blocks.
AVERAGED_BLOCKS = 8


@dataclass(frozen=True)
class Slice:
    """Rows first:last of the seeded permutation of a block's usable rows."""

    block: int
    first: int
    last: int


@dataclass(frozen=True)
class Round:
    """Parcels of slices of one step; `group` counts the groups of the epoch, `blocks` are those of the group."""

    group: int
    blocks: tuple[int, ...]
    parcels: tuple[tuple[Slice, ...], ...]

    @property
    def rows(self) -> int:
        return sum(s.last - s.first for parcel in self.parcels for s in parcel)


@dataclass(frozen=True)
class Schedule:
    """Rounds of about `round_rows` rows over blocks of the given numbers of usable rows.

    rows : usable rows of each block; 0 leaves it out
    block_bytes : of the largest block as it is held
    whole_blocks : rounds are whole blocks, each a parcel, whatever `round_rows`
    parcel_rows : rows of a parcel, at most
    """

    rows: tuple[int, ...]
    round_rows: int
    block_bytes: int
    seed: int
    shuffle: bool = True
    whole_blocks: bool = False
    parcel_rows: int = PARCEL_ROWS

    @property
    def n_rows(self) -> int:
        return sum(self.rows)

    def groups(self, epoch: int) -> list[list[int]]:
        """Blocks of each group, in the order of an epoch.

        With `shuffle` each group gets at most one block of every stretch of neighbours, at random.
        """
        used = [i for i, r in enumerate(self.rows) if r]
        most = max(2, min(_GROUP_BLOCKS, _GROUP_BYTES // max(1, self.block_bytes)))
        count = max(1, min(-(-len(used) // most), self.n_rows // self.round_rows))
        if not self.shuffle:
            return list(_shares(used, count))
        groups: list[list[int]] = [[] for _ in range(count)]
        for stretch, a in enumerate(range(0, len(used), count)):
            order = permutation(self.seed, f"sgd blocks {epoch}", stretch, count)
            for block, group in zip(used[a : a + count], order.tolist(), strict=False):
                groups[group].append(block)
        return groups

    def rounds(self, epoch: int) -> Iterator[Round]:
        """The rounds of an epoch, in order; every usable row is in exactly one."""
        parcels = parcel_count(self.round_rows, self.parcel_rows)
        for g, blocks in enumerate(self.groups(epoch)):
            if self.whole_blocks:
                for part in _shares(blocks, -(-len(blocks) // AVERAGED_BLOCKS)):
                    yield Round(g, tuple(part), tuple((Slice(b, 0, self.rows[b]),) for b in part))
                continue
            count = max(1, round(sum(self.rows[b] for b in blocks) / self.round_rows))
            sets = list(_shares(list(enumerate(blocks)), min(len(blocks), parcels)))
            cuts = -(-parcels // len(sets)) if sets else 0
            pieces = count * cuts  # of each block
            for r in range(count):
                taken = []
                for members in sets:
                    for piece in range(r * cuts, (r + 1) * cuts):
                        # Blocks with few rows give them in different rounds.
                        offsets = ((b, self.rows[b], pieces * i // len(blocks)) for i, b in members)
                        cut = (
                            Slice(b, (n * piece + shift) // pieces, (n * (piece + 1) + shift) // pieces)
                            for b, n, shift in offsets
                        )
                        taken.append(tuple(s for s in cut if s.last > s.first))
                if any(taken):
                    yield Round(g, tuple(blocks), tuple(parcel for parcel in taken if parcel))

    def count(self, epoch: int) -> int:
        """Rounds of an epoch."""
        return sum(1 for _ in self.rounds(epoch))


def parcel_count(round_rows: int, parcel_rows: int) -> int:
    """Parcels of a round: a power of two, so that they go evenly to most numbers of workers."""
    wanted = max(min(_PARCELS, 4 * round_rows // parcel_rows), -(-round_rows // parcel_rows), 1)
    return 1 << (wanted - 1).bit_length()


def _shares(items: list, count: int) -> Iterator[list]:
    """`count` runs of nearly equal length."""
    for i in range(count):
        yield items[len(items) * i // count : len(items) * (i + 1) // count]


@dataclass(frozen=True)
class Holdout:
    """Rows kept out for validation: a seeded part of every block, since blocks may be sorted by class or date."""

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
