"""Rounds on a Dask cluster: loads, features, gradients and their sums as tasks, a bounded window at a time.

One load task a block, kept while its group is in use. What a thread works on of a round is its *share*: some of
the parcels. One feature task a share, made ahead of its round; one gradient task next to it, which returns the sums
of its parcels one by one, since the order in which they are added must not depend on the workers. Tasks and messages
cost milliseconds each, so there are no more of them than threads. Weights go along with the shares or, where that
is much, are one key a round, sent once to each worker. The client says which worker holds the blocks of a share: the
scheduler would move features to where fewer tasks wait. A lost worker's results are made again from these keys:
everything is a function of the data and the weights.

The scheduler knows tasks by the words that their keys begin with, and guesses from them how long others take.
Graphs name what they need of what the client holds by its key alone: a future inside a graph becomes another one
where the graph is read, and keeps its result for as long.
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
from dask._task_spec import DataNode, Task, TaskRef
from dask.delayed import Delayed

from ..alignment import aligned
from ..blocks.batches import Batch, threads_of
from ..blocks.engine import compute, gather, gather_all
from ..blocks.graphs import BlockGraphs
from ..blocks.release import same_release
from ..blocks.rows import shared_arrays
from ..blocks.workers import return_freed_memory
from .schedules import Round
from .slices import FAN_IN, LoadReduction, SliceWork, Sums, add_sums

#: Rounds whose features are made ahead.
_AHEAD = 2
#: Weights go along with each share up to so many bytes in all: gradients that had to wait for them would find their
#: threads busy with features, and then nothing is left to do while the next weights are made.
_MESSAGE_BYTES = 8 * 2**20
#: Blocks validated at a time.
_VALIDATE = 16


@dataclass(frozen=True)
class Share:
    """Parcels of a round that one thread works on, neighbours that are summed together, and their features' key."""

    worker: str | None
    parcels: tuple[int, ...]
    features: str


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
        self._fold = LoadReduction(arrays[0].shape[1])
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
        self._threads: list[str] = []  # the worker of each
        self._group: tuple[int, int] | None = None
        self._held: dict[int, Any] = {}  # block -> key of its rows
        self._ahead: deque[tuple[int, Round, list[Share]]] = deque()
        self._sequence: Iterator[tuple[int, Round]] = iter(())
        self._next: tuple[int, Round] | None = None
        self._count = 0
        #: Blocks held at most so far, for the record.
        self.most_held = 0

    def begin(self, sequence: Iterator[tuple[int, Round]]) -> None:
        """Set the (epoch, round) pairs that `gradient` will work through."""
        for _, _, shares in self._ahead:
            self._release(share.features for share in shares)
        self._ahead.clear()
        self._sequence, self._next = sequence, None

    def gradient(self, W: np.ndarray, **numbers: Any) -> tuple[int, Round, Sums] | None:
        """(epoch, round, sums of parcels) of the next round at weights W; None after the last.

        numbers : what else the work's `gradient` takes
        """
        batch = Batch()
        self._fill(batch, 1 + _AHEAD)
        if not self._ahead:
            return None
        epoch, round_, shares = self._ahead[0]
        arrays = {"W": W} | {k: np.asarray(v) for k, v in numbers.items()}
        keys = self._sum(batch, shares, arrays)
        self._fill(batch, 2 + _AHEAD)  # for workers to go on with while this round is summed
        self._futures |= batch.submit(self._client)
        try:
            parts = gather_all([self._futures[key] for key in keys], self._client)
        finally:
            self._ahead.popleft()
            self._release([*keys, *(share.features for share in shares)])
        self._drop_blocks()
        return epoch, round_, add_sums(*itertools.chain(*parts))

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
            self._threads = threads_of(self._client)
        # Loads and features of earlier rounds first.
        self._count += 1
        shares = []
        for worker, parcels in share_out(len(round_.parcels), round_.group, self._threads):
            key = f"distrf-sgd-features-{self._run}-{self._count}-{parcels[0]}"
            slices = [round_.parcels[i] for i in parcels]
            for s in itertools.chain(*slices):
                if s.block not in self._held:
                    load = self._load_task(s.block)
                    batch.add(dict(load.dask), -self._count, worker, [load.key])
                    self._held[s.block] = load.key
            task = Task(
                key, _take, self._work, self._stubs, epoch, slices, tuple(self._learned),
                *(TaskRef(self._held[s.block]) for s in itertools.chain(*slices)),
                *(TaskRef(k) for k in self._learned.values()),
            )  # fmt: skip
            batch.add({key: task}, -self._count, worker, [key])
            shares.append(Share(worker, parcels, key))
        self.most_held = max(self.most_held, len(self._held))
        self._ahead.append((epoch, round_, shares))

    def _load_task(self, block: int) -> Delayed:
        return load_task(self._blocks, self._fold, block, self._starts[block], self._shared)

    def _sum(self, batch: Batch, shares: Sequence[Share], arrays: dict[str, np.ndarray]) -> list[str]:
        """Keys of lists of sums, at most FAN_IN sums in all, in the order of the parcels."""
        name = uuid.uuid4().hex
        weights: Any = arrays
        if len(shares) * sum(a.nbytes for a in arrays.values()) > _MESSAGE_BYTES:
            weights = TaskRef(f"distrf-sgd-weights-{name}")
            batch.add({weights.key: DataNode(weights.key, arrays)}, 1)
        groups: dict[int, list[str]] = {}  # summed together
        for share in shares:
            key = f"distrf-sgd-gradient-{name}-{share.parcels[0]}"
            task = Task(key, _gradients, self._work, TaskRef(share.features), weights)
            batch.add({key: task}, 1, share.worker)
            groups.setdefault(share.parcels[0] // FAN_IN, []).append(key)
        lists = list(groups.values())
        while len(lists) > 1:
            sums: list[str] = []
            for keys in lists:
                key = f"distrf-sgd-sum-{name}-{len(lists)}-{len(sums)}"
                batch.add({key: Task(key, _sum_lists, *(TaskRef(k) for k in keys))}, 1)
                sums.append(key)
            lists = [sums[a : a + FAN_IN] for a in range(0, len(sums), FAN_IN)]
        batch.keep.extend(lists[0])
        return lists[0]

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

    def validate(self, W: np.ndarray, blocks: Sequence[int], held: bool = True) -> np.ndarray:
        """Score sums of the validation rows of the blocks, or of their training rows, at most 16 blocks at a time."""
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
                    key, _score, self._work, self._stubs, block, held, tuple(self._learned), TaskRef(rows),
                    TaskRef(weights), *(TaskRef(k) for k in self._learned.values()),
                )  # fmt: skip
                batch.add({key: task}, 2, keep=[key])
                keys.append(key)
            self._futures |= batch.submit(self._client)
            for key in keys:
                total = total + gather(self._futures[key], self._client)
            self._release(keys)
        return np.asarray(total)

    def close(self) -> None:
        """Release everything that is held on workers."""
        self._release(list(self._futures))
        self._ahead.clear()
        self._held.clear()


