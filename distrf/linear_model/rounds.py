"""Rounds on a Dask cluster: loads, features, gradients and their sums as tasks, a bounded window at a time.

One load task a block, kept while its group is in use; one feature task a parcel, made ahead of its round; one
gradient task a parcel, next to its features; one sum. Weights are one key a round, sent once to each worker. The
client says which worker holds the blocks of a parcel: the scheduler would move features to where fewer tasks wait.
A lost worker's results are made again from these keys: everything is a function of the data and the weights.

The scheduler knows tasks by the words that their keys begin with, and guesses from them how long others take.
Graphs name what they need of what the client holds by its key alone: a future inside a graph becomes another one
where the graph is read, and keeps its result for as long.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import dask
import numpy as np
from dask._task_spec import DataNode, Task, TaskRef
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

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
        self._run = uuid.uuid4().hex
        self._stubs = [function.without_arrays() for function in maps]
        batch = Batch()
        for key, node in self._blocks.shared.items():
            batch.add({key: node}, keep=[key])
        self._learned: dict[int, Any] = {}  # place of a map -> key of its arrays
        for i, function in enumerate(maps):
            if function.arrays:
                arrays_ = shared_arrays(function.arrays)
                self._learned[i] = arrays_.key
                batch.add(dict(arrays_.dask), keep=[arrays_.key])
        self._futures: dict[Any, Any] = batch.submit(client)  # everything held on workers
        self._shared = {key: self._futures[key] for key in self._blocks.shared}
        self._workers: list[str] = []
        self._group: tuple[int, int] | None = None
        self._held: dict[int, Any] = {}  # block -> key of its rows
        self._ahead: deque[tuple[int, Round, list[Any]]] = deque()  # with the keys of features
        self._sequence: Iterator[tuple[int, Round]] = iter(())
        self._next: tuple[int, Round] | None = None
        self._count = 0
        #: Blocks held at most so far, for the record.
        self.most_held = 0

    def begin(self, sequence: Iterator[tuple[int, Round]]) -> None:
        """Set the (epoch, round) pairs that `gradient` will work through."""
        for _, _, features in self._ahead:
            self._release(features)
        self._ahead.clear()
        self._sequence, self._next = sequence, None

    def gradient(self, W: np.ndarray, **numbers: Any) -> tuple[int, Round, tuple[Any, ...]] | None:
        """(epoch, round, sums of parcels) of the next round at weights W; None after the last.

        numbers : what else the work's `gradient` takes
        """
        batch = Batch()
        self._fill(batch, 1 + _AHEAD)
        if not self._ahead:
            return None
        epoch, round_, features = self._ahead[0]
        key = self._sum(
            batch, epoch, round_, features, {"W": W} | {k: np.asarray(v) for k, v in numbers.items()}
        )
        self._fill(batch, 2 + _AHEAD)  # so that workers have rows to featurise while this round is summed
        self._futures |= batch.submit(self._client)
        try:
            sums = self._futures[key].result()
        finally:
            self._ahead.popleft()
            self._release([key, *features])
        self._drop_blocks()
        return epoch, round_, sums

    def _fill(self, batch: Batch, most: int) -> None:
        """Have the features of up to so many rounds made, of two groups at most: no more blocks are held."""
        while len(self._ahead) < most:
            if self._next is None:
                self._next = next(self._sequence, None)
            if self._next is None:
                return
            groups = {(epoch, round_.group) for epoch, round_, _ in self._ahead}
            if len(groups | {(self._next[0], self._next[1].group)}) > 2:
                return
            self._make(batch, *self._next)
            self._next = None

    def _make(self, batch: Batch, epoch: int, round_: Round) -> None:
        if self._group != (epoch, round_.group):
            self._group = (epoch, round_.group)
            self._workers = sorted(self._client.scheduler_info(n_workers=-1)["workers"])
        # Loads and features of earlier rounds first.
        self._count += 1
        features = []
        for i, parcel in enumerate(round_.parcels):
            worker = self._worker(round_, i)
            for s in parcel:
                if s.block not in self._held:
                    load = self._load_task(s.block)
                    batch.add(dict(load.dask), -self._count, worker, [load.key])
                    self._held[s.block] = load.key
            key = f"distrf-sgd-features-{self._run}-{self._count}-{i}"
            task = Task(
                key, _take, self._work, self._stubs, epoch, parcel, tuple(self._learned),
                *(TaskRef(k) for k in (*(self._held[s.block] for s in parcel), *self._learned.values())),
            )  # fmt: skip
            batch.add({key: task}, -self._count, worker, [key])
            features.append(key)
        self.most_held = max(self.most_held, len(self._held))
        self._ahead.append((epoch, round_, features))

    def _worker(self, round_: Round, parcel: int) -> str | None:
        """Where the blocks of a parcel live; those of other parcels, and of the next group, live elsewhere."""
        place = round_.group * len(round_.parcels) + parcel
        return self._workers[place % len(self._workers)] if self._workers else None

    def _load_task(self, block: int) -> Delayed:
        return load_task(self._blocks, self._fold, block, self._starts[block], self._shared)

    def _sum(
        self, batch: Batch, epoch: int, round_: Round, features: list[Any], arrays: dict[str, np.ndarray]
    ) -> Any:
        """Key of the sums of a round."""
        name = uuid.uuid4().hex
        weights = f"distrf-sgd-weights-{name}"
        batch.add({weights: DataNode(weights, arrays)}, 1)
        keys = []
        for i, taken in enumerate(features):
            key = f"distrf-sgd-gradient-{name}-{i}"
            task = Task(key, _gradient, self._work, TaskRef(taken), TaskRef(weights))
            batch.add({key: task}, 1, self._worker(round_, i))
            keys.append(key)
        level = 0
        while len(keys) > 1 or not level:
            level += 1
            groups = [keys[a : a + _FAN_IN] for a in range(0, len(keys), _FAN_IN)]
            keys = [f"distrf-sgd-sum-{name}-{level}-{g}" for g in range(len(groups))]
            for key, group in zip(keys, groups, strict=True):
                batch.add({key: Task(key, add_sums, *(TaskRef(k) for k in group))}, 1)
        batch.keep.append(keys[0])
        return keys[0]

    def _drop_blocks(self) -> None:
        """Release blocks that no round ahead uses, unless the group they are in goes on."""
        if not self._ahead:
            return
        wanted = {block for _, round_, _ in self._ahead for block in round_.blocks}
        dropped = [b for b in self._held if b not in wanted]
        self._release([self._held.pop(block) for block in dropped])
        if dropped:  # these messages leave before loads of the next group do
            self._client.sync(asyncio.sleep, 0.001)

    def _release(self, keys: Iterable[Any]) -> None:
        for key in keys:
            self._futures.pop(key).release()

    def validate(self, W: np.ndarray, blocks: Sequence[int]) -> np.ndarray:
        """Score sums of the validation rows of the blocks, at most 16 blocks at a time."""
        total = 0.0
        for a in range(0, len(blocks), _VALIDATE):
            batch = Batch()
            name = uuid.uuid4().hex
            weights = f"distrf-sgd-weights-{name}"
            batch.add({weights: DataNode(weights, {"W": W})}, 2)
            keys = []
            for block in blocks[a : a + _VALIDATE]:
                rows = self._held.get(block)
                if rows is None:
                    load = self._load_task(block)
                    batch.add(dict(load.dask), 2)
                    rows = load.key
                key = f"distrf-sgd-score-{name}-{block}"
                task = Task(
                    key, _score, self._work, self._stubs, block, tuple(self._learned), TaskRef(rows),
                    TaskRef(weights), *(TaskRef(k) for k in self._learned.values()),
                )  # fmt: skip
                batch.add({key: task}, 2, keep=[key])
                keys.append(key)
            self._futures |= batch.submit(self._client)
            for key in keys:
                total = total + self._futures[key].result()
            self._release(keys)
        return np.asarray(total)

    def close(self) -> None:
        """Release everything that is held on workers."""
        self._release(list(self._futures))
        self._ahead.clear()
        self._held.clear()


class Batch:
    """Tasks that are sent to the scheduler together: a message costs it as much as some tasks do."""

    def __init__(self) -> None:
        self._layers: dict[str, MaterializedLayer] = {}
        self.keep: list[Any] = []

    def add(
        self, graph: dict[Any, Any], priority: int = 0, worker: str | None = None, keep: Iterable[Any] = ()
    ) -> None:
        """Tasks of a priority that run on a worker while it lives; results of `keep` stay until released."""
        notes: dict[str, Any] = {"priority": priority}
        if worker is not None:
            notes |= {"workers": [worker], "allow_other_workers": True}
        self._layers[str(len(self._layers))] = MaterializedLayer(graph, annotations=notes)
        self.keep.extend(keep)

    def submit(self, client: Any) -> dict[Any, Any]:
        """Futures of what is to be kept, by key."""
        if not self._layers:
            return {}
        graph = HighLevelGraph(self._layers, {name: set() for name in self._layers})
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "64GiB"}):
            futures = client.get(graph, self.keep, sync=False)
        return dict(zip(self.keep, futures, strict=True))


def load_task(
    blocks: BlockGraphs, fold: LoadFold, block: int, start: int, shared: dict[Any, Any] | None
) -> Delayed:
    """The task that makes the rows of one block; `shared` are futures of the graph's shared nodes, if held."""
    if blocks.atoms is None:
        return blocks.fold_one(fold, block, start, None, None)
    key = f"distrf-sgd-load-{uuid.uuid4().hex}-{block}"
    task = blocks.run_task(key, fold, block, block + 1, [start], None)
    nodes = blocks.shared if shared is None else shared
    return Delayed(key, {k: nodes[k] for k in task.dependencies} | {key: task})


def lazy_loader(arrays: Sequence[Any]) -> Callable[[int], Any]:
    """Blocks of lazy arrays one at a time in this process."""
    starts = np.concatenate([[0], np.cumsum(arrays[0].chunks[0])]).tolist()
    blocks, fold = BlockGraphs(arrays), LoadFold(arrays[0].shape[1])
    return lambda block: compute(load_task(blocks, fold, block, starts[block], None), None)


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
