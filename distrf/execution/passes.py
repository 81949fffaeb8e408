"""Passes: one sweep over all row blocks that ends in a small result.

A *segment* is a few neighbouring blocks that one task works through: it reads a block, computes with it, adds the result
to the segment's state and drops the block before it reads the next. So at most one block per thread is in memory,
whatever the scheduler does.

How blocks are cut into segments depends on the data and on the reduction, never on the workers, and the states of the
segments are added on a fixed binary tree (`tree_sum`). So one worker and twenty give the same bits.

A pass is one graph. Its segments are marked as producers of data: Dask keeps them in a queue, gives the next one to a worker
that has a free thread, and adds states first. So a worker holds few states, however slow one segment is. Dask queues no tasks
that are bound to workers: those whose rows a worker holds. There a slow worker lets more states wait, which Dask spills to
disk where memory ends.
"""

from __future__ import annotations

import copy
import itertools
import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import dask
import dask.array as da
import numpy as np
from dask.base import is_dask_collection
from dask.delayed import Delayed

from ..errors import InputError
from ..maps import working_dtype
from ..progress import pass_topic, report
from ..projections.base import cached_bytes
from .graph import Task, TaskRef, as_producer, reads_files, span_of, task_name
from .memory import MOST_SEGMENTS, PassMemory, Workers
from .row_blocks import align_rows, blocks_are_csr, check_dask_rows, made_of, row_bytes, source_of
from .scheduler import compute, computed, current_client
from .segments import Blocks, add_block, with_dependencies
from .stored_blocks import StoredBlocks, blocks_of, map_flops, shared_segments

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
        segment has work for some 20 ms; at most 4,096.
    """
    rows_per_segment = max(1.0, reduction.nbytes / (max(reduction.flops_per_row, 1.0) * BYTES_PER_FLOP))
    most = max(1.0, n_rows / rows_per_segment)
    if most <= _FREE_SEGMENTS:
        return 2 ** int(math.log2(most))
    useful = n_rows * max(reduction.flops_per_row, _READING_FLOPS) / _LEAST_FLOPS
    return int(min(math.sqrt(most * _FREE_SEGMENTS), max(useful, _FREE_SEGMENTS), MOST_SEGMENTS))


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
    label : what progress displays call the pass, and in its words Dask's dashboard (see graph.py)
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

    def state_of(i: int) -> Any:
        first, last = segments[i]
        state = reduction.initial()
        for a in range(first * step, min(last * step, n), step):
            b = min(a + step, n)
            state = add_block(reduction, state, a, [x[a:b] for x in arrays])
            report(topic, b - a)
        return state

    with pass_topic(label, n, None) as topic:
        if not segments:
            return reduction.initial()
        return tree_sum(state_of, 0, len(segments), reduction.combine)


def _run_dask(
    reduction: Reduction, arrays: Sequence[Any], label: str, starts: Sequence[int] | None = None
) -> Any:
    client = current_client()
    rows = [int(r) for r in arrays[0].chunks[0]]
    firsts = [int(s) for s in (itertools.accumulate(rows, initial=0) if starts is None else starts)]
    learned = getattr(reduction, "arrays", {})
    blocks = blocks_of(arrays).with_learned(learned)
    if learned:
        reduction = reduction.without_arrays()  # type: ignore[attr-defined]
    shared = isinstance(blocks, StoredBlocks)
    segments = pass_segments(reduction, arrays, blocks.edges, held=blocks.held, shared=shared)
    if not segments:
        return reduction.initial()
    name = task_name(label)

    if client is not None and not client.nthreads():
        # An adaptive cluster starts a worker for this. Then there is one to plan with.
        computed(dask.delayed(int)())
    workers = Workers.of_client(client)
    memory = pass_memory(reduction, arrays, len(segments), workers, learned)
    if blocks.held:  # those of a segment come to its worker
        moved = sum(rows) * sum(row_bytes(array) for array in arrays) / len(segments)
        memory = replace(memory, block=memory.block + int(moved))
    memory.check(workers, label)
    # Keys are unique to this run: a pass that runs again reads its rows again.
    token = uuid.uuid4().hex
    with pass_topic(label, sum(rows), client) as topic, dask.annotate(span=span_of(name)):
        tasks = [
            blocks.segment_task(f"{name}-{token}-segment-{i}", reduction, a, b, firsts[a:b], topic)
            for i, (a, b) in enumerate(segments)
        ]
        total = _sum(f"{name}-sum-{token}", reduction, blocks, tasks)
        return compute(total, client)


def _sum(name: str, reduction: Reduction, blocks: Blocks, segments: Sequence[Task]) -> Delayed:
    """The sum of the states of all segments, whose tasks are marked as producers of data unless rows are held."""
    graph = with_dependencies([task if blocks.held else as_producer(task) for task in segments], blocks.inputs)

    def add(left: str, right: str) -> str:
        key = f"{name}-{len(graph)}"
        graph[key] = Task(key, add_states, reduction, TaskRef(left), TaskRef(right))
        return key

    return Delayed(tree_sum(lambda i: segments[i].key, 0, len(segments), add), graph)


def pass_segments(
    reduction: Reduction, arrays: Sequence[Any], edges: Sequence[int], *, held: bool, shared: bool
) -> list[tuple[int, int]]:
    """First block, and the block after the last, of each segment of a pass over lazy arrays.

    edges : blocks at which a segment may begin; held : whether workers hold the rows; shared : whether several segments may read the
    same stored block
    """
    rows = [int(r) for r in arrays[0].chunks[0]]
    wanted = count_segments(sum(rows), reduction)
    if held:  # each segment a block, or neighbours that are smaller than a state together
        nbytes = sum(row_bytes(array) for array in arrays) * sum(rows)
        wanted = min(max(wanted, int(nbytes / max(reduction.nbytes, 1))), MOST_SEGMENTS)
    elif shared and len(edges) < len(rows):
        sources = [source_of(array) for array in arrays]
        largest = max(max(source.chunks[0]) * row_bytes(source) for source, _ in sources)
        flops = reduction.flops_per_row + map_flops([map_ for _, maps in sources for map_ in maps])
        if sharers := shared_segments(len(edges), largest, sum(rows), flops, wanted):
            return cut_segments(rows, range(len(rows)), sharers)
    return cut_segments(rows, edges, wanted)


def pass_memory(
    reduction: Reduction,
    arrays: Sequence[Any],
    n_segments: int,
    workers: Workers,
    learned: Mapping[str, np.ndarray] | None = None,
) -> PassMemory:
    """Peak memory of a pass over lazy arrays, each counted by the bytes of its largest row chunk.

    Maps add the stored block that they are applied to, scratch to read it, what each of them makes, and what they hold.

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
    maps: list[Any] = [getattr(getattr(reduction, "source", None), "base", None)]
    blocks, sources = dict[str, int](), dict[str, da.Array]()
    for array in arrays:
        made, steps = made_of(array)
        source, functions = made[-1], [step for step in steps if callable(step)]
        # The block, that which is stored, and what each map between makes.
        forms = [array, source, *(a for a, step in zip(made, steps, strict=False) if callable(step))]
        blocks |= {a.name: int(max(a.chunks[0]) * row_bytes(a)) for a in forms}
        if functions and blocks_are_csr(array):  # `row_bytes` has counted it
            blocks[array.name] -= int(max(source.chunks[0]) * row_bytes(source))
        maps += functions
        sources[source.name] = source
    block = sum(blocks.values())
    scratch = max(arrays[0].chunks[0]) * getattr(reduction, "scratch_per_row", 0)
    if blocks_are_csr(arrays[0]):
        scratch = min(scratch, getattr(reduction, "csr_scratch_bytes", scratch))
    scratch += getattr(reduction, "scratch_bytes", 0)
    for name, source in sources.items():
        # Reading takes three copies (raw, decoded, copied), of which the block is counted. Others are made, not read.
        if reads_files(source):
            scratch = max(scratch, 3 * blocks[name] - block)
    numbers = [source.dtype for source in sources.values() if source.dtype.kind in "fiub"]  # others are text
    held, more = map_memory(maps, working_dtype(numbers[0] if numbers else float).itemsize)
    held += sum(array.nbytes for array in (learned or {}).values())
    return PassMemory(block, int(scratch) + more, reduction.nbytes, held, n_segments, workers.threads)


