"""Which rows a round takes: seeded, new in each epoch, a function of the blocks and never of the workers.

A *group* of blocks, drawn from all over the data by a permutation, is resident at a time, and each round takes
slices of at least eight blocks of the group: so rounds mix files that are sorted by date or class. Number code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..randomness import permutation

#: Blocks of a group, and their bytes at most; the blocks of the next group are read meanwhile.
_GROUP_BLOCKS = 16
_GROUP_BYTES = 512 * 2**20
#: A group holds at least this many rounds, so that small blocks mix too.
_ROUNDS_PER_GROUP = 4
#: A round takes slices of so many blocks at least, of more where slices then keep this many rows: a task
#: costs some milliseconds whatever it does.
_MIXED_BLOCKS = 8
_SLICE_AT_LEAST = 512
#: Rows of a slice at most: the unit of work of one task.
SLICE_ROWS = 1024


@dataclass(frozen=True)
class Slice:
    """Rows first:last of the seeded permutation of a block's usable rows."""

    block: int
    first: int
    last: int


@dataclass(frozen=True)
class Round:
    """Slices of one step; `group` counts the groups of the epoch, `blocks` are those of the group."""

    group: int
    blocks: tuple[int, ...]
    slices: tuple[Slice, ...]

    @property
    def rows(self) -> int:
        return sum(s.last - s.first for s in self.slices)


@dataclass(frozen=True)
class Schedule:
    """Rounds of about `round_rows` rows over blocks of the given numbers of usable rows.

    rows : usable rows of each block; 0 leaves it out
    block_bytes : of the largest block as it is held
    """

    rows: tuple[int, ...]
    round_rows: int
    block_bytes: int
    seed: int
    shuffle: bool = True

    @property
    def n_rows(self) -> int:
        return sum(self.rows)

    def groups(self, epoch: int) -> list[list[int]]:
        """Blocks of each group, in the order of an epoch."""
        used = [i for i, r in enumerate(self.rows) if r]
        if self.shuffle:
            used = [used[i] for i in permutation(self.seed, "sgd blocks", epoch, len(used))]
        most = max(2, min(_GROUP_BLOCKS, _GROUP_BYTES // max(1, self.block_bytes)))
        groups: list[list[int]] = [[]]
        held = 0
        for block in used:
            if len(groups[-1]) >= most and held >= _ROUNDS_PER_GROUP * self.round_rows:
                groups.append([])
                held = 0
            groups[-1].append(block)
            held += self.rows[block]
        if len(groups) > 1 and held < self.round_rows:  # too few rows for a round of their own
            last = groups.pop()
            groups[-1].extend(last)
        return groups

    def rounds(self, epoch: int) -> Iterator[Round]:
        """The rounds of an epoch, in order; every usable row is in exactly one."""
        for g, blocks in enumerate(self.groups(epoch)):
            count = max(1, round(sum(self.rows[b] for b in blocks) / self.round_rows))
            mixed = min(len(blocks), max(_MIXED_BLOCKS, self.round_rows // _SLICE_AT_LEAST))
            parts = -(-count * mixed // len(blocks))  # of each block
            pieces: list[Slice] = []
            for part in range(parts):
                order = range(len(blocks))
                if self.shuffle and parts != count:
                    order = permutation(self.seed, f"sgd turns {epoch} {g}", part, len(blocks)).tolist()
                for b in (blocks[i] for i in order):
                    rows = self.rows[b]
                    pieces.append(Slice(b, rows * part // parts, rows * (part + 1) // parts))
            for r in range(count):
                share = pieces[len(pieces) * r // count : len(pieces) * (r + 1) // count]
                slices = tuple(piece for s in share for piece in _cut(s))
                if slices:
                    yield Round(g, tuple(blocks), slices)

    def count(self, epoch: int) -> int:
        """Rounds of an epoch."""
        return sum(1 for _ in self.rounds(epoch))


def _cut(s: Slice) -> Iterator[Slice]:
    """A slice in equal parts of at most SLICE_ROWS; none where it is empty."""
    rows = s.last - s.first
    pieces = -(-rows // SLICE_ROWS)
    for i in range(pieces):
        yield Slice(s.block, s.first + rows * i // pieces, s.first + rows * (i + 1) // pieces)


@dataclass(frozen=True)
class Holdout:
    """Rows kept out for validation: whole blocks where there are enough, else a seeded part of each block."""

    fraction: float
    whole_blocks: frozenset[int]
    seed: int

    @classmethod
    def of_blocks(cls, rows: Sequence[int], fraction: float, seed: int) -> Holdout:
        used = [i for i, r in enumerate(rows) if r]
        if not fraction or len(used) * fraction < 2:
            return cls(fraction, frozenset(), seed)
        order = permutation(seed, "sgd validation blocks", 0, len(used))
        return cls(fraction, frozenset(used[i] for i in order[: round(fraction * len(used))]), seed)

    def usable(self, block: int, rows: int) -> int:
        """Rows of a block left for training."""
        if self.whole_blocks:
            return 0 if block in self.whole_blocks else rows
        return rows - round(self.fraction * rows) if rows > 1 else rows

    def split(self, block: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
        """(training rows, validation rows) of a block, ascending indices."""
        keep = self.usable(block, rows)
        if keep in (0, rows):
            every = np.arange(rows)
            return every[:keep], every[keep:]
        order = permutation(self.seed, "sgd validation", block, rows)
        return np.sort(order[:keep]), np.sort(order[keep:])


@lru_cache(maxsize=64)
def row_order(seed: int, epoch: int, block: int, rows: int, shuffle: bool, holdout: Holdout) -> np.ndarray:
    """Training rows of a block in the order of an epoch; `rows` counts all rows of the block."""
    usable = holdout.split(block, rows)[0]
    return usable[permutation(seed, f"sgd rows {epoch}", block, len(usable))] if shuffle else usable
