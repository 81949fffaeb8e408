"""Rows that `open_rows` reads, and maps of them: segments carry readers, row numbers and maps, and no Dask graph.

A Dask graph costs the client some 0.4 ms a block and keeps kilobytes of each, whatever a pass does with it. These blocks
cost it microseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..alignment import aligned
from .block_graphs import BlockGraphs, GraphSegment
from .row_blocks import (
    RowsInMemory,
    apply_map,
    blocks_with,
    column_of,
    cut_rows,
    join_rows,
    made_from,
    shared_arrays,
    taken_from,
)
from .segments import Blocks, located

#: Operations for each byte of a stored block that make it worth reading once more: reading takes half the time of computing
#: at 200 MB/s and 20 GF/s.
_WORTH = 200.0
#: The most segments that read the same stored block.
_SHARERS = 16


def blocks_of(arrays: Sequence[Any]) -> Blocks:
    """The row blocks of aligned Dask arrays: those of stored rows without their graphs, where the first array is made of such."""
    stored = [_stored(array) for array in arrays]
    first = stored[0]
    if first is None:
        return BlockGraphs(arrays)
    # The same rows of all sources: an array of other blocks goes by its graph.
    same = [s if s is not None and np.array_equal(s.bounds, first.bounds) else None for s in stored]
    return StoredBlocks(same, arrays)


@dataclass(frozen=True)
class _Stored:
    """How an array is made: the source that is read, the maps with the name of the array that each makes, its rows.

    bounds : first row of each block in the source, and the row after its last; column : whether only the first is wanted
    """

    name: str
    pieces: Sequence[tuple[Any, int, int]]
    maps: tuple[tuple[str, Any], ...]
    bounds: np.ndarray
    column: bool = False


def _stored(X: Any) -> _Stored | None:
    """How an array is made, or None where other tasks than reading, cutting and mapping make it."""
    X, numbers = taken_from(X) or (X, None)
    sizes, column = X.chunks[0], column_of(X)
    X = X if column is None else column
    maps: list[tuple[str, Any]] = []
    while (pieces := stored_pieces(X)) is None:
        source, function = made_from(X)
        if source is None:
            return None
        if function is not None:
            maps.append((X.name, function))
        X = source
    ends = np.cumsum(sizes)
    bounds = np.stack([ends - sizes, ends], axis=1)
    bounds = bounds if numbers is None else bounds[numbers]
    return _Stored(X.name, pieces, tuple(reversed(maps)), bounds, column is not None)


def stored_pieces(X: Any) -> Sequence[tuple[Any, int, int]] | None:
    """The stored blocks of an array of `open_rows` as (reader, first, last); None of another array."""
    name, pieces = getattr(X, "distrf_read", (None, None))
    return pieces if name == X.name else None


def _starts(pieces: Sequence[tuple[Any, int, int]]) -> np.ndarray:
    """The first row of each stored block, and the row after the last."""
    if isinstance(pieces, RowsInMemory):
        return pieces.ends
    return np.cumsum([0, *(last - first for _, first, last in pieces)])


class StoredBlocks(Blocks):
    """The row blocks of aligned arrays that are read, cut and mapped, with the graphs of others (None) among them."""

    def __init__(self, found: Sequence[_Stored | None], arrays: Sequence[Any]):
        stored = [s for s in found if s is not None]
        others = [array for s, array in zip(found, arrays, strict=True) if s is None]
        self._graphs = BlockGraphs(others) if others else None
        self._others = [s is None for s in found]
        self._bounds = stored[0].bounds
        self.inputs = {} if self._graphs is None else dict(self._graphs.inputs)
        self._pieces = {s.name: s.pieces for s in stored}
        self._starts = {s.name: _starts(s.pieces) for s in stored}
        self._steps: dict[str, _Step] = {}
        for s in stored:
            self._steps[s.name] = _Step("", None)
            before = s.name
            for name, function in s.maps:
                key, stub = None, function
                if function.arrays:
                    shared = shared_arrays(function.arrays)
                    key, stub = shared.key, function.without_arrays()
                    self.inputs |= dict(shared.dask)
                self._steps[name] = _Step(before, stub, key)
                before = name
        self._wanted = [(s.maps[-1][0] if s.maps else s.name, s.column) for s in stored]
        firsts = self._bounds[:, 0]
        whole = np.ones(len(firsts), dtype=bool)
        for starts in self._starts.values():
            whole &= np.isin(firsts, starts)
        if self._graphs is not None:
            whole &= np.isin(np.arange(len(firsts)), self._graphs.edges)
        whole[:1] = True
        self.edges = np.flatnonzero(whole).tolist()

    def _segment(self, first: int, last: int, starts: Sequence[int]) -> tuple[list[Any], StoredSegment]:
        bounds = self._bounds[first:last]
        pieces: dict[str, _Pieces] = {}
        for name, edges in self._starts.items():
            found = blocks_with(edges, bounds[0, 0], bounds[-1, 1])
            a, b = found.start, found.stop
            # Of those between, blocks that were left out need none.
            next_ = np.searchsorted(bounds[:, 1], edges[a:b], side="right")
            needed = np.append(bounds[:, 0], edges[-1])[next_] < edges[a + 1 : b + 1]
            for row in bounds[
                bounds[:, 0] == bounds[:, 1], 0
            ]:  # no rows of a stored block still have its columns and dtype
                needed[blocks_with(edges[a : b + 1], row, row).start] = True
            readers = [self._pieces[name][k] if need else None for k, need in zip(found, needed, strict=True)]
            pieces[name] = _Pieces(edges[a : b + 1], readers)
        needs: list[Any] = sorted({step.arrays for step in self._steps.values() if step.arrays is not None})
        graphs = None
        if self._graphs is not None:
            more, graphs = self._graphs._segment(first, last, starts)
            needs += [key for key in more if key not in needs]
        return needs, StoredSegment(
            pieces, self._steps, self._wanted, bounds, list(starts), self._others, graphs
        )


@dataclass(frozen=True)
class _Pieces:
    """edges : first row of each stored block, and the row after the last; readers : (reader, first, last) of each, if needed"""

    edges: np.ndarray
    readers: Sequence[Any]


@dataclass(frozen=True)
class _Step:
    """The array that a map makes from the array `source`; arrays : key of its learned arrays. A source itself has no map."""

    source: str
    map: Any
    arrays: str | None = None


@dataclass
class StoredSegment:
    """The stored blocks of a segment, and the graphs of others; see `segments.BlockMaker`.

    wanted : name of each array, and whether only its first column is meant; starts : first row of each block, as the pass counts
    them; others : for each array of the pass whether `graphs` makes it
    """

    pieces: dict[str, _Pieces]
    steps: dict[str, _Step]
    wanted: list[tuple[str, bool]]
    bounds: np.ndarray
    starts: list[int]
    others: list[bool]
    graphs: GraphSegment | None = None

    def blocks(self, inputs: Mapping[Any, Any]) -> Iterator[tuple[int, list[Any]]]:
        steps = {
            name: _Step(s.source, s.map if s.arrays is None else s.map.with_arrays(aligned(inputs[s.arrays])))
            for name, s in self.steps.items()
        }
        uses = Counter([s.source for s in steps.values()] + [name for name, _ in self.wanted])
        held: dict[str, _Held] = {name: _Held() for name in self.pieces}
        graphs = None if self.graphs is None else self.graphs.blocks(inputs)
        for start, (first, last) in zip(self.starts, self.bounds.tolist(), strict=True):
            with located(f"from row {start} on"):
                made = _Made(self, steps, uses, held, first, last)
                values = [
                    made.value(name)[:, 0] if column else made.value(name) for name, column in self.wanted
                ]
                del made
            yield start, self._in_order(values, [] if graphs is None else next(graphs)[1])

    def _in_order(self, stored: list[Any], others: list[Any]) -> list[Any]:
        """The blocks of all arrays, which these lists give up."""
        both = iter(stored[:]), iter(others[:])
        stored.clear()
        others.clear()
        return [next(both[other]) for other in self.others]


@dataclass
class _Held:
    """The stored block that was read last: most blocks are cut from the one that the block before was cut from."""

    number: int = -1
    rows: Any = None


@dataclass
class _Made:
    """What a block needs, made once each; a value is dropped after its last use."""

    segment: StoredSegment
    steps: dict[str, _Step]
    uses: Counter[str]
    held: dict[str, _Held]
    first: int
    last: int
    values: dict[str, list[Any]] = field(default_factory=dict)

    def value(self, name: str) -> Any:
        if name in self.values:
            found = self.values[name]
            found[1] -= 1
            return found[0] if found[1] else self.values.pop(name)[0]
        step = self.steps[name]
        value = self._read(name) if step.map is None else apply_map(self.value(step.source), step.map)
        if self.uses[name] > 1:
            self.values[name] = [value, self.uses[name] - 1]
        return value

    def _read(self, name: str) -> Any:
        """Rows first:last of a source."""
        pieces, held = self.segment.pieces[name], self.held[name]
        parts: list[Any] = []
        for a in blocks_with(pieces.edges, self.first, self.last):
            begin, end = int(pieces.edges[a]), int(pieces.edges[a + 1])
            if begin >= self.first and end <= self.last:
                reader, first, last = pieces.readers[a]
                parts.append(reader.read(first, last))
            else:
                if held.number != a:
                    reader, first, last = pieces.readers[a]
                    held.rows = None  # before the next one is read
                    held.number, held.rows = a, reader.read(first, last)
                parts.append(cut_rows(held.rows, max(self.first - begin, 0), self.last - begin))
                if end <= self.last:
                    held.number, held.rows = -1, None
        return join_rows(parts)


def map_flops(maps: Sequence[Any]) -> float:
    """Operations of some maps for a row."""
    return float(sum(map_.work()[0] for map_ in maps if hasattr(map_, "work")))


def shared_segments(stored: int, largest: float, n_rows: int, flops_per_row: float, wanted: int) -> int:
    """How many segments a pass gets, some of which read the same stored block; 0 where each block is read by one.

    A Parquet file that pandas writes is one block: one thread would do the whole pass, whatever the number of workers.

    Parameters
    ----------
    stored : int
        Stored blocks.
    largest : float
        Bytes of the largest of them.
    n_rows : int
    flops_per_row : float
        Arithmetic of a row.
    wanted : int
        Segments that the pass should have.
    """
    if stored >= wanted:
        return 0
    worth = int(n_rows * flops_per_row / (_WORTH * max(largest, 1.0)))
    shared = min(wanted, _SHARERS * stored, worth)
    return shared if shared > stored else 0
