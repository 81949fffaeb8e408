"""CSR rows in a Zarr group of three 1-D arrays.

``indptr_counts`` (n,) holds the number of stored entries of each row. ``data`` and ``indices`` are logically
n_blocks x capacity long: block b owns the entries from b * capacity, where capacity is block_rows * d rounded
up to whole chunks. So blocks are written in any order without counting entries first, and never share a
chunk; the chunks a block does not need are never written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import zarr

from ..errors import StoreError

ENTRIES_PER_CHUNK = 2**20


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
        d, blocks = self.d, []
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
