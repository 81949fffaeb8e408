"""How far workers go ahead of the weights: blocks that they read, and features that they make, before a step needs them.

Neither depends on the weights. So the more threads there are, the further ahead they work, as long as memory allows. The
numbers never change a result.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..execution.memory import Workers
from .schedules import Batch

#: The share of a worker's memory that features made ahead may take, and the share for blocks; less where little is enough.
_SHARE = 0.125
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
        Batches whose features are made before their turn, at least 2.
    windows : int
        Shuffle windows whose blocks are read before their turn, at least 1.
    """

    batches: int = 2
    windows: int = 1

    @classmethod
    def choose(cls, workers: Workers, layout: BatchLayout, row_bytes: float, block_bytes: int) -> Ahead:
        """As far as all threads have work, and as memory allows.

        A window occupies a thread for each microbatch of a batch. So features of as many windows are made as occupy all
        threads, and twice as many are read, since their blocks come at once and are used one after the other.

        Parameters
        ----------
        workers : Workers
        layout : BatchLayout
        row_bytes : float
            Of the features of one row.
        block_bytes : int
            Of the largest block as a worker holds it.
        """
        fill = -(-workers.count * workers.threads // max(layout.microbatches, 1))
        if fill <= 1:
            return cls()
        batches, windows = fill * layout.window_batches, 2 * fill
        if workers.memory_limit:
            share = _SHARE * workers.memory_limit * workers.count
            batches = min(batches, int(share / max(layout.rows * row_bytes, 1.0)) - _MORE_BATCHES)
            windows = min(windows, int(share / max(layout.window_blocks * block_bytes, 1)) - 1)
        return cls(max(batches, cls.batches), max(windows, cls.windows))

    @property
    def batches_held(self) -> int:
        """The most batches whose features are on workers at one time."""
        return self.batches + _MORE_BATCHES

    @property
    def windows_held(self) -> int:
        """The most shuffle windows whose blocks are on workers at one time."""
        return self.windows + 1
