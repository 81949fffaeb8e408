"""The task of a segment: it makes its blocks one after the other, adds each to its state, and tries again where reading fails.

If a pass gave the scheduler the graphs of all blocks, workers would read many blocks long before they reduce them. So the
task of a segment carries how its blocks are made in a wrapper that Dask does not look into: the graphs of any lazy array here,
readers and maps in stored_blocks.py. Threads of one process share the wrapped graph, so arrays in memory are not copied.
"""

from __future__ import annotations

import copy
import errno
import itertools
import logging
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, Self

import cloudpickle
from dask.array.optimization import optimize
from dask.core import flatten, toposort
from dask.highlevelgraph import HighLevelGraph
from dask.optimization import cull

from ..errors import DistrfError, InputError
from ..progress import report
from .graph import DataNode, GraphNode, Task, TaskRef, aligned, convert_legacy_graph
from .row_blocks import ARRAYS_PREFIX, shared_arrays

#: Seconds to wait before the first, second and third retry of a segment whose rows could not be read (OSError). Dask's own
#: retries come at once, and repeat wrong input too.
PAUSES = (0.5, 2.0, 8.0)
#: Errors that do not pass by waiting.
_LASTING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
#: More blocks than these that all need each other are not evaluated in one task.
_MOST_TIED = 64
_LOG = logging.getLogger(__name__)


class Packed:
    """A value that Dask does not look into, and that turns into bytes when it is sent to another process."""

    def __init__(self, value: Any = None, data: bytes | None = None):
        self._value, self._data = value, data

    def __reduce__(self) -> tuple[Any, ...]:
        return Packed, (None, cloudpickle.dumps(self._value) if self._data is None else self._data)

    def value(self) -> Any:
        """The value. If it arrived as bytes, each call unpickles them anew."""
        return self._value if self._data is None else cloudpickle.loads(self._data)


class BlockMaker(Protocol):
    """What the task of a segment carries: how its blocks are made."""

    def blocks(self, inputs: Mapping[Any, Any]) -> Iterator[tuple[int, list[Any]]]:
        """The first row of each block, and the block of each array, made when it is asked for and not held here.

        inputs : values of the nodes that the segment depends on, by key
        """


class Blocks(ABC):
    """The row blocks of the aligned arrays of a pass.

    Attributes
    ----------
    edges : sequence of int
        Ascending blocks at which a segment may begin.
    inputs : dict
        Nodes of the graph that segments depend on: learned arrays, data that more than one block needs, rows that are held
        on the cluster.
    held : bool
        Whether rows are held on the cluster: then the segments go to where their rows are.
    """

    edges: Sequence[int]
    inputs: dict[Any, Any]
    held: bool = False
    _learned: str | None = None

    @abstractmethod
    def _segment(self, first: int, last: int, starts: Sequence[int]) -> tuple[list[Any], BlockMaker]:
        """The keys of `inputs` that the blocks first:last need, and what makes them; `starts` are their first rows."""

    def with_learned(self, arrays: Mapping[str, Any]) -> Self:
        """These blocks for a reduction with such arrays of its own. On the worker, segments put them back into it."""
        if not arrays:
            return self
        made, shared = copy.copy(self), shared_arrays(dict(arrays))
        made._learned, made.inputs = shared.key, self.inputs | dict(shared.dask)
        return made

    def segment_task(
        self, key: str, reduction: Any, first: int, last: int, starts: Sequence[int], topic: str | None
    ) -> Task:
        """The task that reduces blocks first:last, whose first rows are `starts`."""
        needs, maker = self._segment(first, last, starts)
        learned = [] if self._learned is None else [self._learned]
        inputs = [TaskRef(k) for k in learned + needs]
        return Task(key, reduce_blocks, reduction, Packed((maker, bool(learned), needs)), topic, *inputs)


def with_dependencies(tasks: Collection[Task], nodes: Mapping[Any, Any]) -> dict[Any, Any]:
    """The graph of some tasks: they, and those of the nodes that they need. What is no node is on the cluster."""
    needed = {key for task in tasks for key in task.dependencies if key in nodes}
    return {task.key: task for task in tasks} | cull(nodes, needed)[0]


def reduce_blocks(reduction: Any, payload: Packed, topic: str | None, *inputs: Any) -> Any:
    """The task of a segment.

    Parameters
    ----------
    reduction : Reduction
    payload : Packed
        A `BlockMaker`, whether the first input is the reduction's arrays, and the keys of the other inputs.
    topic : str or None
        Where progress is reported.
    *inputs : object

    Returns
    -------
    object
        The state of the segment.
    """
    maker, has_arrays, keys = payload.value()
    if has_arrays:
        reduction, inputs = reduction.with_arrays(aligned(inputs[0])), inputs[1:]
    values = dict(zip(keys, inputs, strict=True))
    for pause in (*PAUSES, None):  # each try starts from an empty state
        try:
            return _reduce(reduction, maker, topic, values)
        except OSError as error:
            if pause is None or isinstance(error, DistrfError) or error.errno in _LASTING:
                raise
            _LOG.warning("%s: %s; again in %g s", type(error).__name__, error, pause)
            time.sleep(pause)


def _reduce(reduction: Any, maker: BlockMaker, topic: str | None, inputs: Mapping[Any, Any]) -> Any:
    state = reduction.initial()
    for start, blocks in maker.blocks(inputs):
        rows = blocks[0].shape[0]
        state = add_block(reduction, state, start, blocks)
        del blocks  # before the next one is made
        report(topic, rows)
    return state


