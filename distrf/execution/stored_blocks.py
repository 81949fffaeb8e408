"""Rows that `open_rows` reads, and maps of them: segments carry readers, row numbers and maps, and no Dask graph.

A Dask graph costs the client some 0.4 ms a block and keeps kilobytes of each, whatever a pass does with it. These blocks
cost it microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .graph import aligned
from .row_blocks import (
    ArrayRows,
    apply_map,
    blocks_with,
    cut_rows,
    join_rows,
    made_of,
    shared_arrays,
)
from .segments import BlockGraphs, Blocks, GraphSegment, located

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
    """How an array is made: the source that is read, its rows, and the steps from it, by the name of what each makes.

    bounds : first row of each block in the source, and the row after its last
    """

    name: str
    pieces: Sequence[tuple[Any, int, int]]
    steps: dict[str, _Step]
    bounds: np.ndarray


@dataclass(frozen=True)
class _Step:
    """What makes an array: reading, where it has no map, or the map of the array `source`.

    column : whether the result has shape (rows,); arrays : key of the learned arrays of the map; last : whether nobody needs
    the array `source` afterwards
    """

    source: str = ""
    map: Any = None
    column: bool = False
    arrays: str | None = None
    last: bool = False


def _stored(X: Any) -> _Stored | None:
    """How an array is made, or None where other tasks than reading, cutting and mapping make it."""
    arrays, steps = made_of(X)
    numbers: Any = slice(None)
    if steps and isinstance(steps[0], list):  # blocks that were taken
        numbers, arrays, steps = steps[0], arrays[1:], steps[1:]
    source, pieces = arrays[-1], stored_pieces(arrays[-1])
    if pieces is None or any(isinstance(step, list) for step in steps):
        return None
    made = {source.name: _Step()}
    for array, step in zip(arrays[-2::-1], steps[::-1], strict=True):
        if step is not None:
            made[array.name] = _Step([*made][-1], step, array.ndim == 1)
    ends = np.cumsum([0, *arrays[0].chunks[0]])
    return _Stored(source.name, pieces, made, np.stack([ends[:-1], ends[1:]], axis=1)[numbers])


def stored_pieces(X: Any) -> Sequence[tuple[Any, int, int]] | None:
    """The stored blocks of an array of `open_rows` as (reader, first, last); None of another array."""
    deps = getattr(X.dask.layers.get(X.name), "io_deps", {}).values()
    return next((dep.blocks for dep in deps if getattr(dep, "name", None) == X.name), None)


class StoredBlocks(Blocks):
    """The row blocks of aligned arrays that are read, cut and mapped, with the graphs of others (None) among them."""

    def __init__(self, found: Sequence[_Stored | None], arrays: Sequence[Any]):
        stored = [s for s in found if s is not None]
        others = [array for s, array in zip(found, arrays, strict=True) if s is None]
        self._graphs = BlockGraphs(others) if others else None
        self._wanted = [None if s is None else [*s.steps][-1] for s in found]
        self._bounds = stored[0].bounds
        self._pieces = {s.name: s.pieces for s in stored}
        self._starts = {
            name: np.cumsum([0, *(last - first for _, first, last in pieces)])
            for name, pieces in self._pieces.items()
        }
        self.inputs = {} if self._graphs is None else dict(self._graphs.inputs)
        self._steps = {name: step for s in stored for name, step in s.steps.items()}
        needed = {*self._wanted}
        for name, step in reversed(self._steps.items()):
            if step.map is None:
                continue
            key, stub = None, step.map
            if stub.arrays:
                shared = shared_arrays(stub.arrays)
                key, stub = shared.key, stub.without_arrays()
                self.inputs |= dict(shared.dask)
            self._steps[name] = replace(step, map=stub, arrays=key, last=step.source not in needed)
            needed.add(step.source)
        firsts = self._bounds[:, 0]
        whole = np.ones(len(firsts), dtype=bool)
        for name, starts in self._starts.items():
            if not isinstance(self._pieces[name][0][0], ArrayRows):  # which are cut anywhere
                whole &= np.isin(firsts, starts)
        if self._graphs is not None:
            whole &= np.isin(np.arange(len(firsts)), self._graphs.edges)
        whole[:1] = True
        self.edges = np.flatnonzero(whole).tolist()

    def _segment(self, first: int, last: int, starts: Sequence[int]) -> tuple[list[Any], StoredSegment]:
        bounds = self._bounds[first:last]
        row, end = int(bounds[0, 0]), int(bounds[-1, 1])
        pieces: dict[str, _Pieces] = {}
        for name, edges in self._starts.items():
            given = self._pieces[name][0][0]
            if isinstance(given, ArrayRows):
                pieces[name] = _Pieces(np.array([row, end]), [(ArrayRows(given.read(row, end), row), row, end)])
            else:
                found = blocks_with(edges, row, end)
                a, b = found.start, found.stop
                pieces[name] = _Pieces(edges[a : b + 1], self._pieces[name][a:b])
        needs: list[Any] = sorted({step.arrays for step in self._steps.values() if step.arrays is not None})
        graphs = None
        if self._graphs is not None:
            more, graphs = self._graphs._segment(first, last, starts)
            needs += [key for key in more if key not in needs]
        return needs, StoredSegment(pieces, self._steps, self._wanted, bounds, list(starts), graphs)


@dataclass(frozen=True)
class _Pieces:
    """edges : first row of each stored block, and the row after the last; readers : (reader, first, last) of each"""

    edges: np.ndarray
    readers: Sequence[Any]


@dataclass(frozen=True)
class StoredSegment:
    """The stored blocks of a segment, and the graphs of others; see `segments.BlockMaker`.

    steps : in the order in which they are made; wanted : name of each array, None of those that `graphs` makes; starts : first
    row of each block, as the pass counts them
    """

    pieces: dict[str, _Pieces]
    steps: dict[str, _Step]
    wanted: list[str | None]
    bounds: np.ndarray
    starts: list[int]
    graphs: GraphSegment | None = None

    def blocks(self, inputs: Mapping[Any, Any]) -> Iterator[tuple[int, list[Any]]]:
        steps = {
            name: s if s.arrays is None else replace(s, map=s.map.with_arrays(aligned(inputs[s.arrays])))
            for name, s in self.steps.items()
        }
        held: dict[str, dict[int, Any]] = {name: {} for name in self.pieces}
        graphs = None if self.graphs is None else self.graphs.blocks(inputs)
        for start, (first, last) in zip(self.starts, self.bounds.tolist(), strict=True):
            with located(f"from row {start} on"):
                made = self._made(steps, held, first, last)
            # No name is left for what is handed on: the caller drops it before the next block is made.
            yield start, self._in_order(made, [] if graphs is None else next(graphs)[1])

    def _in_order(self, made: dict[str, Any], others: list[Any]) -> list[Any]:
        """The blocks of all arrays. `made` gives its own up."""
        rest = iter(others)
        values = [next(rest) if name is None else made[name] for name in self.wanted]
        made.clear()
        return values

    def _made(
        self, steps: dict[str, _Step], held: dict[str, dict[int, Any]], first: int, last: int
    ) -> dict[str, Any]:
        """The rows first:last of all arrays, each made once; what the steps alone need is dropped after its last use."""
        made: dict[str, Any] = {}
        for name, step in steps.items():
            if step.map is None:
                made[name] = self._read(self.pieces[name], held[name], first, last)
            else:
                made[name] = apply_map(made[step.source], step.map, column=step.column)
            if step.last:
                del made[step.source]
        return made

    def _read(self, pieces: _Pieces, held: dict[int, Any], first: int, last: int) -> Any:
        """Rows first:last of a source.

        held : the stored block that was read last, by its number: most blocks are cut from the one that the block before was cut from
        """
        parts: list[Any] = []
        for a in blocks_with(pieces.edges, first, last):
            begin, end = pieces.edges[a : a + 2].tolist()
            if begin >= first and end <= last:
                reader, *rows = pieces.readers[a]
                parts.append(reader.read(*rows))
                continue
            if a not in held:
                held.clear()  # before the next one is read
                reader, *rows = pieces.readers[a]
                held[a] = reader.read(*rows)
            parts.append(cut_rows(held[a], max(first - begin, 0), last - begin))
            if end <= last:
                held.clear()
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
