"""Passes: one sweep over all row blocks that ends in a small result.

A *segment* is a few neighbouring blocks that one task works through: it reads a block, computes with it, adds the result
to the segment's state and drops the block before it reads the next. So at most one block per thread is in memory,
whatever the scheduler does.

How blocks are cut into segments depends on the data and on the reduction, never on the workers, and the states of the
segments are added in a fixed order. So one worker and twenty give the same bits.

The client does not submit all segments at once. It submits segment r only when segment r - w has been added to the sum,
where w is the submission window. So a worker holds few states, however slow one segment is (see memory.states_ahead).
"""

from __future__ import annotations

import itertools
import math
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from dask.base import is_dask_collection
from dask.delayed import Delayed

from ..errors import InputError
from .block_graphs import BlockGraphs, add_block, passed
from .graph_nodes import Task, TaskRef
from .memory import PassMemory, Workers, states_ahead
from .progress import pass_topic, report
from .row_blocks import align_rows, blocks_are_csr, check_dask_rows, row_bytes
from .scheduler import compute, compute_many, current_client, gather, merge_states, settle
from .submission import Submission, threads_of

#: Most bytes of states that a pass moves for each of its floating-point operations. At 50 GF/s and 1 GB/s moving takes
#: below 5 % of the time of computing.
BYTES_PER_FLOP = 1 / 1024
#: Where that ratio allows at most 64 segments, a pass has as many as it allows. Where it allows more, the number of
#: segments is the geometric mean of 64 and of what it allows, so segments also grow longer with the number of rows.
_FREE_SEGMENTS = 64


class Reduction(Protocol):
    """What a pass computes. Small and picklable; workers make its states and combine them.

    `nbytes` is the size of one state, `flops_per_row` the arithmetic of one row including its features.
    A reduction that carries large arrays has `arrays`, `without_arrays` and `with_arrays`, as maps do. Each worker gets
    the arrays once. `initial` and `combine` must work without them; `update` is called with them.
    """

    @property
    def nbytes(self) -> int: ...

    @property
    def flops_per_row(self) -> float: ...

    def initial(self) -> Any:
        """An empty state."""

    def update(self, state: Any, first_row: int, *blocks: Any) -> Any:
        """The state with one block of each array added; may work in place."""

    def combine(self, left: Any, right: Any) -> Any:
        """The sum of two neighbouring states; may work in place on `left`."""


def count_segments(n_rows: int, reduction: Reduction) -> int:
    """The number of segments that a pass should have.

    Parameters
    ----------
    n_rows : int
    reduction : Reduction
        Its `nbytes` and `flops_per_row` decide: moving states must stay a small share of the work.

    Returns
    -------
    int
        A power of two up to 64; beyond, the square root of what the ratio of bytes to operations allows.
    """
    rows_per_segment = max(1.0, reduction.nbytes / (max(reduction.flops_per_row, 1.0) * BYTES_PER_FLOP))
    most = max(1.0, n_rows / rows_per_segment)
    if most <= _FREE_SEGMENTS:
        return 2 ** int(math.log2(most))
    return int(math.sqrt(most * _FREE_SEGMENTS))


def cut_segments(rows: Sequence[int], edges: Sequence[int], n_segments: int) -> list[tuple[int, int]]:
    """Bounds of segments of nearly equal row counts.

    Parameters
    ----------
    rows : sequence of int
        Rows of each block.
    edges : sequence of int
        Ascending blocks at which a segment may begin.
    n_segments : int
        Wanted segments; there may be fewer.

    Returns
    -------
    list of (int, int)
        First block, and the block after the last, of each segment.
    """
    bounds = np.array([*edges, len(rows)])
    position = np.concatenate([[0], np.cumsum(rows)])[bounds]
    targets = np.arange(1, n_segments) * (position[-1] / n_segments)
    after = np.searchsorted(position, targets)  # the nearer of the bounds on either side of a target
    before = np.maximum(after - 1, 0)
    nearest = np.where(targets - position[before] <= position[after] - targets, before, after)
    ordered = sorted({0, len(rows), *bounds[nearest].tolist()})
    return list(itertools.pairwise(ordered))


