"""Passes: one sweep over all row blocks that ends in a small result.

A *run* of neighbouring blocks is folded in place inside one task: each block is read, transformed,
folded in and dropped before the next, so that one block per thread is resident whatever the
scheduler does. Runs depend on the data and on the fold, never on the workers, and their results are
summed along a fixed two-level chain: the same bits for one worker or twenty. A run starts only when the one
that is a window back has been summed, so that however slow one run is, few partial results are on one worker
(see plan.states_ahead).
"""

from __future__ import annotations

import itertools
import math
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from dask._task_spec import Task, TaskRef
from dask.base import is_dask_collection
from dask.delayed import Delayed

from ..errors import InputError
from .batches import Batch, threads_of
from .engine import compute, compute_many, current_client, gather, merge_states, settle
from .graphs import BlockGraphs, add_block, passed
from .plan import PassMemory, Workers, states_ahead
from .progress import pass_topic, report
from .rows import align_rows, check_dask_rows, row_bytes

#: Bytes of partial results moved for each floating-point operation of a pass, at most. At 50 GF/s and
#: 1 GB/s this keeps moving below 5 % of computing.
BYTES_PER_FLOP = 1 / 1024
#: Up to here runs are as many as the ratio allows; beyond, they also grow, as the square root of n.
_FREE_SEGMENTS = 64


class Reduction(Protocol):
    """What a pass computes. Small and picklable; its state is created and summed on workers.

    `nbytes` is the size of one state, `flops_per_row` the arithmetic of one row including its features.
    A fold that carries large arrays has `arrays`, `without_arrays` and `with_arrays`, as maps do: they travel
    once to each worker, and only `start` and `merge` are called without them.
    """

    @property
    def nbytes(self) -> int: ...

    @property
    def flops_per_row(self) -> float: ...

    def initial(self) -> Any:
        """An empty state."""

    def update(self, state: Any, first_row: int, *blocks: Any) -> Any:
        """The state with one block of each array folded in; may work in place."""

    def combine(self, left: Any, right: Any) -> Any:
        """The sum of two neighbouring states; may work in place on `left`."""


def count_segments(n_rows: int, reduction: Reduction) -> int:
    """How many runs a pass over `n_rows` rows aims at; a power of two up to 64."""
    rows_per_segment = max(1.0, reduction.nbytes / (max(reduction.flops_per_row, 1.0) * BYTES_PER_FLOP))
    most = max(1.0, n_rows / rows_per_segment)
    if most <= _FREE_SEGMENTS:
        return 2 ** int(math.log2(most))
    return int(math.sqrt(most * _FREE_SEGMENTS))


def cut_segments(rows: Sequence[int], atoms: Sequence[int], n_segments: int) -> list[tuple[int, int]]:
    """Bounds (first block, last block + 1) of runs of nearly equal row counts.

    rows : rows of each block; atoms : ascending first blocks of groups that must stay together.
    """
    edges = np.array([*atoms, len(rows)])
    position = np.concatenate([[0], np.cumsum(rows)])[edges]
    targets = np.arange(1, n_segments) * (position[-1] / n_segments)
    after = np.searchsorted(position, targets)  # the nearer of the edges on either side of a target
    before = np.maximum(after - 1, 0)
    nearest = np.where(targets - position[before] <= position[after] - targets, before, after)
    ordered = sorted({0, len(rows), *edges[nearest].tolist()})
    return list(itertools.pairwise(ordered))


def run_pass(
    reduction: Reduction,
    arrays: Sequence[Any],
    *,
    label: str = "pass",
    block_rows: int | None = None,
    starts: Sequence[int] | None = None,
) -> Any:
    """Fold all row blocks of the arrays; returns the final state.

    Parameters
    ----------
    fold : Fold
    arrays : NumPy arrays / CSR matrices, or Dask arrays, with equal row counts. The row chunks of the
        first Dask array are the blocks; in-memory arrays are cut into blocks of `block_rows`.
    label : what progress displays call the pass
    starts : first row of each block, where the Dask arrays are some blocks of longer ones

    Raises InputError for misaligned arrays and whatever a block function raises.
    """
    if not any(is_dask_collection(a) for a in arrays):
        return _run_in_memory(reduction, arrays, label, block_rows)
    first = check_dask_rows(next(a for a in arrays if is_dask_collection(a)), "array 0")
    aligned = [a if a is first else align_rows(first, a, f"array {i}") for i, a in enumerate(arrays)]
    return _run_dask(reduction, aligned, label, starts)


