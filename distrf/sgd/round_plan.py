"""What a fit in rounds takes, before anything runs: rounds, memory of a worker and of the client, operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..blocks.engine import current_client
from ..blocks.plan import PROCESS_BYTES, SLACK, PassMemory, Workers
from ..projections.cache import CACHE_BYTES
from . import assembly, rounds
from .preconditioner import sample_size
from .schedules import Schedule, order_bytes

#: Rounds whose features are held beside those made ahead: the one that is summed, and one on its way out.
_IN_WORK = 2
#: Blocks that the plan lays out: enough to fill several groups.
_LOOKED_AT = 1_024


@dataclass(frozen=True)
class RoundMemory(PassMemory):
    """Bytes one worker needs at the peak of a fit in rounds; `block` is what one block being read and cut takes.

    held : blocks of the group in use and the next, and the order of the rows of as many
    features : of the rounds ahead; gradients : of one round, and weights of the model
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
class RoundCosts:
    """The plan's figures. rounds : of an epoch; tasks : of a round; round_rows : the most where the spectrum decides it."""

    round_rows: int
    rounds: int
    tasks: int
    memory: RoundMemory
    client_bytes: int
    flops_per_row: float
    directions: int


def round_costs(
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
    round_rows: int | None = None,
) -> RoundCosts:
    """Costs of fitting an SGD model to blocks of so many rows of d columns, with D features and so many outputs.

    entries : numbers that a row of features takes; map_flops : operations of the map for a row
    cached, source_bytes : weights of the map on a worker, and the stored chunk that a block is cut from
    round_rows : None where the spectrum is not known yet: the most that it may ask for
    """
    n = sum(blocks)
    held_out = learner.validation_fraction if learner.early_stopping else 0.0
    usable = max(1, n - round(n * held_out))
    wanted = learner.round_rows if round_rows is None else round_rows
    low, high = assembly._ROUND_ROWS
    most = (
        usable if usable <= assembly._WHOLE_UP_TO else min(high, max(low, usable // assembly._ROUNDS_PER_EPOCH))
    )
    round_rows = min(usable, most if wanted == "auto" else int(wanted))
    block_bytes = max(blocks) * (d * itemsize + 8)
    averaged = learner.distribution == "average"
    some = blocks[:_LOOKED_AT]
    parcel_rows = assembly.parcel_rows(D)
    schedule = Schedule(some, max(1, round_rows), block_bytes, 0, bool(learner.shuffle), averaged, parcel_rows)
    groups, first = schedule.groups(0), next(schedule.rounds(0))
    resident = min(len(blocks), 2 * max(len(group) for group in groups))
    round_rows = max(first.rows, 1) if averaged else round_rows
    parcels = len(first.parcels)
    most_rows = max(sum(s.last - s.first for s in parcel) for parcel in first.parcels)
    P = D + 1
    ahead = rounds._AHEAD + 1 + _IN_WORK
    memory = RoundMemory(
        block=source_bytes,
        scratch=most_rows * (d + 2 * D) * itemsize,
        partial=0,
        weights=cached,
        threads=threads,
        held=-(-resident // workers) * block_bytes + order_bytes(blocks),
        features=int(-(-ahead * round_rows // workers) * (entries * itemsize + 16 * outputs)),
        gradients=-(-parcels // workers) * P * outputs * itemsize + 7 * 8 * P * outputs,
    )
    s = sample_size(n, D)
    directions = _directions(learner, s, P)
    wide = min(directions + 64, P)
    solver = 3 * P * wide * itemsize if min(s, P) > 1_536 else 24 * min(s, P) ** 2 + 8 * s * P
    solver = max(solver, 4 * 8 * s * min(P, 2_000))  # the choice of alpha
    client = (
        s * (d + 3 * D) * itemsize + (solver if directions else 0) + P * (directions * itemsize + 48 * outputs)
    )
    products = 4.0 * P * outputs + 4.0 * P * directions * outputs / round_rows
    return RoundCosts(
        round_rows,
        max(1, round(usable / round_rows)),
        rounds.round_tasks(parcels, workers * threads),
        memory,
        client,
        map_flops + products,
        directions,
    )


def check_rounds(learner: Any, rows: assembly.Rows, outputs: int, round_rows: int) -> RoundMemory | None:
    """The memory of the rounds of a fit to lazy rows, whose classes and spectrum are known; None in this process.

    Raises MemoryPlanError where a worker cannot hold it.
    """
    client = current_client() if rows.lazy else None
    if client is None:
        return None
    last = rows.maps[-1] if rows.maps else None
    itemsize = np.dtype(rows.arrays[0].dtype).itemsize
    workers = Workers.of_client(client)
    cached = min(sum(function.work()[1] for function in rows.maps) * itemsize / 4, CACHE_BYTES)
    memory = round_costs(
        learner, rows.blocks, rows.arrays[0].shape[1], rows.n_features, outputs, itemsize,
        entries=rows.n_features if last is None else last.entries_per_row, map_flops=0.0, cached=int(cached),
        source_bytes=0, workers=workers.count, threads=workers.threads, round_rows=round_rows,
    ).memory  # fmt: skip
    memory.check(workers, f"a fit to {outputs} output(s)")
    return memory


def _directions(learner: Any, sample: int, P: int) -> int:
    """Directions of the preconditioner, at most."""
    fits = learner.learning_rate != "pegasos" and learner.penalty == "l2"
    if learner.preconditioner is None or not fits:
        return 0
    wanted = learner.n_directions
    if wanted is not None:
        return min(int(wanted), P)
    return min(P, assembly._MOST_DIRECTIONS) if min(sample, P) > assembly._MANY_FEATURES else min(sample, P)
