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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from dask.delayed import Delayed

from ..alignment import aligned
from ..execution.graph_nodes import DataNode, GraphNode, Task, TaskRef
from ..execution.memory import Workers
from ..execution.progress import saw_workers
from ..execution.row_blocks import shared_arrays
from ..execution.scheduler import compute, gather, gather_all
from ..execution.segments import Blocks, with_dependencies
from ..execution.stored_blocks import blocks_of
from ..execution.submission import Submission, threads_of
from ..execution.worker_checks import able_workers
from ..execution.workers import return_freed_memory
from .ahead import Ahead, BatchLayout
from .batch_work import FAN_IN, BatchWork, LoadReduction, Sums, add_sums
from .schedules import Batch

#: Weights travel inside the gradient tasks if all copies together have at most this many bytes. As a task of their own
#: they arrive later: threads begin features meanwhile, gradients wait for them, and later no features are left to make.
_MESSAGE_BYTES = 8 * 2**20
#: Blocks that are validated at one time.
_VALIDATE = 16


@dataclass(frozen=True)
class Window:
    """A shuffle window under way. number : how many were begun before it; threads : the worker of each thread."""

    number: int
    threads: list[str]

    @property
    def read_priority(self) -> int:
        """Its blocks are read when nothing is left to do for earlier windows."""
        return -2 * self.number

    @property
    def work_priority(self) -> int:
        """Its features are made before blocks of later windows are read."""
        return -2 * self.number - 1


@dataclass(frozen=True)
class Assignment:
    """The neighbouring microbatches of a batch that one thread works on, and the key of their features."""

    worker: str | None
    microbatches: tuple[int, ...]
    features: str


