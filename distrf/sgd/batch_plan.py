"""What a fit in batches takes, before anything runs: batches, memory of a worker and of the client, operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..execution.memory import PROCESS_BYTES, SLACK, PassMemory, Workers
from ..execution.planned import Costs, PlannedRows, cached_bytes
from ..execution.scheduler import current_client
from ..targets import target_tasks
from . import dask_batches
from .batch_sizes import BATCH_SIZES, BATCHES_PER_EPOCH, WHOLE_UP_TO, epochs, microbatch_rows
from .learning_rates import RATES
from .penalties import PENALTIES
from .preconditioner import sample_size
from .rows import Rows
from .schedules import MICROBATCH_ROWS, Schedule, order_bytes
from .spectrum import MANY_FEATURES, MOST_DIRECTIONS

#: Batches whose features are held at a time: those made ahead, the one that is summed, and one on its way out.
BATCHES_HELD = dask_batches.AHEAD + 1 + 2
#: Blocks that the plan lays out: enough to fill several shuffle windows.
_LOOKED_AT = 1_024


@dataclass(frozen=True)
class BatchLayout:
    """What a schedule says of its batches: how many blocks are held for them, and how they are cut.

    window_blocks : blocks of the shuffle window in use and of the next
    rows, microbatches : of the first batch; microbatch_rows : of the largest of these
    """

    window_blocks: int
    rows: int
    microbatches: int
    microbatch_rows: int


@dataclass(frozen=True)
class PlannedBlocks:
    """The rows that a fit in batches reads, as a plan knows them.

    rows : of each block; columns : of a row as it is read, of `itemsize` bytes each; outputs : columns of the target
    source_bytes : the stored chunk that a block is cut from, 0 where blocks are whole chunks
    """

    rows: tuple[int, ...]
    columns: int
    itemsize: int
    outputs: int
    source_bytes: int = 0

    @classmethod
    def cut(cls, rows: PlannedRows, block_rows: int, columns: int, source_bytes: int = 0) -> PlannedBlocks:
        """The rows of a plan in blocks of `block_rows`."""
        blocks = tuple(min(block_rows, rows.n - a) for a in range(0, rows.n, block_rows))
        return cls(blocks, columns, rows.itemsize, rows.outputs, source_bytes)

    @property
    def n(self) -> int:
        return sum(self.rows)

    @property
    def block_bytes(self) -> int:
        """Bytes of the largest block as it is held, with its targets."""
        return max(self.rows) * (self.columns * self.itemsize + 8)

    def layout(
        self,
        batch_size: int,
        *,
        shuffle: bool = True,
        whole_blocks: bool = False,
        microbatch_rows: int = MICROBATCH_ROWS,
    ) -> BatchLayout:
        """How batches of so many rows are laid out over the first blocks."""
        some = self.rows[:_LOOKED_AT]
        schedule = Schedule(some, batch_size, self.block_bytes, 0, shuffle, whole_blocks, microbatch_rows)
        first = next(schedule.batches(0))
        return BatchLayout(
            min(len(self.rows), 2 * max(len(window) for window in schedule.windows(0))),
            first.rows,
            len(first.microbatches),
            max(sum(s.last - s.first for s in microbatch) for microbatch in first.microbatches),
        )

    def held_bytes(self, layout: BatchLayout, workers: int) -> int:
        """What one of so many workers holds of the shuffle windows, with the orders of rows."""
        return -(-layout.window_blocks // workers) * self.block_bytes + order_bytes(self.rows)


@dataclass(frozen=True)
class PlannedFeatures:
    """The features that maps make of the rows of a batch.

    width : D; entries : numbers that a row of features takes; flops : operations of the maps for a row
    cached : bytes of the weights of the maps on a worker
    """

    width: int
    entries: int
    flops: float
    cached: int


@dataclass(frozen=True)
class BatchMemory(PassMemory):
    """Bytes one worker needs at the peak of a fit in batches; `block` is what one block being read and cut takes.

    held : blocks of the shuffle window in use and of the next, and the order of the rows of as many
    features : of the batches ahead; gradients : of one batch, and weights of the model
    weights : cached weights of the map
    """

    held: int = 0
    features: int = 0
    gradients: int = 0

    @property
    def parts(self) -> dict[str, int]:
        return {
            "process": PROCESS_BYTES,
            "cached weights": self.weights,
            "blocks": int(SLACK * (self.held + self.threads * self.block)),
            "scratch": int(SLACK * self.threads * self.scratch),
            "features": int(SLACK * self.features),
            "gradients": int(SLACK * self.gradients),
        }


@dataclass(frozen=True)
class BatchCosts:
    """The plan's figures. batches : of an epoch; tasks : of a batch; batch_size : the most where the spectrum decides it."""

    batch_size: int
    batches: int
    tasks: int
    memory: BatchMemory
    client_bytes: int
    flops_per_row: float
    directions: int


