"""The layout of a row store: what it is made to hold, its blocks and chunks, and what `info` reports.

A row store is a Zarr (format 3) group. The first axis of every array is the rows. Rows are written in blocks of ``block_rows``; a
block is a whole number of chunks, so two blocks never share a chunk and can be written by different processes. While the store is
written, its folder ``manifest`` has an empty file for each block that is finished, made after the data of the block. The
attribute ``complete`` is set when all blocks are, and the folder removed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import InputError, StoreError, did_you_mean
from ..representation import facts_html, size

FORMAT = 3
KINDS = ("rows", "features", "predictions")
MANIFEST = "manifest"
CHUNK_BYTES = 64 * 2**20
#: The attributes of a store that say what it holds.
COMPARED = (
    "kind", "n_rows", "block_rows", "arrays", "spec", "classes", "columns", "target",
)  # fmt: skip


@dataclass(frozen=True)
class ArrayInfo:
    """One row-aligned array of a store.

    Attributes
    ----------
    name : str
    shape : tuple of int
        (n, ...).
    dtype : str
    chunks : tuple of int
    sparse : bool
        Whether it is kept as CSR rows.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    chunks: tuple[int, ...]
    sparse: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of the dense array."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class StoreInfo:
    """What a row store holds and how much of it is written.

    Attributes
    ----------
    path : str
    kind : "rows", "features" or "predictions"
    n_rows, block_rows : int
        Rows of the store, and of a block.
    arrays : tuple of ArrayInfo
    spec : dict
        What determines the content.
    classes : list, optional
        Class names behind integer codes.
    columns : list of str, optional
        Names of the columns of X.
    target : str, optional
        Name of the target in the source.
    provenance : dict
        Kept beside the spec and not compared.
    complete : bool
    pending : int
        Blocks that are not written.
    nbytes : int
        Bytes of the dense arrays in memory.
    fingerprint : str
        Of what it was made from.
    id : str, optional
        What tells an unfinished store, or rows that are appended, from others at the same path; None for a complete one.
    first_row : int
        The first row that is not there yet, while rows are appended.
    stored_bytes : int, optional
        Bytes of all files; None unless `info` was asked to measure.
    """

    path: str
    kind: str
    n_rows: int
    block_rows: int
    arrays: tuple[ArrayInfo, ...]
    spec: dict[str, Any]
    classes: list[Any] | None
    columns: list[str] | None
    target: str | None
    provenance: dict[str, Any]
    complete: bool
    pending: int
    nbytes: int
    fingerprint: str = ""
    id: str | None = None
    first_row: int = 0
    stored_bytes: int | None = field(default=None)

    def _repr_html_(self) -> str:
        state = "complete" if self.complete else f"{self.pending} blocks are not written"
        made = "" if self.stored_bytes is None else f", {size(self.stored_bytes)} in files"
        facts: list[tuple[str, Any]] = [
            ("path", self.path),
            ("rows", f"{self.n_rows:,} in blocks of {self.block_rows:,}"),
            *(
                (a.name, f"{' x '.join(map(str, a.shape))} {np.dtype(a.dtype)}{', CSR' if a.sparse else ''}")
                for a in self.arrays
            ),
            ("in memory", f"{size(self.nbytes)}{made}"),
            ("a block", size(self.nbytes * self.block_rows / max(1, self.n_rows))),
            ("state", state),
            ("target", self.target),
            ("classes", self.classes),
            ("spec", self.spec),
        ]
        return facts_html(f"store of {self.kind}", [(name, value) for name, value in facts if value])

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        left_out = ("n_rows", "pending", "nbytes", "fingerprint", "id", "first_row")
        facts = {name: value for name, value in vars(self).items() if name not in left_out}
        arrays = {array.name: {k: v for k, v in vars(array).items() if k != "name"} for array in self.arrays}
        counts = {
            "rows": self.n_rows,
            "blocks": self.n_blocks,
            "blocks_pending": self.pending,
            "bytes": self.nbytes,
        }
        return facts | counts | {"arrays": arrays}

    @property
    def n_blocks(self) -> int:
        """Number of row blocks."""
        return count_blocks(self.n_rows, self.block_rows)

    def bounds(self, index: int) -> tuple[int, int]:
        """First row and end row of block ``index``."""
        return bounds(index, self.n_rows, self.block_rows)

    def blocks(self) -> Iterator[tuple[int, int, int]]:
        """``(index, start, stop)`` of every block."""
        for index in range(self.n_blocks):
            yield index, *self.bounds(index)

    def array(self, name: str) -> ArrayInfo:
        """The array called ``name``."""
        for item in self.arrays:
            if item.name == name:
                return item
        names = [item.name for item in self.arrays]
        raise StoreError(
            f"the store {self.path!r} has no array {name!r}{did_you_mean(name, names)}; it has {names}"
        )


