"""The graph of each block, cut out of a lazy array and shipped as opaque bytes.

If a pass gave the scheduler the graphs of all blocks, workers would read many blocks long before they reduce them. So a
segment is one task. Its argument holds the graphs of its blocks in a wrapper (`Packed`) that Dask does not look into, and
the task evaluates them one after the other. The wrapper is pickled only when it is sent to another process: threads of one
process share it, and arrays in memory are not copied.
"""

from __future__ import annotations

import copy
import errno
import itertools
import logging
import time
import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import cloudpickle
import numpy as np
import scipy.sparse as sp
from dask.array.optimization import optimize
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph

from ..alignment import aligned
from ..errors import DistrfError, InputError
from .graph_nodes import DataNode, GraphNode, Task, TaskRef, convert_legacy_graph
from .kept_blocks import Keep
from .progress import report
from .row_blocks import ARRAYS_PREFIX, shared_arrays

#: Seconds to wait before the first, second and third retry of a segment whose rows could not be read (OSError).
PAUSES = (0.5, 2.0, 8.0)
#: Errors that do not pass by waiting.
_LASTING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
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


class BlockGraphs:
    """Graphs of the row blocks of aligned Dask arrays.

    Parameters
    ----------
    arrays : sequence of Dask arrays
    sources : collection of str
        Names of arrays that these were made from, whose blocks may be kept (see keeping.py): they stay nodes of the graph.

    Attributes
    ----------
    shared : dict
        Nodes that several segments may use: learned arrays, and data that more than one block needs.
    learned : str or None
        Key of the reduction's own arrays. On the worker, the task of a segment puts them back into the reduction.
    edges : list of int, or None
        Ascending blocks at which a segment may begin: blocks that share upstream tasks must stay in one segment.
        None where the blocks cannot be cut into segments, or where a block is held as a future: then each block is a
        task of its own.
    """

    def __init__(self, arrays: Sequence[Any], sources: Collection[str] = ()):
        graph = HighLevelGraph.merge(*(array.__dask_graph__() for array in arrays))
        keys = [_block_keys(array) for array in arrays]
        wanted = list(itertools.chain(*keys))
        kept = _keys_of(graph, wanted, sources)
        # All arrays in one call: otherwise Dask would fuse a source that two arrays share into both, and read it twice.
        optimised = optimize(graph, [*wanted, *kept])
        # Dask's optimisation and conversion drop futures that are nodes of the graph, so they are added again.
        held = {k: DataNode(k, v) for k, v in dict(graph).items() if _is_future(v)}
        self._nodes: dict[Any, GraphNode] = convert_legacy_graph(dict(optimised)) | held
        self._keys = [tuple(k[i] for k in keys) for i in range(len(keys[0]))]
        self._order = [self._closure(keys) for keys in self._keys]
        users: dict[Any, list[int]] = {}
        for i, order in enumerate(self._order):
            for key in order:
                users.setdefault(key, []).append(i)
        self.shared = {
            key: self._nodes[key]
            for key, blocks in users.items()
            if isinstance(self._nodes[key], DataNode) and (len(blocks) > 1 or _is_learned(key))
        }
        self.learned: str | None = None
        self._last_use = {key: blocks[-1] for key, blocks in users.items()}
        self.edges = self._edges(users)
        in_memory: dict[Any, bool] = {}
        self._kept = {key for key in kept if not self._is_in_memory(key, in_memory)} if self.edges else set()

    def with_learned(self, learned: Mapping[str, Any]) -> BlockGraphs:
        """These graphs for a reduction with such arrays of its own."""
        if not learned:
            return self
        made, held_arrays = copy.copy(self), shared_arrays(dict(learned))
        made.learned = held_arrays.key
        made.shared = self.shared | dict(held_arrays.dask)
        made._nodes = dict(self._nodes)
        return made

    def kept(self, block: int) -> list[Any]:
        """Keys of the blocks of sources that a block is made from and that may be kept."""
        return [key for key in self._order[block] if key in self._kept]

    def _is_in_memory(self, key: Any, known: dict[Any, bool]) -> bool:
        """Whether a node is a view of an array that the graph holds."""
        if key not in known:
            node = self._nodes[key]
            held = isinstance(node, DataNode) and (
                _is_future(node.value) or isinstance(node.value, np.ndarray) or sp.issparse(node.value)
            )
            known[key] = held or any(self._is_in_memory(k, known) for k in node.dependencies)
        return known[key]

    def _closure(self, keys: Sequence[Any]) -> list[Any]:
        """All keys that `keys` depend on, and `keys` themselves; each after its dependencies."""
        order: dict[Any, None] = {}
        stack = [(key, False) for key in reversed(keys)]
        while stack:
            key, ready = stack.pop()
            if key in order:
                continue
            if ready:
                order[key] = None
                continue
            stack.append((key, True))
            stack.extend((k, False) for k in sorted(self._nodes[key].dependencies, key=str) if k not in order)
        return list(order)

    def _edges(self, users: dict[Any, list[int]]) -> list[int] | None:
        joined: set[int] = set()  # block i must be in the segment of block i - 1
        for key, blocks in users.items():
            node = self._nodes[key]
            if isinstance(node, DataNode) and _is_future(node.value):
                return None
            if key not in self.shared:
                joined.update(range(blocks[0] + 1, blocks[-1] + 1))
        n = len(self._keys)
        edges = [i for i in range(n) if i not in joined]
        # If all blocks depend on one upstream task, they form a single segment, and one thread would do the whole pass.
        # So a pass over more than 64 such blocks runs one task for each block instead.
        return edges if len(edges) > 1 or n == 1 or not joined else (None if n > 64 else edges)

    def segment_task(
        self,
        key: str,
        reduction: Any,
        first: int,
        last: int,
        starts: Sequence[int],
        topic: str | None,
        after: str | None = None,
        keep: Keep | None = None,
    ) -> Task:
        """The task that reduces blocks first:last, whose first rows are `starts`; it runs after the task `after`.

        With `keep`, blocks of sources are taken from those that the worker keeps, and offered to them.
        """
        blocks: list[Any] = []
        made: set[Any] = set()
        needs: set[Any] = set()
        for i, start in zip(range(first, last), starts, strict=True):
            needs.update(k for k in self._order[i] if k in self.shared)
            fresh = [k for k in self._order[i] if k not in made and k not in self.shared]
            made.update(fresh)
            done = {k for k in self._order[i] if k not in self.shared and self._last_use[k] == i}
            kept = () if keep is None else self.kept(i)
            blocks.append(([self._nodes[k] for k in fresh], self._keys[i], kept, done, start))
        names = sorted(needs, key=str)
        inputs = [TaskRef(k) for k in ([] if self.learned is None else [self.learned]) + names]
        arguments = (reduction, Packed(blocks), topic, Packed((self.learned is not None, names, keep)), *inputs)
        if after is None:
            return Task(key, reduce_blocks, *arguments)
        return Task(key, reduce_blocks_after, TaskRef(after), *arguments)

    def send_learned(self, client: Any) -> list[Any]:
        """Put the learned arrays on the cluster as futures, so that the task of each block refers to them by key.

        Parameters
        ----------
        client : distributed.Client

        Returns
        -------
        list of distributed.Future
        """
        sent = []
        for key, node in self.shared.items():
            if _is_learned(key):
                future = client.compute(Delayed(key, {key: node}), optimize_graph=False)
                self._nodes[key] = DataNode(key, future)
                sent.append(future)
        return sent

    def reduce_block(
        self, reduction: Any, block: int, start: int, state: Any, topic: str | None, name: str
    ) -> Delayed:
        """The task of that name that adds one block to `state`, which is a value, a future or None."""
        graph: dict[Any, Any] = {k: self._nodes[k] for k in self._order[block]}
        for k, node in graph.items():
            if isinstance(node, DataNode) and _is_future(node.value):
                graph[k] = node.value  # Dask recognises a bare future
        # The key is unique: a pass that runs again reads its rows again.
        key = f"{name}-{uuid.uuid4().hex}-block-{block}"
        previous: Any = state
        if _is_future(state):
            graph[state.key] = state
            previous = TaskRef(state.key)
        learned: Any = None
        if self.learned is not None:
            node = self._nodes.get(self.learned, self.shared[self.learned])
            sent = isinstance(node, DataNode) and _is_future(node.value)
            graph[self.learned] = node.value if sent else node  # type: ignore[union-attr]
            learned = TaskRef(self.learned)
        graph[key] = Task(
            key,
            _reduce_values,
            reduction,
            learned,
            previous,
            start,
            topic,
            *(TaskRef(k) for k in self._keys[block]),
        )
        return Delayed(key, graph)


