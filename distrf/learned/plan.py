"""The plan of learning a map: batches, memory of a worker and of the client. Nothing runs."""

from __future__ import annotations

from typing import Any

from ..execution.memory import Workers
from ..execution.planned import Costs, Phase, PlannedRows
from ..features.length_scale import rule_costs
from ..sgd.batch_plan import BatchMemory, PlannedBlocks, features_bytes
from ..sgd.dask_batches import batch_tasks
from .objectives import Layout
from .start import SAMPLE, learning_batch_size, learning_epochs, pair_rows


def planned_learning(estimator: Any, rows: PlannedRows) -> Costs:
    """The costs of learning a map, for a plan."""
    blocks = PlannedBlocks.cut(rows, rows.uncut_rows, rows.width, rows.itemsize)
    sample = rule_costs(rows, estimator.kernel, estimator.length_scale, estimator.gamma)
    sample += rows.sample_costs(SAMPLE, blocks=len(blocks.rows))
    d, D, itemsize = blocks.columns, int(estimator.n_components), blocks.itemsize
    kernel = getattr(estimator, "objective", None) == "kernel"
    n = min(blocks.n, pair_rows(d)) if kernel else blocks.n
    size = min(n, learning_batch_size(estimator.batch_size, n))
    batches = max(1, round(n / size))
    epochs = learning_epochs(estimator.n_epochs, batches)
    state = 8 * 8 * Layout(estimator._map(d), 0 if kernel else blocks.outputs).size
    what = f"{epochs} epochs of {batches:,} batches of {size:,} rows"
    if kernel:
        client = 2 * n * d * itemsize + size * (size * 3 * 8 + (d + 6 * D) * itemsize) + state
        note = f"features learned for the kernel in the client, from a sample: {what}"
        return sample + Costs(client_bytes=client, notes=(note,))
    workers, microbatches = rows.workers, blocks.layout(size).microbatches
    tasks = batch_tasks(microbatches, workers.count * workers.threads)
    reads = -(-rows.n // rows.uncut_rows)
    phase = Phase(epochs, epochs * (reads + batches * tasks), epochs, microbatches, epochs * batches)
    memory, client = learning_memory(estimator, blocks, workers), SAMPLE * d * itemsize + state
    return sample + Costs(
        (phase,), memory=memory, client_bytes=client, notes=(f"features learned first: {what}",)
    )


def learning_memory(estimator: Any, rows: PlannedBlocks, workers: Workers) -> BatchMemory:
    """Bytes of a worker at the peak of learning a map or a model for a loss."""
    d, D = rows.columns, int(estimator.n_components)
    P = Layout(estimator._map(d), rows.outputs).size
    size = min(rows.n, learning_batch_size(estimator.batch_size, rows.n))
    batch = rows.layout(size)
    # At most as many workers as microbatches share a batch. If these are few, a worker holds a large part of the windows.
    holders = min(workers.count, batch.microbatches)
    row_bytes = d * rows.itemsize + 16 * rows.outputs
    return BatchMemory(
        block=rows.source_bytes,
        scratch=batch.microbatch_rows * (d + 6 * D) * rows.itemsize,
        partial=0,
        weights=3 * 8 * P,
        threads=workers.threads,
        held=rows.held_bytes(batch, holders),
        features=int(features_bytes(workers, size * row_bytes) / holders),
        gradients=(-(-batch.microbatches // holders) + 4) * 8 * P,
    )
