"""The plan of training in batches: batches, memory of a worker and of the client. Nothing runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sklearn.base import is_classifier

from ..execution.memory import PassMemory, Workers
from ..execution.passes import map_memory
from ..execution.planned import Costs, Phase, PlannedRows
from ..execution.row_blocks import mapped_from, row_bytes
from ..maps import working_dtype
from ..targets import target_phase
from .dask_batches import WINDOWS, batch_tasks, batches_ahead
from .preconditioner import most_directions, sample_size
from .rows import Rows
from .schedules import USUAL_BATCH, Schedule, count_epochs, microbatch_rows, most_rows, order_bytes, scored_rows

#: Bytes by which a worker grows, beside its rows and features, while it runs tens of thousands of small tasks: 10 to 18 MiB
#: after two minutes, measured.
_RECORDS = 16 * 2**20
#: Batches beside those made ahead whose features are on workers: the one that is summed, one that is added while it is, and
#: one that is being released.
_MORE_BATCHES = 3
#: The plan makes the schedule of this many blocks at most: enough to fill several shuffle windows.
_LOOKED_AT = 1_024


def batch_memory(
    schedule: Schedule, workers: Workers, *, row: float, features: float, scratch: float, summand: int, model: int,
    together: int = 0, block: int = 0, weights: int = 0,
) -> PassMemory:  # fmt: skip
    """The memory of one worker at the peak of training by such a schedule, over blocks of schedule.rows.

    Its blocks are those of two shuffle windows with the row permutations, the features of the batches made ahead, the gradients of one
    batch, and copies of the model's weights.

    row, features, scratch : bytes of a row as workers hold it, of its features, and of what is made of it meanwhile
    summand, model : bytes of the gradient of a microbatch, and of copies of the weights
    together : rows that are handled at one time, if more than a microbatch has
    block, weights : bytes to read one block and cut it, and of the maps' weights in the cache
    """
    some = replace(schedule, rows=schedule.rows[:_LOOKED_AT])
    microbatches = next(some.batches(0)).microbatches
    # At most as many workers as microbatches share a batch, and the windows that it is taken from.
    holders = min(workers.count, len(microbatches))
    blocks = min(len(schedule.rows), WINDOWS * max(map(len, some.windows(0))))
    batch = min(schedule.batch_size, schedule.n_rows) * features
    made = _MORE_BATCHES + batches_ahead(workers.count * workers.threads, batch)
    largest = max(sum(s.last - s.first for s in microbatch) for microbatch in microbatches)
    held = -(-blocks // holders) * max(schedule.rows) * row + order_bytes(schedule.rows)
    held += made * batch / holders + -(-len(microbatches) // holders) * summand + model
    return PassMemory(
        block + -(-int(held) // workers.threads), int(max(largest, together) * scratch), 0, weights,
        threads=workers.threads, records=_RECORDS,
    )  # fmt: skip


def _linear_memory(
    schedule: Schedule, workers: Workers, row: float, width: int, entries: int, itemsize: int, outputs: int, **more: int
) -> PassMemory:  # fmt: skip
    """Of a linear model of D = `width` features, in `entries` numbers a row."""
    weights = (width + 1) * outputs
    return batch_memory(
        schedule, workers, row=row, features=entries * itemsize + 16 * outputs,
        scratch=row + 3 * width * itemsize, summand=weights * itemsize, model=7 * 8 * weights,
        together=min(scored_rows(width), max(schedule.rows)), **more,
    )  # fmt: skip


def fit_costs(estimator: Any, rows: PlannedRows) -> Costs:
    """The costs of training in batches for a plan.

    Counted are as many epochs as training may take. How large batches are, the spectrum of the features says, which is not
    known yet: memory is that of the largest, batches are counted of the usual size.
    """
    n, width, workers = rows.n, rows.width, rows.workers
    source, maps = mapped_from(rows.X)
    blocks, itemsize = source.chunks[0], working_dtype(source.dtype).itemsize
    row = row_bytes(source) + 8 * (1 if is_classifier(estimator) else rows.outputs)
    usable = max(1, n - round(n * estimator.held_out_share))
    size = largest = most_rows(estimator.batch_size, usable, width)
    bound = ""
    if estimator.batch_size == "auto":
        size = min(largest, USUAL_BATCH)
        known = f" ({largest:,} at most)," if size < largest else " at most,"
        bound = f"{known} as the spectrum of a row sample says"
    schedule = Schedule(blocks, largest, max(blocks) * source.shape[1] * itemsize, 0, microbatch_rows(width))
    usual = replace(schedule, rows=blocks[:_LOOKED_AT], batch_size=size)
    batches, parts = max(1, round(usable / size)), len(next(usual.batches(0)).microbatches)
    most = count_epochs(estimator.n_epochs, batches)
    notes = [f"at most {most} epochs of about {batches:,} batches of {size:,} rows{bound}"]
    sample, P = sample_size(n, width), width + 1
    directions = most_directions(estimator.n_directions, sample, P)
    # The client has the sample with its features, their decomposition or the choice of alpha, and the model.
    solver, few = 3 * P * min(directions + 64, P) * itemsize, min(sample, P)
    solver = solver if few > 1_536 else 24 * few**2 + 8 * sample * P
    solver = max(solver, 4 * 8 * sample * min(P, 2_000)) if directions else 0
    client = (
        int(sample * (row + 3 * width * itemsize)) + solver + P * (directions * itemsize + 48 * rows.outputs)
    )
    # An epoch reads all blocks again for the rows that are held out, of which every block has some.
    reads = 2 if estimator.early_stopping else 1
    tasks = reads * rows.blocks + batches * batch_tasks(parts, workers.count * workers.threads)
    short = 1 + 2 * bool(estimator.held_out_share)  # drawn folds are counted, by block too
    read = 0 if source.name == rows.stored.name else int(max(rows.stored.chunks[0]) * row_bytes(rows.stored))
    cached, more = map_memory(maps, itemsize)
    memory = _linear_memory(
        schedule, workers, row, width, rows.entries, itemsize, rows.outputs, block=read, weights=cached
    )
    return rows.sample_costs(sample, blocks=len(blocks)) + Costs(
        (target_phase(n, rows.blocks, short), Phase(most, most * tasks, reads * most, parts)),
        8 * width * rows.outputs,
        replace(memory, scratch=memory.scratch + more),
        client,
        tuple(notes),
    )


def check_batches(rows: Rows, schedule: Schedule, outputs: int) -> None:
    """Raise MemoryPlanError where a worker cannot hold a fit, once classes and spectrum are known."""
    client = rows.workers_client() if rows.lazy else None
    if client is None:
        return
    workers, itemsize = Workers.of_client(client), working_dtype(rows.arrays[0].dtype).itemsize
    entries = rows.maps[-1].entries_per_row if rows.maps else rows.n_features
    cached, _ = map_memory(rows.maps, itemsize)
    memory = _linear_memory(
        replace(schedule, rows=rows.blocks), workers, rows.row_bytes, rows.n_features, entries, itemsize, outputs,
        weights=cached,
    )  # fmt: skip
    memory.check(workers, f"a fit to {outputs} output(s)")
