"""The plan of a job from its options; nothing is read but metadata."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from dask.system import CPU_COUNT
from distributed.worker_memory import parse_memory_limit

from ..blocks.passes import count_runs
from ..blocks.plan import PassMemory, Plan, Workers
from ..cluster import connect, local_arguments, read_cluster_spec
from ..kernels import KERNELS, Kernel
from ..linear_model import StreamingRidgeClassifier
from ..linear_model.conjugate_fit import conjugate_costs, solver_that_fits
from ..linear_model.gram import FoldRule, GramFold
from ..linear_model.ridge import check_alphas, solve_bytes
from ..linear_model.targets import Targets, target_runs
from ..projections.cache import CACHE_BYTES
from .inputs import Input
from .maps import unfitted_map

_LOG = logging.getLogger("distributed.worker.memory")


def planned_workers(cluster: str | None, memory_limit: str | None) -> Workers:
    """Size of the cluster that a job would get; asks a running one, starts none."""
    if cluster is not None and "://" in cluster:
        with connect(cluster) as client:
            return Workers.of_client(client)
    spec: dict[str, Any] = {"class": "LocalCluster", "arguments": local_arguments(memory_limit)}
    if cluster is not None:
        spec = read_cluster_spec(cluster)
    arguments = spec["arguments"]
    count = int(arguments.get("n_workers") or CPU_COUNT)
    threads = int(arguments.get("threads_per_worker") or 1)
    if not spec["class"].endswith("LocalCluster"):
        return Workers(count, threads, 0)  # known once it runs
    limit = memory_limit or arguments.get("memory_limit", "auto")
    return Workers(count, threads, parse_memory_limit(limit, threads, count, logger=_LOG) or 0)


def refuse_if_too_big(
    job: str, data: Input, estimator: Any, learner: Any, cluster: str | None, memory_limit: str | None
) -> None:
    """Raise MemoryPlanError before anything starts, where the size of the cluster is known in advance."""
    if cluster is None or "://" not in cluster:
        write_plan(job, data, estimator, learner, 2, planned_workers(cluster, memory_limit)).check()


def write_plan(job: str, data: Input, estimator: Any, learner: Any, classes: int, workers: Workers) -> Plan:
    """The plan of `train`, or of `featurize` or `predict`, which write a block at a time."""
    n, d = data.info.n, data.d
    itemsize = data.dtype.itemsize
    fitted = getattr(estimator, "map_", None)
    map_ = None if estimator is None else fitted or unfitted_map(estimator, d)
    D = d if map_ is None else map_.n_components
    map_flops, weights = (0.0, 0.0) if map_ is None else map_.work()
    rows = data.block_rows(D)
    blocks = -(-n // rows)
    source_bytes = data.info.block_rows * d * itemsize if data.info.block_rows != rows else 0
    block = rows * (d + D) * itemsize + source_bytes
    read = data.info.nbytes
    cached = int(min(weights * itemsize / 4, CACHE_BYTES))
    notes = []
    if estimator is not None and not fitted and _has_rule(estimator):
        notes.append(f"length scale by the rule {estimator.length_scale!r}, from at most 1,000 sampled rows")
    if weights > CACHE_BYTES:
        notes.append(
            "weights exceed the cache and are made anew for every block; a structured projection avoids it"
        )
    if job != "train":
        memory = PassMemory(block, rows * D * itemsize, 0, cached, blocks, workers.threads)
        written = n * (D * itemsize + (8 if data.target else 0))
        flops = n * map_flops
        return Plan(job, n, blocks, rows, 1, blocks, read, written, memory, 0, flops, workers, notes)
    width = _outputs(data, learner, classes)
    alphas = check_alphas(learner.alphas)
    rule = FoldRule() if len(alphas) == 1 else FoldRule.for_rows(n, learner.cv, 0)
    fold = GramFold(D, Targets(None, np.zeros(width)), rule)
    runs = min(count_runs(n, fold), blocks)
    memory = PassMemory(block, int(rows * fold.scratch_per_row), fold.nbytes, cached, runs, workers.threads)
    solves = 1 + (0 if len(alphas) == 1 else len(alphas) * (1 if rule.holdout else rule.n_folds))
    flops = n * (map_flops + fold.flops_per_row)
    client = solve_bytes(fold)
    solver, reason = learner.solver, "asked for"
    if solver == "auto":
        solver, reason = solver_that_fits(fold, memory, workers, client)
    notes.append(f"solver {solver!r}: {reason}")
    if solver == "cg":
        cost = conjugate_costs(n, D, width, len(alphas), learner.n_directions, map_flops)
        runs = min(count_runs(n, cost.widest), blocks)
        sent = 4 * D * cost.widest.width  # directions, as the workers get them
        scratch = int(rows * cost.widest.scratch_per_row)
        memory = PassMemory(block, scratch, cost.widest.nbytes, cached + sent, runs, workers.threads)
        notes.append(f"{cost.passes} passes or so; how many conjugate gradients take depends on the data")
        return Plan(
            job, n, blocks, rows, 1 + cost.passes, 2 * runs * cost.passes, (1 + cost.passes) * read,
            8 * D * width, memory, cost.client_bytes, n * cost.flops_per_row, workers, notes,
        )  # fmt: skip
    solve_flops = solves * D**3 / 3 * 2  # float64 runs at half the rate
    notes.append(f"{solves} factorisation(s) of a {D} x {D} matrix in the client, {runs} run(s) of blocks")
    first = min(target_runs(n), blocks)  # the targets are read once before
    tasks = 2 * first - 1 + 2 * runs - 1  # runs and their sums
    return Plan(
        job, n, blocks, rows, 2, tasks, read, 8 * D * width, memory, client, flops + solve_flops, workers, notes
    )


def _has_rule(estimator: Any) -> bool:
    scale = getattr(estimator, "length_scale", None)
    shift_invariant = isinstance(scale, str) and (
        isinstance(estimator.kernel, Kernel) or estimator.kernel in KERNELS
    )
    return shift_invariant and not estimator.gamma


def _outputs(data: Input, learner: Any, classes: int) -> int:
    if not isinstance(learner, StreamingRidgeClassifier):
        return 1
    count = len(data.info.classes) if data.info.classes else classes
    return 1 if count == 2 else count