class DaskBatches:
    """Computes the gradients of a sequence of batches on the workers that hold the rows.

    client : distributed client
    arrays : aligned lazy (X, y) or (X, y, weight), whose row chunks are the blocks
    maps : functions from blocks of X to features, with their learned arrays
    row_bytes, block_bytes : of the features of one row, and of the largest block as workers hold it
    folded : whether the last array has the folds of the rows
    """

    def __init__(
        self,
        client: Any,
        arrays: Sequence[Any],
        maps: Sequence[Any],
        work: BatchWork,
        row_bytes: float,
        block_bytes: int,
        folded: bool = False,
    ):
        self._client = client
        self.work = work
        self._row_bytes, self._block_bytes = row_bytes, block_bytes
        self._rows = [int(r) for r in arrays[0].chunks[0]]
        self._starts = np.concatenate([[0], np.cumsum(self._rows)]).tolist()
        self._reduction = LoadReduction(arrays[0].shape[1], folded)
        self._blocks = blocks_of(arrays)
        self._run = uuid.uuid4().hex
        self._stubs = [function.without_arrays() for function in maps]
        submission = Submission("sgd")
        # Learned arrays, and data of several blocks. Others that blocks need, such as a mean over all rows, go with each.
        common = {key: node for key, node in self._blocks.inputs.items() if isinstance(node, DataNode)}
        self._upstream = {
            key: n for key, n in self._blocks.inputs.items() if isinstance(n, GraphNode) and key not in common
        }
        submission.add(common, keep=list(common))
        self._learned: dict[int, Any] = {}  # index of a map -> key of its arrays
        for i, function in enumerate(maps):
            if function.arrays:
                arrays_ = shared_arrays(function.arrays)
                self._learned[i] = arrays_.key
                submission.add(dict(arrays_.dask), keep=[arrays_.key])
        self._futures: dict[Any, Any] = submission.submit(client)  # everything held on workers
        self._windows: dict[tuple[int, int], Window] = {}  # those under way, by epoch and number in the epoch
        self._opened = 0
        self._held: dict[int, Any] = {}  # block -> key of its rows
        self._far = Ahead()
        self._ahead: deque[tuple[int, Batch, list[Assignment]]] = deque()
        #: Batches of the windows under way, whose blocks are being read.
        self._coming: deque[tuple[int, Batch]] = deque()
        self._sequence: Iterator[tuple[int, Batch]] = iter(())
        self._next: tuple[int, Batch] | None = None
        self._count = 0

    def begin(self, sequence: Iterator[tuple[int, Batch]]) -> None:
        """Set the (epoch, batch) pairs that `gradient` will work through."""
        for _, _, assignments in self._ahead:
            self._release(assignment.features for assignment in assignments)
        self._ahead.clear()
        self._coming.clear()
        self._windows.clear()
        self._sequence, self._next = sequence, None

    def gradient(self, W: np.ndarray, **numbers: Any) -> tuple[int, Batch, Sums] | None:
        """(epoch, batch, sums of microbatches) of the next batch at weights W; None after the last.

        numbers : further arguments of `BatchWork.gradient`
        """
        submission = Submission("sgd")
        self._fill(submission, 1)
        if not self._ahead:
            return None
        epoch, batch, assignments = self._ahead[0]
        arrays = {"W": W} | {k: np.asarray(v) for k, v in numbers.items()}
        keys = self._sum(submission, assignments, arrays)
        self._fill(submission, 2)  # work for the threads while this batch is summed
        self._futures |= submission.submit(self._client)
        try:
            sums = gather_all([self._futures[key] for key in keys], self._client)
        finally:
            self._ahead.popleft()
            self._release([*keys, *(assignment.features for assignment in assignments)])
        self._drop_blocks()
        return epoch, batch, add_sums(*itertools.chain(*sums))

    def _fill(self, submission: Submission, more: int) -> None:
        """Add tasks: blocks of as many windows, and features of as many batches, as `Ahead` says, and `more` batches."""
        self._read_ahead(submission)
        while self._coming and len(self._ahead) < self._far.batches + more:
            self._make(submission, *self._coming.popleft())

    def _read_ahead(self, submission: Submission) -> None:
        """Take the batches of as many shuffle windows as may be under way, and read the blocks of these."""
        while True:
            self._next = self._next or next(self._sequence, None)
            if self._next is None:
                return
            epoch, batch = self._next
            if (epoch, batch.window) not in self._windows:
                if len(self._windows) >= self._far.windows_held:
                    return
                self._open(submission, epoch, batch)
            self._coming.append(self._next)
            self._next = None

    def _open(self, submission: Submission, epoch: int, batch: Batch) -> None:
        """Begin a shuffle window: look the workers up again, and read its blocks."""
        layout = BatchLayout.of(batch, sum(self._rows[b] for b in batch.blocks), len(batch.blocks))
        workers = Workers.of_client(self._client)
        saw_workers(self._client, workers.each)
        self._far = Ahead.choose(workers, layout, self._row_bytes, self._block_bytes)
        self._opened += 1
        window = self._windows[epoch, batch.window] = Window(
            self._opened, threads_of(able_workers(workers.each, workers.memory_limit))
        )
        for worker, microbatches in assign(len(batch.microbatches), batch.window, window.threads):
            for s in itertools.chain(*(batch.microbatches[i] for i in microbatches)):
                self._load(submission, s.block, worker, window)

    def _load(self, submission: Submission, block: int, worker: str | None, window: Window) -> None:
        if block not in self._held:
            load = self._load_task(block)
            submission.add(with_dependencies(load, self._upstream), window.read_priority, worker, [load.key])
            self._held[block] = load.key

    def _make(self, submission: Submission, epoch: int, batch: Batch) -> None:
        self._count += 1
        assignments = []
        window = self._windows[epoch, batch.window]
        for worker, microbatches in assign(len(batch.microbatches), batch.window, window.threads):
            key = f"sgd-featurize-{self._run}-{self._count}-{microbatches[0]}"
            members = [batch.microbatches[i] for i in microbatches]
            for s in itertools.chain(*members):
                self._load(submission, s.block, worker, window)
            task = Task(
                key, _take, self.work, self._stubs, epoch, members, tuple(self._learned),
                *(TaskRef(self._held[s.block]) for s in itertools.chain(*members)),
                *(TaskRef(k) for k in self._learned.values()),
            )  # fmt: skip
            submission.add({key: task}, window.work_priority, worker, [key])
            assignments.append(Assignment(worker, microbatches, key))
        self._ahead.append((epoch, batch, assignments))

    def _load_task(self, block: int) -> Task:
        return load_task(self._blocks, self._reduction, block, self._starts[block])

    def _sum(
        self, submission: Submission, assignments: Sequence[Assignment], arrays: dict[str, np.ndarray]
    ) -> list[str]:
        """Add the tasks of gradients and of their sums. Returns the keys to gather, in the order of the microbatches.

        At most FAN_IN sums are left for the client to add.
        """
        name = uuid.uuid4().hex
        # Sums stay among the workers of the batch, of which none is too small.
        among = sorted({a.worker for a in assignments if a.worker is not None}) or None
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
        lists = list(groups.values())
        while len(lists) > 1:
            sums: list[str] = []
            for keys in lists:
                key = f"sgd-sum-{name}-{len(lists)}-{len(sums)}"
                submission.add({key: Task(key, _sum_lists, *(TaskRef(k) for k in keys))}, 1, among)
                sums.append(key)
            lists = [sums[a : a + FAN_IN] for a in range(0, len(sums), FAN_IN)]
        submission.keep.extend(lists[0])
        return lists[0]

    def _drop_blocks(self) -> None:
        """Release the blocks of shuffle windows that no batch under way belongs to."""
        under_way = [(epoch, batch) for epoch, batch, _ in self._ahead] + list(self._coming)
        if not under_way:
            return
        windows = {(epoch, batch.window) for epoch, batch in under_way}
        if windows == self._windows.keys():
            return
        self._windows = {key: window for key, window in self._windows.items() if key in windows}
        needed = {block for _, batch in under_way for block in batch.blocks}
        dropped = [b for b in self._held if b not in needed]
        self._release([self._held.pop(block) for block in dropped])
        if dropped:  # let the client send the release now, before loads of the next window are submitted
            self._client.sync(asyncio.sleep, 0.001)

    def _release(self, keys: Iterable[Any]) -> None:
        for key in keys:
            self._futures.pop(key).release()

    def validate(self, W: np.ndarray, blocks: Sequence[int], held: bool = True) -> np.ndarray:
        """Score sums of the validation rows of the blocks, or of their training rows, at most 16 blocks at a time."""
        total = 0.0
        workers = Workers.of_client(self._client)
        able = sorted(able_workers(workers.each, workers.memory_limit))
        for a in range(0, len(blocks), _VALIDATE):
            submission = Submission("sgd")
            name = uuid.uuid4().hex
            weights = f"sgd-weights-{name}"
            submission.add({weights: DataNode(weights, {"W": W})}, 2)
            keys = []
            for block in blocks[a : a + _VALIDATE]:
                key = f"sgd-score-{name}-{block}"
                rows, worker, graph = self._held.get(block), None, {}
                if rows is None:
                    # One task reads and scores: rows that wait for their score would fill a worker.
                    load = self._load_task(block)
                    graph = with_dependencies(load, self._upstream)
                    del graph[load.key]
                    worker, source = able[block % len(able)] if able else None, (load.func, *load.args)
                else:
                    source = _given, TaskRef(rows)
                graph[key] = Task(
                    key, _score, self.work, self._stubs, block, held, tuple(self._learned), TaskRef(weights),
                    *(TaskRef(k) for k in self._learned.values()), *source,
                )  # fmt: skip
                submission.add(graph, 2, worker or able or None, [key])
                keys.append(key)
            self._futures |= submission.submit(self._client)
            for key in keys:
                total = total + gather(self._futures[key])
            self._release(keys)
        return np.asarray(total)

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
    groups, sums = -(-microbatches // FAN_IN), 0
    while groups > 1:
        sums, groups = sums + groups, -(-groups // FAN_IN)
    return 2 * len(assign(microbatches, 0, [""] * threads)) + sums


def load_task(blocks: Blocks, reduction: LoadReduction, block: int, start: int) -> Task:
    """The task that computes the rows of one block; it depends on `blocks.inputs`."""
    key = f"sgd-load-{uuid.uuid4().hex}-{block}"
    return blocks.segment_task(key, reduction, block, block + 1, [start], None)


def lazy_loader(arrays: Sequence[Any], folded: bool = False) -> Callable[[int], Any]:
    """A function that computes one block of lazy arrays in this process, by its number; folded : as of `DaskBatches`."""
    starts = np.concatenate([[0], np.cumsum(arrays[0].chunks[0])]).tolist()
    blocks = blocks_of(arrays)
    reduction = LoadReduction(arrays[0].shape[1], folded)

    def load(block: int) -> Any:
        task = load_task(blocks, reduction, block, starts[block])
        return compute(Delayed(task.key, with_dependencies(task, blocks.inputs)), None)

    return load


def _with_arrays(stubs: Sequence[Any], places: Sequence[int], learned: Sequence[Any]) -> list[Any]:
    arrays = dict(zip(places, learned, strict=True))
    return [f.with_arrays(arrays[i]) if i in arrays else f for i, f in enumerate(stubs)]


def _take(work: BatchWork, stubs: Any, epoch: int, microbatches: Any, places: Any, *inputs: Any) -> list[Any]:
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


def _given(rows: Any) -> Any:
    return rows


def _score(work: BatchWork, stubs: Any, block: int, held: bool, places: Any, arrays: Any, *inputs: Any) -> Any:
    """inputs : the learned arrays of the maps, a function, and its arguments, from which it makes the rows"""
    learned, (read, *arguments) = inputs[: len(places)], inputs[len(places) :]
    functions = _with_arrays(stubs, places, aligned(learned))
    return work.score_block(aligned(read(*arguments)), functions, block, aligned(arrays["W"]), held)