def _is_future(value: Any) -> bool:
    return hasattr(value, "key") and hasattr(value, "cancelled") and hasattr(value, "status")


def _is_learned(key: Any) -> bool:
    return isinstance(key, str) and key.startswith(ARRAYS_PREFIX)


def _keys_of(graph: HighLevelGraph, wanted: Sequence[Any], names: Collection[str]) -> list[Any]:
    """The keys of the blocks of the arrays with these names that `wanted` need."""
    if not any(name in graph.layers for name in names):
        return []
    made = itertools.chain.from_iterable(
        layer.get_output_keys() for layer in graph.cull(wanted).layers.values()
    )
    return [key for key in made if isinstance(key, tuple) and key[0] in names]


def _block_keys(array: Any) -> list[Any]:
    keys = array.__dask_keys__()
    return keys if array.ndim == 1 else [row[0] for row in keys]


@contextmanager
def _located(where: str) -> Iterator[None]:
    """Add the block, in words, to the message of any error that is raised inside."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{error} [block: {where}]") from error
    except Exception as error:
        error.add_note(f"[block: {where}]")
        raise


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
    with _located(f"rows {start} to {start + values[0].shape[0] - 1}"):
        return reduction.update(state, start, *(aligned(value) for value in values))


def _reduce_values(
    reduction: Any, learned: Any, state: Any, start: int, topic: str | None, *values: Any
) -> Any:
    if learned is not None:
        reduction = reduction.with_arrays(aligned(learned))
    # Dask may need the state that came in once more, where this worker retires (see states.add_states).
    state = reduction.initial() if state is None else copy.deepcopy(state)
    state = add_block(reduction, state, start, values)
    report(topic, values[0].shape[0])
    return state


def reduce_blocks_after(gate: None, *arguments: Any) -> Any:
    """Call `reduce_blocks`. The unused argument `gate` makes the task depend on a gate, see `passes._run_threads`."""
    return reduce_blocks(*arguments)


def passed(*states: Any) -> None:
    """The task of a gate. It depends on sums and returns nothing: it only marks that they have been made."""


def reduce_blocks(reduction: Any, payload: Packed, topic: str | None, names: Packed, *inputs: Any) -> Any:
    """The task of a segment: evaluate the packed graph of each block and add the block, one at a time.

    Parameters
    ----------
    reduction : Reduction
    payload : Packed
        The graph of each block.
    topic : str or None
        Where progress is reported.
    names : Packed
        Whether the first input is the reduction's arrays, the keys of the other inputs, and a `Keep` or None. They are
        packed so that Dask does not take keys for tasks.
    *inputs : object
        The reduction's own arrays, if it has any, and the shared values.

    Returns
    -------
    object
        The state of the segment.
    """
    has_arrays, keys_of_inputs, keep = names.value()
    if has_arrays:
        reduction, inputs = reduction.with_arrays(aligned(inputs[0])), inputs[1:]
    shared = dict(zip(keys_of_inputs, inputs, strict=True))
    for pause in PAUSES:  # each try starts from an empty state
        try:
            return _reduce_segment(reduction, payload, topic, shared, keep)
        except DistrfError:
            raise
        except OSError as error:
            if error.errno in _LASTING:
                raise
            _LOG.warning("%s: %s; again in %g s", type(error).__name__, error, pause)
            time.sleep(pause)
    return _reduce_segment(reduction, payload, topic, shared, keep)


def _reduce_segment(
    reduction: Any, payload: Packed, topic: str | None, shared: Mapping[Any, Any], keep: Keep | None
) -> Any:
    state = reduction.initial()
    values: dict[Any, Any] = dict(shared)
    left: dict[Any, GraphNode] = {}  # nodes that are not evaluated: all, or all but those behind kept blocks
    if keep is not None:
        keep.open()
    for nodes, keys, kept, done, start in payload.value():
        left.update((node.key, node) for node in nodes)
        if keep is not None:
            found = {key: keep.get(key) for key in kept if key not in values}
            values |= {key: block for key, block in found.items() if block is not None}
        order = _needed(left, keys, values)
        waiting = Counter(key for node in order for key in node.dependencies)
        with _located(f"from row {start} on"):
            for node in order:
                values[node.key] = left.pop(node.key)(values)
                if keep is not None and node.key in kept:
                    keep.offer(node.key, values[node.key])
                for key in node.dependencies:  # drop inputs as soon as nothing waits for them
                    waiting[key] -= 1
                    if not waiting[key] and key in done and key not in keys:
                        del values[key]
        blocks = [values[key] for key in keys]
        rows = blocks[0].shape[0]
        for key in done:
            values.pop(key, None)
            left.pop(key, None)
        state = add_block(reduction, state, start, blocks)
        del blocks
        report(topic, rows)
    return state


def _needed(left: Mapping[Any, GraphNode], keys: Sequence[Any], values: Mapping[Any, Any]) -> list[GraphNode]:
    """The nodes that must be evaluated for the values of `keys`, in the order of `left`: each after its dependencies."""
    needed: set[Any] = set()
    stack = list(keys)
    while stack:
        key = stack.pop()
        if key not in values and key not in needed:
            needed.add(key)
            stack.extend(left[key].dependencies)
    return [node for key, node in left.items() if key in needed]
