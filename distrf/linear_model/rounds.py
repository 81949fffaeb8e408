"""Rounds on a Dask cluster: loads, features, gradients and their sums as tasks, a bounded window at a time.

One load task a block, kept while its group is in use; one feature task a parcel, made ahead of its round; one
gradient task a parcel, next to its features; one sum. Weights are one key a round, sent once to each worker.
A lost worker's results are made again from these keys: everything is a function of the data and the weights.

Graphs name what they need of what the client holds by its key alone: a future inside a graph becomes another one
where the graph is read, and keeps its result for as long.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import dask
import numpy as np
from dask._task_spec import Task, TaskRef
from dask.delayed import Delayed

from ..blocks.engine import compute
from ..blocks.graphs import BlockGraphs
from ..blocks.rows import shared_arrays
from .schedules import Round
from .slices import LoadFold, SliceWork, add_sums

#: Rounds whose features are made ahead.
_AHEAD = 2
#: Gradients summed by one task.
_FAN_IN = 8
#: Blocks validated at a time.
_VALIDATE = 16


class DaskRounds:
    """Gradients of a sequence of rounds, computed where the rows are.

    client : distributed client
    arrays : aligned lazy (X, y) or (X, y, weight), row chunks being the blocks
    maps : functions from blocks of X to features, learned arrays and all
    """

    def __init__(self, client: Any, arrays: Sequence[Any], maps: Sequence[Any], work: SliceWork):
        self._client = client
        self._work = work
        self._rows = [int(r) for r in arrays[0].chunks[0]]
        self._starts = np.concatenate([[0], np.cumsum(self._rows)]).tolist()
        self._fold = LoadFold(arrays[0].shape[1])
        self._blocks = BlockGraphs(arrays)
        self._name = f"distrf-sgd-{uuid.uuid4().hex}"
        self._stubs = [function.without_arrays() for function in maps]
        self._shared = {key: self._keep(Delayed(key, {key: node})) for key, node in self._blocks.shared.items()}
        self._learned: dict[int, Any] = {
            i: self._keep(shared_arrays(function.arrays)) for i, function in enumerate(maps) if function.arrays
        }
        self._workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
        self._held: dict[int, Any] = {}  # block -> future of its rows
        self._ahead: deque[tuple[int, Round, list[Any]]] = deque()
        self._sequence: Iterator[tuple[int, Round]] = iter(())
        self._next: tuple[int, Round] | None = None
        self._count = 0
        #: Blocks held at most so far, for the record.
        self.most_held = 0

    def _keep(self, task: Delayed) -> Any:
        return self._submit([task], 0)[0]

    def _submit(self, tasks: list[Delayed], priority: int, workers: Any = None) -> list[Any]:
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "64GiB"}):
            return self._client.compute(
                tasks,
                optimize_graph=False,
                priority=priority,
                workers=workers,
                allow_other_workers=workers is not None,
            )

    def begin(self, sequence: Iterator[tuple[int, Round]]) -> None:
        """Set the (epoch, round) pairs that `gradient` will work through."""
        self._release(self._ahead)
        self._sequence, self._next = sequence, None

    def gradient(self, W: np.ndarray, **numbers: Any) -> tuple[int, Round, tuple[Any, ...]] | None:
        """(epoch, round, sums of parcels) of the next round at weights W; None after the last.

        numbers : what else the work's `gradient` takes
        """
        self._fill(1 + _AHEAD)
        if not self._ahead:
            return None
        epoch, round_, taken = self._ahead[0]
        future = self._sum(taken, {"W": W} | {k: np.asarray(v) for k, v in numbers.items()})
        try:
            self._fill(2 + _AHEAD)  # so that workers have rows to featurise while this round is summed
            sums = future.result()
        finally:
            future.release()
            self._release([self._ahead.popleft()])
        self._drop_blocks()
        return epoch, round_, sums

    def _fill(self, most: int) -> None:
        """Have the features of up to so many rounds made, of two groups at most: no more blocks are held."""
        while len(self._ahead) < most:
            if self._next is None:
                self._next = next(self._sequence, None)
            if self._next is None:
                return
            groups = {(epoch, round_.group) for epoch, round_, _ in self._ahead}
            if len(groups | {(self._next[0], self._next[1].group)}) > 2:
                return
            self._make(*self._next)
            self._next = None

    def _make(self, epoch: int, round_: Round) -> None:
        # Loads and features of earlier rounds first.
        self._count += 1
        for place, parcel in enumerate(round_.parcels):
            for i, s in enumerate(parcel):
                if s.block not in self._held:
                    self._held[s.block] = self._load(s.block, place if len(round_.parcels) > 1 else i)
        self.most_held = max(self.most_held, len(self._held))
        tasks = []
        for i, parcel in enumerate(round_.parcels):
            key = f"{self._name}-features-{self._count}-{i}"
            held = [self._held[s.block] for s in parcel]
            task = Task(
                key, _take, self._work, self._stubs, epoch, parcel, tuple(self._learned),
                *(TaskRef(f.key) for f in (*held, *self._learned.values())),
            )  # fmt: skip
            tasks.append(Delayed(key, {key: task}))
        self._ahead.append((epoch, round_, self._submit(tasks, -self._count)))

    def _load(self, block: int, place: int) -> Any:
        """A block's rows as a future; blocks of one parcel live on one worker, parcels on different ones."""
        return self._submit(
            [self._load_task(block)], -self._count, [self._workers[place % len(self._workers)]]
        )[0]

    def _load_task(self, block: int) -> Delayed:
        return load_task(self._blocks, self._fold, block, self._starts[block], self._name, self._shared)

    def _sum(self, taken: list[Any], arrays: dict[str, np.ndarray]) -> Any:
        name = f"{self._name}-round-{uuid.uuid4().hex}"
        graph: dict[Any, Any] = dict(shared_arrays(arrays).dask)
        (weights,) = graph
        keys = []
        for i, future in enumerate(taken):
            key = f"{name}-{i}"
            graph[key] = Task(key, _gradient, self._work, TaskRef(future.key), TaskRef(weights))
            keys.append(key)
        level = 0
        while len(keys) > 1 or not level:
            level += 1
            groups = [keys[a : a + _FAN_IN] for a in range(0, len(keys), _FAN_IN)]
            keys = [f"{name}-sum-{level}-{g}" for g in range(len(groups))]
            for key, group in zip(keys, groups, strict=True):
                graph[key] = Task(key, add_sums, *(TaskRef(k) for k in group))
        return self._submit([Delayed(keys[0], graph)], 1)[0]

    def _drop_blocks(self) -> None:
        """Release blocks that no round ahead uses, unless the group they are in goes on."""
        if not self._ahead:
            return
        wanted = {block for _, round_, _ in self._ahead for block in round_.blocks}
        dropped = [b for b in self._held if b not in wanted]
        for block in dropped:
            self._held.pop(block).release()
        if dropped:  # these messages leave before loads of the next group do
            self._client.sync(asyncio.sleep, 0.001)

    def _release(self, entries: Any) -> None:
        for _, _, futures in entries:
            for future in futures:
                future.release()
        if entries is self._ahead:
            self._ahead.clear()

    def validate(self, W: np.ndarray, blocks: Sequence[int]) -> np.ndarray:
        """Score sums of the validation rows of the blocks, at most 16 blocks at a time."""
        total, shared = 0.0, shared_arrays({"W": W})
        for a in range(0, len(blocks), _VALIDATE):
            tasks = []
            for block in blocks[a : a + _VALIDATE]:
                load = self._held.get(block)
                made = self._load_task(block) if load is None else load
                graph: dict[Any, Any] = dict(shared.dask) | (dict(made.dask) if load is None else {})
                key = f"{self._name}-score-{block}-{uuid.uuid4().hex}"
                learned = {n: TaskRef(f.key) for n, f in self._learned.items()}
                graph[key] = Task(
                    key, _score, self._work, self._stubs, block, tuple(learned), TaskRef(made.key),
                    TaskRef(shared.key), *learned.values(),
                )  # fmt: skip
                tasks.append(Delayed(key, graph))
            futures = self._submit(tasks, 2)
            for future in futures:
                total = total + future.result()
                future.release()
        return np.asarray(total)

    def close(self) -> None:
        """Release everything that is held on workers."""
        self._release(self._ahead)
        for future in [*self._held.values(), *self._shared.values(), *self._learned.values()]:
            future.release()
        self._held.clear()


