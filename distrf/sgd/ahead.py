"""How far workers go ahead of the weights: blocks that they read, and features that they make, before a step needs them.

Neither depends on the weights. So the more threads there are, the further ahead they work, as long as memory allows. The
numbers never change a result.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..execution.memory import Workers
from .schedules import Batch

#: Threads that work on a batch, as most batches have it.
_THREADS_OF_A_BATCH = 4
#: Bytes of features made ahead for each thread, and the share of a worker's memory for blocks read ahead; less where
#: little is enough.
_FEATURE_BYTES, _SHARE = 32 * 2**20, 0.125
#: Batches beside those made ahead whose features are on workers: the one that is summed, one that is added while it is, and
#: one that is being released.
_MORE_BATCHES = 3


@dataclass(frozen=True)
class BatchLayout:
    """The figures of a schedule that decide what workers hold.

    Attributes
    ----------
    window_blocks : int
        Blocks of a shuffle window.
    window_batches : int
        Batches of a shuffle window.
    rows : int
        Rows of a batch.
    microbatches : int
        Of a batch; a thread works on one of them.
    microbatch_rows : int
        Rows of the largest microbatch.
    """

    window_blocks: int
    window_batches: int
    rows: int
    microbatches: int
    microbatch_rows: int

    @classmethod
    def of(cls, batch: Batch, window_rows: int, window_blocks: int) -> BatchLayout:
        """The layout, from the first batch of a window."""
        return cls(
            window_blocks,
            max(1, round(window_rows / max(batch.rows, 1))),
            batch.rows,
            len(batch.microbatches),
            max((sum(s.last - s.first for s in microbatch) for microbatch in batch.microbatches), default=0),
        )


@dataclass(frozen=True)
class Ahead:
    """How far ahead.

    Attributes
    ----------
    batches : int
        Batches whose features are made before their turn, at least 1.
    windows : int
        Shuffle windows whose blocks are read before their turn, at least 1.
    """

    batches: int = 2
    windows: int = 1

    @classmethod
    def choose(cls, workers: Workers, layout: BatchLayout, row_bytes: float, block_bytes: int) -> Ahead:
        """As far as all threads have work, and as memory allows.

        A batch occupies about four threads, and the other batches of its window the same ones. So the blocks of twice as
        many windows are read as occupy all threads, since they come at once and are used one after the other. The number of
        windows does not follow from the size of a batch, which a plan does not know yet.

        Parameters
        ----------
        workers : Workers
        layout : BatchLayout
        row_bytes : float
            Of the features of one row.
        block_bytes : int
            Of the largest block as a worker holds it.
        """
        threads = workers.count * workers.threads
        fill = -(-threads // _THREADS_OF_A_BATCH)
        most = int(threads * _FEATURE_BYTES / max(layout.rows * row_bytes, 1.0))
        if fill <= 1:
            return cls(max(1, min(cls.batches, most)))
        batches = fill * layout.window_batches
        windows = 2 * fill
        if workers.memory_limit:
            share = _SHARE * workers.memory_limit * workers.count
            windows = min(windows, int(share / max(layout.window_blocks * block_bytes, 1)) - 1)
        return cls(max(1, min(batches, most)), max(windows, cls.windows))

    @staticmethod
    def most_bytes(workers: Workers, batch_bytes: float) -> float:
        """Bytes of features on all workers at most, if a batch has at most so many."""
        threads = workers.count * workers.threads
        limit = float(threads * _FEATURE_BYTES)
        if threads <= _THREADS_OF_A_BATCH:
            limit = min(limit, Ahead.batches * batch_bytes)
        return _MORE_BATCHES * batch_bytes + max(batch_bytes, limit)

    @property
    def windows_held(self) -> int:
        """The most shuffle windows whose blocks are on workers at one time."""
        return self.windows + 1
