"""Passes: one sweep over all row blocks that ends in a small result.

A *segment* is a few neighbouring blocks that one task works through: it reads a block, computes with it, adds the result
to the segment's state and drops the block before it reads the next. So at most one block per thread is in memory,
whatever the scheduler does.

How blocks are cut into segments depends on the data and on the reduction, never on the workers, and the states of the
segments are added on a fixed binary tree (sum_tree.py). So one worker and twenty give the same bits.

The client does not submit all segments at once. It gives the next one to a worker that has a free thread (crew.py), as long
as few states run or wait to be added (see memory.states_ahead). So a worker holds few states, however slow one segment is.
"""

from __future__ import annotations

import itertools
import math
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import dask
import numpy as np
from dask.base import is_dask_collection
from dask.delayed import Delayed

from ..errors import InputError
from ..maps import working_dtype
from ..projections.cache import cached_bytes
from ..store.job_lock import check
from .block_graphs import BlockGraphs, add_block, passed
from .crew import Crew
from .graph_inputs import reads_files
from .graph_nodes import Task, TaskRef
from .keeping import current_keeping, no_keep
from .kept_blocks import Keep
from .memory import PassMemory, Workers, reading_scratch, states_ahead
from .progress import pass_topic, report
from .row_blocks import align_rows, blocks_are_csr, check_dask_rows, row_bytes, source_of
from .scheduler import Results, compute, compute_many, current_client, gather, merge_states, release
from .states import add_states
from .submission import Submission
from .sum_tree import Addition, Span, SumTree, add_in_order, most_waiting
from .task_names import span_of, task_name
from .worker_checks import in_plain_words

#: Most bytes of states that a pass moves for each of its floating-point operations. At 50 GF/s and 1 GB/s moving takes
#: below 5 % of the time of computing.
BYTES_PER_FLOP = 1 / 1024
#: Where that ratio allows at most 64 segments, a pass has as many as it allows. Where it allows more, the number of
#: segments is the geometric mean of 64 and of what it allows, so segments also grow longer with the number of rows.
_FREE_SEGMENTS = 64
#: Operations of a segment at least, where there are more than 64: the messages of a task cost milliseconds. Reading a row
#: counts as a thousand.
_LEAST_FLOPS, _READING_FLOPS = 2**30, 1000.0


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
        """The state with one block of each array added. It may change `state`, which belongs to the caller alone."""

    def combine(self, left: Any, right: Any) -> Any:
        """The sum of two neighbouring states. It may change `left`, of which the caller has made a copy, but not `right`."""


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
        A power of two up to 64; beyond, the square root of what the ratio of bytes to operations allows, as long as a
        segment has work for some 20 ms.
    """
    rows_per_segment = max(1.0, reduction.nbytes / (max(reduction.flops_per_row, 1.0) * BYTES_PER_FLOP))
    most = max(1.0, n_rows / rows_per_segment)
    if most <= _FREE_SEGMENTS:
        return 2 ** int(math.log2(most))
    useful = n_rows * max(reduction.flops_per_row, _READING_FLOPS) / _LEAST_FLOPS
    return int(min(math.sqrt(most * _FREE_SEGMENTS), max(useful, _FREE_SEGMENTS)))


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
    block_rows : rows of a block of arrays in memory; None: all are one block
    label : what progress displays call the pass, and in its words Dask's dashboard (see task_names.py)
    starts : first row of each block, where the Dask arrays are some blocks of longer ones

    Raises InputError for misaligned arrays and whatever a block function raises.
    """
    if not any(is_dask_collection(a) for a in arrays):
        return _run_in_memory(reduction, arrays, label, block_rows)
    first = check_dask_rows(next(a for a in arrays if is_dask_collection(a)), "array 0")
    aligned = [a if a is first else align_rows(first, a, f"array {i}") for i, a in enumerate(arrays)]
    return _run_dask(reduction, aligned, label, starts)


def _run_in_memory(reduction: Reduction, arrays: Sequence[Any], label: str, block_rows: int | None) -> Any:
    n = arrays[0].shape[0]
    if any(a.shape[0] != n for a in arrays):
        raise InputError(f"all arrays must have the same number of rows, got {[a.shape[0] for a in arrays]}")
    step = max(1, min(block_rows or n, n))
    rows = [min(step, n - a) for a in range(0, n, step)]
    segments = cut_segments(rows, range(len(rows)), count_segments(n, reduction))

    def states() -> Iterator[Any]:
        for first, last in segments:
            state = reduction.initial()
            for a in range(first * step, min(last * step, n), step):
                b = min(a + step, n)
                state = add_block(reduction, state, a, [x[a:b] for x in arrays])
                report(topic, b - a)
            yield state

    with pass_topic(label, n, None) as topic:
        if not segments:
            return reduction.initial()
        return add_in_order(states(), len(segments), reduction.combine)