def run_pass(
    reduction: Reduction,
    arrays: Sequence[Any],
    *,
    label: str = "pass",
    block_rows: int | None = None,
    starts: Sequence[int] | None = None,
) -> Any:
    """Reduce all row blocks of the arrays; returns the final state.

    Parameters
    ----------
    reduction : Reduction
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


def _segments_per_sum(n_segments: int) -> int:
    return math.isqrt(max(n_segments - 1, 0)) + 1


def _run_in_memory(reduction: Reduction, arrays: Sequence[Any], label: str, block_rows: int | None) -> Any:
    n = arrays[0].shape[0]
    if any(a.shape[0] != n for a in arrays):
        raise InputError(f"all arrays must have the same number of rows, got {[a.shape[0] for a in arrays]}")
    step = max(1, min(block_rows or n, n))
    rows = [min(step, n - a) for a in range(0, n, step)]
    segments = cut_segments(rows, range(len(rows)), count_segments(n, reduction))
    total = partial_sum = None
    with pass_topic(label, n, None) as topic:
        for r, (first, last) in enumerate(segments):
            state = reduction.initial()
            for a in range(first * step, min(last * step, n), step):
                b = min(a + step, n)
                state = add_block(reduction, state, a, [x[a:b] for x in arrays])
                report(topic, b - a)
            partial_sum = state if partial_sum is None else reduction.combine(partial_sum, state)
            if (r + 1) % _segments_per_sum(len(segments)) == 0 or r + 1 == len(segments):
                total = partial_sum if total is None else reduction.combine(total, partial_sum)
                partial_sum = None
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
        if blocks.edges is None:
            return _run_windowed(reduction, blocks, rows, firsts, topic, client)
        segments = cut_segments(rows, blocks.edges, count_segments(sum(rows), reduction))
        workers = Workers.of_client(client)
        memory = pass_memory(reduction, arrays, len(segments), workers, learned)
        memory.check(workers, label)
        window = states_ahead(reduction.nbytes, workers.count * workers.threads)
        # Keys are unique to this pass. States are changed in place, so Dask must not reuse one from an earlier pass.
        pass_ = _Pass(f"distrf-pass-{uuid.uuid4().hex}", reduction, blocks, segments, firsts, topic)
        with memory.explains(label):
            return _run_threads(pass_, window) if client is None else _run_workers(pass_, window, client)


@dataclass(frozen=True)
class _Pass:
    """The tasks of a pass in order: segment r, then the sums that can be made once its state exists."""

    name: str
    reduction: Reduction
    blocks: BlockGraphs
    segments: Sequence[tuple[int, int]]
    firsts: Sequence[int]
    topic: str | None

    def segment(self, r: int, after: str | None = None) -> Task:
        first, last = self.segments[r]
        return self.blocks.segment_task(
            f"{self.name}-segment-{r}", self.reduction, first, last, self.firsts[first:last], self.topic, after
        )

    def sums(self) -> Iterator[tuple[list[Task], list[str]]]:
        """For each segment: the tasks that add its state to the sums, and the keys of the sums so far.

        There are two sums at a time: that of the present run of segments, and the total of all runs before it.
        """
        partial_sum = total = None
        for r in range(len(self.segments)):
            tasks: list[Task] = []
            key = f"{self.name}-segment-{r}"
            if partial_sum is not None:
                tasks.append(Task(f"{key}-sum", self.reduction.combine, TaskRef(partial_sum), TaskRef(key)))
                key = f"{key}-sum"
            partial_sum = key
            if (r + 1) % _segments_per_sum(len(self.segments)) == 0 or r + 1 == len(self.segments):
                if total is not None:
                    key = f"{self.name}-total-{r}"
                    tasks.append(Task(key, self.reduction.combine, TaskRef(total), TaskRef(partial_sum)))
                partial_sum, total = None, key
            yield tasks, [key for key in (partial_sum, total) if key is not None]


def _run_threads(pass_: _Pass, window: int) -> Any:
    """Run the pass in threads of this process, as one graph.

    States are added in order, so a slow segment delays the sums of all segments after it. Without a limit those would be
    computed meanwhile, and their states would pile up in memory. So segment r depends on a *gate*: an empty task that is
    done when segment r - window has been added.
    """
    graph: dict[Any, Any] = dict(pass_.blocks.shared)
    live: list[str] = []
    for r, (tasks, live) in enumerate(pass_.sums()):
        segment = pass_.segment(r, f"{pass_.name}-gate-{r - window}" if r >= window else None)
        graph |= {task.key: task for task in (segment, *tasks)}
        if r + window < len(pass_.segments):
            gate = f"{pass_.name}-gate-{r}"
            graph[gate] = Task(gate, passed, *(TaskRef(key) for key in live))
    return compute(Delayed(live[-1], graph), None)


def _run_workers(pass_: _Pass, window: int, client: Any) -> Any:
    """Run the pass on a cluster.

    The client assigns segments to the threads in turn; the scheduler would give too many to the worker that already
    holds the reduction's arrays. There are no gates here: the client does not submit segment r before segment r - window
    has been added.
    """
    threads = threads_of(client)
    futures: dict[Any, Any] = {}
    submission = Submission()
    submission.add(dict(pass_.blocks.shared), keep=list(pass_.blocks.shared))
    summed: list[list[str]] = []  # for each segment: the keys of the sums that contain it
    try:
        for r, (tasks, live) in enumerate(pass_.sums()):
            if r >= window:
                settle(*(futures[key] for key in summed[r - window]))
            segment = pass_.segment(r)
            submission.add(
                {segment.key: segment},
                worker=threads[r % len(threads)] if threads else None,
                keep=[segment.key],
            )
            submission.add({task.key: task for task in tasks}, 1, keep=[task.key for task in tasks])
            summed.append(live)
            if r + 1 < window:
                continue
            futures |= submission.submit(client)
            submission = Submission()
            needed = {*pass_.blocks.shared, *itertools.chain(*summed[r + 1 - window :])}
            for key in futures.keys() - needed:
                futures.pop(key).release()
        futures |= submission.submit(client)
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
    """Peak memory of a pass over lazy arrays, each counted by the bytes of its largest row chunk.

    Parameters
    ----------
    reduction : Reduction
        Each thread needs `scratch_per_row` bytes for each row of a block (for CSR blocks, at most `csr_scratch_bytes` in
        all) and `scratch_bytes` more.
    arrays : sequence of Dask arrays
    n_segments : int
    workers : Workers
    learned : dict of str to array, optional
        The reduction's arrays, of which each worker holds one copy.

    Returns
    -------
    PassMemory
        In bytes.
    """
    block = int(sum(max(a.chunks[0]) * row_bytes(a) for a in arrays))
    scratch = max(arrays[0].chunks[0]) * getattr(reduction, "scratch_per_row", 0)
    if blocks_are_csr(arrays[0]):
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
    """Run the pass with one task for each block, on as many segments at a time as there are threads.

    It serves blocks that are held as futures, and many blocks that depend on a common upstream task. If a segment of such
    blocks were one task, the inputs of all its blocks would have to be on one worker at once.
    """
    n_segments = count_segments(sum(rows), reduction)
    segments = cut_segments(rows, range(len(rows)), n_segments)
    width = 1 if client is None else max(1, sum(client.nthreads().values()))
    states: list[Any] = []
    if client is not None:
        blocks.send_learned(client)
    for begin in range(0, len(segments), width):
        current = segments[begin : begin + width]
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
    size = _segments_per_sum(len(segments))
    total = None
    for g in range(0, len(states), size):
        partial_sum = states[g]
        for state in states[g + 1 : g + size]:
            partial_sum = merge_states(reduction, partial_sum, state, client)
        total = partial_sum if total is None else merge_states(reduction, total, partial_sum, client)
    return gather(total, client)
