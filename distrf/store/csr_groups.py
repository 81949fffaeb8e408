"""CSR rows in a Zarr group of three 1-D arrays.

``indptr_counts`` (n,) holds the number of stored entries of each row. ``data`` and ``indices`` are logically
n_blocks x capacity long: block b owns the entries from b * capacity, where capacity is block_rows * d rounded
up to whole chunks. So blocks are written in any order without counting entries first, and never share a
chunk; the chunks a block does not need are never written.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import zarr

from ..errors import StoreError

ENTRIES_PER_CHUNK = 2**20
ARRAYS = ("data", "indices", "indptr_counts")


def sizes(block_rows: int, d: int) -> tuple[int, int]:
    """Sizes of the entries of a block.

    Parameters
    ----------
    block_rows, d : int

    Returns
    -------
    (int, int)
        Entries of a chunk, and of the room that a block has.
    """
    chunk = min(ENTRIES_PER_CHUNK, block_rows * d)
    return chunk, -(-block_rows * d // chunk) * chunk


def create(
    parent: zarr.Group,
    name: str,
    n_rows: int,
    d: int,
    dtype: np.dtype,
    block_rows: int,
    options: dict[str, Any],
) -> None:
    """Create a CSR group, or the arrays in it that are missing.

    Parameters
    ----------
    parent : zarr.Group
    name : str
    n_rows, d : int
        Shape of the rows.
    dtype : numpy.dtype
        Of the stored entries.
    block_rows : int
        Rows of a block.
    options : dict
        Further arguments of ``create_array``.
    """
    chunk, capacity = sizes(block_rows, d)
    n_blocks = -(-n_rows // block_rows)
    attributes = {"encoding": "csr", "shape": [n_rows, d], "block_rows": block_rows, "capacity": capacity}
    group = parent[name] if name in parent else parent.create_group(name, attributes=attributes)
    assert isinstance(group, zarr.Group)
    fill = float("nan") if dtype.kind == "f" else 0
    index_dtype = np.dtype(np.int32 if d < 2**31 else np.int64)
    wanted: dict[str, tuple[int, int, np.dtype, Any]] = {
        "data": (n_blocks * capacity, chunk, dtype, fill),
        "indices": (n_blocks * capacity, chunk, index_dtype, 0),
        "indptr_counts": (n_rows, block_rows, index_dtype, 0),
    }
    for key, (size, chunks, kind, fill_value) in wanted.items():
        if key not in group:
            group.create_array(
                key, shape=(size,), chunks=(chunks,), dtype=kind, fill_value=fill_value, **options
            )


def write(group: zarr.Group, index: int, start: int, matrix: Any) -> list[tuple[zarr.Array, int, int]]:
    """Write one block; the bytes depend on the values only.

    Parameters
    ----------
    group : zarr.Group
    index : int
        Number of the block.
    start : int
        Its first row.
    matrix : SciPy sparse array of shape (rows of the block, d)

    Returns
    -------
    list of (zarr.Array, int, int)
        What was written: the array, the first entry, and the entry after the last.
    """
    rows = sp.csr_array(matrix)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    first = index * int(group.attrs["capacity"])  # type: ignore[arg-type]
    data, indices, counts = (_array(group, key) for key in ARRAYS)
    counted = (counts, start, start + rows.shape[0])
    counts[start : start + rows.shape[0]] = np.diff(rows.indptr)
    if not rows.nnz:
        return [counted]
    last = first + int(rows.nnz)
    data[first:last] = rows.data
    indices[first:last] = rows.indices
    return [(data, first, last), (indices, first, last), counted]


def read(group: zarr.Group, start: int, stop: int) -> sp.csr_array:
    """Rows of a CSR group.

    Parameters
    ----------
    group : zarr.Group
    start, stop : int
        First row, and the row after the last.

    Returns
    -------
    csr_array of shape (stop - start, d)

    Raises
    ------
    StoreError
        Row lengths or column numbers that cannot be.
    """
    attributes: dict[str, Any] = dict(group.attrs)
    block_rows, capacity = int(attributes["block_rows"]), int(attributes["capacity"])
    d = int(attributes["shape"][1])
    data, indices, counts = (_array(group, key) for key in ARRAYS)
    blocks = []
    for index in range(start // block_rows, -(-stop // block_rows)):
        low = index * block_rows
        high = min(stop, low + block_rows)
        per_row = np.asarray(counts[low:high])
        indptr = np.concatenate([[0], np.cumsum(per_row, dtype=np.int64)])
        if per_row.size and (per_row.min() < 0 or per_row.max() > d):
            raise StoreError(f"row lengths outside 0..{d} in rows {low}:{high}: the store is damaged")
        indptr = indptr[max(start, low) - low :]
        first, last = (index * capacity + int(edge) for edge in (indptr[0], indptr[-1]))
        columns = np.asarray(indices[first:last])
        values = np.asarray(data[first:last])
        if columns.size and (columns.min() < 0 or columns.max() >= d):  # would be read past the end of an array
            raise StoreError(f"column numbers outside 0..{d - 1} in rows {low}:{high}: the store is damaged")
        blocks.append(sp.csr_array((values, columns, indptr - indptr[0]), shape=(indptr.size - 1, d)))
    if len(blocks) == 1:
        return blocks[0]
    return sp.csr_array(sp.vstack(blocks, format="csr"))


def mean_row_bytes(group: zarr.Group, most: int = 16) -> float:
    """Mean bytes of a row in memory, from the number of entries of the rows in at most so many blocks, evenly apart."""
    data, indices, counts = (_array(group, key) for key in ARRAYS)
    block_rows, n = int(group.attrs["block_rows"]), int(counts.shape[0])  # type: ignore[arg-type]
    starts = np.unique(np.linspace(0, max(-(-n // block_rows) - 1, 0), most).astype(np.int64)) * block_rows
    looked_at = [np.asarray(counts[start : start + block_rows]) for start in starts.tolist()]
    entries = sum(int(rows.sum(dtype=np.int64)) for rows in looked_at) / max(
        1, sum(len(rows) for rows in looked_at)
    )
    return entries * (data.dtype.itemsize + indices.dtype.itemsize) + indices.dtype.itemsize


def is_csr(node: Any) -> bool:
    """True for a group in this layout."""
    return isinstance(node, zarr.Group) and node.attrs.get("encoding") == "csr"


def _array(group: zarr.Group, name: str) -> zarr.Array:
    array = group[name]
    assert isinstance(array, zarr.Array)
    return array.with_config({"write_empty_chunks": True})  # type: ignore[typeddict-item]
