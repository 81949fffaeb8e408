"""What choosing and comparing add to the plan of a training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..execution.memory import Plan
from ..execution.passes import count_segments
from ..execution.sampling import sample_reduction
from ..gram_tiles import tiles_nbytes
from ..pipeline.training import compares_all
from .inputs import Input


def with_choices(plan: Plan, data: Input, map_: Any, learner: Any) -> Plan:
    """The plan with the samples that are read first, and the linear model that is fitted beside."""
    n, blocks = data.info.n, -(-data.info.n // data.info.block_rows)
    sampled = 2 * min(count_segments(n, sample_reduction()), blocks) - 1
    made = replace(
        plan,
        passes=plan.passes + 2,
        tasks=plan.tasks + 2 * sampled,
        bytes_read=plan.bytes_read + data.info.nbytes,
        notes=[
            *plan.notes,
            "choices read a sample of at most 6,000 rows and 10,000 targets, from all blocks at most",
        ],
    )
    if not compares_all(learner, map_ is not None, data.info.sparse, data.d):
        return made
    beside = tiles_nbytes(data.d) / tiles_nbytes(
        map_.n_components
    )  # its Gram matrices to those of the features
    return replace(
        made,
        memory=replace(made.memory, partial=int((1 + beside) * made.memory.partial)),
        client_peak=int((1 + beside) * made.client_peak),
        flops=made.flops + float(n) * data.d**2,
        notes=[*made.notes, "a linear model on the columns is fitted beside it, in the same pass"],
    )