def _run_dask(
    reduction: Reduction, arrays: Sequence[Any], label: str, starts: Sequence[int] | None = None
) -> Any:
    client = current_client()
    rows = [int(r) for r in arrays[0].chunks[0]]
    firsts = [int(s) for s in (itertools.accumulate(rows, initial=0) if starts is None else starts)]
    learned = getattr(reduction, "arrays", {})
    keeping = current_keeping()
    blocks = (BlockGraphs(arrays) if keeping is None else keeping.graphs(arrays)).with_learned(learned)
    if learned:
        reduction = reduction.without_arrays()  # type: ignore[attr-defined]
    with pass_topic(label, sum(rows), client) as topic:
        if blocks.edges is None:
            with dask.annotate(span=span_of(task_name(label))):
                return _run_block_by_block(reduction, blocks, rows, firsts, topic, client, task_name(label))
        segments = cut_segments(rows, blocks.edges, count_segments(sum(rows), reduction))
        workers = Workers.of_client(client)
        memory = pass_memory(reduction, arrays, len(segments), workers, learned)
        memory.check(workers, label)
        window = states_ahead(reduction.nbytes, workers.count * workers.threads)
        peak = memory.peak
        keep = (
            no_keep(peak, workers, client is None) if keeping is None else keeping.keep(peak, workers, client)
        )
        # Keys are unique to this pass: a pass that runs again reads its rows again.
        pass_ = _Pass(task_name(label), uuid.uuid4().hex, reduction, blocks, segments, firsts, topic, keep)
        with memory.explains(label):
            if client is None:
                return _run_threads(pass_, window)
            return _run_workers(pass_, window, client, peak)


@dataclass(frozen=True)
class _Pass:
    """The tasks of a pass: one for each segment, and one for each sum of two neighbours. Their keys begin with its name."""

    name: str
    token: str
    reduction: Reduction
    blocks: BlockGraphs
    segments: Sequence[tuple[int, int]]
    firsts: Sequence[int]
    topic: str | None
    keep: Keep | None = None

    def key(self, span: Span) -> str:
        """The key of the state of a segment, or of a sum."""
        first, last = span
        if last - first == 1:
            return f"{self.name}-{self.token}-segment-{first}"
        return f"{self.name}-sum-{self.token}-{first}-{last}"

    def gate(self, r: int) -> str:
        """The key of the gate behind segment r."""
        return f"{self.name}-gate-{self.token}-{r}"

    def segment(self, r: int, after: str | None = None) -> Task:
        first, last = self.segments[r]
        return self.blocks.segment_task(
            self.key((r, r + 1)), self.reduction, first, last, self.firsts[first:last], self.topic, after,
            self.keep,
        )  # fmt: skip

    def kept(self, r: int) -> list[Any]:
        """Keys of the blocks of a segment that workers may keep."""
        return [key for block in range(*self.segments[r]) for key in self.blocks.kept(block)]

    def sum(self, addition: Addition) -> Task:
        parts = (TaskRef(self.key(part)) for part in (addition.left, addition.right))
        return Task(self.key(addition.total), add_states, self.reduction, *parts)


def _run_threads(pass_: _Pass, window: int) -> Any:
    """Run the pass in threads of this process, as one graph.

    Without a limit, threads would go on while one segment is slow, and states would pile up in memory. So segment r depends
    on a *gate*: an empty task that is done when the sums of all segments up to r - window have been made.
    """
    graph: dict[Any, Any] = dict(pass_.blocks.shared)
    tree = SumTree(len(pass_.segments))
    for r in range(len(pass_.segments)):
        segment = pass_.segment(r, pass_.gate(r - window) if r >= window else None)
        graph |= {task.key: task for task in (segment, *map(pass_.sum, tree.add(r)))}
        if r + window < len(pass_.segments):
            gate = pass_.gate(r)
            graph[gate] = Task(gate, passed, *(TaskRef(pass_.key(span)) for span in sorted(tree.waiting)))
    return compute(Delayed(pass_.key(tree.root), graph), None)


def _run_workers(pass_: _Pass, window: int, client: Any, peak: int) -> Any:
    """Run the pass on a cluster, with a bounded number of segments running or states waiting at a time.

    The client gives each segment to a worker (see crew.py), and adds two states as soon as both are there.
    """
    segments = len(pass_.segments)
    tree, crew, results = SumTree(segments), Crew(client, peak), Results(client, peak)
    queue = _Queue(pass_, window)
    running: dict[Any, int] = {}  # key of a segment -> its number
    adding: dict[Any, list[str]] = {}  # key of a sum -> the keys of the two states that it still holds
    root, most = pass_.key(tree.root), window + most_waiting(segments)
    submission = Submission(pass_.name)
    crew.look()
    submission.add(dict(pass_.blocks.shared), 0, crew.able, list(pass_.blocks.shared))
    try:
        while True:
            while queue.left and crew.running + len(tree.waiting) + len(adding) < most:
                worker = crew.choose(len(queue.left))
                if worker is None:
                    break
                r = queue.take(worker)
                task = pass_.segment(r)
                submission.add({task.key: task}, worker=worker or None, keep=[task.key])
                crew.begin(task.key, worker)
                running[task.key] = r
            results.expect(submission.submit(client))
            submission = Submission(pass_.name)
            check()  # a job that no longer owns its output ends here
            crew.look()
            for key in results.wait():
                if key in running:
                    crew.finish(key)
                    for addition in tree.add(running.pop(key)):
                        task = pass_.sum(addition)
                        submission.add({task.key: task}, 1, crew.able, [task.key])
                        adding[task.key] = [pass_.key(addition.left), pass_.key(addition.right)]
                elif key in adding:
                    results.release(adding.pop(key))
                if key == root:
                    return results.value(root)
    finally:
        results.close()


