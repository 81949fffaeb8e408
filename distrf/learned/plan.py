"""What learning a map takes, before anything runs: batches, memory of a worker and of the client, operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..execution.planned import Costs, PlannedRows
from ..sgd import dask_batches
from ..sgd.batch_plan import BatchMemory
from ..sgd.schedules import Schedule, order_bytes
from .base import pair_rows
from .objectives import Layout
from .start import SAMPLE, choose_batch_size, epochs

#: Features of a batch that is worked on, beside the rows of those ahead.
_IN_WORK = 2
#: Blocks that the plan lays out.
_LOOKED_AT = 1_024


@dataclass(frozen=True)
class LearningCosts:
    """Figures of the plan. memory : None where the client learns alone, from a sample; batches : of an epoch."""

    epochs: int
    batches: int
    tasks: int
    batch_size: int
    memory: BatchMemory | None
    client_bytes: int
    flops: float

    def costs(self, rows: PlannedRows) -> Costs:
        """As a part of a plan."""
        what = f"{self.epochs} epochs of {self.batches:,} batches of {self.batch_size:,} rows"
        if self.memory is None:
            note = f"features learned for the kernel in the client, from a sample: {what}"
            return Costs(flops=self.flops, client_bytes=self.client_bytes, notes=(note,))
        return Costs(
            self.epochs,
            self.epochs * (-(-rows.n // rows.uncut_rows) + self.batches * self.tasks),
            self.epochs,
            flops=self.flops + self.epochs * rows.n * rows.map_flops,
            memory=self.memory,
            client_bytes=self.client_bytes,
            notes=(f"features learned first: {what}",),
        )


def planned_learning(learner: Any, rows: PlannedRows) -> Costs:
    """Learning a map, as a part of a plan."""
    size = rows.uncut_rows
    blocks = tuple(min(size, rows.n - a) for a in range(0, rows.n, size))
    workers = rows.workers
    return learning_costs(
        learner, blocks, rows.width, rows.outputs, rows.itemsize, 0, workers.count, workers.threads
    ).costs(rows)


def learning_costs(
    learner: Any,
    blocks: tuple[int, ...],
    d: int,
    outputs: int,
    itemsize: int,
    source_bytes: int,
    workers: int,
    threads: int,
) -> LearningCosts:
    """Costs of fitting a CompactNonlinearMap or model to blocks of so many rows of d columns, with so many outputs."""
    D = int(learner.n_components)
    kernel = getattr(learner, "objective", None) == "kernel"
    layout = Layout(d, D, learner.phase, learner.structure, 0, 0 if kernel else outputs)
    P, map_flops = sum(layout.sizes), layout.linear.work()[0] + 20.0 * D
    n = sum(blocks)
    if kernel:
        n = min(n, pair_rows(d))
    size = min(n, choose_batch_size(learner.batch_size, n))
    per_epoch = max(1, round(n / size))
    n_epochs = epochs(learner.n_epochs, per_epoch)
    state = 8 * P * 8
    flops = n_epochs * n * (3.0 * map_flops + 6.0 * D * max(outputs, 1))
    if kernel:
        flops += n_epochs * n * size * 2.0 * (d + 2 * D)
        client = 2 * n * d * itemsize + size * (size * 3 * 8 + (d + 6 * D) * itemsize) + state
        return LearningCosts(n_epochs, per_epoch, 1, size, None, client, flops)
    block_bytes = max(blocks) * (d * itemsize + 8)
    schedule = Schedule(blocks[:_LOOKED_AT], size, block_bytes, 0)
    microbatches = next(schedule.batches(0)).microbatches
    resident = min(len(blocks), 2 * max(len(window) for window in schedule.windows(0)))
    # No more threads work on a batch than it has microbatches: with few of these, a worker holds windows alone.
    holders = min(workers, len(microbatches))
    ahead = dask_batches._AHEAD + 1 + _IN_WORK
    memory = BatchMemory(
        block=source_bytes,
        scratch=max(sum(s.last - s.first for s in p) for p in microbatches) * (d + 6 * D) * itemsize,
        partial=0,
        weights=3 * 8 * P,
        threads=threads,
        held=-(-resident // holders) * block_bytes + order_bytes(blocks),
        features=-(-ahead * size // holders) * (d * itemsize + 16 * outputs),
        gradients=(-(-len(microbatches) // holders) + 4) * 8 * P,
    )
    client = SAMPLE * d * itemsize + state
    tasks = dask_batches.batch_tasks(len(microbatches), workers * threads)
    return LearningCosts(n_epochs, per_epoch, tasks, size, memory, client, flops)
