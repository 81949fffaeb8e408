"""Row blocks of a Dask array: checks, splitting, and block functions as lazy arrays."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask.base import is_dask_collection, tokenize
from dask.blockwise import BlockwiseDep, blockwise
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.utils import parse_bytes

from ..errors import InputError
from ..maps.base import arrays_fingerprint
from ..store.formats import read_block
from ..store.row_source import RowReader, joined
from ..typing import Rows
from .graph import PRODUCER, DataNode, aligned, stored_row_bytes, task_name
from .labelled import has_frames, noted, notes_of, plain_rows, with_header
from .scheduler import current_client

#: Graph keys with this prefix hold learned arrays: one key, sent once to each worker.
ARRAYS_PREFIX = "distrf-arrays-"
#: Blocks of CSR rows may have so many times the bytes of an average block.
_UNEVEN = 2.0


def target_block_bytes() -> int:
    """Bytes one block of a widened array should stay near: Dask's `array.chunk-size`."""
    return parse_bytes(dask.config.get("array.chunk-size"))


def check_dask_rows(X: Any, name: str = "X") -> da.Array:
    """The Dask array with all columns in one chunk. Column chunks, such as those of a FeatureUnion, are merged.

    Parameters
    ----------
    X : Dask array or Dask DataFrame of shape (n, d); also (n,) if `name` is not "X"
    name : str
        Name of the array in messages.

    Returns
    -------
    Dask array

    Raises
    ------
    InputError
        It is another kind of collection, has other dimensions or no columns, or the row counts of its chunks are unknown.
    """
    X = plain_rows(X, name)
    if not isinstance(X, da.Array):
        raise InputError(
            f"{name} must be an array, a SciPy CSR matrix, a data frame, or a Dask array or DataFrame, got "
            f"{type(X).__module__}.{type(X).__name__}; convert it (what wraps an "
            "array has it as .data or .values)"
        )
    if X.ndim != 2 and (name == "X" or X.ndim != 1):
        raise InputError(
            f"Expected 2D array: {name} must have 2 dimensions (rows, columns), got shape {X.shape}"
        )
    if name == "X" and X.shape[1] == 0:
        raise InputError(f"Found array with 0 feature(s): X must have a column or more, got shape {X.shape}")
    if any(np.isnan(c) for c in X.chunks[0]):
        raise InputError(
            f"the row counts of {name}'s chunks must be known; call {name}.compute_chunk_sizes() first"
        )
    if X.ndim == 2 and len(X.chunks[1]) > 1:
        return with_header(X.rechunk({1: -1}, method="tasks"), X)
    return X


def rows_per_block(bytes_per_row: float) -> int:
    """Rows whose widest form stays near Dask's `array.chunk-size`.

    Parameters
    ----------
    bytes_per_row : float
        Bytes of a row at its widest.

    Returns
    -------
    int
        At least 1.
    """
    return max(1, int(target_block_bytes() / max(bytes_per_row, 1)))


