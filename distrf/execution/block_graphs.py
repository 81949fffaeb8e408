"""The graph of each block, cut out of a lazy array and shipped as opaque bytes.

If a pass gave the scheduler the graphs of all blocks, workers would read many blocks long before they reduce them. So the
task of a segment carries the graphs of its blocks in a wrapper that Dask does not look into, and evaluates them one after
the other. Threads of one process share the wrapped graph, so arrays in memory are not copied.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dask.array.optimization import optimize
from dask.core import flatten
from dask.highlevelgraph import HighLevelGraph

from .graph import DataNode, GraphNode, convert_legacy_graph
from .row_blocks import ARRAYS_PREFIX
from .segments import Blocks, located

#: More blocks than these that all need each other are not evaluated in one task.
_MOST_TIED = 64


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
        self._order = [self._closure(keys) for keys in self._keys]
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
