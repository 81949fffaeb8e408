"""The plan of learning a map: batches, memory of a worker and of the client. Nothing runs."""

from __future__ import annotations

from typing import Any

from ..execution.memory import Workers
from ..execution.planned import Costs, Phase, PlannedRows
from ..maps.rules import rule_costs
from ..sgd.batch_plan import BatchMemory, batch_memory, planned_blocks
from ..sgd.dask_batches import batch_tasks
from ..sgd.schedules import Schedule
from .objectives import Layout
from .start import SAMPLE, learning_batch_size, learning_epochs, pair_rows


def planned_learning(estimator: Any, rows: PlannedRows) -> Costs:
    """The costs of learning a map, for a plan."""
    blocks = planned_blocks(rows, rows.uncut_rows)
    sample = rule_costs(rows, estimator.kernel, estimator.length_scale, estimator.gamma)
    sample += rows.sample_costs(SAMPLE, blocks=len(blocks))
    d, D, itemsize = rows.width, int(estimator.n_components), rows.itemsize
    kernel = getattr(estimator, "objective", None) == "kernel"
    n = min(rows.n, pair_rows(d)) if kernel else rows.n
    size = min(n, learning_batch_size(estimator.batch_size, n))
    batches = max(1, round(n / size))
    epochs = learning_epochs(estimator.n_epochs, batches)
    state = 8 * 8 * Layout(estimator._map(d), 0 if kernel else rows.outputs).size
    what = f"{epochs} epochs of {batches:,} batches of {size:,} rows"
    if kernel:
        client = 2 * n * d * itemsize + size * (size * 3 * 8 + (d + 6 * D) * itemsize) + state
        note = f"features learned for the kernel in the client, from a sample: {what}"
        return sample + Costs(client_bytes=client, notes=(note,))
    workers, schedule = rows.workers, learning_schedule(estimator, blocks, d, itemsize)
    microbatches = len(next(schedule.batches(0)).microbatches)
    tasks = batch_tasks(microbatches, workers.count * workers.threads)
    reads = -(-rows.n // rows.uncut_rows)
    phase = Phase(epochs, epochs * (reads + batches * tasks), epochs, microbatches)
    memory = learning_memory(estimator, schedule, d, itemsize, rows.outputs, workers)
    client = SAMPLE * d * itemsize + state
    return sample + Costs(
        (phase,), memory=memory, client_bytes=client, notes=(f"features learned first: {what}",)
    )


def learning_schedule(estimator: Any, blocks: tuple[int, ...], d: int, itemsize: int) -> Schedule:
    """The schedule over blocks of so many rows of d columns."""
    size = min(sum(blocks), learning_batch_size(estimator.batch_size, sum(blocks)))
    return Schedule(blocks, size, max(blocks) * d * itemsize, 0)


def learning_memory(
    estimator: Any, schedule: Schedule, d: int, itemsize: int, outputs: int, workers: Workers
) -> BatchMemory:
    """Bytes of a worker at the peak of learning a map or a model for a loss."""
    P = Layout(estimator._map(d), outputs).size
    return batch_memory(
        schedule, workers, row=d * itemsize + 8, features=d * itemsize + 16 * outputs,
        scratch=(d + 6 * int(estimator.n_components)) * itemsize, summand=8 * P, model=4 * 8 * P, weights=3 * 8 * P,
    )  # fmt: skip
