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
import scipy.sparse as sp

from ..alignment import aligned
from .block_graphs import BlockGraphs
from .row_blocks import apply_map, blocks_taken, made_from, shared_arrays
from .segments import Blocks, located

#: Operations for each byte of a stored block that make it worth reading once more: reading takes half the time of computing
#: at 200 MB/s and 20 GF/s.
_WORTH = 200.0
#: The most segments that read the same stored block.
_SHARERS = 16


def blocks_of(arrays: Sequence[Any]) -> Blocks:
    """The row blocks of aligned Dask arrays: of stored rows without their graphs, where all are such rows.

    The first array remembers them, for the next pass over the same arrays.
    """
    names = tuple(array.name for array in arrays)
    known = getattr(arrays[0], "distrf_blocks", None)
    if known is None or known[0] != names:
        known = arrays[0].__dict__["distrf_blocks"] = names, _blocks_of(arrays)
    return known[1]


def _blocks_of(arrays: Sequence[Any]) -> Blocks:
    stored = [_stored(array) for array in arrays]
    found = [steps for steps in stored if steps is not None]
    return StoredBlocks(found, arrays) if len(found) == len(stored) else BlockGraphs(arrays)


@dataclass(frozen=True)
class _Stored:
    """How an array is made: the source that is read, the maps with the name of the array that each makes, its rows.

    bounds : first row of each block in the source, and the row after its last
    """

    name: str
    pieces: Sequence[tuple[Any, int, int]]
    maps: tuple[tuple[str, Any], ...]
    bounds: np.ndarray


def _stored(X: Any) -> _Stored | None:
    """How an array is made, or None where other tasks than reading, cutting and mapping make it."""
    sizes, numbers = X.chunks[0], None
    maps: list[tuple[str, Any]] = []
    whole = blocks_taken(X)
    if whole is not None:
        X, numbers = whole
        sizes = X.chunks[0]
    while (pieces := stored_pieces(X)) is None:
        source, function = made_from(X)
        if source is None:
            return None
        if function is not None:
            maps.append((X.name, function))
        X = source
    ends = np.cumsum(sizes)
    bounds = np.stack([ends - sizes, ends], axis=1)
    return _Stored(X.name, pieces, tuple(reversed(maps)), bounds if numbers is None else bounds[numbers])


def stored_pieces(X: Any) -> Sequence[tuple[Any, int, int]] | None:
    """The stored blocks of an array of `open_rows` as (reader, first, last); None of another array."""
    name, pieces = getattr(X, "distrf_read", (None, None))
    return pieces if name == X.name else None


class StoredBlocks(Blocks):
    """The row blocks of aligned arrays that are read, cut and mapped; see `blocks_of`."""

    def __init__(self, stored: Sequence[_Stored], arrays: Sequence[Any]):
        self._bounds = stored[0].bounds
        self.inputs = {}
        self._pieces = {s.name: s.pieces for s in stored}
        self._starts = {s.name: np.cumsum([0, *(last - first for _, first, last in s.pieces)]) for s in stored}
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
        self._wanted = [s.maps[-1][0] if s.maps else s.name for s in stored]
        firsts = self._bounds[:, 0]
        whole = np.ones(len(firsts), dtype=bool)
        for starts in self._starts.values():
            whole &= np.isin(firsts, starts)
        if len(whole):
            whole[0] = True
        self.edges = np.flatnonzero(whole).tolist()

    def _segment(self, first: int, last: int, starts: Sequence[int]) -> tuple[list[Any], StoredSegment]:
        bounds = self._bounds[first:last]
        pieces: dict[str, _Pieces] = {}
        for name, edges in self._starts.items():
            a = min(int(np.searchsorted(edges, bounds[0, 0], side="right")), len(edges) - 1) - 1
            b = max(int(np.searchsorted(edges, bounds[-1, 1])), a + 1)
            pieces[name] = _Pieces(edges[a : b + 1], self._pieces[name][a:b])
        needs = sorted({step.arrays for step in self._steps.values() if step.arrays is not None})
        return needs, StoredSegment(pieces, self._steps, self._wanted, bounds, list(starts))


@dataclass(frozen=True)
class _Pieces:
    """edges : first row of each stored block, and the row after the last; readers : (reader, first, last) of each"""

    edges: np.ndarray
    readers: Sequence[tuple[Any, int, int]]


@dataclass(frozen=True)
class _Step:
    """The array that a map makes from the array `source`; arrays : key of its learned arrays. A source itself has no map."""

    source: str
    map: Any
    arrays: str | None = None


@dataclass
class StoredSegment:
    """The stored blocks of a segment; see `segments.BlockMaker`. starts : first row of each block, as the pass counts them"""

    pieces: dict[str, _Pieces]
    steps: dict[str, _Step]
    wanted: list[str]
    bounds: np.ndarray
    starts: list[int]

    def blocks(self, inputs: Mapping[Any, Any]) -> Iterator[tuple[int, list[Any]]]:
        steps = {
            name: _Step(s.source, s.map if s.arrays is None else s.map.with_arrays(aligned(inputs[s.arrays])))
            for name, s in self.steps.items()
        }
        uses = Counter([s.source for s in steps.values()] + self.wanted)
        held: dict[str, _Held] = {name: _Held() for name in self.pieces}
        for start, (first, last) in zip(self.starts, self.bounds.tolist(), strict=True):
            with located(f"from row {start} on"):
                made = _Made(self, steps, uses, held, first, last)
                values = [made.value(name) for name in self.wanted]
                del made
            yield start, _given(values)


def _given(values: list[Any]) -> list[Any]:
    """The values, which their list gives up."""
    given = values[:]
    values.clear()
    return given


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
        a = min(int(np.searchsorted(pieces.edges, self.first, side="right")), len(pieces.readers)) - 1
        parts: list[Any] = []
        while not parts or (a < len(pieces.readers) and pieces.edges[a] < self.last):
            begin, end = int(pieces.edges[a]), int(pieces.edges[a + 1])
            if begin >= self.first and end <= self.last:
                reader, first, last = pieces.readers[a]
                parts.append(reader.read(first, last))
            else:
                if held.number != a:
                    reader, first, last = pieces.readers[a]
                    held.rows = None  # before the next one is read
                    held.number, held.rows = a, reader.read(first, last)
                parts.append(held.rows[max(self.first - begin, 0) : self.last - begin])
                if end <= self.last:
                    held.number, held.rows = -1, None
            a += 1
        if len(parts) == 1:
            return parts[0]
        return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)


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