def share_out(parcels: int, group: int, threads: Sequence[str]) -> list[tuple[str | None, tuple[int, ...]]]:
    """(worker, parcels) of each share of a round: runs of parcels that are summed together.

    Shares of a group's rounds are where its blocks are; those of the next group begin at another thread.
    """
    shares: dict[tuple[int, int], list[int]] = {}
    used = min(len(threads), parcels) or parcels
    for i in range(parcels):
        shares.setdefault((i // FAN_IN, i * used // parcels), []).append(i)
    return [
        (threads[(place + group * used) % len(threads)] if threads else None, tuple(run))
        for (_, place), run in shares.items()
    ]


def round_tasks(parcels: int, threads: int) -> int:
    """Tasks of a round on so many threads beside its loads: features and gradients, and sums of many."""
    groups, sums = -(-parcels // FAN_IN), 0
    while groups > 1:
        sums, groups = sums + groups, -(-groups // FAN_IN)
    return 2 * len(share_out(parcels, 0, [""] * threads)) + sums


def load_task(
    blocks: BlockGraphs, reduction: LoadReduction, block: int, start: int, shared: dict[Any, Any] | None
) -> Delayed:
    """The task that makes the rows of one block; `shared` are futures of the graph's shared nodes, if held."""
    if blocks.edges is None:
        return blocks.reduce_block(reduction, block, start, None, None)
    key = f"distrf-sgd-load-{uuid.uuid4().hex}-{block}"
    task = blocks.segment_task(key, reduction, block, block + 1, [start], None)
    nodes = blocks.shared if shared is None else shared
    return Delayed(key, {k: nodes[k] for k in task.dependencies} | {key: task})


def lazy_loader(arrays: Sequence[Any]) -> Callable[[int], Any]:
    """Blocks of lazy arrays one at a time in this process."""
    starts = np.concatenate([[0], np.cumsum(arrays[0].chunks[0])]).tolist()
    blocks, reduction = BlockGraphs(arrays), LoadReduction(arrays[0].shape[1])
    return lambda block: compute(load_task(blocks, reduction, block, starts[block], None), None)


def _with_arrays(stubs: Sequence[Any], places: Sequence[int], learned: Sequence[Any]) -> list[Any]:
    arrays = dict(zip(places, learned, strict=True))
    return [f.with_arrays(arrays[i]) if i in arrays else f for i, f in enumerate(stubs)]


@same_release
def _take(work: SliceWork, stubs: Any, epoch: int, parcels: Any, places: Any, *inputs: Any) -> list[Any]:
    return_freed_memory()
    loaded = iter(aligned(inputs))
    rows = [[next(loaded) for _ in parcel] for parcel in parcels]
    maps = _with_arrays(stubs, places, list(loaded))
    return [work.take(r, maps, epoch, parcel) for r, parcel in zip(rows, parcels, strict=True)]


@same_release
def _gradients(work: SliceWork, taken: Sequence[Any], arrays: dict[str, np.ndarray]) -> list[Any]:
    arrays = aligned(arrays)
    return [work.gradient(aligned(t), **arrays) for t in taken]


@same_release
def _sum_lists(*lists: Sequence[Any]) -> list[Any]:
    return [add_sums(*itertools.chain(*lists))]


@same_release
def _score(
    work: SliceWork, stubs: Any, block: int, held: bool, places: Any, loaded: Any, arrays: Any, *learned: Any
) -> Any:
    functions = _with_arrays(stubs, places, aligned(learned))
    return work.score_block(aligned(loaded), functions, block, aligned(arrays["W"]), held)
