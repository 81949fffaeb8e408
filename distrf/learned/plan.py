"""The plan of learning a map: batches, memory of a worker and of the client. Nothing runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..execution.memory import Workers
from ..execution.planned import Costs, Phase, PlannedRows
from ..sgd import dask_batches
from ..sgd.ahead import Ahead
from ..sgd.batch_plan import BatchMemory, PlannedBlocks
from .base import pair_rows
from .objectives import Layout
from .start import SAMPLE, learning_batch_size, learning_epochs


@dataclass(frozen=True)
class LearningCosts:
    """The plan's figures. memory : None if the client learns from a sample; batches : of an epoch; microbatches, tasks : of a batch"""

    epochs: int
    batches: int
    microbatches: int
    tasks: int
    batch_size: int
    memory: BatchMemory | None
    client_bytes: int

    def costs(self, rows: PlannedRows) -> Costs:
        """These costs as a plan adds them up."""
        what = f"{self.epochs} epochs of {self.batches:,} batches of {self.batch_size:,} rows"
        if self.memory is None:
            note = f"features learned for the kernel in the client, from a sample: {what}"
            return Costs(client_bytes=self.client_bytes, notes=(note,))
        phase = Phase(
            self.epochs,
            self.epochs * (-(-rows.n // rows.uncut_rows) + self.batches * self.tasks),
            self.epochs,
            self.microbatches,
            self.epochs * self.batches,
        )
        return Costs(
            (phase,),
            memory=self.memory,
            client_bytes=self.client_bytes,
            notes=(f"features learned first: {what}",),
        )


def planned_learning(estimator: Any, rows: PlannedRows) -> Costs:
    """The costs of learning a map, for a plan."""
    blocks = PlannedBlocks.cut(rows, rows.uncut_rows, rows.width, rows.itemsize)
    sample = rows.sample_costs(SAMPLE, blocks=len(blocks.rows))
    return sample + learning_costs(estimator, blocks, rows.workers).costs(rows)


def learning_costs(estimator: Any, rows: PlannedBlocks, workers: Workers) -> LearningCosts:
    """Costs of fitting a CompactNonlinearMap or model to such rows."""
    d, D, itemsize, outputs = rows.columns, int(estimator.n_components), rows.itemsize, rows.outputs
    kernel = getattr(estimator, "objective", None) == "kernel"
    layout = Layout(d, D, estimator.phase, estimator.structure, 0, 0 if kernel else outputs)
    P = layout.size
    n = min(rows.n, pair_rows(d)) if kernel else rows.n
    size = min(n, learning_batch_size(estimator.batch_size, n))
    per_epoch = max(1, round(n / size))
    n_epochs = learning_epochs(estimator.n_epochs, per_epoch)
    state = 8 * P * 8
    if kernel:
        client = 2 * n * d * itemsize + size * (size * 3 * 8 + (d + 6 * D) * itemsize) + state
        return LearningCosts(n_epochs, per_epoch, 1, 1, size, None, client)
    batch = rows.layout(size)
    # At most as many workers as microbatches share a batch. If these are few, a worker holds a large part of the windows.
    holders = min(workers.count, batch.microbatches)
    row_bytes = d * itemsize + 16 * outputs
    ahead = Ahead.choose(workers, batch, row_bytes, rows.held_block_bytes)
    memory = BatchMemory(
        block=rows.source_bytes,
        scratch=batch.microbatch_rows * (d + 6 * D) * itemsize,
        partial=0,
        weights=3 * 8 * P,
        threads=workers.threads,
        held=rows.held_bytes(batch, ahead, holders),
        features=int(Ahead.most_bytes(workers, size * row_bytes) / holders),
        gradients=(-(-batch.microbatches // holders) + 4) * 8 * P,
    )
    client = SAMPLE * d * itemsize + state
    tasks = dask_batches.batch_tasks(batch.microbatches, workers.count * workers.threads)
    return LearningCosts(n_epochs, per_epoch, batch.microbatches, tasks, size, memory, client)
