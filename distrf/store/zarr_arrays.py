"""The arrays of a row store: dense ones of Zarr, and CSR rows, of which each block is a file."""

from __future__ import annotations

import io
import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import zarr
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.storage import FsspecStore, LocalStore, WrapperStore

from . import files
from .row_source import joined
from .zarr_layout import StoreInfo


def _open_group(path: str, mode: Any, *, whole: bool = False) -> zarr.Group:
    """Open the group of a store; whole : every chunk that is read must be there

    Raises StoreError where there is nothing that Zarr can read.
    """
    with files.reading(path, "a Zarr store"):
        store = zarr_store(path, mode == "r")
        return zarr.open_group(store=_WholeStore(store) if whole else store, mode=mode, zarr_format=3)


def zarr_store(path: str, read_only: bool) -> Any:
    """A Zarr store object for a normalised path.

    Parameters
    ----------
    path : str
    read_only : bool

    Returns
    -------
    zarr.abc.store.Store
    """
    if files.is_local(path):
        return LocalStore(path, read_only=read_only)
    files.filesystem(path)  # says what is missing
    return FsspecStore.from_url(path, storage_options=files.options_of(path), read_only=read_only)


@dataclass(frozen=True)
class CsrArray:
    """CSR rows in a folder: block b is the file ``b.npz``, as `scipy.sparse.save_npz` writes it without compression.

    Attributes
    ----------
    path : str
    shape : (int, int)
        n and d.
    block_rows : int
        Rows of a block.
    dtype : numpy.dtype
        Of the stored entries.
    """

    path: str
    shape: tuple[int, ...]
    block_rows: int
    dtype: np.dtype

    def resize(self, shape: tuple[int, ...]) -> None:
        """Remove the blocks that so many rows do not have."""
        for name in files.names_in(self.path):
            block = re.match(r"\d+", name)
            if block and int(block[0]) * self.block_rows >= shape[0]:  # also what a killed writer left
                files.remove(f"{self.path}/{name}")

    def __setitem__(self, block: slice, matrix: Any) -> None:
        """Write one block; the bytes depend on the values only."""
        rows = sp.csr_array(matrix, copy=True)
        rows.sum_duplicates()
        index = np.int32 if max(self.shape[1], rows.nnz) < 2**31 else np.int64
        rows = sp.csr_array(
            (rows.data, rows.indices.astype(index), rows.indptr.astype(index)), shape=rows.shape
        )
        file = f"{self.path}/{block.start // self.block_rows}.npz"
        files.write_file(file, lambda opened: sp.save_npz(opened, rows, compressed=False))

    def __getitem__(self, rows: slice) -> sp.csr_array:
        """Rows from one to another. Raises ValueError for blocks that cannot be."""
        blocks = []
        for start in range(rows.start // self.block_rows * self.block_rows, rows.stop, self.block_rows):
            file = f"{self.path}/{start // self.block_rows}.npz"
            block: Any = sp.load_npz(io.BytesIO(files.read_bytes(file)))
            # An index out of its row would be read past the end of an array.
            block.check_format(full_check=True)
            last = min(rows.stop - start, self.block_rows)
            if block.shape[0] < last or (block.shape[1], block.dtype) != (self.shape[1], self.dtype):
                raise ValueError(f"{file!r} has the shape {block.shape} and dtype {block.dtype}")
            blocks.append(block[max(rows.start - start, 0) : last])
        return joined(blocks) if blocks else sp.csr_array((0, self.shape[1]), dtype=self.dtype)


Node = zarr.Array | CsrArray


def create_nodes(store: StoreInfo) -> None:
    """Create the Zarr arrays of a store that are missing."""
    group = _open_group(store.path, "r+")
    compress = [] if store.kind == "features" else [ZstdCodec(level=1)]
    # The attribute tells arrays of a store of ours whose document is gone.
    options: dict[str, Any] = {"compressors": [*compress, Crc32cCodec()], "attributes": {"distrf": "rows"}}
    for name, item in store.arrays.items():
        with files.reading(f"{store.path}/{name}", "a Zarr array"):
            there = item.sparse or name in group
        if not there:
            fill = math.nan if np.dtype(item.dtype).kind == "f" else 0
            shape, chunks = (store.n_rows, *item.tail), item.chunks
            group.create_array(name, shape=shape, chunks=chunks, dtype=item.dtype, fill_value=fill, **options)


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
    least = store.n_rows if store.first_row is None else store.first_row
    group: Any = _open_group(path, "r+" if writable else "r", whole=not writable)
    nodes: dict[str, Node] = {}
    for name, item in store.arrays.items():
        shape, dtype = (store.n_rows, *item.tail), np.dtype(item.dtype)
        if item.sparse:
            nodes[name] = CsrArray(f"{path}/{name}", shape, store.block_rows, dtype)
            continue
        with files.reading(f"{path}/{name}", "a Zarr array"):
            found: Any = group[name]
            same = (found.shape[1:], found.chunks, found.dtype) == (item.tail, item.chunks, dtype)
            metadata = found.metadata.update_shape(shape)
            # Zarr skips chunks that equal the fill value by default; then a finished block of zeros leaves no file.
            nodes[name] = zarr.Array(zarr.AsyncArray(metadata, found.store_path, {"write_empty_chunks": True}))
        if not same or found.shape[0] < least:
            raise files.damaged(f"the metadata of array {name!r} in {path!r} are not what was written")
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