def batch_costs(
    estimator: Any,
    rows: PlannedBlocks,
    features: PlannedFeatures,
    workers: Workers,
    batch_size: int | None = None,
) -> BatchCosts:
    """Costs of fitting an SGD model to such rows and features.

    batch_size : None where the spectrum is not known yet: the most that it may ask for
    """
    held_out = estimator.validation_fraction if estimator.early_stopping else 0.0
    usable = max(1, rows.n - round(rows.n * held_out))
    batch_size = _most_rows(estimator.batch_size if batch_size is None else batch_size, usable)
    averaged = estimator.distribution == "local_sgd"
    layout = rows.layout(
        max(1, batch_size),
        shuffle=bool(estimator.shuffle),
        whole_blocks=averaged,
        microbatch_rows=microbatch_rows(features.width),
    )
    batch_size = max(layout.rows, 1) if averaged else batch_size
    weights = (features.width + 1) * rows.outputs
    directions = _directions(estimator, sample_size(rows.n, features.width), features.width + 1)
    return BatchCosts(
        batch_size,
        max(1, round(usable / batch_size)),
        dask_batches.batch_tasks(layout.microbatches, workers.count * workers.threads),
        _batch_memory(rows, features, layout, batch_size, workers),
        _client_bytes(rows, features, directions),
        features.flops + (4.0 * weights + 4.0 * weights * directions / batch_size),
        directions,
    )


def _most_rows(wanted: int | str, usable: int) -> int:
    """Rows of a batch, at most, of so many rows to train on."""
    if wanted != "auto":
        return min(usable, int(wanted))
    if usable <= WHOLE_UP_TO:
        return usable
    low, high = BATCH_SIZES
    return min(usable, high, max(low, usable // BATCHES_PER_EPOCH))


def _batch_memory(
    rows: PlannedBlocks, features: PlannedFeatures, layout: BatchLayout, batch_size: int, workers: Workers
) -> BatchMemory:
    """What one worker needs at the peak."""
    weights = (features.width + 1) * rows.outputs
    held_rows = -(-BATCHES_HELD * batch_size // workers.count)
    return BatchMemory(
        block=rows.source_bytes,
        scratch=layout.microbatch_rows * (rows.columns + 2 * features.width) * rows.itemsize,
        partial=0,
        weights=features.cached,
        threads=workers.threads,
        held=rows.held_bytes(layout, workers.count),
        features=int(held_rows * (features.entries * rows.itemsize + 16 * rows.outputs)),
        gradients=-(-layout.microbatches // workers.count) * weights * rows.itemsize + 7 * 8 * weights,
    )


def _client_bytes(rows: PlannedBlocks, features: PlannedFeatures, directions: int) -> int:
    """What the client needs: the sample with its features, what takes them apart, and the model."""
    s, P, itemsize = sample_size(rows.n, features.width), features.width + 1, rows.itemsize
    wide = min(directions + 64, P)
    solver = 3 * P * wide * itemsize if min(s, P) > 1_536 else 24 * min(s, P) ** 2 + 8 * s * P
    solver = max(solver, 4 * 8 * s * min(P, 2_000))  # the choice of alpha
    sample = s * (rows.columns + 3 * features.width) * itemsize
    return sample + (solver if directions else 0) + P * (directions * itemsize + 48 * rows.outputs)


def fit_costs(estimator: Any, rows: PlannedRows) -> Costs:
    """A fit in batches for a plan: as many epochs as it may take."""
    n = rows.n
    blocks = PlannedBlocks.cut(rows, rows.block_rows, rows.d, rows.source_bytes)
    features = PlannedFeatures(rows.width, rows.entries, rows.map_flops, rows.cached)
    cost = batch_costs(estimator, blocks, features, rows.workers)
    most = epochs(estimator.n_epochs, cost.batches)
    bound = "" if estimator.batch_size != "auto" else " at most, as the spectrum of a row sample says"
    notes = [f"at most {most} epochs of about {cost.batches:,} batches of {cost.batch_size:,} rows{bound}"]
    if cost.directions:
        notes.append(f"preconditioned along up to {cost.directions:,} directions of the features")
    if estimator.tol is not None:
        notes.append(
            f"stops earlier when {estimator.n_iter_no_change} epochs gain less than tol = {estimator.tol:g}"
        )
    weighted = getattr(estimator, "class_weight", None) is not None
    return Costs(
        1 + weighted + most,
        target_tasks(n, rows.blocks) + most * (rows.blocks + cost.batches * cost.tasks),
        most,
        8 * rows.width * rows.outputs,
        most * n * cost.flops_per_row,
        cost.memory,
        cost.client_bytes,
        tuple(notes),
    )


def check_batches(estimator: Any, rows: Rows, outputs: int, batch_size: int) -> BatchMemory | None:
    """The memory of the batches of a fit to lazy rows, whose classes and spectrum are known; None in this process.

    Raises MemoryPlanError where a worker cannot hold it.
    """
    client = current_client() if rows.lazy else None
    if client is None:
        return None
    X, workers = rows.arrays[0], Workers.of_client(client)
    itemsize = np.dtype(X.dtype).itemsize
    entries = rows.maps[-1].entries_per_row if rows.maps else rows.n_features
    cached = cached_bytes(sum(function.work()[1] for function in rows.maps), itemsize)
    blocks = PlannedBlocks(rows.blocks, X.shape[1], itemsize, outputs)
    features = PlannedFeatures(rows.n_features, entries, 0.0, cached)
    memory = batch_costs(estimator, blocks, features, workers, batch_size).memory
    memory.check(workers, f"a fit to {outputs} output(s)")
    return memory


def _directions(estimator: Any, sample: int, P: int) -> int:
    """Directions of the preconditioner, at most."""
    fits = (
        RATES[estimator.learning_rate].preconditions
        and PENALTIES[estimator.penalty].of(0.0, estimator.l1_ratio).smooth
    )
    if estimator.preconditioner is None or not fits:
        return 0
    wanted = estimator.n_directions
    if wanted is not None:
        return min(int(wanted), P)
    return min(P, MOST_DIRECTIONS) if min(sample, P) > MANY_FEATURES else min(sample, P)