def load_task(
    blocks: BlockGraphs, fold: LoadFold, block: int, start: int, name: str, shared: dict[Any, Any] | None
) -> Delayed:
    """The task that makes the rows of one block; `shared` are futures of the graph's shared nodes, if held."""
    if blocks.atoms is None:
        return blocks.fold_one(fold, block, start, None, None)
    key = f"{name}-load-{block}-{uuid.uuid4().hex}"
    task = blocks.run_task(key, fold, block, block + 1, [start], None)
    nodes = blocks.shared if shared is None else shared
    return Delayed(key, {k: nodes[k] for k in task.dependencies} | {key: task})


def lazy_loader(arrays: Sequence[Any]) -> Callable[[int], Any]:
    """Blocks of lazy arrays one at a time in this process."""
    starts = np.concatenate([[0], np.cumsum(arrays[0].chunks[0])]).tolist()
    blocks, fold = BlockGraphs(arrays), LoadFold(arrays[0].shape[1])
    return lambda block: compute(load_task(blocks, fold, block, starts[block], "distrf-sgd", None), None)


def _with_arrays(stubs: Sequence[Any], places: Sequence[int], learned: Sequence[Any]) -> list[Any]:
    arrays = dict(zip(places, learned, strict=True))
    return [f.with_arrays(arrays[i]) if i in arrays else f for i, f in enumerate(stubs)]


def _take(work: SliceWork, stubs: Any, epoch: int, parcel: Any, places: Any, *inputs: Any) -> Any:
    loaded, learned = inputs[: len(parcel)], inputs[len(parcel) :]
    return work.take(loaded, _with_arrays(stubs, places, learned), epoch, parcel)


def _gradient(work: SliceWork, taken: Any, arrays: dict[str, np.ndarray]) -> Any:
    return work.gradient(taken, **arrays)


def _score(
    work: SliceWork, stubs: Any, block: int, places: Any, loaded: Any, arrays: Any, *learned: Any
) -> Any:
    return work.score_block(loaded, _with_arrays(stubs, places, learned), block, arrays["W"])