class _Queue:
    """The segments that no worker has got, in their order, but for those whose blocks a worker keeps.

    A segment may overtake others while fewer than `window` are ahead of the first that is left. So as many states may wait
    more than if all came in order, and the first that is left always finds a place.
    """

    def __init__(self, pass_: _Pass, window: int):
        self.left = list(range(len(pass_.segments)))
        self._pass, self._window = pass_, window
        self._keeping = current_keeping()
        self._workers: dict[int, str | None] = {}  # segment -> the worker that keeps most of its blocks
        if self._keeping is not None:
            self._workers = {r: self._keeping.worker_of(pass_.kept(r)) for r in self.left}

    def take(self, worker: str) -> int:
        """The next segment of a worker: one whose blocks it keeps, else the first."""
        if self._keeping is None:
            return self.left.pop(0)
        ahead = len(self._pass.segments) - len(self.left) - self.left[0]
        near = self.left[: self._window] if ahead + 1 < self._window else []
        r = next((r for r in near if self._workers[r] == worker), self.left[0])
        self.left.remove(r)
        if worker:
            self._keeping.had(worker, self._pass.kept(r))
        return r


def pass_memory(
    reduction: Reduction,
    arrays: Sequence[Any],
    n_segments: int,
    workers: Workers,
    learned: Mapping[str, np.ndarray] | None = None,
) -> PassMemory:
    """Peak memory of a pass over lazy arrays, each counted by the bytes of its largest row chunk.

    Maps add the stored block that they are applied to, scratch to read it, and their cached weights.

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
    source, maps = source_of(arrays[0])
    stored = max(source.chunks[0]) * row_bytes(source)
    if maps and not blocks_are_csr(arrays[0]):  # of CSR features `row_bytes` has counted it
        block += int(stored)
    scratch = max(arrays[0].chunks[0]) * getattr(reduction, "scratch_per_row", 0)
    if blocks_are_csr(arrays[0]):
        scratch = min(scratch, getattr(reduction, "csr_scratch_bytes", scratch))
    scratch += getattr(reduction, "scratch_bytes", 0)
    if reads_files(source):  # others are made, not read
        scratch = max(scratch, reading_scratch(stored, block))
    held = sum(array.nbytes for array in (learned or {}).values())
    maps = [*maps, getattr(getattr(reduction, "source", None), "base", None)]
    weights = sum(map_.work()[1] for map_ in maps if hasattr(map_, "work"))
    if weights:
        held += cached_bytes(weights, working_dtype(arrays[0].dtype).itemsize)
    return PassMemory(block, int(scratch), reduction.nbytes, held, n_segments, workers.threads)


def _run_block_by_block(
    reduction: Reduction,
    blocks: BlockGraphs,
    rows: list[int],
    firsts: list[int],
    topic: str | None,
    client: Any,
    name: str,
) -> Any:
    """Run the pass with one task for each block, on as many segments at a time as there are threads.

    It serves blocks that are held as futures, and many blocks that depend on a common upstream task. If a segment of such
    blocks were one task, the inputs of all its blocks would have to be on one worker at once.
    """
    n_segments = count_segments(sum(rows), reduction)
    segments = cut_segments(rows, range(len(rows)), n_segments)
    with in_plain_words(client):
        width = 1 if client is None else max(1, sum(client.nthreads().values()))
    states: list[Any] = []
    sent = [] if client is None else blocks.send_learned(client)
    try:
        for begin in range(0, len(segments), width):
            current = segments[begin : begin + width]
            states += [None] * len(current)
            for step in range(max(last - first for first, last in current)):
                wanted = {
                    begin + i: first + step for i, (first, last) in enumerate(current) if first + step < last
                }
                tasks = [
                    blocks.reduce_block(reduction, block, firsts[block], states[i], topic, name)
                    for i, block in wanted.items()
                ]
                for i, state in zip(wanted, compute_many(tasks, client), strict=True):
                    states[i] = state
    except BaseException:
        if client is not None:
            release([*states, *sent])
        raise
    total = add_in_order(
        states, len(states), lambda left, right: merge_states(reduction, left, right, client, name)
    )
    return gather(total, client)
