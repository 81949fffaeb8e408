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
from .schedules import Schedule, order_bytes
from .spectrum import MANY_FEATURES, MOST_DIRECTIONS

#: Batches whose features are held beside those made ahead: the one that is summed, and one on its way out.
_IN_WORK = 2
#: Blocks that the plan lays out: enough to fill several shuffle windows.
_LOOKED_AT = 1_024


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
    learner: Any,
    blocks: tuple[int, ...],
    d: int,
    D: int,
    outputs: int,
    itemsize: int,
    *,
    entries: float,
    map_flops: float,
    cached: int,
    source_bytes: int,
    workers: int,
    threads: int,
    batch_size: int | None = None,
) -> BatchCosts:
    """Costs of fitting an SGD model to blocks of so many rows of d columns, with D features and so many outputs.

    entries : numbers that a row of features takes; map_flops : operations of the map for a row
    cached, source_bytes : weights of the map on a worker, and the stored chunk that a block is cut from
    batch_size : None where the spectrum is not known yet: the most that it may ask for
    """
    n = sum(blocks)
    held_out = learner.validation_fraction if learner.early_stopping else 0.0
    usable = max(1, n - round(n * held_out))
    wanted = learner.batch_size if batch_size is None else batch_size
    low, high = BATCH_SIZES
    most = usable if usable <= WHOLE_UP_TO else min(high, max(low, usable // BATCHES_PER_EPOCH))
    batch_size = min(usable, most if wanted == "auto" else int(wanted))
    block_bytes = max(blocks) * (d * itemsize + 8)
    averaged = learner.distribution == "local_sgd"
    some = blocks[:_LOOKED_AT]
    microbatch = microbatch_rows(D)
    schedule = Schedule(some, max(1, batch_size), block_bytes, 0, bool(learner.shuffle), averaged, microbatch)
    windows, first = schedule.windows(0), next(schedule.batches(0))
    resident = min(len(blocks), 2 * max(len(window) for window in windows))
    batch_size = max(first.rows, 1) if averaged else batch_size
    microbatches = len(first.microbatches)
    most_rows = max(sum(s.last - s.first for s in microbatch) for microbatch in first.microbatches)
    P = D + 1
    ahead = dask_batches._AHEAD + 1 + _IN_WORK
    memory = BatchMemory(
        block=source_bytes,
        scratch=most_rows * (d + 2 * D) * itemsize,
        partial=0,
        weights=cached,
        threads=threads,
        held=-(-resident // workers) * block_bytes + order_bytes(blocks),
        features=int(-(-ahead * batch_size // workers) * (entries * itemsize + 16 * outputs)),
        gradients=-(-microbatches // workers) * P * outputs * itemsize + 7 * 8 * P * outputs,
    )
    s = sample_size(n, D)
    directions = _directions(learner, s, P)
    wide = min(directions + 64, P)
    solver = 3 * P * wide * itemsize if min(s, P) > 1_536 else 24 * min(s, P) ** 2 + 8 * s * P
    solver = max(solver, 4 * 8 * s * min(P, 2_000))  # the choice of alpha
    client = (
        s * (d + 3 * D) * itemsize + (solver if directions else 0) + P * (directions * itemsize + 48 * outputs)
    )
    products = 4.0 * P * outputs + 4.0 * P * directions * outputs / batch_size
    return BatchCosts(
        batch_size,
        max(1, round(usable / batch_size)),
        dask_batches.batch_tasks(microbatches, workers * threads),
        memory,
        client,
        map_flops + products,
        directions,
    )


def fit_costs(learner: Any, rows: PlannedRows) -> Costs:
    """A fit in batches as a part of a plan: as many epochs as it may take."""
    n, size = rows.n, rows.block_rows
    cost = batch_costs(
        learner, tuple(min(size, n - a) for a in range(0, n, size)), rows.d, rows.width, rows.outputs, rows.itemsize,
        entries=rows.entries, map_flops=rows.map_flops, cached=rows.cached, source_bytes=rows.source_bytes,
        workers=rows.workers.count, threads=rows.workers.threads,
    )  # fmt: skip
    most = epochs(learner.n_epochs, cost.batches)
    bound = "" if learner.batch_size != "auto" else " at most, as the spectrum of a row sample says"
    notes = [f"at most {most} epochs of about {cost.batches:,} batches of {cost.batch_size:,} rows{bound}"]
    if cost.directions:
        notes.append(f"preconditioned along up to {cost.directions:,} directions of the features")
    if learner.tol is not None:
        notes.append(
            f"stops earlier when {learner.n_iter_no_change} epochs gain less than tol = {learner.tol:g}"
        )
    weighted = getattr(learner, "class_weight", None) is not None
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


def check_batches(learner: Any, rows: Rows, outputs: int, batch_size: int) -> BatchMemory | None:
    """The memory of the batches of a fit to lazy rows, whose classes and spectrum are known; None in this process.

    Raises MemoryPlanError where a worker cannot hold it.
    """
    client = current_client() if rows.lazy else None
    if client is None:
        return None
    last = rows.maps[-1] if rows.maps else None
    itemsize = np.dtype(rows.arrays[0].dtype).itemsize
    workers = Workers.of_client(client)
    cached = cached_bytes(sum(function.work()[1] for function in rows.maps), itemsize)
    memory = batch_costs(
        learner, rows.blocks, rows.arrays[0].shape[1], rows.n_features, outputs, itemsize,
        entries=rows.n_features if last is None else last.entries_per_row, map_flops=0.0, cached=cached,
        source_bytes=0, workers=workers.count, threads=workers.threads, batch_size=batch_size,
    ).memory  # fmt: skip
    memory.check(workers, f"a fit to {outputs} output(s)")
    return memory


def _directions(learner: Any, sample: int, P: int) -> int:
    """Directions of the preconditioner, at most."""
    fits = (
        RATES[learner.learning_rate].preconditions
        and PENALTIES[learner.penalty].of(0.0, learner.l1_ratio).smooth
    )
    if learner.preconditioner is None or not fits:
        return 0
    wanted = learner.n_directions
    if wanted is not None:
        return min(int(wanted), P)
    return min(P, MOST_DIRECTIONS) if min(sample, P) > MANY_FEATURES else min(sample, P)
