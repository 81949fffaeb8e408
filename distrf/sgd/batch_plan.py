"""The plan of training in batches: batches, memory of a worker and of the client. Nothing runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.base import is_classifier

from ..execution.memory import PROCESS_BYTES, SLACK, PassMemory, Workers
from ..execution.planned import Costs, Phase, PlannedRows
from ..execution.row_blocks import merged_chunks
from ..maps import working_dtype
from ..projections.cache import cached_bytes
from ..targets import target_phase
from .dask_batches import WINDOWS, batch_tasks, batches_ahead
from .preconditioner import most_directions, sample_size
from .rows import Rows
from .schedules import (
    MICROBATCH_ROWS,
    USUAL_BATCH,
    Schedule,
    count_epochs,
    microbatch_rows,
    most_rows,
    order_bytes,
    scored_rows,
)

#: Bytes by which a worker grows, beside its rows and features, while it runs tens of thousands of small tasks: 10 to 18 MiB
#: after two minutes, measured.
_RECORDS = 16 * 2**20
#: Batches beside those made ahead whose features are on workers: the one that is summed, one that is added while it is, and
#: one that is being released.
_MORE_BATCHES = 3
#: The plan makes the schedule of this many blocks at most: enough to fill several shuffle windows.
_LOOKED_AT = 1_024


@dataclass(frozen=True)
class BatchLayout:
    """The figures of a schedule that decide what workers hold.

    window_blocks : blocks of a shuffle window; microbatches : of a batch; microbatch_rows : rows of the largest of them
    """

    window_blocks: int
    microbatches: int
    microbatch_rows: int


def features_bytes(workers: Workers, batch_bytes: float) -> float:
    """Bytes of features on all workers at most; batch_bytes : of the features of one batch."""
    return (_MORE_BATCHES + batches_ahead(workers.count * workers.threads, batch_bytes)) * batch_bytes


@dataclass(frozen=True)
class PlannedBlocks:
    """The rows that training in batches reads, known from metadata.

    rows : number of rows of each block; columns : columns of a row as it is read, of `itemsize` bytes each
    outputs : columns of the encoded target
    source_bytes : bytes of the stored chunk from which a block is cut; 0 if blocks are whole chunks
    row_bytes : bytes of a row as workers hold it, with its targets
    """

    rows: tuple[int, ...]
    columns: int
    itemsize: int
    outputs: int
    source_bytes: int = 0
    row_bytes: float = 0.0

    def __post_init__(self) -> None:
        if not self.row_bytes:
            object.__setattr__(self, "row_bytes", float(self.columns * self.itemsize + 8))

    @classmethod
    def cut(
        cls,
        rows: PlannedRows,
        block_rows: int,
        columns: int,
        itemsize: int,
        source_bytes: int = 0,
        read_bytes: float = 0.0,
        targets: int = 1,
    ) -> PlannedBlocks:
        """The rows of a plan in blocks of `block_rows`; read_bytes : of a row as it is read; targets : columns of y"""
        blocks = tuple(min(block_rows, rows.n - a) for a in range(0, rows.n, block_rows))
        read_bytes = read_bytes or columns * itemsize
        blocks = blocks if rows.sparse else merged_chunks(blocks, read_bytes)
        return cls(blocks, columns, itemsize, rows.outputs, source_bytes, read_bytes + 8 * targets)

    @property
    def n(self) -> int:
        return sum(self.rows)

    @property
    def block_bytes(self) -> int:
        """Bytes of the largest block with all its columns, from which shuffle windows follow."""
        return max(self.rows) * self.columns * self.itemsize

    @property
    def held_block_bytes(self) -> int:
        """Bytes of the largest block as workers hold it, with its targets."""
        return int(max(self.rows) * self.row_bytes)

    def layout(self, batch_size: int, microbatch_rows: int = MICROBATCH_ROWS) -> BatchLayout:
        """The layout of batches of `batch_size` rows, from a schedule over the first blocks."""
        some = self.rows[:_LOOKED_AT]
        schedule = Schedule(some, batch_size, self.block_bytes, 0, microbatch_rows)
        microbatches = next(schedule.batches(0)).microbatches
        largest = max(sum(s.last - s.first for s in microbatch) for microbatch in microbatches)
        return BatchLayout(max(map(len, schedule.windows(0))), len(microbatches), largest)

    def held_bytes(self, layout: BatchLayout, workers: int) -> int:
        """Bytes of the shuffle windows on one of `workers` workers, with the row permutations."""
        blocks = min(len(self.rows), WINDOWS * layout.window_blocks)
        return -(-blocks // workers) * self.held_block_bytes + order_bytes(self.rows)


@dataclass(frozen=True)
class BatchMemory(PassMemory):
    """Bytes that one worker needs at the peak of training in batches.

    block : to read one block and cut it; held : blocks of two shuffle windows, with the row permutations
    features : of the batches made ahead; gradients : of one batch, and copies of the model's weights
    weights : the maps' weights in the cache
    """

    held: int = 0
    features: int = 0
    gradients: int = 0
    records: int = _RECORDS

    @property
    def parts(self) -> dict[str, int]:
        return {
            "process": PROCESS_BYTES + self.records,
            "cached weights": self.weights,
            "blocks": int(SLACK * (self.held + self.threads * self.block)),
            "scratch": int(SLACK * self.threads * self.scratch),
            "features": int(SLACK * self.features),
            "gradients": int(SLACK * self.gradients),
        }


def batch_memory(
    rows: PlannedBlocks, width: int, entries: int, cached: int, workers: Workers, batch_size: int
) -> BatchMemory:
    """The memory of one worker at the peak of a fit of an SGD model in batches of that size.

    width : D; entries : numbers that a row of features takes; cached : bytes of the maps' weights in the cache of a worker
    """
    layout = rows.layout(max(1, batch_size), microbatch_rows(width))
    weights = (width + 1) * rows.outputs
    row_bytes = entries * rows.itemsize + 16 * rows.outputs
    together = max(layout.microbatch_rows, min(scored_rows(width), max(rows.rows)))
    return BatchMemory(
        block=rows.source_bytes,
        # Features, and while they are brought to common units their products in float64 and the result.
        scratch=int(together * (rows.row_bytes + 4 * width * rows.itemsize)),
        partial=0,
        weights=cached,
        threads=workers.threads,
        held=rows.held_bytes(layout, workers.count),
        features=int(features_bytes(workers, batch_size * row_bytes) / workers.count),
        gradients=-(-layout.microbatches // workers.count) * weights * rows.itemsize + 7 * 8 * weights,
    )


def fit_costs(estimator: Any, rows: PlannedRows) -> Costs:
    """The costs of training in batches for a plan.

    Counted are as many epochs as training may take. How large batches are, the spectrum of the features says, which is not
    known yet: memory is that of the largest, batches are counted of the usual size.
    """
    n, width, workers = rows.n, rows.width, rows.workers
    # Held are the rows or their features, whichever have fewer columns, as `mapped_from` says.
    wide = rows.maps and rows.d * rows.read_itemsize > width * rows.itemsize
    held = max(rows.read_bytes, rows.entries * rows.itemsize) if wide else rows.read_bytes
    block_rows = rows.block_rows if wide else rows.batched_rows
    source = rows.source_bytes if block_rows == rows.block_rows else 0
    targets = 1 if is_classifier(estimator) else rows.outputs
    blocks = PlannedBlocks.cut(rows, block_rows, rows.d, rows.read_itemsize, source, held, targets)
    usable = max(1, n - round(n * estimator.held_out_share))
    size = largest = most_rows(estimator.batch_size, usable, width)
    bound = ""
    if estimator.batch_size == "auto":
        size = min(largest, USUAL_BATCH)
        known = f" ({largest:,} at most)," if size < largest else " at most,"
        bound = f"{known} as the spectrum of a row sample says"
    batches, layout = max(1, round(usable / size)), blocks.layout(size, microbatch_rows(width))
    most = count_epochs(estimator.n_epochs, batches)
    notes = [f"at most {most} epochs of about {batches:,} batches of {size:,} rows{bound}"]
    sample, P = sample_size(n, width), width + 1
    directions = most_directions(estimator.n_directions, sample, P)
    if directions:
        notes.append(f"preconditioned along up to {directions:,} directions of the features")
    if estimator.tol is not None:
        notes.append(
            f"stops earlier when {estimator.n_iter_no_change} epochs gain less than tol = {estimator.tol:g}"
        )
    # The client has the sample with its features, their decomposition or the choice of alpha, and the model.
    solver, few = 3 * P * min(directions + 64, P) * blocks.itemsize, min(sample, P)
    solver = solver if few > 1_536 else 24 * few**2 + 8 * sample * P
    solver = max(solver, 4 * 8 * sample * min(P, 2_000)) if directions else 0
    client = int(sample * (blocks.row_bytes + 3 * width * blocks.itemsize)) + solver
    client += P * (directions * blocks.itemsize + 48 * blocks.outputs)
    # An epoch reads all blocks again for the rows that are held out, of which every block has some.
    reads = 2 if estimator.early_stopping else 1
    tasks = reads * rows.blocks + batches * batch_tasks(layout.microbatches, workers.count * workers.threads)
    training = Phase(most, most * tasks, reads * most, layout.microbatches, most * batches)
    weighted = getattr(estimator, "class_weight", None) is not None
    return rows.sample_costs(sample, blocks=len(blocks.rows)) + Costs(
        (target_phase(n, rows.blocks, 1 + weighted), training),
        8 * width * rows.outputs,
        batch_memory(blocks, width, rows.entries, rows.cached, workers, largest),
        client,
        tuple(notes),
    )


def check_batches(estimator: Any, rows: Rows, outputs: int, batch_size: int) -> BatchMemory | None:
    """The memory of a worker, checked once classes and spectrum are known; None where no workers train.

    Raises MemoryPlanError if a worker cannot hold it.
    """
    client = rows.workers_client() if rows.lazy else None
    if client is None:
        return None
    X, workers = rows.arrays[0], Workers.of_client(client)
    itemsize = working_dtype(X.dtype).itemsize  # of features: rows of bytes become float32
    entries = rows.maps[-1].entries_per_row if rows.maps else rows.n_features
    cached = cached_bytes(sum(function.work()[1] for function in rows.maps), itemsize)
    blocks = PlannedBlocks(rows.blocks, X.shape[1], itemsize, outputs, row_bytes=rows.row_bytes)
    size = min(batch_size, max(1, blocks.n - round(blocks.n * estimator.held_out_share)))
    memory = batch_memory(blocks, rows.n_features, entries, cached, workers, size)
    memory.check(workers, f"a fit to {outputs} output(s)")
    return memory