def add_block(reduction: Any, state: Any, start: int, values: Sequence[Any]) -> Any:
    """Add one block to a state.

    Parameters
    ----------
    reduction : Reduction
    state : object
        May be changed in place.
    start : int
        First row of the block.
    values : sequence of arrays
        The block of each array of the pass.

    Returns
    -------
    object
        The new state.

    Raises
    ------
    Exception
        What the reduction raises, with the rows of the block in the message.
    """
    with located(f"rows {start} to {start + values[0].shape[0] - 1}"):
        return reduction.update(state, start, *(aligned(value) for value in values))


@contextmanager
def located(where: str) -> Iterator[None]:
    """Add the block, in words, to the message of any error that is raised inside."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{error} [block: {where}]") from error
    except Exception as error:
        error.add_note(f"[block: {where}]")
        raise


class BlockGraphs(Blocks):
    """The row blocks of aligned Dask arrays, whatever made them.

    Blocks that share upstream tasks stay in one segment. Where that ties together more than 64 blocks (a mean over all rows
    is upstream of each), Dask runs the upstream tasks as it would without us, and each block is a segment.

    Parameters
    ----------
    arrays : sequence of Dask arrays
    """

    def __init__(self, arrays: Sequence[Any]):
        graph = HighLevelGraph.merge(*(array.__dask_graph__() for array in arrays))
        keys = [list(flatten(array.__dask_keys__())) for array in arrays]
        # All arrays in one call: otherwise Dask would fuse a source that two arrays share into both, and read it twice.
        optimised = optimize(graph, list(itertools.chain(*keys)))
        # Dask's optimisation and conversion drop futures that are nodes of the graph, so they are added again.
        futures = {k: v for k, v in dict(graph).items() if _is_future(v)}
        self._nodes: dict[Any, GraphNode] = convert_legacy_graph(dict(optimised)) | {
            k: DataNode(k, v) for k, v in futures.items()
        }
        self._keys = [tuple(k[i] for k in keys) for i in range(len(keys[0]))]
        # The nodes that each block needs, each after its dependencies.
        self._order = [toposort(*cull(self._nodes, list(keys))) for keys in self._keys]
        users: dict[Any, list[int]] = {}
        for i, order in enumerate(self._order):
            for key in order:
                users.setdefault(key, []).append(i)
        self._last_use = {key: blocks[-1] for key, blocks in users.items()}
        used = futures.keys() & users.keys()
        self.held = bool(used)
        self.inputs = {key: futures[key] for key in used}
        for key, blocks in users.items():
            learned = isinstance(key, str) and key.startswith(ARRAYS_PREFIX)
            if isinstance(self._nodes[key], DataNode) and (len(blocks) > 1 or learned):
                self.inputs.setdefault(key, self._nodes[key])
        tied: set[int] = set()  # block i must be in the segment of block i - 1
        for key, blocks in users.items():
            if key not in self.inputs:
                tied.update(range(blocks[0] + 1, blocks[-1] + 1))
        n = len(self._keys)
        self.edges = [i for i in range(n) if i not in tied]
        if len(self.edges) == 1 and n > _MOST_TIED:
            self.edges, self._order, self.held = range(n), [list(keys) for keys in self._keys], True
            self.inputs = {key: futures.get(key, self._nodes[key]) for key in users}

    def _segment(self, first: int, last: int, starts: Sequence[int]) -> tuple[list[Any], GraphSegment]:
        blocks: list[_BlockGraph] = []
        made: set[Any] = set()
        needs: set[Any] = set()
        for i, start in zip(range(first, last), starts, strict=True):
            needs.update(k for k in self._order[i] if k in self.inputs)
            inside = [k for k in self._order[i] if k not in self.inputs]
            done = {k for k in inside if self._last_use[k] == i}
            nodes = [self._nodes[k] for k in inside if k not in made]
            made.update(inside)
            blocks.append(_BlockGraph(start, nodes, self._keys[i], done))
        return sorted(needs, key=str), GraphSegment(blocks)


@dataclass(frozen=True)
class _BlockGraph:
    """start : first row; nodes : those that no earlier block made; keys : of the block of each array; done : used by none later"""

    start: int
    nodes: list[GraphNode]
    keys: tuple[Any, ...]
    done: set[Any]


@dataclass(frozen=True)
class GraphSegment:
    """The graphs of the blocks of a segment; see `segments.BlockMaker`."""

    graphs: list[_BlockGraph]

    def blocks(self, inputs: Mapping[Any, Any]) -> Iterator[tuple[int, list[Any]]]:
        values = dict(inputs)
        for graph in self.graphs:
            waiting = Counter(key for node in graph.nodes for key in node.dependencies)
            with located(f"from row {graph.start} on"):
                for node in graph.nodes:
                    values[node.key] = node(values)
                    for key in node.dependencies:  # drop inputs as soon as nothing waits for them
                        waiting[key] -= 1
                        if not waiting[key] and key in graph.done and key not in graph.keys:
                            del values[key]
            yield graph.start, [values.pop(k) if k in graph.done and graph.keys.count(k) == 1 else values[k]
                                for k in graph.keys]  # fmt: skip
            for key in graph.done:
                values.pop(key, None)


def is_held(X: Any) -> bool:
    """Whether the rows of a lazy array are made of futures: of rows in the memory of the cluster."""
    layers = X.dask.layers.values()
    return any(_is_future(next(iter(layer.values()), None)) for layer in layers if layer.is_materialized())


def _is_future(value: Any) -> bool:
    return hasattr(value, "key") and hasattr(value, "cancelled") and hasattr(value, "status")