def _group_size(n_segments: int) -> int:
    return math.isqrt(max(n_segments - 1, 0)) + 1


def _run_in_memory(reduction: Reduction, arrays: Sequence[Any], label: str, block_rows: int | None) -> Any:
    n = arrays[0].shape[0]
    if any(a.shape[0] != n for a in arrays):
        raise InputError(f"all arrays must have the same number of rows, got {[a.shape[0] for a in arrays]}")
    step = max(1, min(block_rows or n, n))
    rows = [min(step, n - a) for a in range(0, n, step)]
    segments = cut_segments(rows, range(len(rows)), count_segments(n, reduction))
    total = group = None
    with pass_topic(label, n, None) as topic:
        for r, (first, last) in enumerate(segments):
            state = reduction.initial()
            for a in range(first * step, min(last * step, n), step):
                b = min(a + step, n)
                state = add_block(reduction, state, a, [x[a:b] for x in arrays])
                report(topic, b - a)
            group = state if group is None else reduction.combine(group, state)
            if (r + 1) % _group_size(len(segments)) == 0 or r + 1 == len(segments):
                total = group if total is None else reduction.combine(total, group)
                group = None
    return total if segments else reduction.initial()


def _run_dask(
    reduction: Reduction, arrays: Sequence[Any], label: str, starts: Sequence[int] | None = None
) -> Any:
    client = current_client()
    rows = [int(r) for r in arrays[0].chunks[0]]
    firsts = [int(s) for s in (itertools.accumulate(rows, initial=0) if starts is None else starts)]
    learned = getattr(reduction, "arrays", {})
    blocks = BlockGraphs(arrays, learned)
    if learned:
        reduction = reduction.without_arrays()  # type: ignore[attr-defined]
    with pass_topic(label, sum(rows), client) as topic:
        if blocks.atoms is None:
            return _run_windowed(reduction, blocks, rows, firsts, topic, client)
        segments = cut_segments(rows, blocks.atoms, count_segments(sum(rows), reduction))
        workers = Workers.of_client(client)
        memory = pass_memory(reduction, arrays, len(segments), workers, learned)
        memory.check(workers, label)
        window = states_ahead(reduction.nbytes, workers.count * workers.threads)
        # Not that of an earlier pass: states change in place, a lingering one must not be taken for a new one.
        steps = _Steps(f"distrf-pass-{uuid.uuid4().hex}", reduction, blocks, segments, firsts, topic)
        with memory.explains(label):
            return _run_threads(steps, window) if client is None else _run_workers(steps, window, client)


@dataclass(frozen=True)
class _Steps:
    """The tasks of a pass, step by step: run r, then the sums that it completes."""

    name: str
    reduction: Reduction
    blocks: BlockGraphs
    segments: Sequence[tuple[int, int]]
    firsts: Sequence[int]
    topic: str | None

    def segment(self, r: int, after: str | None = None) -> Task:
        first, last = self.segments[r]
        return self.blocks.segment_task(
            f"{self.name}-run-{r}", self.reduction, first, last, self.firsts[first:last], self.topic, after
        )

    def sums(self) -> Iterator[tuple[list[Task], list[str]]]:
        """For each run: the sums to make once it is there, and the keys that later ones go on from."""
        group = total = None
        for r in range(len(self.segments)):
            tasks: list[Task] = []
            key = f"{self.name}-run-{r}"
            if group is not None:
                tasks.append(Task(f"{key}-sum", self.reduction.combine, TaskRef(group), TaskRef(key)))
                key = f"{key}-sum"
            group = key
            if (r + 1) % _group_size(len(self.segments)) == 0 or r + 1 == len(self.segments):
                if total is not None:
                    key = f"{self.name}-total-{r}"
                    tasks.append(Task(key, self.reduction.combine, TaskRef(total), TaskRef(group)))
                group, total = None, key
            yield tasks, [key for key in (group, total) if key is not None]


