"""CSR rows in a Zarr group of three 1-D arrays.

``indptr_counts`` (n,) holds the number of stored entries of each row. ``data`` and ``indices`` are logically
n_blocks x capacity long: block b owns the entries from b * capacity, where capacity is block_rows * d rounded
up to whole chunks. So blocks are written in any order without counting entries first, and never share a
chunk; the chunks a block does not need are never written.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import zarr

from ..errors import StoreError

ENTRIES_PER_CHUNK = 2**20


def lengthened(array: Any, n_rows: int) -> zarr.Array:
    """The array with so many rows, in this process alone. Finished chunks leave a file whatever they hold.

    Parameters
    ----------
    array : zarr.Array
    n_rows : int

    Returns
    -------
    zarr.Array
    """
    metadata = array.metadata.update_shape((n_rows, *array.shape[1:]))
    # Zarr skips chunks that equal the fill value by default; then a finished block of zeros leaves no file.
    return zarr.Array(zarr.AsyncArray(metadata, array.store_path, {"write_empty_chunks": True}))


def layout(block_rows: int, d: int, dtype: np.dtype) -> tuple[int, dict[str, tuple[int, np.dtype]]]:
    """The entries that a block has room for; and of each array the size of its chunks and its type.

    Parameters
    ----------
    block_rows, d : int
        Rows of a block, and columns.
    dtype : numpy.dtype
        Of the stored entries.

    Returns
    -------
    (int, dict of str to (int, numpy.dtype))
    """
    chunk = min(ENTRIES_PER_CHUNK, block_rows * d)
    index = np.dtype(np.int32 if d < 2**31 else np.int64)
    arrays = {"data": (chunk, dtype), "indices": (chunk, index), "indptr_counts": (block_rows, index)}
    return -(-block_rows * d // chunk) * chunk, arrays


@dataclass(frozen=True)
class CsrArray:
    """CSR rows of a Zarr group, with the rows that the caller says.

    Attributes
    ----------
    group : zarr.Group
    data, indices, counts : zarr.Array
    shape : (int, int)
        n and d.
    block_rows, capacity : int
        Rows of a block, and the entries that it has room for.
    """

    group: zarr.Group
    data: zarr.Array
    indices: zarr.Array
    counts: zarr.Array
    shape: tuple[int, int]
    block_rows: int
    capacity: int

    @classmethod
    def create(
        cls,
        parent: zarr.Group,
        name: str,
        shape: tuple[int, int],
        dtype: np.dtype,
        block_rows: int,
        options: dict[str, Any],
    ) -> None:
        """Create a CSR group, or the arrays in it that are missing; `options` are further arguments of ``create_array``."""
        n, d = shape
        capacity, arrays = layout(block_rows, d, dtype)
        attributes = {"encoding": "csr", "shape": [n, d], "block_rows": block_rows, "capacity": capacity}
        group = parent[name] if name in parent else parent.create_group(name, attributes=attributes)
        assert isinstance(group, zarr.Group)
        for key, (chunk, kind) in arrays.items():
            if key not in group:
                size = n if key == "indptr_counts" else -(-n // block_rows) * capacity
                fill = math.nan if kind.kind == "f" else 0
                group.create_array(key, shape=(size,), chunks=(chunk,), dtype=kind, fill_value=fill, **options)

    @classmethod
    def open(cls, group: zarr.Group, n_rows: int | None = None) -> CsrArray:
        """The rows of a group; `n_rows` of them, be it fewer or more than it has."""
        attributes: dict[str, Any] = dict(group.attrs)
        n, d = (int(size) for size in attributes["shape"])
        n = n if n_rows is None else n_rows
        block_rows, capacity = int(attributes["block_rows"]), int(attributes["capacity"])
        size = -(-n // block_rows) * capacity
        data, indices = (lengthened(group[key], size) for key in ("data", "indices"))
        counts = lengthened(group["indptr_counts"], n)
        return cls(group, data, indices, counts, (n, d), block_rows, capacity)

    @property
    def dtype(self) -> np.dtype:
        """Of the stored entries."""
        return self.data.dtype

    def is_like(self, block_rows: int, d: int, dtype: np.dtype) -> bool:
        """Whether it is what `create` makes of these."""
        arrays = {"data": self.data, "indices": self.indices, "indptr_counts": self.counts}
        found = {key: (array.chunks[0], array.dtype) for key, array in arrays.items()}
        here = (self.block_rows, self.shape[1], (self.capacity, found))
        return here == (block_rows, d, layout(block_rows, d, dtype))

    def resize(self, shape: tuple[int, ...]) -> None:
        """Store another number of rows."""
        size = -(-shape[0] // self.block_rows) * self.capacity
        self.data.resize((size,))
        self.indices.resize((size,))
        self.counts.resize((shape[0],))
        self.group.attrs["shape"] = list(shape)

    def write(self, index: int, start: int, matrix: Any) -> None:
        """Write one block, which begins at row `start`; the bytes depend on the values only."""
        rows = sp.csr_array(matrix)
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        self.counts[start : start + rows.shape[0]] = np.diff(rows.indptr)
        first, chunk = index * self.capacity, self.data.chunks[0]
        whole = -(-int(rows.nnz) // chunk) * chunk  # of a part of a chunk, Zarr would read the rest first
        for array, values in ((self.data, rows.data), (self.indices, rows.indices)):
            if whole:
                padded = np.full(whole, array.fill_value, array.dtype)
                padded[: rows.nnz] = values
                array[first : first + whole] = padded

    def read(self, start: int, stop: int) -> sp.csr_array:
        """Rows ``start:stop``. Raises StoreError for row lengths or column numbers that cannot be."""
        d, blocks = self.shape[1], []
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
        return blocks[0] if len(blocks) == 1 else sp.csr_array(sp.vstack(blocks, format="csr"))

    def mean_row_bytes(self, most: int = 16) -> float:
        """Mean bytes of a row in memory, from the entries of the rows in at most so many blocks, evenly apart."""
        n_blocks = -(-self.shape[0] // self.block_rows)
        starts = np.unique(np.linspace(0, max(n_blocks - 1, 0), most).astype(np.int64)) * self.block_rows
        looked_at = np.concatenate(
            [np.asarray(self.counts[start : start + self.block_rows]) for start in starts.tolist()]
        )
        entries = int(looked_at.sum(dtype=np.int64)) / max(1, looked_at.size)
        return entries * (self.dtype.itemsize + self.indices.dtype.itemsize) + self.indices.dtype.itemsize