@cache
def split_chunk(rows: int, limit: int) -> int:
    """Rows of the equal blocks that a chunk is cut into.

    Parameters
    ----------
    rows : int
        Rows of the chunk.
    limit : int
        Most rows of a block.

    Returns
    -------
    int
        A divisor of `rows` where one is near enough, so that all blocks have the same rows.
    """
    blocks = -(-rows // limit)
    for count in range(blocks, min(2 * blocks, rows) + 1):
        if rows % count == 0:
            return rows // count
    return -(-rows // blocks)


def split_rows(X: da.Array, limit: int) -> da.Array:
    """Cut every row chunk above a limit into equal blocks; nothing is merged.

    If all chunks but a shorter last one have equal rows, so have the new blocks.

    Parameters
    ----------
    X : Dask array of shape (n, d)
    limit : int
        Most rows of a block.

    Returns
    -------
    Dask array
    """
    chunks: list[int] = []
    for rows in X.chunks[0]:
        step = max(rows, 1) if rows <= limit else split_chunk(max(rows, X.chunks[0][0]), limit)
        chunks.extend(min(step, rows - a) for a in range(0, rows, step))
    return X if tuple(chunks) == X.chunks[0] else _cut(X, chunks)


def _cut(X: da.Array, chunks: Sequence[int]) -> da.Array:
    """X with other row chunks. It remembers X: see `source_of`."""
    name, zeros = f"cut-rows-{tokenize(X.name, tuple(chunks))}", (0,) * (X.ndim - 1)
    old, tasks = np.cumsum([0, *X.chunks[0]]), dict[Any, Any]()
    for i, (first, last) in enumerate(itertools.pairwise(itertools.accumulate(chunks, initial=0))):
        blocks = blocks_with(old, first, last)
        cuts = [(max(first - int(old[j]), 0), last - int(old[j])) for j in blocks]
        # Plain tuples, of which Dask makes its nodes when it runs them, are made ten times as fast.
        tasks[name, i, *zeros] = (_joined, cuts, *((X.name, j, *zeros) for j in blocks))
    graph = HighLevelGraph(
        X.dask.layers | {name: MaterializedLayer(tasks)}, X.dask.dependencies | {name: {X.name}}
    )
    return _remembering(da.Array(graph, name, (tuple(chunks), *X.chunks[1:]), meta=X._meta), X, None)


def blocks_with(edges: np.ndarray, first: int, last: int) -> range:
    """The blocks that hold the rows first:last, at least one; edges : first row of each block, and the row after the last."""
    a = min(int(np.searchsorted(edges, first, side="right")), len(edges) - 1) - 1
    return range(a, max(int(np.searchsorted(edges, last)), a + 1))


def _joined(cuts: Sequence[tuple[int, int]], *blocks: Any) -> Any:
    """The neighbouring rows of some blocks: of each from the first to the last that is wanted."""
    return join_rows([cut_rows(block, first, last) for (first, last), block in zip(cuts, blocks, strict=True)])


def join_rows(parts: Sequence[Any]) -> Any:
    """Rows that stand in several arrays, or Arrow tables, as one."""
    if len(parts) > 1 and hasattr(parts[0], "to_batches"):
        batches = [batch for part in parts for batch in part.to_batches()]
        return type(parts[0]).from_batches(batches, parts[0].schema)
    return joined(parts)


def cut_rows(block: Any, first: int, last: int) -> Any:
    """Some rows of a block: of a few a copy, as Dask makes it too, since a view would hold the whole block."""
    rows = block[first:last]
    return rows.copy() if 2 * rows.shape[0] < block.shape[0] and isinstance(rows, np.ndarray) else rows


def take_blocks(X: da.Array, numbers: Sequence[int]) -> da.Array:
    """The blocks of X with these ascending numbers. They remember X: see `made_of`."""
    return _remembering(X.blocks[list(numbers)], X, list(numbers))


def _remembering(X: da.Array, source: da.Array, how: Any) -> da.Array:
    """X with a note from which array it was made, a copy: an edit in place of the one that the user holds is none of X's."""
    return noted(X, made_from=(source.copy(), how))


def made_from(X: Any) -> tuple[da.Array | None, Any]:
    """The array that this file made X from, and how; (None, None) if another made it.

    How is the map, the numbers of the blocks that were taken, or None where rows were cut.
    """
    return notes_of(X).get("made_from", (None, None))


def made_of(X: da.Array) -> tuple[list[da.Array], list[Any]]:
    """X and all arrays that it was made from, the first of them last; and how each was made from the next one."""
    arrays, steps = [X], list[Any]()
    while (made := made_from(arrays[-1]))[0] is not None:
        arrays.append(made[0])
        steps.append(made[1])
    return arrays, steps


def source_of(X: da.Array) -> tuple[da.Array, list[Any]]:
    """The array that a lazy array was made from: before all maps, with its own blocks. And the maps, the last first."""
    arrays, steps = made_of(X)
    return arrays[-1], [step for step in steps if callable(step)]


@dataclass(frozen=True)
class ArrayRows:
    """Reads rows of an array in memory, as stored ones are read. first : the number of the first"""

    rows: np.ndarray
    first: int = 0
    paths: tuple[str, ...] = ()

    def read(self, first: int, last: int) -> np.ndarray:
        return self.rows[first - self.first : last - self.first]


def lazy_blocks(
    blocks: Sequence[tuple[RowReader, int, int]],
    meta: Any,
    tail: tuple[int, ...],
    csr_nbytes: float | None = None,
    name: str = "",
) -> da.Array:
    """A Dask array of the rows that each reader reads from the first to the last; `tail` is its shape without rows.

    name : of the array; without, it follows from the readers
    """
    readers = list({id(reader): reader for reader, _, _ in blocks}.values())
    bounds = np.array([(first, last) for _, first, last in blocks])
    name = name or "read-rows-" + tokenize(readers, bounds, tail, meta.dtype.str)
    chunks = (tuple(last - first for _, first, last in blocks), *((size,) for size in tail))
    index = tuple(range(len(chunks)))
    numblocks = len(blocks), *(1,) * len(tail)
    reads = ReadBlocks(name, blocks, readers, numblocks, (sum(chunks[0]), *tail), csr_nbytes)
    options: dict[str, Any] = {"numblocks": {}, PRODUCER: True}
    layer = blockwise(read_block, name, index, reads, index, **options)
    return da.Array(HighLevelGraph.from_collections(name, layer), name, chunks, meta=meta)


@dataclass(eq=False, repr=False)
class ReadBlocks(BlockwiseDep):
    """The argument of each `read_block` task of an array: the reader and the rows of a block.

    blocks : see `stored_blocks.stored_pieces`; readers : all, each once; shape : of the array; csr_nbytes : of CSR
    rows, bytes of all in memory, for which some blocks are looked at
    """

    name: str
    blocks: Sequence[tuple[RowReader, int, int]]
    readers: Sequence[RowReader]
    numblocks: tuple[int, ...]
    shape: tuple[int, ...]
    csr_nbytes: float | None = None
    produces_tasks: bool = False

    def __getitem__(self, index: tuple[int, ...]) -> tuple[RowReader, int, int]:
        reader, first, last = self.blocks[index[0]]
        if isinstance(reader, ArrayRows):  # a task gets its own rows alone
            reader = ArrayRows(reader.read(first, last), first)
        return reader, first, last

    def __dask_tokenize__(self) -> str:
        return self.name


def array_blocks(rows: Any, name: str, chunks: Any) -> da.Array:
    """An array in memory as a Dask array of this name.

    rows : array or CSR matrix; chunks : rows of each block, or of all but the last
    """
    sizes = da.core.normalize_chunks((chunks, *rows.shape[1:]), rows.shape)[0]
    reader, bounds = ArrayRows(rows), itertools.pairwise(itertools.accumulate(sizes, initial=0))
    nbytes = stored_row_bytes(rows) * rows.shape[0] if sp.issparse(rows) else None
    return lazy_blocks([(reader, *both) for both in bounds], rows[:0], rows.shape[1:], nbytes, name)


def align_rows(X: da.Array, y: Any, name: str) -> da.Array:
    """Return y as a Dask array with the row chunks of X.

    Parameters
    ----------
    X : Dask array of shape (n, d)
    y : array or Dask array of shape (n,) or (n, t)
    name : str
        Name of y in messages.

    Returns
    -------
    Dask array

    Raises
    ------
    InputError
        The lengths differ.
    """
    y = check_dask_rows(y, name) if is_dask_collection(y) else np.asarray(y)
    if y.shape[:1] != X.shape[:1]:
        raise InputError(
            f"{name} must have as many rows as X, got {y.shape[0] if y.ndim else 1} and {X.shape[0]}"
        )
    if not is_dask_collection(y):
        return array_blocks(y, f"rows-{tokenize(y, X.chunks[0])}", X.chunks[0])
    return y if y.chunks[0] == X.chunks[0] else _cut(y, X.chunks[0])


def shared_arrays(arrays: dict[str, np.ndarray]) -> Delayed:
    """Put learned arrays under one graph key, so that each worker gets them once, however many tasks use them.

    Parameters
    ----------
    arrays : dict of str to array

    Returns
    -------
    Delayed
        Of the dict.
    """
    key = ARRAYS_PREFIX + arrays_fingerprint(arrays)
    return Delayed(key, {key: DataNode(key, dict(arrays))})


def apply_map(
    block: Rows, function: Any, arrays: Mapping[str, np.ndarray] | None = None, *, column: bool = False
) -> Rows:
    """Apply a frozen function to one block. On the worker, its learned arrays are put back into it first.

    column : whether the result has shape (rows,)
    """
    if arrays is not None:
        function = function.with_arrays(aligned(arrays))
    out = function(aligned(block))
    return out[:, 0] if column and out.ndim == 2 else out


def blocks_are_csr(X: Any) -> bool:
    """Whether rows in memory, or the blocks of a lazy array, are CSR. Only Dask's `_meta` knows this of a lazy array."""
    return bool(sp.issparse(getattr(X, "_meta", X)))


def map_rows(function: Callable, X: da.Array, n_columns: int | None, dtype: Any) -> da.Array:
    """function(block) for every row block of X, lazily.

    Parameters
    ----------
    function : a frozen, picklable callable with `arrays`, `without_arrays` and `with_arrays`
        (see maps.base.FeatureMap) that takes and returns NumPy blocks with the same rows
    n_columns : columns of a result block, or None for results of shape (rows,)
    dtype : dtype of the result
    """
    arrays = function.arrays  # type: ignore[attr-defined]
    stub = function.without_arrays()  # type: ignore[attr-defined]
    current_client()  # called for its side effect: it prepares the workers
    name = task_name(getattr(function, "label", type(function).__name__))
    csr = getattr(function, "makes_csr", lambda csr: False)(blocks_are_csr(X))
    shape = () if n_columns is None else (n_columns,)
    out = da.map_blocks(
        apply_map,
        X,
        stub,
        *([shared_arrays(arrays)] if arrays else []),
        column=n_columns is None,
        dtype=dtype,
        chunks=(X.chunks[0], *shape),
        drop_axis=[] if shape else 1,
        meta=(sp.csr_array if csr else np.empty)((0,) * (1 + len(shape)), dtype=dtype),
        name=f"{name}-{tokenize(X.name, function)}",
    )
    # Lets a reader of a few rows apply the function to those rows alone, but where blocks are no arrays that others could cut.
    return out if has_frames(X) else _remembering(out, X, function)


def map_features(map_: Any, X: da.Array) -> da.Array:
    """The features that a map makes of lazy rows. Chunks are cut where a block of the wider of both would pass Dask's `array.chunk-size`."""
    dtype = map_.out_dtype(X.dtype)
    widest = max(map_.entries_per_row * dtype.itemsize, X.shape[1] * max(X.dtype.itemsize, dtype.itemsize))
    return map_rows(map_, split_rows(X, rows_per_block(widest)), map_.n_components, dtype)


def row_bytes(X: Any) -> float:
    """Bytes of a row in memory: all its columns, or the entries of CSR rows.

    Of lazy CSR rows the store that they are read from knows the bytes; without a store, all columns are counted. Of lazy CSR
    features the map knows the entries of a row; the bytes of a row of its input are added.

    Parameters
    ----------
    X : array, CSR matrix or Dask array of shape (n, ...)

    Returns
    -------
    float
    """
    if sp.issparse(X):
        return (X.data.nbytes + X.indices.nbytes) / max(1, X.shape[0])
    source, function = made_from(X)
    if getattr(function, "sparse_output", False):
        return function.entries_per_row * X.dtype.itemsize + row_bytes(source)
    dense = float(max(1, math.prod(X.shape[1:])) * X.dtype.itemsize)
    # Blocks may have more than the average; where it is not known, all columns are counted.
    return min(_UNEVEN * stored_row_bytes(X), dense) or dense if blocks_are_csr(X) else dense


def mapped_from(X: da.Array) -> tuple[da.Array, list[Callable]]:
    """The array and the functions that a lazy array was made from: X = functions[-1](... functions[0](source)), but for its blocks.

    Of X and the arrays that it was made from by `map_rows`, the source is the one whose rows take the fewest bytes. A
    caller that needs some rows of a block at a time can hold the block of the source and apply the functions to those
    rows alone. So it has the blocks that it was cut from, where these are not larger than Dask's `array.chunk-size`: a stored block
    would be read anew for each block that was cut from it. An array that `map_rows` did not make is its own source.
    """
    arrays, steps = made_of(X)
    functions = list(itertools.takewhile(callable, steps))
    best = int(np.argmin([a.dtype.itemsize * a.shape[1] for a in arrays[: len(functions) + 1]]))
    source = arrays[best]
    for before, step in zip(arrays[best + 1 :], steps[best:], strict=True):
        if step is not None or max(before.chunks[0]) * row_bytes(before) > target_block_bytes():
            break
        source = before
    return source, functions[:best][::-1]