@dataclass(frozen=True)
class Contents:
    """What a row store is made to hold. A path that holds other contents is not written to.

    Parameters
    ----------
    arrays : mapping of str to (tuple of int, dtype)
        For each row-aligned array the shape of a row and its dtype: the array has shape (n_rows, *tail).
    n_rows : int
    block_rows : int
        Rows of a block; more than n_rows means n_rows.
    kind : "rows", "features" or "predictions"
        Features are stored without compression.
    spec : mapping
        What determines the numbers, as JSON.
    classes : collection, optional
        Class names behind integer codes.
    columns : collection of str, optional
        Names of the columns of X.
    target : str, optional
        Name of the target in the source.
    sparse : collection of str
        Names of arrays that are kept as CSR rows.
    chunk_rows : int, optional
        Rows of a chunk of every dense array; must divide ``block_rows``.
    """

    arrays: Mapping[str, tuple[tuple[int, ...], Any]]
    n_rows: int
    block_rows: int
    _: KW_ONLY
    kind: str
    spec: Mapping[str, Any]
    classes: Collection[Any] | None = None
    columns: Collection[str] | None = None
    target: str | None = None
    sparse: Collection[str] = ()
    chunk_rows: int | None = None

    def attributes(self) -> dict[str, Any]:
        """The contents as attributes of a store: the entries called `COMPARED`.

        Raises
        ------
        InputError
            An array cannot be stored, or there are no rows.
        StoreError
            Blocks and chunks do not line up.
        """
        n_rows, block_rows = int(self.n_rows), min(int(self.block_rows), int(self.n_rows))
        if self.kind not in KINDS:
            raise InputError(f"kind must be one of {KINDS}; received {self.kind!r}")
        if n_rows < 1 or block_rows < 1:
            raise InputError(f"a store needs rows: received n_rows={n_rows}, block_rows={block_rows}")
        if not self.arrays or MANIFEST in self.arrays or not set(self.sparse) <= set(self.arrays):
            raise InputError(
                f"a store needs arrays not called {MANIFEST!r}, and sparse names among them; received arrays "
                f"{sorted(self.arrays)}, sparse {sorted(self.sparse)}"
            )
        for name, (tail, dtype) in self.arrays.items():
            _check_array(name, tail, np.dtype(dtype), name in self.sparse)
        return {
            "kind": self.kind,
            "n_rows": n_rows,
            "block_rows": block_rows,
            "arrays": {name: self._described(name, block_rows) for name in self.arrays},
            "spec": self.spec,
            "classes": None if self.classes is None else list(self.classes),
            "columns": None if self.columns is None else list(self.columns),
            "target": self.target,
        }

    def _described(self, name: str, block_rows: int) -> dict[str, Any]:
        tail, dtype = tuple(self.arrays[name][0]), np.dtype(self.arrays[name][1])
        return {
            "tail": [int(size) for size in tail],
            "dtype": dtype.newbyteorder("<").str,
            "chunks": list(chunk_shape(tail, dtype, block_rows, self.chunk_rows)),
            "sparse": name in self.sparse,
        }


def _check_array(name: str, tail: tuple[int, ...], dtype: np.dtype, sparse: bool) -> None:
    if dtype.kind not in "biuf":
        raise InputError(
            f"stored arrays are numeric; {name!r} has dtype {dtype}; store labels as int32 codes and pass classes="
        )
    if any(int(size) < 1 for size in tail) or (sparse and len(tail) != 1):
        raise InputError(f"sizes are >= 1 and CSR rows 1-D; array {name!r} has the row shape {tuple(tail)}")


