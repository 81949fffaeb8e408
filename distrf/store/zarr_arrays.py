"""The arrays of a row store: dense ones, and CSR rows in a Zarr group of three 1-D arrays.

``indptr_counts`` (n,) holds the number of stored entries of each row. ``data`` and ``indices`` are logically
n_blocks x capacity long: block b owns the entries from b * capacity, where capacity is block_rows * d rounded
up to whole chunks. So blocks are written in any order without counting entries first, and never share a
chunk; the chunks a block does not need are never written.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import zarr
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.storage import FsspecStore, LocalStore, WrapperStore

from ..errors import StoreError
from . import files
from .row_source import joined
from .zarr_layout import StoreInfo

ENTRIES_PER_CHUNK = 2**20


def open_group(path: str, mode: str, *, whole: bool = False, **wanted: Any) -> zarr.Group | zarr.Array:
    """Open a Zarr group or array.

    Parameters
    ----------
    path : str
    mode : "r" or "r+"
    whole : bool
        Every chunk that is read must be there.
    **wanted
        Further arguments of `zarr.open`.

    Returns
    -------
    zarr.Group or zarr.Array

    Raises
    ------
    StoreError
        Nothing is there that Zarr can read.
    """
    with files.reading(path, "a Zarr store"):
        try:
            store = zarr_store(path, mode == "r")
            return zarr.open(store=_WholeStore(store) if whole else store, mode=mode, **wanted)  # type: ignore[arg-type]
        except FileNotFoundError as error:
            raise StoreError(
                f"no Zarr store at {path!r}: nothing there that Zarr can read; check the path, or write it with "
                "`distrf ingest`"
            ) from error


def zarr_store(path: str, read_only: bool) -> Any:
    """A Zarr store object for a normalised path.

    Parameters
    ----------
    path : str
    read_only : bool

    Returns
    -------
    zarr.abc.store.Store

    Raises
    ------
    StoreError
        A store to be read is not there, or is a file.
    """
    if files.is_local(path):
        if read_only and not os.path.isdir(path):
            raise StoreError(f"no such store: {path!r} is no folder; check the path")
        return LocalStore(path, read_only=read_only)
    files.filesystem(path)  # says what is missing
    return FsspecStore.from_url(path, storage_options=files.options_of(path), read_only=read_only)


def layout(shape: tuple[int, ...], block_rows: int, dtype: np.dtype) -> dict[str, tuple[int, int, np.dtype]]:
    """The arrays of CSR rows by name: the length of each, the size of its chunks, and its type.

    Parameters
    ----------
    shape : (int, int)
        n and d.
    block_rows : int
        Rows of a block.
    dtype : numpy.dtype
        Of the stored entries.

    Returns
    -------
    dict of str to (int, int, numpy.dtype)
    """
    n, d = shape
    chunk = min(ENTRIES_PER_CHUNK, block_rows * d)
    entries = -(-n // block_rows) * -(-block_rows * d // chunk) * chunk
    index = np.dtype(np.int32 if d < 2**31 else np.int64)
    return {
        "data": (entries, chunk, dtype),
        "indices": (entries, chunk, index),
        "indptr_counts": (n, block_rows, index),
    }


@dataclass(frozen=True)
class CsrArray:
    """CSR rows of a Zarr group.

    Attributes
    ----------
    d : int
        Columns.
    block_rows : int
        Rows of a block.
    data, indices, counts : zarr.Array
        Those of `layout`.
    """

    d: int
    block_rows: int
    data: zarr.Array
    indices: zarr.Array
    counts: zarr.Array

    @property
    def shape(self) -> tuple[int, int]:
        """n and d."""
        return self.counts.shape[0], self.d

    @property
    def capacity(self) -> int:
        """Entries that a block has room for."""
        chunk = self.data.chunks[0]
        return -(-self.block_rows * self.d // chunk) * chunk

    @property
    def dtype(self) -> np.dtype:
        """Of the stored entries."""
        return self.data.dtype

    def resize(self, shape: tuple[int, ...]) -> None:
        """Store another number of rows."""
        sizes = layout(shape, self.block_rows, self.dtype).values()
        for array, (size, _, _) in zip((self.data, self.indices, self.counts), sizes, strict=True):
            array.resize((size,))

    def __setitem__(self, block: slice, matrix: Any) -> None:
        """Write one block; the bytes depend on the values only."""
        rows = sp.csr_array(matrix)
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        self.counts[block] = np.diff(rows.indptr)
        first, chunk = block.start // self.block_rows * self.capacity, self.data.chunks[0]
        whole = -(-int(rows.nnz) // chunk) * chunk  # of a part of a chunk, Zarr would read the rest first
        for array, values in ((self.data, rows.data), (self.indices, rows.indices)):
            if whole:
                padded = np.full(whole, array.fill_value, array.dtype)
                padded[: rows.nnz] = values
                array[first : first + whole] = padded

    def __getitem__(self, rows: slice) -> sp.csr_array:
        """Rows from one to another. Raises StoreError for row lengths or column numbers that cannot be."""
        (start, stop), d, blocks = (rows.start, rows.stop), self.d, []
        if start == stop:
            return sp.csr_array((0, d), dtype=self.dtype)
        for index in range(start // self.block_rows, -(-stop // self.block_rows)):
            low = index * self.block_rows
            high = min(stop, low + self.block_rows)
            per_row = np.asarray(self.counts[low:high])
            indptr = np.concatenate([[0], np.cumsum(per_row, dtype=np.int64)])
            if per_row.size and (per_row.min() < 0 or per_row.max() > d):
                raise StoreError(f"row lengths outside 0..{d} in rows {low}:{high}: the store is damaged")
            indptr = indptr[max(start, low) - low :]
            first, last = (index * self.capacity + int(edge) for edge in (indptr[0], indptr[-1]))
            columns, values = np.asarray(self.indices[first:last]), np.asarray(self.data[first:last])
            if columns.size and (columns.min() < 0 or columns.max() >= d):  # past the end of an array
                raise StoreError(
                    f"column numbers outside 0..{d - 1} in rows {low}:{high}: the store is damaged"
                )
            blocks.append(sp.csr_array((values, columns, indptr - indptr[0]), shape=(indptr.size - 1, d)))
        return joined(blocks)

    def mean_row_bytes(self, most: int = 16) -> float:
        """Mean bytes of a row in memory, from the entries of the rows in at most so many blocks, evenly apart."""
        n_blocks = -(-self.shape[0] // self.block_rows)
        starts = np.unique(np.linspace(0, max(n_blocks - 1, 0), most).astype(np.int64)) * self.block_rows
        looked_at = np.concatenate(
            [np.asarray(self.counts[start : start + self.block_rows]) for start in starts.tolist()]
        )
        entries = int(looked_at.sum(dtype=np.int64)) / max(1, looked_at.size)
        return entries * (self.dtype.itemsize + self.indices.dtype.itemsize) + self.indices.dtype.itemsize


Node = zarr.Array | CsrArray


def stored_arrays(
    store: StoreInfo, n_rows: int
) -> dict[str, tuple[tuple[int, ...], tuple[int, ...], np.dtype]]:
    """Shape, chunks and type of the Zarr arrays of a store with so many rows, by name; those of CSR rows are in a group."""
    arrays: dict[str, tuple[tuple[int, ...], tuple[int, ...], np.dtype]] = {}
    for name, item in store.arrays.items():
        shape, dtype = (n_rows, *item.tail), np.dtype(item.dtype)
        if item.sparse:
            for key, (size, chunk, kind) in layout(shape, store.block_rows, dtype).items():
                arrays[f"{name}/{key}"] = ((size,), (chunk,), kind)
        else:
            arrays[name] = (shape, item.chunks, dtype)
    return arrays


def create_nodes(store: StoreInfo) -> None:
    """Create the arrays of a store that are missing."""
    group = open_group(store.path, "r+", zarr_format=3)
    assert isinstance(group, zarr.Group)
    compress = [] if store.kind == "features" else [ZstdCodec(level=1)]
    # The attribute tells arrays of a store of ours whose document is gone.
    options: dict[str, Any] = {"compressors": [*compress, Crc32cCodec()], "attributes": {"distrf": "rows"}}
    for name, (shape, chunks, dtype) in stored_arrays(store, store.n_rows).items():
        if "/" in name:
            group.require_group(name.split("/")[0])
        with files.reading(f"{store.path}/{name}", "a Zarr array"):
            there = name in group
        if not there:
            fill = math.nan if dtype.kind == "f" else 0
            group.create_array(name, shape=shape, chunks=chunks, dtype=dtype, fill_value=fill, **options)


def open_nodes(store: StoreInfo, *, writable: bool = False) -> dict[str, Node]:
    """The arrays of a store, compared with its document.

    Parameters
    ----------
    store : StoreInfo
    writable : bool
        Open them to be written.

    Returns
    -------
    dict of str to (zarr.Array or CsrArray)

    Raises
    ------
    StoreError
        An array is missing, or is not the one of the document.
    """
    path = store.path
    # There may be more rows, of an append that has not ended; and in the longer store of one, less.
    least = stored_arrays(store, store.n_rows if store.first_row is None else store.first_row)
    group: Any = open_group(path, "r+" if writable else "r", whole=not writable, zarr_format=3)
    arrays: dict[str, zarr.Array] = {}
    for name, (shape, chunks, dtype) in stored_arrays(store, store.n_rows).items():
        with files.reading(f"{path}/{name}", "a Zarr array"):
            found: Any = group[name]
            same = (found.shape[1:], found.chunks, found.dtype) == (shape[1:], chunks, dtype)
            metadata = found.metadata.update_shape(shape)
            # Zarr skips chunks that equal the fill value by default; then a finished block of zeros leaves no file.
            arrays[name] = zarr.Array(zarr.AsyncArray(metadata, found.store_path, {"write_empty_chunks": True}))
        if not same or found.shape[0] < least[name][0][0]:
            raise StoreError(
                f"the metadata of array {name!r} in {path!r} are not what was written; restore {name}/zarr.json, or "
                "remove the store and make it again"
            )
    nodes: dict[str, Node] = {}
    for name, item in store.arrays.items():
        if item.sparse:
            parts = (arrays[f"{name}/{key}"] for key in ("data", "indices", "indptr_counts"))
            nodes[name] = CsrArray(item.tail[0], store.block_rows, *parts)
        else:
            nodes[name] = arrays[name]
    return nodes


def place_of_array(value: Any) -> str | None:
    """Where an open Zarr array lies, such as Dask's ``from_zarr`` holds.

    Parameters
    ----------
    value : object

    Returns
    -------
    str, or None
        A path or URL; None for anything but a Zarr array.
    """
    if not isinstance(value, zarr.Array):
        return None
    store = value.store
    if isinstance(store, FsspecStore):
        fs = getattr(store.fs, "sync_fs", store.fs)  # a local folder opened through fsspec is wrapped
        store = fs.unstrip_protocol(store.path)
    return f"{getattr(store, 'root', store)}/{value.path}".rstrip("/")


class _WholeStore(WrapperStore[Any]):
    """A store in which every chunk that is read must be there."""

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        """The bytes of a key."""
        found = await super().get(key, prototype, byte_range)
        if found is None and "/c/" in key:
            raise LookupError(f"chunk {key!r} is missing though the store is complete")
        return found
