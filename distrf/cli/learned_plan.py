"""What a compact nonlinear map that is not fitted adds to the plan of a job: the batches that learn it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..execution.memory import Plan
from ..learned.plan import learning_costs
from .inputs import Input


def with_learning(plan: Plan, data: Input, estimator: Any, outputs: int) -> Plan:
    """The plan of a job that learns the map of `estimator` first."""
    n, rows = data.info.n, data.info.block_rows
    blocks = tuple(min(rows, n - a) for a in range(0, n, rows))
    cost = learning_costs(
        estimator, blocks, data.d, outputs, data.dtype.itemsize, 0, plan.workers.count, plan.workers.threads
    )
    what = f"{cost.epochs} epochs of {cost.batches:,} batches of {cost.batch_size:,} rows"
    client = max(plan.client_peak, cost.client_bytes)
    if cost.memory is None:
        note = f"features learned for the kernel in the client, from a sample: {what}"
        return replace(plan, client_peak=client, flops=plan.flops + cost.flops, notes=[*plan.notes, note])
    return replace(
        plan,
        passes=plan.passes + cost.epochs,
        tasks=plan.tasks + cost.epochs * (len(blocks) + cost.batches * cost.tasks),
        bytes_read=plan.bytes_read + cost.epochs * data.info.nbytes,
        memory=max(plan.memory, cost.memory, key=lambda m: m.peak),
        client_peak=client,
        flops=plan.flops + cost.flops,
        notes=[*plan.notes, f"features learned first: {what}"],
    )
