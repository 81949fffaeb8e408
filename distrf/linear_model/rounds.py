"""Rounds on a Dask cluster: loads, features, gradients and their sums as tasks, a bounded window at a time.

One load task a block, kept while its group is in use; one feature task a slice, made ahead of its round; one
gradient task a slice, next to its features; one sum. Weights are one key a round, sent once to each worker.
A lost worker's results are made again from these keys: everything is a function of the data and the weights.
"""

from __future__ import annotations

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
        self._sequence = sequence

    def gradient(self, W: np.ndarray) -> tuple[int, Round, tuple[Any, ...]] | None:
        """(epoch, round, slice sums) of the next round at weights W; None after the last."""
        while len(self._ahead) < 1 + _AHEAD and self._make_ahead():
            pass
        if not self._ahead:
            return None
        epoch, round_, taken = self._ahead.popleft()
        future = self._sum(taken, W)
        try:
            self._make_ahead()  # so that workers have rows to featurise while this round is summed
            sums = future.result()
        finally:
            future.release()
            self._release([(epoch, round_, taken)])
        self._drop_blocks()
        return epoch, round_, sums

    def _make_ahead(self) -> bool:
        try:
            epoch, round_ = next(self._sequence)
        except StopIteration:
            return False
        # Loads and features of earlier rounds first.
        self._count += 1
        for place, block in enumerate(dict.fromkeys(s.block for s in round_.slices)):
            if block not in self._held:
                self._held[block] = self._load(block, place)
        self.most_held = max(self.most_held, len(self._held))
        tasks = []
        for i, s in enumerate(round_.slices):
            key = f"{self._name}-features-{self._count}-{i}"
            held = self._held[s.block]
            graph: dict[Any, Any] = {held.key: held} | {f.key: f for f in self._learned.values()}
            where = (epoch, s.block, s.first, s.last)
            learned = {n: TaskRef(f.key) for n, f in self._learned.items()}
            graph[key] = Task(
                key, _take, self._work, self._stubs, where, tuple(learned), TaskRef(held.key), *learned.values()
            )
            tasks.append(Delayed(key, graph))
        self._ahead.append((epoch, round_, self._submit(tasks, -self._count)))
        return True

    def _load(self, block: int, place: int) -> Any:
        """A block's rows as a future; neighbours in a group go to different workers, where those live."""
        return self._submit(
            [self._load_task(block)], -self._count, [self._workers[place % len(self._workers)]]
        )[0]

    def _load_task(self, block: int) -> Delayed:
        return load_task(self._blocks, self._fold, block, self._starts[block], self._name, self._shared)

    def _sum(self, taken: list[Any], W: np.ndarray) -> Any:
        name = f"{self._name}-round-{uuid.uuid4().hex}"
        graph: dict[Any, Any] = dict(shared_arrays({"W": W}).dask)
        (weights,) = graph
        keys = []
        for i, future in enumerate(taken):
            key = f"{name}-{i}"
            graph[future.key] = future
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
        for block in [b for b in self._held if b not in wanted]:
            self._held.pop(block).release()

    def _release(self, entries: Any) -> None:
        for _, _, futures in entries:
            for future in futures:
                future.release()
        if entries is self._ahead:
            self._ahead.clear()

    def validate(self, W: np.ndarray, blocks: Sequence[int]) -> np.ndarray:
        """Score sums of the validation rows of the blocks, at most 16 blocks at a time."""
        total = 0.0
        for a in range(0, len(blocks), _VALIDATE):
            tasks = []
            for block in blocks[a : a + _VALIDATE]:
                load = self._held.get(block)
                graph = dict(self._load_task(block).dask) if load is None else {load.key: load}
                source = self._load_task(block).key if load is None else load.key
                graph |= dict(shared_arrays({"W": W}).dask) | {f.key: f for f in self._learned.values()}
                weights = shared_arrays({"W": W}).key
                key = f"{self._name}-score-{block}-{uuid.uuid4().hex}"
                learned = {n: TaskRef(f.key) for n, f in self._learned.items()}
                graph[key] = Task(
                    key, _score, self._work, self._stubs, block, tuple(learned), TaskRef(source),
                    TaskRef(weights), *learned.values(),
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


def _take(work: SliceWork, stubs: Any, where: tuple[int, ...], places: Any, loaded: Any, *learned: Any) -> Any:
    return work.take(loaded, _with_arrays(stubs, places, learned), *where)


def _gradient(work: SliceWork, taken: Any, arrays: dict[str, np.ndarray]) -> Any:
    return work.gradient(taken, arrays["W"])


def _score(
    work: SliceWork, stubs: Any, block: int, places: Any, loaded: Any, arrays: Any, *learned: Any
) -> Any:
    return work.score_block(loaded, _with_arrays(stubs, places, learned), block, arrays["W"])
