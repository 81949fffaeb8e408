"""What TEFM adds to the plan of a job: the passes of its finder, and the basis on every worker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..execution.memory import PassMemory, Plan
from ..execution.passes import count_segments
from ..features import TEFM
from ..maps import SubspaceMap
from ..projections.cache import CACHE_BYTES
from .inputs import Input


def with_subspace(plan: Plan, data: Input, estimator: Any, map_: SubspaceMap) -> Plan:
    """The plan of a job with `map_`; of a TEFM that is not fitted, the passes that fit it too."""
    itemsize, memory = data.dtype.itemsize, plan.memory
    memory = replace(  # Q, and a part of the base features beside each block
        memory,
        weights=memory.weights + map_.held_bytes(itemsize),
        scratch=memory.scratch + map_.tiles.scratch_bytes(itemsize),
    )
    plan = replace(plan, memory=memory)
    fits = isinstance(estimator, TEFM) and map_.basis is None
    return _with_finder(plan, data, estimator, map_) if fits else plan


def _with_finder(plan: Plan, data: Input, estimator: TEFM, map_: SubspaceMap) -> Plan:
    n, itemsize = data.info.n, data.dtype.itemsize
    costs = estimator.planned_costs(n, map_, itemsize, plan.workers)
    rows = data.info.block_rows
    blocks = -(-n // rows)
    segments = min(count_segments(n, costs.reduction), blocks)
    cached = 0 if map_.base is None else int(min(map_.base.work()[1] * itemsize / 4, CACHE_BYTES))
    finder = PassMemory(
        rows * data.d * itemsize,
        costs.reduction.scratch_bytes,
        costs.reduction.nbytes,
        cached + costs.learned_bytes,
        segments,
        plan.workers.threads,
    )
    notes = [
        f"subspace of {map_.tiles.n_features} features by {costs.choice.solver!r}, {costs.passes} pass(es): "
        f"{costs.choice.reason}"
    ]
    scale = getattr(estimator.base, "length_scale", None)
    if isinstance(scale, str) and getattr(estimator.base, "gamma", None) is None:
        notes.append(f"length scale by the rule {scale!r}, from at most 1,000 sampled rows")
    if estimator.tol is not None:
        notes.append("tol: passes, time and memory are those of one round with all components")
    return replace(
        plan,
        passes=plan.passes + costs.passes,
        tasks=plan.tasks + costs.passes * (2 * segments - 1),
        bytes_read=plan.bytes_read + costs.passes * data.info.nbytes,
        memory=max(plan.memory, finder, key=lambda m: m.peak),
        client_peak=max(plan.client_peak, costs.client_bytes),
        flops=plan.flops + costs.flops,
        notes=plan.notes + notes,
    )