def checked_block(name: str, block: Any, item: dict[str, Any], rows: int) -> Any:
    """The block in the dtype of the store; InputError for a wrong shape or an unsafe cast."""
    wanted, dtype = (rows, *item["tail"]), np.dtype(item["dtype"])
    if sp.issparse(block) != item["sparse"]:
        raise InputError(
            f"array {name!r} is stored {'as CSR rows' if item['sparse'] else 'dense'}; received a "
            f"{type(block).__name__}"
        )
    if not item["sparse"]:
        block = np.asarray(block)
    if tuple(block.shape) != wanted:
        raise InputError(f"array {name!r} of this block has shape {wanted}; received {tuple(block.shape)}")
    safe = np.can_cast(block.dtype, dtype, "same_kind")
    if safe and dtype.kind in "iu" and not np.can_cast(block.dtype, dtype) and block.size:
        # An integer out of range would wrap around.
        limits = np.iinfo(dtype)
        safe = limits.min <= block.min() and block.max() <= limits.max
    if not safe:
        raise InputError(
            f"array {name!r} is stored as {dtype}; the {block.dtype} values received do not fit; cast them first"
        )
    return block.astype(dtype, copy=False)


def count_blocks(n_rows: int, block_rows: int) -> int:
    """Number of blocks, the last one possibly shorter.

    Parameters
    ----------
    n_rows, block_rows : int

    Returns
    -------
    int
    """
    return -(-n_rows // block_rows)


def bounds(index: int, n_rows: int, block_rows: int) -> tuple[int, int]:
    """The rows of a block.

    Parameters
    ----------
    index : int
        Number of the block.
    n_rows, block_rows : int

    Returns
    -------
    (int, int)
        First row, and the row after the last.

    Raises
    ------
    StoreError
        The index is outside the store.
    """
    if not 0 <= index < count_blocks(n_rows, block_rows):
        raise StoreError(
            f"block {index} is outside the store: {n_rows} rows in blocks of {block_rows} make "
            f"{count_blocks(n_rows, block_rows)} blocks, counted from 0"
        )
    return index * block_rows, min(n_rows, (index + 1) * block_rows)


def chunk_shape(
    tail: tuple[int, ...], dtype: np.dtype, block_rows: int, chunk_rows: int | None = None
) -> tuple[int, ...]:
    """Chunks of an array: a whole block, or an equal share of its rows above 64 MB.

    All columns lie in one chunk unless a single row is larger than that.

    Parameters
    ----------
    tail : tuple of int
        Shape of a row.
    dtype : numpy.dtype
    block_rows : int
        Rows of a block.
    chunk_rows : int, optional
        Wanted rows of a chunk.

    Returns
    -------
    tuple of int

    Raises
    ------
    StoreError
        `chunk_rows` does not divide `block_rows`.
    """
    row_bytes = max(1, math.prod(tail) * dtype.itemsize)
    if chunk_rows is not None:
        if chunk_rows < 1 or block_rows % chunk_rows:
            lower = max(1, block_rows // max(1, chunk_rows)) * max(1, chunk_rows)
            raise StoreError(
                f"a block must be a whole multiple of a chunk, or two blocks would share a chunk: block_rows="
                f"{block_rows}, chunk_rows={chunk_rows}; use block_rows={lower} or a divisor of {block_rows}"
            )
    elif row_bytes > CHUNK_BYTES:
        chunk_rows = 1
    else:
        chunk_rows = _chunk_rows(block_rows, row_bytes)
    if not tail or row_bytes <= CHUNK_BYTES:
        return (chunk_rows, *(max(1, size) for size in tail))
    columns = max(1, CHUNK_BYTES // (row_bytes // tail[0]))
    return (chunk_rows, columns, *tail[1:])


def _chunk_rows(block_rows: int, row_bytes: int) -> int:
    least = -(-block_rows * row_bytes // CHUNK_BYTES)
    for count in range(least, min(8 * least, block_rows) + 1):
        if block_rows % count == 0:
            return block_rows // count
    # No divisor near the wanted size (a prime number of rows): one chunk a block is still correct.
    return block_rows