def _run_threads(steps: _Steps, window: int) -> Any:
    """In threads of this process. A slow run holds up the sums of those behind it: without gates, they would all be
    made and wait."""
    graph: dict[Any, Any] = dict(steps.blocks.shared)
    live: list[str] = []
    for r, (tasks, live) in enumerate(steps.sums()):
        segment = steps.segment(r, f"{steps.name}-gate-{r - window}" if r >= window else None)
        graph |= {task.key: task for task in (segment, *tasks)}
        if r + window < len(steps.segments):
            gate = f"{steps.name}-gate-{r}"
            graph[gate] = Task(gate, passed, *(TaskRef(key) for key in live))
    return compute(Delayed(live[-1], graph), None)


def _run_workers(steps: _Steps, window: int, client: Any) -> Any:
    """On a cluster, runs in turn on its threads: left alone, the scheduler prefers the worker that holds the fold's
    arrays. A run is sent when its turn comes: a gate that is a task would itself wait for a thread."""
    threads = threads_of(client)
    futures: dict[Any, Any] = {}
    batch = Batch()
    batch.add(dict(steps.blocks.shared), keep=list(steps.blocks.shared))
    summed: list[list[str]] = []  # for each run: the keys of sums that are made once it is in them
    try:
        for r, (tasks, live) in enumerate(steps.sums()):
            if r >= window:
                settle(*(futures[key] for key in summed[r - window]))
            segment = steps.segment(r)
            batch.add(
                {segment.key: segment},
                worker=threads[r % len(threads)] if threads else None,
                keep=[segment.key],
            )
            batch.add({task.key: task for task in tasks}, 1, keep=[task.key for task in tasks])
            summed.append(live)
            if r + 1 < window:
                continue
            futures |= batch.submit(client)
            batch = Batch()
            needed = {*steps.blocks.shared, *itertools.chain(*summed[r + 1 - window :])}
            for key in futures.keys() - needed:
                futures.pop(key).release()
        futures |= batch.submit(client)
        return gather(futures[summed[-1][-1]], client)
    finally:
        for future in futures.values():
            future.release()


def pass_memory(
    reduction: Reduction,
    arrays: Sequence[Any],
    n_segments: int,
    workers: Workers,
    learned: Mapping[str, np.ndarray] | None = None,
) -> PassMemory:
    """Peak memory of a pass over lazy arrays; a block counts at its widest of the arrays given.

    `scratch_per_row` and `scratch_bytes` of the fold count for each thread, `learned` arrays once; where blocks
    are CSR, `csr_scratch_bytes` bounds the first.
    """
    block = int(sum(max(a.chunks[0]) * row_bytes(a) for a in arrays))
    scratch = max(arrays[0].chunks[0]) * getattr(reduction, "scratch_per_row", 0)
    if sp.issparse(arrays[0]._meta):
        scratch = min(scratch, getattr(reduction, "csr_scratch_bytes", scratch))
    scratch += getattr(reduction, "scratch_bytes", 0)
    held = sum(array.nbytes for array in (learned or {}).values())
    return PassMemory(block, int(scratch), reduction.nbytes, held, n_segments, workers.threads)


def _run_windowed(
    reduction: Reduction,
    blocks: BlockGraphs,
    rows: list[int],
    firsts: list[int],
    topic: str | None,
    client: Any,
) -> Any:
    """One task per block, in waves of a bounded number of runs.

    For blocks that share upstream tasks across run borders or are held as futures: a run's graph cannot
    travel as one task without pulling all of its inputs to one worker at once.
    """
    n_segments = count_segments(sum(rows), reduction)
    segments = cut_segments(rows, range(len(rows)), n_segments)
    width = 1 if client is None else max(1, sum(client.nthreads().values()))
    states: list[Any] = []
    if client is not None:
        blocks.send_learned(client)
    for wave in range(0, len(segments), width):
        current = segments[wave : wave + width]
        partial: list[Any] = [None] * len(current)
        for step in range(max(last - first for first, last in current)):
            wanted = {i: first + step for i, (first, last) in enumerate(current) if first + step < last}
            tasks = [
                blocks.reduce_block(reduction, block, firsts[block], partial[i], topic)
                for i, block in wanted.items()
            ]
            for i, state in zip(wanted, compute_many(tasks, client), strict=True):
                partial[i] = state
        states.extend(partial)
    size = _group_size(len(segments))
    total = None
    for g in range(0, len(states), size):
        group = states[g]
        for state in states[g + 1 : g + size]:
            group = merge_states(reduction, group, state, client)
        total = group if total is None else merge_states(reduction, total, group, client)
    return gather(total, client)
