"""The plan of a job from its options and from metadata."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from dask.system import CPU_COUNT
from distributed.worker_memory import parse_memory_limit
from sklearn.base import ClassifierMixin

from ..cluster import connect, local_arguments, read_cluster_spec
from ..execution.memory import PassMemory, Plan, Workers, reading_scratch
from ..execution.passes import count_segments
from ..kernels.shift_invariant import KERNELS, Kernel
from ..linear_model.ridge import gram_reductions, solve_bytes
from ..maps import LearnedFourierMap, SubspaceMap
from ..projections.cache import CACHE_BYTES
from ..ridge.alphas import USUAL, given_alphas
from ..ridge.conjugate_gradients import NormalReduction
from ..ridge.conjugate_passes import conjugate_costs, first_that_fits
from ..ridge.gram import GramReduction
from ..sgd.batch_plan import batch_costs
from ..sgd.batch_sizes import epochs as sgd_epochs
from ..targets import Targets, target_segments
from .choices_plan import with_choices
from .inputs import Input
from .learned_plan import with_learning
from .maps import unfitted_map
from .session import running
from .subspace_plan import with_subspace

_LOG = logging.getLogger("distributed.worker.memory")


def planned_workers(cluster: str | None, memory_limit: str | None) -> Workers:
    """Size of the cluster that a job would get; asks a running one, starts none."""
    if running(cluster):
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
    job: str,
    data: Input,
    estimator: Any,
    learner: Any,
    cluster: str | None,
    memory_limit: str | None,
    client: Any = None,
    classes: int = 2,
) -> None:
    """Raise MemoryPlanError before anything starts, where the size of the cluster is known in advance.

    client : of the cluster that has been reached. A pass checks its workers itself; fits in batches do not.
    classes : of the target, where the store does not tell
    """
    if client is not None:
        if hasattr(learner, "n_epochs"):
            write_plan(job, data, estimator, learner, classes, Workers.of_client(client)).check()
    elif not running(cluster):
        write_plan(job, data, estimator, learner, classes, planned_workers(cluster, memory_limit)).check()


def write_plan(job: str, data: Input, estimator: Any, learner: Any, classes: int, workers: Workers) -> Plan:
    """The plan of `train`, or of `featurize` or `predict`, which write a block at a time."""
    fitted = getattr(estimator, "map_", None)
    map_ = None if estimator is None else fitted or unfitted_map(estimator, data.d)
    made = _plan_with(map_, job, data, estimator, learner, classes, workers)
    if isinstance(map_, LearnedFourierMap) and not fitted:
        made = with_learning(made, data, estimator, _outputs(data, learner, classes))
    if isinstance(map_, SubspaceMap):
        made = with_subspace(made, data, estimator, map_)
    return with_choices(made, data, map_, learner) if job == "train" else made


def _plan_with(
    map_: Any, job: str, data: Input, estimator: Any, learner: Any, classes: int, workers: Workers
) -> Plan:
    """The plan with a map that is there."""
    n, d = data.info.n, data.d
    itemsize = data.dtype.itemsize
    fitted = getattr(estimator, "map_", None)
    D = d if map_ is None else map_.n_components
    sparse = map_ is not None and map_.sparse_output
    entries = D if map_ is None else map_.entries_per_row  # numbers that a row of features takes
    map_flops, weights = (0.0, 0.0) if map_ is None else map_.work()
    rows = data.block_rows(entries)
    blocks = -(-n // rows)
    source_bytes = data.info.block_rows * d * itemsize if data.info.block_rows != rows else 0
    block = rows * (d + entries) * itemsize + source_bytes
    reading = reading_scratch(source_bytes or rows * d * itemsize, block)
    read = data.info.nbytes
    cached = int(min(weights * itemsize / 4, CACHE_BYTES))
    notes = []
    if estimator is not None and not fitted and _has_rule(estimator):
        notes.append(f"length scale by the rule {estimator.length_scale!r}, from at most 1,000 sampled rows")
    if getattr(estimator, "projection", None) == "auto":
        notes.append(f"projection 'auto' takes {map_.projection!r} for {d} columns")
    if getattr(map_, "bins", "") == "exact" and not fitted:
        notes.append(f"counted with {D} columns: exact bins have one for each that a pass over the rows meets")
    if weights > CACHE_BYTES:
        notes.append(
            "weights exceed the cache and are made anew for every block; a structured projection avoids it"
        )
    if job != "train":
        memory = PassMemory(block, max(rows * entries * itemsize, reading), 0, cached, blocks, workers.threads)
        written = n * (entries * itemsize + (8 if data.target else 0))
        flops = n * map_flops
        return Plan(job, n, blocks, rows, 1, blocks, read, written, memory, 0, flops, workers, notes)
    width = _outputs(data, learner, classes)
    if hasattr(learner, "n_epochs"):
        return _plan_batches(
            data, learner, workers, blocks, rows, notes, D=D, outputs=width, entries=entries, map_flops=map_flops,
            cached=cached, source_bytes=source_bytes,
        )  # fmt: skip
    reductions = gram_reductions(learner.alphas, learner.cv, n, D, Targets(None, np.zeros(width)), 0)

    def gram_memory(reduction: GramReduction) -> PassMemory:
        segments = min(count_segments(n, reduction), blocks)
        return PassMemory(
            block,
            max(_scratch(reduction, rows, sparse), reading),
            reduction.nbytes,
            cached,
            segments,
            workers.threads,
        )

    reduction, solver, reason = first_that_fits(learner.solver, reductions, gram_memory, workers, solve_bytes)
    memory, client, segments = (
        gram_memory(reduction),
        solve_bytes(reduction),
        min(count_segments(n, reduction), blocks),
    )
    given = given_alphas(learner.alphas)
    count = USUAL if given is None else len(given)
    held_out = 1 if reduction.rule.holdout else reduction.rule.n_folds
    solves = 1 + (0 if count == 1 else count * held_out)
    flops = n * (map_flops + reduction.flops_per_row)
    notes.append(f"solver {solver!r}: {reason}")
    if count > 1:
        cut = "a held-out fifth" if reduction.rule.holdout or solver == "cg" else f"{held_out} folds"
        notes.append(
            f"alpha by cross-validation: {count}{' or so' if given is None else ''}, compared on {cut}"
        )
    if solver == "cg":
        cost = conjugate_costs(n, D, width, count, learner.n_directions, map_flops)
        segments = min(count_segments(n, cost.widest), blocks)
        sent = 4 * D * cost.widest.width  # directions, as the workers get them
        scratch = max(_scratch(cost.widest, rows, sparse), reading)
        memory = PassMemory(block, scratch, cost.widest.nbytes, cached + sent, segments, workers.threads)
        notes.append(f"{cost.passes} passes or so; how many conjugate gradients take depends on the data")
        return Plan(
            job, n, blocks, rows, 1 + cost.passes, 2 * segments * cost.passes, (1 + cost.passes) * read,
            8 * D * width, memory, cost.client_bytes, n * cost.flops_per_row, workers, notes,
        )  # fmt: skip
    solve_flops = solves * D**3 / 3 * 2  # float64 runs at half the rate
    notes.append(
        f"{solves} factorisation(s) of a {D} x {D} matrix in the client, {segments} segment(s) of blocks"
    )
    first = min(target_segments(n), blocks)  # the targets are read once before
    tasks = 2 * first - 1 + 2 * segments - 1  # segments and their sums
    return Plan(
        job, n, blocks, rows, 2, tasks, read, 8 * D * width, memory, client, flops + solve_flops, workers, notes
    )


def _plan_batches(
    data: Input, learner: Any, workers: Workers, blocks: int, rows: int, notes: list[str], **sizes: Any
) -> Plan:
    """The plan of a model that learns in batches: as many epochs as it may take."""
    n = data.info.n
    cut = tuple(min(rows, n - a) for a in range(0, n, rows))
    itemsize = data.dtype.itemsize
    cost = batch_costs(
        learner, cut, data.d, itemsize=itemsize, workers=workers.count, threads=workers.threads, **sizes
    )
    epochs = sgd_epochs(learner.n_epochs, cost.batches)
    bound = "" if learner.batch_size != "auto" else " at most, as the spectrum of a row sample says"
    notes.append(
        f"at most {epochs} epochs of about {cost.batches:,} batches of {cost.batch_size:,} rows{bound}"
    )
    if cost.directions:
        notes.append(f"preconditioned along up to {cost.directions:,} directions of the features")
    if learner.tol is not None:
        notes.append(
            f"stops earlier when {learner.n_iter_no_change} epochs gain less than tol = {learner.tol:g}"
        )
    tasks = 2 * min(target_segments(n), blocks) - 1 + epochs * (blocks + cost.batches * cost.tasks)
    weighted = isinstance(learner, ClassifierMixin) and learner.class_weight is not None
    passes = 1 + weighted + epochs
    return Plan(
        "train", n, blocks, rows, passes, tasks, epochs * data.info.nbytes,
        8 * sizes["D"] * sizes["outputs"], cost.memory,
        cost.client_bytes, epochs * n * cost.flops_per_row, workers, notes,
    )  # fmt: skip


def _scratch(reduction: GramReduction | NormalReduction, rows: int, sparse: bool) -> int:
    """Bytes that a block of so many rows takes while it is added to the state."""
    scratch = int(rows * getattr(reduction, "scratch_per_row", 0))
    if sparse:
        scratch = min(scratch, getattr(reduction, "csr_scratch_bytes", scratch))
    return scratch + getattr(reduction, "scratch_bytes", 0)


def _has_rule(estimator: Any) -> bool:
    scale = getattr(estimator, "length_scale", None)
    shift_invariant = isinstance(scale, str) and (
        isinstance(estimator.kernel, Kernel) or estimator.kernel in KERNELS
    )
    return shift_invariant and not estimator.gamma


def _outputs(data: Input, learner: Any, classes: int) -> int:
    if not isinstance(learner, ClassifierMixin):
        return 1
    count = len(data.info.classes) if data.info.classes else classes
    return 1 if count == 2 else count