def map_memory(maps: Sequence[Any], itemsize: int) -> tuple[int, int]:
    """Bytes that a worker holds of some maps, which may be none, and those that a thread takes beside a block and its features."""
    known = [map_ for map_ in dict.fromkeys(maps) if hasattr(map_, "held_bytes")]
    weights = sum(map_.work()[1] for map_ in known)
    held = cached_bytes(weights, itemsize) if weights else 0
    return (
        held + sum(map_.held_bytes(itemsize) for map_ in known),
        sum(map_.scratch_bytes(itemsize) for map_ in known),
    )


def tree_sum(state: Callable[[int], Any], first: int, last: int, combine: Callable[[Any, Any], Any]) -> Any:
    """The sum of the states first:last on a balanced binary tree.

    The tree follows from the number of states alone, so sums have the same bits in whatever order states come.

    Parameters
    ----------
    state : callable
        Gives the state of this number; called in ascending order.
    first, last : int
        The first number, and the one after the last; there is at least one.
    combine : callable
        Called as ``combine(left, right)``; it may change `left` in place.

    Returns
    -------
    object
        What `combine` returned last, or the only state.
    """
    n = last - first
    if n == 1:
        return state(first)
    middle = first + 2 ** ((n - 1).bit_length() - 1)
    left = tree_sum(state, first, middle, combine)
    return combine(left, tree_sum(state, middle, last, combine))


def add_states(reduction: Any, left: Any, right: Any) -> Any:
    """The sum of two neighbouring states; the task of a pass for each of its sums.

    Both states are left as they are, like the inputs of every task. Dask hands the data of a worker that retires to others
    while its tasks still run, and then runs these again: a `left` that had `right` added to it in place would count twice.

    Parameters
    ----------
    reduction : Reduction
    left, right : object
        States.

    Returns
    -------
    object
        A state that shares no memory with `left`.
    """
    return reduction.combine(copy.deepcopy(left), right)


class SizedState:
    """Mixin of dataclasses of arrays. Dask asks a state for `__sizeof__`, and places, sends and spills it by that size."""

    def __sizeof__(self) -> int:
        held: Any = vars(self).values()
        return object.__sizeof__(self) + sum(getattr(value, "nbytes", 0) for value in held)


class StateOfStates:
    """Mixin of states that are made of others: `states` lists them, each with `nbytes` and `merge`."""

    states: list[Any]

    @property
    def nbytes(self) -> int:
        """Most bytes of the state, however many rows come."""
        return sum(state.nbytes for state in self.states)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + sum(state.__sizeof__() for state in self.states)

    def merge(self, other: Any) -> None:
        """Count the rows of another state, which is left as it is."""
        for mine, others in zip(self.states, other.states, strict=True):
            mine.merge(others)


class RowCount:
    """Mixin of reductions whose state is the number of rows that they have dealt with."""

    nbytes = 0
    flops_per_row = 1.0

    def initial(self) -> int:
        return 0

    def combine(self, left: int, right: int) -> int:
        return left + right
