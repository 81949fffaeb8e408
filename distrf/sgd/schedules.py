"""Which rows a batch takes: seeded, new in each epoch, a function of the blocks and never of the workers.

A *shuffle window* is a set of blocks that workers hold at one time, drawn from all over the data. A batch takes the same
share of the rows of every block of its window, so it mixes rows even if files are sorted by date or class. The rows that
it takes from a few neighbouring blocks of the window are a *microbatch*; its gradient is one summand. Number code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..randomness import permutation
from .preconditioner import Preconditioner

#: Most blocks of a shuffle window, and most bytes of them, unless one batch needs more. The next window is read ahead.
_WINDOW_BLOCKS = 16
_WINDOW_BYTES = 512 * 2**20
#: Row permutations that a process caches: those of the blocks of two windows.
ORDERS = 2 * _WINDOW_BLOCKS
#: Most rows of a microbatch. Small batches are cut finer, into up to four microbatches of a quarter of that, so that
#: several workers share the work; not finer, because every task costs some milliseconds.
MICROBATCH_ROWS = 1024
_MICROBATCHES = 4
#: Numbers in the features of a microbatch (16 MiB of float32), and the bounds of its rows.
_MICROBATCH_VALUES = 2**22
_ROWS = (256, 8_192)
#: Most rows that are scored at one time.
_SCORED_ROWS = 1024
#: Fewest and most rows of a batch. A smaller one would not pay for its 10 ms of messages; the critical batches of 13 tables
#: (D = 1,024 and 2,048) had at most 2,560 rows.
BATCH_SIZES = (256, 4_096)
#: The most numbers in the features of a batch, of which workers hold several: 256 MiB of float32. More only where the fewest
#: rows have more, or where the caller gives the size.
_BATCH_VALUES = 2**26
#: The rows of a batch that a plan of time counts. Critical batches of those tables had 740 to 2,560 rows, of normal rows 689.
#: Where messages bound the job, its time goes as 1 / rows: then a plan may be 0.7 to 2.5 times the true one.
USUAL_BATCH = 1_000
_STREAM_BATCH = 32
#: An epoch has at least this many batches, unless they would have fewer than `BATCH_SIZES[0]` rows.
BATCHES_PER_EPOCH = 16
#: Up to this many rows, all of them are one batch, if its features are not too many: its gradient is exact.
WHOLE_UP_TO = 1_024
#: n_epochs="auto" is this many epochs, or as many more as make this many batches.
_FEWEST = (40, 600)


def microbatch_rows(n_features: int) -> int:
    """The most rows of a microbatch, such that its features take about 16 MiB.

    Parameters
    ----------
    n_features : int, D
    """
    low, high = _ROWS
    return min(max(_MICROBATCH_VALUES // n_features, low), high)


def scored_rows(n_features: int) -> int:
    """The most rows whose scores are computed at one time, such that their features take at most 16 MiB.

    Parameters
    ----------
    n_features : int, D
    """
    return max(1, min(_MICROBATCH_VALUES // n_features, _SCORED_ROWS))


@dataclass(frozen=True)
class BlockRows:
    """Rows first:last of a block in the seeded order of the epoch. Held-out rows are not in that order."""

    block: int
    first: int
    last: int


@dataclass(frozen=True)
class Batch:
    """The rows of one step.

    window : number of the shuffle window in the epoch; blocks : those of the window
    microbatches : for each microbatch, the rows that it takes from each of a few blocks
    """

    window: int
    blocks: tuple[int, ...]
    microbatches: tuple[tuple[BlockRows, ...], ...]

    @property
    def rows(self) -> int:
        return sum(s.last - s.first for microbatch in self.microbatches for s in microbatch)


@dataclass(frozen=True)
class Schedule:
    """Cuts the training rows of each epoch into batches of about `batch_size` rows.

    rows : training rows of each block; a block with 0 is left out
    block_bytes : bytes of the largest block as workers hold it
    microbatch_rows : the most rows of a microbatch
    """

    rows: tuple[int, ...]
    batch_size: int
    block_bytes: int
    seed: int
    microbatch_rows: int = MICROBATCH_ROWS

    @property
    def n_rows(self) -> int:
        return sum(self.rows)

    def windows(self, epoch: int) -> list[list[int]]:
        """Blocks of each shuffle window, in the order of an epoch.

        Each window gets at most one block of every set of neighbours, at random.
        """
        used = [i for i, r in enumerate(self.rows) if r]
        most = max(2, min(_WINDOW_BLOCKS, _WINDOW_BYTES // max(1, self.block_bytes)))
        count = max(1, min(-(-len(used) // most), self.n_rows // self.batch_size))
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
            count = max(1, round(sum(self.rows[b] for b in blocks) / self.batch_size))
            sets = list(split_evenly(list(enumerate(blocks)), min(len(blocks), microbatches)))
            cuts = -(-microbatches // len(sets)) if sets else 0
            ranges = count * cuts  # of the rows of each block
            for r in range(count):
                taken = []
                for members in sets:
                    for k in range(r * cuts, (r + 1) * cuts):
                        # The shift makes blocks with fewer rows than batches give their rows to different batches.
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
    """The number of microbatches of a batch: a power of two, which most numbers of workers can share evenly."""
    count = max(min(_MICROBATCHES, 4 * batch_size // microbatch_rows), -(-batch_size // microbatch_rows), 1)
    return 1 << (count - 1).bit_length()


def split_evenly(items: list, count: int) -> Iterator[list]:
    """`count` lists of neighbours, of nearly equal length."""
    for i in range(count):
        yield items[len(items) * i // count : len(items) * (i + 1) // count]


def order_bytes(blocks: Sequence[int]) -> int:
    """Bytes of the row permutations that a process caches; `blocks` has the number of rows of every block."""
    return min(len(blocks), ORDERS) * 4 * max(blocks)


def row_order(seed: int, epoch: int, block: int, rows: int, folds: np.ndarray | None = None) -> np.ndarray:
    """Training rows of a block, those that are not in fold 0, in the order of an epoch, int32; `rows` counts all of the block."""
    if folds is None:
        return _row_order(seed, epoch, block, rows)
    usable = np.flatnonzero(folds).astype(np.int32)
    return usable[_row_order(seed, epoch, block, len(usable))]


@lru_cache(maxsize=ORDERS)
def _row_order(seed: int, epoch: int, block: int, rows: int) -> np.ndarray:
    return permutation(seed, f"sgd rows {epoch}", block, rows).astype(np.int32)


def count_epochs(n_epochs: int | str, per_epoch: int, fewest: tuple[int, int] = _FEWEST) -> int:
    """The most passes over the rows.

    Parameters
    ----------
    n_epochs : int, or "auto", which is the fewest epochs that are allowed and make enough batches
    per_epoch : int, batches of an epoch
    fewest : (int, int), the fewest epochs and the fewest batches of "auto"
    """
    return max(fewest[0], -(-fewest[1] // max(per_epoch, 1))) if n_epochs == "auto" else int(n_epochs)


def patience(n_iter_no_change: int, n_epochs: int | str, most: int) -> int:
    """Epochs without a gain after which training stops. With n_epochs="auto" it grows in proportion to the epochs.

    Parameters
    ----------
    n_iter_no_change : int, of the estimator, meant for 40 epochs
    n_epochs : int or "auto", of the estimator
    most : int, the result of `count_epochs`
    """
    return n_iter_no_change * most // _FEWEST[0] if n_epochs == "auto" else n_iter_no_change


def most_rows(size: int | str, n: int, n_features: int) -> int:
    """The most rows that a batch may have.

    "auto" goes by D, not by the entries of sparse features, so that rows in memory and lazy ones get the same batches.

    Parameters
    ----------
    size : int or "auto"
    n : int, number of training rows
    n_features : int, D
    """
    if size != "auto":
        return min(n, int(size))
    if _takes_all(n, n_features):
        return n
    low, high = BATCH_SIZES
    return min(n, max(low, min(high, n // BATCHES_PER_EPOCH, _BATCH_VALUES // n_features)))


def _takes_all(n: int, n_features: int) -> bool:
    """Whether all rows are one batch of "auto"."""
    return n <= WHOLE_UP_TO and n * n_features <= _BATCH_VALUES


def choose_batch_size(
    size: int | str, n: int, n_features: int, preconditioner: Preconditioner, stream: bool = False
) -> int:
    """Rows of a batch of a linear model. "auto" is all rows if they are few and fit, else the critical batch within the bounds of this file.

    Parameters
    ----------
    size : int, which is returned as it is, or "auto"
    n : int, number of training rows
    n_features : int, D
    preconditioner : Preconditioner, which knows the critical batch
    stream : bool, whether the rows are seen only once (`partial_fit`): then the critical batch, of which no row is wasted
    """
    if size != "auto":
        return int(size)
    if stream:
        return int(min(max(preconditioner.critical_rows, _STREAM_BATCH), BATCH_SIZES[1], n))
    if _takes_all(n, n_features):
        return n
    # MNIST with D = 4,096 in batches of 903, 1,807 (critical) and 3,615 rows: 96.64, 96.63, 96.31 % after one pass.
    rows = max(preconditioner.critical_rows, BATCH_SIZES[0])
    return int(min(rows, most_rows(size, n, n_features)))
