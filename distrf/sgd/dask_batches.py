"""Batches on a Dask cluster: loads, features, gradients and their sums as tasks, a bounded number at a time.

The tasks of a batch:

* a load task for each block, whose rows stay on a worker while the block's shuffle window is in use;
* for each thread a features task and a gradient task, both for the microbatches assigned to that thread. Features are
  made while an earlier batch is summed. The gradient task returns one sum for each microbatch, because the order in which
  sums are added must not depend on the workers.

A task or a message costs milliseconds, so a batch has no more of them than threads. Small weights travel inside the
gradient tasks; large ones are a task of their own, whose result each worker gets once. The client decides which worker
gets an assignment; the scheduler would move features to workers with fewer waiting tasks. If a worker is lost, the
scheduler computes its results again, since each is a function of the data and the weights.

Keys begin with words (`sgd-gradient-...`) because the scheduler estimates run times by that prefix. Tasks refer to
results that the client holds by key (`TaskRef`). A future inside a graph would be copied when the graph is unpickled, and
the copy would keep its result alive.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import dask
import numpy as np
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

from ..execution.graph import DataNode, GraphNode, Task, TaskRef, aligned, span_of
from ..execution.memory import Workers
from ..execution.row_blocks import shared_arrays
from ..execution.scheduler import LARGE_GRAPHS, compute, computed, gather
from ..execution.segments import Blocks, with_dependencies
from ..execution.stored_blocks import blocks_of
from .batch_work import FAN_IN, BatchWork, LoadReduction, Sums, add_sums
from .schedules import Batch

#: Weights travel inside the gradient tasks if all copies together have at most this many bytes. As a task of their own
#: they arrive later: threads begin features meanwhile, gradients wait for them, and later no features are left to make.
_MESSAGE_BYTES = 8 * 2**20
#: Shuffle windows whose blocks are on workers at one time: the one in use, and the next.
WINDOWS = 2
#: Bytes of features made ahead for each thread: of two batches where they fit, else of one.
_FEATURE_BYTES = 32 * 2**20


def batches_ahead(threads: int, batch_bytes: float) -> int:
    """Batches whose features are made before their turn; batch_bytes : of the features of one batch."""
    return 2 if 2 * batch_bytes <= threads * _FEATURE_BYTES else 1


class Window(NamedTuple):
    """A shuffle window under way. number : how many were begun before it; threads : the worker of each thread.

    Its blocks are read when nothing is left to do for earlier windows, and its features are made before blocks of later
    windows are read: priorities of -2 and -2 - 1 times the number.
    """

    number: int
    threads: list[str]


class Assignment(NamedTuple):
    """The neighbouring microbatches of a batch that one thread works on, and the key of their features."""

    worker: str | None
    microbatches: tuple[int, ...]
    features: str


class DaskBatches:
    """Computes the gradients of a sequence of batches on the workers that hold the rows.

    client : distributed client
    arrays : aligned lazy (X, y) or (X, y, weight), whose row chunks are the blocks
    maps : functions from blocks of X to features, with their learned arrays
    row_bytes : of the features of one row
    folded : whether the last array has the folds of the rows
    """

    def __init__(
        self, client: Any, arrays: Sequence[Any], maps: Sequence[Any], work: BatchWork, row_bytes: float, folded: bool = False
    ):  # fmt: skip
        self._client, self.work, self._row_bytes = client, work, row_bytes
        blocks = blocks_of(arrays)
        self._loads = load_tasks(blocks, arrays, folded)
        self._run = uuid.uuid4().hex
        self._stubs = [function.without_arrays() for function in maps]
        submission = Submission("sgd")
        # Learned arrays, and data of several blocks. Others that blocks need, such as a mean over all rows, go with each.
        inputs = blocks.inputs
        common = {key: node for key, node in inputs.items() if isinstance(node, DataNode)}
        self._upstream = {k: n for k, n in inputs.items() if isinstance(n, GraphNode) and k not in common}
        submission.add(common, keep=list(common))
        self._learned: dict[int, Any] = {}  # index of a map -> key of its arrays
        for i, function in enumerate(maps):
            if function.arrays:
                arrays_ = shared_arrays(function.arrays)
                self._learned[i] = arrays_.key
                submission.add(dict(arrays_.dask), keep=[arrays_.key])
        self._futures: dict[Any, Any] = submission.submit(client)  # everything held on workers
        self._held: dict[int, Any] = {}  # block -> key of its rows
        self._far = 1  # batches whose features are made ahead
        self._ahead: deque[tuple[int, Batch, Window, list[Assignment]]] = deque()
        #: Batches of the windows under way, whose blocks are being read, and those of each window that is yet to be begun.
        self._coming: deque[tuple[int, Batch, Window]] = deque()
        self._groups: Iterator[tuple[Any, Iterator[tuple[int, Batch]]]] = iter(())
        self._opened = self._count = 0

    def begin(self, sequence: Iterator[tuple[int, Batch]]) -> None:
        """Set the (epoch, batch) pairs that `gradient` will work through."""
        self._groups = itertools.groupby(sequence, lambda item: (item[0], item[1].window))

    def gradient(self, W: np.ndarray) -> tuple[int, Batch, Sums] | None:
        """(epoch, batch, sums of microbatches) of the next batch at weights W; None after the last."""
        submission = Submission("sgd")
        self._fill(submission, 1)
        if not self._ahead:
            return None
        epoch, batch, _, assignments = self._ahead[0]
        keys = self._sum(submission, assignments, {"W": W})
        self._fill(submission, 2)  # work for the threads while this batch is summed
        self._futures |= submission.submit(self._client)
        try:
            sums = gather([self._futures[key] for key in keys])
        finally:
            self._ahead.popleft()
            self._release([*keys, *(assignment.features for assignment in assignments)])
        self._drop_blocks()
        return epoch, batch, add_sums(*itertools.chain(*sums))

    def _fill(self, submission: Submission, more: int) -> None:
        """Add tasks: blocks of the next window, and features of as many batches as are made ahead, and `more`."""
        while len({window.number for _, window in self._under_way}) < WINDOWS:
            group = next(self._groups, None)
            if group is None:
                break
            self._open(submission, list(group[1]))
        while self._coming and len(self._ahead) < self._far + more:
            self._make(submission, *self._coming.popleft())

    def _open(self, submission: Submission, batches: list[tuple[int, Batch]]) -> None:
        """Begin a shuffle window: look the workers up again, and read its blocks."""
        workers, batch = Workers.of_client(self._client), batches[0][1]
        self._far = batches_ahead(workers.count * workers.threads, batch.rows * self._row_bytes)
        self._opened += 1
        window = Window(self._opened, threads_of(self._client.nthreads()))
        self._coming.extend((epoch, batch, window) for epoch, batch in batches)
        for worker, microbatches in assign(len(batch.microbatches), batch.window, window.threads):
            self._load(submission, [batch.microbatches[i] for i in microbatches], worker, window)

    def _load(
        self, submission: Submission, microbatches: Any, worker: str | None, window: Window
    ) -> list[TaskRef]:
        """Read the blocks of microbatches that are not held. Returns the blocks, one for each of their slices."""
        blocks = [s.block for s in itertools.chain(*microbatches)]
        for block in blocks:
            if block not in self._held:
                load = self._loads(block)
                submission.add(
                    with_dependencies([load], self._upstream), -2 * window.number, worker, [load.key]
                )
                self._held[block] = load.key
        return [TaskRef(self._held[block]) for block in blocks]

    def _make(self, submission: Submission, epoch: int, batch: Batch, window: Window) -> None:
        """Make the features of a batch."""
        self._count += 1
        assignments = []
        for worker, microbatches in assign(len(batch.microbatches), batch.window, window.threads):
            key = f"sgd-featurize-{self._run}-{self._count}-{microbatches[0]}"
            members = [batch.microbatches[i] for i in microbatches]
            task = Task(
                key, _take, self.work, self._stubs, epoch, members, tuple(self._learned),
                *self._load(submission, members, worker, window), *(TaskRef(k) for k in self._learned.values()),
            )  # fmt: skip
            submission.add({key: task}, -2 * window.number - 1, worker, [key])
            assignments.append(Assignment(worker, microbatches, key))
        self._ahead.append((epoch, batch, window, assignments))

    def _sum(
        self, submission: Submission, assignments: Sequence[Assignment], arrays: dict[str, np.ndarray]
    ) -> list[str]:
        """Add the tasks of gradients, and of sums of FAN_IN microbatches if there are more. Returns the keys to gather, in order."""
        name = uuid.uuid4().hex
        weights: Any = arrays
        if len(assignments) * sum(a.nbytes for a in arrays.values()) > _MESSAGE_BYTES:
            weights = TaskRef(f"sgd-weights-{name}")
            submission.add({weights.key: DataNode(weights.key, arrays)}, 1)
        groups: dict[int, list[str]] = {}  # summed together
        for assignment in assignments:
            key = f"sgd-gradient-{name}-{assignment.microbatches[0]}"
            task = Task(key, _gradients, self.work, TaskRef(assignment.features), weights)
            submission.add({key: task}, 1, assignment.worker)
            groups.setdefault(assignment.microbatches[0] // FAN_IN, []).append(key)
        keys = groups[0]
        if len(groups) > 1:
            keys = [f"sgd-sum-{name}-{i}" for i in groups]
            for key, members in zip(keys, groups.values(), strict=True):
                submission.add({key: Task(key, _sum_lists, *map(TaskRef, members))}, 1)
        submission.keep.extend(keys)
        return keys

    def _drop_blocks(self) -> None:
        """Release the blocks that no batch under way takes rows of."""
        needed = {block for batch, _ in self._under_way for block in batch.blocks}
        if dropped := [block for block in self._held if block not in needed]:
            self._release([self._held.pop(block) for block in dropped])
            # Let the client send the release now, before loads of the next window are submitted.
            self._client.sync(asyncio.sleep, 0.001)

    @property
    def _under_way(self) -> list[tuple[Batch, Window]]:
        made = [(batch, window) for _, batch, window, _ in self._ahead]
        return made + [(batch, window) for _, batch, window in self._coming]

    def _release(self, keys: Iterable[Any]) -> None:
        for key in keys:
            self._futures.pop(key).release()

    def close(self) -> None:
        """Release everything that is held on workers."""
        self._release(list(self._futures))
        self._ahead.clear()
        self._coming.clear()
        self._held.clear()


def assign(microbatches: int, window: int, threads: Sequence[str]) -> list[tuple[str | None, tuple[int, ...]]]:
    """Divide the microbatches of a batch among threads: (worker, neighbouring microbatches) for each.

    All batches of a shuffle window are divided in the same way, so that blocks stay on their workers. The next window
    begins at another thread.
    """
    assignments: dict[tuple[int, int], list[int]] = {}
    used = min(len(threads), microbatches) or microbatches
    for i in range(microbatches):
        assignments.setdefault((i // FAN_IN, i * used // microbatches), []).append(i)
    return [
        (threads[(place + window * used) % len(threads)] if threads else None, tuple(own))
        for (_, place), own in assignments.items()
    ]


def batch_tasks(microbatches: int, threads: int) -> int:
    """The number of tasks of a batch, loads excluded: features, gradients, and sums of more than FAN_IN microbatches."""
    sums = -(-microbatches // FAN_IN)
    return 2 * len(assign(microbatches, 0, [""] * threads)) + (sums if sums > 1 else 0)


def load_tasks(blocks: Blocks, arrays: Sequence[Any], folded: bool) -> Callable[[int], Task]:
    """A function that returns the task which computes the rows of one block; it depends on `blocks.inputs`."""
    starts = np.concatenate([[0], np.cumsum(arrays[0].chunks[0])]).tolist()
    reduction = LoadReduction(arrays[0].shape[1], folded)

    def task(block: int) -> Task:
        key = f"sgd-load-{uuid.uuid4().hex}-{block}"
        return blocks.segment_task(key, reduction, block, block + 1, [starts[block]], None)

    return task


def lazy_loader(arrays: Sequence[Any], folded: bool = False, at_once: bool = False) -> Callable[[int], Any]:
    """A function that computes one block of lazy arrays in this process, by its number; folded : as of `DaskBatches`.

    at_once : whether all blocks are computed now, by the workers of the client
    """
    blocks = blocks_of(arrays)
    loads = load_tasks(blocks, arrays, folded)

    def rows(block: int) -> Delayed:
        task = loads(block)
        return Delayed(task.key, with_dependencies([task], blocks.inputs))

    if at_once:
        return tuple(aligned(computed(*map(rows, range(len(arrays[0].chunks[0])))))).__getitem__
    return lambda block: compute(rows(block), None)


def _with_arrays(stubs: Sequence[Any], places: Sequence[int], learned: Sequence[Any]) -> list[Any]:
    arrays = dict(zip(places, learned, strict=True))
    return [f.with_arrays(arrays[i]) if i in arrays else f for i, f in enumerate(stubs)]


def _take(work: BatchWork, stubs: Any, epoch: int, microbatches: Any, places: Any, *inputs: Any) -> list[Any]:
    from ..execution.workers import return_freed_memory  # which imports distributed

    return_freed_memory()
    loaded = iter(aligned(inputs))
    rows = [[next(loaded) for _ in microbatch] for microbatch in microbatches]
    maps = _with_arrays(stubs, places, list(loaded))
    return [work.take(r, maps, epoch, microbatch) for r, microbatch in zip(rows, microbatches, strict=True)]


def _gradients(work: BatchWork, features: Sequence[Any], arrays: dict[str, np.ndarray]) -> list[Any]:
    arrays = aligned(arrays)
    return [work.gradient(aligned(t), **arrays) for t in features]


def _sum_lists(*lists: Sequence[Any]) -> list[Any]:
    return [add_sums(*itertools.chain(*lists))]


class Submission:
    """Collects tasks and sends them in one message, because a message costs the scheduler as much as several tasks.

    Parameters
    ----------
    phase : str
        Name of the phase that they belong to: Dask sums up their time and memory in a span of that name.
    """

    def __init__(self, phase: str) -> None:
        self._span = span_of(phase)
        self._layers: dict[str, MaterializedLayer] = {}
        self.keep: list[Any] = []

    def add(
        self,
        graph: dict[Any, Any],
        priority: int = 0,
        worker: str | None = None,
        keep: Iterable[Any] = (),
    ) -> None:
        """Add tasks.

        Parameters
        ----------
        graph : dict
            Tasks by key.
        priority : int
            Higher ones run first.
        worker : str, optional
            Address of the worker that should run them; if it is lost, any other may.
        keep : iterable of keys
            Results to hold on the cluster until their futures are released. All others are dropped after their last use.
        """
        notes: dict[str, Any] = {"priority": priority, "span": self._span}
        if worker is not None:
            notes |= {"workers": [worker], "allow_other_workers": True}
        self._layers[str(len(self._layers))] = MaterializedLayer(graph, annotations=notes)
        self.keep.extend(keep)

    def submit(self, client: Any) -> dict[Any, Any]:
        """Send all tasks to the scheduler in one message.

        Parameters
        ----------
        client : distributed.Client

        Returns
        -------
        dict
            Future of each result that is kept, by key.
        """
        if not self._layers:
            return {}
        graph = HighLevelGraph(self._layers, {name: set() for name in self._layers})
        with dask.config.set(LARGE_GRAPHS):
            futures = client.get(graph, self.keep, sync=False)
        return dict(zip(self.keep, futures, strict=True))


def threads_of(workers: Mapping[str, int]) -> list[str]:
    """The address of the worker of each thread, the first thread of every worker before the second of any.

    Parameters
    ----------
    workers : {address: threads}

    Returns
    -------
    list of str
        One address for each thread.
    """
    most = max(workers.values(), default=0)
    return [worker for t in range(most) for worker, threads in sorted(workers.items()) if threads > t]
