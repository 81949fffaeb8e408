"""A row store: what it is made to hold, its blocks and chunks, and what it says of itself.

A row store is a Zarr (format 3) group. The first axis of every array is the rows. Rows are written in blocks of ``block_rows``; a
block is a whole number of chunks, so two blocks never share a chunk and can be written by different processes. While the store is
written, its folder ``manifest`` has an empty file for each block that is finished, made after the data of the block. The
attribute ``complete`` is set when all blocks are, and the folder removed.

The attribute ``distrf`` of the group is a document of all that the store holds. It carries a checksum of itself; the metadata of
the arrays are compared with it when a store is opened. A chunk carries its CRC32C, by Zarr's own codec. Zarr takes a chunk that
is not there for one of fill values, so the store through which rows are read refuses it. Two whole chunks of one array that are
exchanged are not noticed: each is what was written, at another place.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import InputError, StoreError
from ..representation import size
from . import files
from .fingerprints import fingerprint_of_spec
from .spec import from_json

FORMAT = 3
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
    shape : tuple of int
        (n, ...).
    dtype : str
    chunks : tuple of int
    sparse : bool
        Whether it is kept as CSR rows.
    """

    shape: tuple[int, ...]
    dtype: str
    chunks: tuple[int, ...]
    sparse: bool

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
    arrays : dict of str to ArrayInfo
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
    arrays: dict[str, ArrayInfo]
    spec: dict[str, Any]
    classes: list[Any] | None
    columns: list[str] | None
    target: str | None
    provenance: dict[str, Any]
    complete: bool
    pending: int
    nbytes: int
    id: str | None
    first_row: int
    stored_bytes: int | None

    def facts(self) -> list[tuple[str, Any]]:
        """What is shown of the store, without its spec: names and values."""
        n_blocks = self.n_blocks
        state = "complete" if self.complete else f"{n_blocks - self.pending} of {n_blocks} blocks finished"
        made = "" if self.stored_bytes is None else f", {size(self.stored_bytes)} in files"
        facts: list[tuple[str, Any]] = [
            ("rows", f"{self.n_rows:,} in {n_blocks:,} blocks of {self.block_rows:,} ({state})"),
            *(
                (
                    name,
                    f"{' x '.join(map(str, a.shape))} {np.dtype(a.dtype)}, {'CSR' if a.sparse else f'chunks {a.chunks}'}",
                )
                for name, a in self.arrays.items()
            ),
            ("in memory", f"{size(self.nbytes)}{made}"),
            ("a block", size(self.nbytes * self.block_rows / max(1, self.n_rows))),
            ("target", self.target),
            ("classes", self.classes),
            ("columns", self.columns),
        ]
        return [(name, value) for name, value in facts if value]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        left_out = ("n_rows", "pending", "nbytes", "id", "first_row")
        facts = {name: value for name, value in vars(self).items() if name not in left_out}
        arrays = {name: vars(array) for name, array in self.arrays.items()}
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

    def attributes(self) -> dict[str, Any]:
        """The contents as attributes of a store: the entries called `COMPARED`.

        Raises
        ------
        InputError
            An array cannot be stored, or there are no rows.
        """
        n_rows, block_rows = int(self.n_rows), min(int(self.block_rows), int(self.n_rows))
        if block_rows < 1:
            raise InputError(f"a store needs rows: received n_rows={n_rows}, block_rows={self.block_rows}")
        arrays = {}
        for name, (row_shape, kind) in self.arrays.items():
            tail, dtype = tuple(int(size) for size in row_shape), np.dtype(kind).newbyteorder("<")
            if dtype.kind not in "biuf" or any(size < 1 for size in tail):
                raise InputError(
                    f"stored arrays are numeric, of sizes >= 1; {name!r} has dtype {dtype} and the row shape {tail}; store "
                    "labels as int32 codes and pass classes="
                )
            arrays[name] = {
                "tail": list(tail),
                "dtype": dtype.str,
                "chunks": list(chunk_shape(tail, dtype, block_rows)),
                "sparse": name in self.sparse,
            }
        return {
            "kind": self.kind,
            "n_rows": n_rows,
            "block_rows": block_rows,
            "arrays": arrays,
            "spec": self.spec,
            "classes": None if self.classes is None else list(self.classes),
            "columns": None if self.columns is None else list(self.columns),
            "target": self.target,
        }


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


def chunk_shape(tail: tuple[int, ...], dtype: np.dtype, block_rows: int) -> tuple[int, ...]:
    """Chunks of an array: a whole block, or an equal share of its rows above 64 MB.

    All columns lie in one chunk unless a single row is larger than that.

    Parameters
    ----------
    tail : tuple of int
        Shape of a row.
    dtype : numpy.dtype
    block_rows : int
        Rows of a block.

    Returns
    -------
    tuple of int
    """
    row_bytes = math.prod(tail) * dtype.itemsize
    if row_bytes > CHUNK_BYTES:
        return (1, max(1, CHUNK_BYTES // (row_bytes // tail[0])), *tail[1:])
    least = -(-block_rows * row_bytes // CHUNK_BYTES)
    counts = (count for count in range(least, min(8 * least, block_rows) + 1) if block_rows % count == 0)
    # No divisor near the wanted size (a prime number of rows): one chunk a block is still correct.
    return (block_rows // next(counts, 1), *tail)


def read_attributes(path: str) -> dict[str, Any] | None:
    """The attribute ``distrf`` of the group at ``path`` as JSON; None if there is none, or none that can be read."""
    fs, root = files.filesystem(path)
    attributes = (files.read_object(fs, f"{root}/zarr.json") or {}).get("attributes")
    found = attributes.get("distrf") if isinstance(attributes, dict) else None
    return found if isinstance(found, dict) else None


def our_attributes(path: str) -> dict[str, Any]:
    """The document of a store that distrf wrote, with its checksum verified.

    Raises
    ------
    StoreError
        No such store, one of another format, or a document that was changed since it was written.
    """
    attributes = read_attributes(path)
    if attributes is None:
        files.require(path)
        raise StoreError(f"{path!r} is not a store written by distrf: it has no distrf attribute")
    check_attributes(path, attributes)
    return attributes


def check_attributes(path: str, attributes: Mapping[str, Any]) -> None:
    """Raise StoreError for a document of another format, or one that was changed since it was written."""
    if attributes.get("format") != FORMAT:
        raise StoreError(
            f"this version of distrf reads stores of format {FORMAT}; {path!r} has format "
            f"{attributes.get('format')!r}; update distrf, or make the store again"
        )
    if attributes.get("checksum") != _checksum(attributes):
        raise StoreError(
            f"the metadata of the store {path!r} are not what was written: its zarr.json is damaged or was edited (its "
            "checksum differs); restore it, or remove the store and make it again"
        )


def write_attributes(path: str, attributes: Mapping[str, Any], *, new: bool = False) -> bool:
    """Write the document of a store in one step; False where `new` is asked for and there is one."""
    fs, root = files.filesystem(path)
    document = {**attributes, "checksum": _checksum(attributes)}
    group = {"attributes": {"distrf": document}, "zarr_format": 3, "node_type": "group"}
    if new:
        return files.create_json(fs, f"{root}/zarr.json", group)
    files.write_json(fs, f"{root}/zarr.json", group)
    return True


def _checksum(attributes: Mapping[str, Any]) -> str:
    return fingerprint_of_spec({key: value for key, value in attributes.items() if key != "checksum"})


def info(path: str | os.PathLike[str], *, measure: bool = False) -> StoreInfo:
    """What a store of distrf holds.

    Parameters
    ----------
    path : path or URL
    measure : bool
        Also sum the bytes of all files.

    Returns
    -------
    StoreInfo

    Raises
    ------
    StoreError
        There is no such store, or it is damaged.
    """
    path = files.normalise(path)
    attributes = our_attributes(path)
    return info_of(path, {**attributes, "first_row": 0}, measure)


def made_from(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """What determines the content of a store, as JSON.

    Parameters
    ----------
    path : path or URL

    Returns
    -------
    dict, or None for a store that distrf did not write
    """
    attributes = read_attributes(files.normalise(path))
    return None if attributes is None else made(attributes)


def made(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: attributes.get(key) for key in COMPARED}


def writing(attributes: dict[str, Any], store_id: str | None) -> dict[str, Any]:
    """The document as it will be when what has this id is written; `first_row` is the first row that is not there yet."""
    append = attributes.get("append")
    if append is None or append["id"] != store_id:
        return attributes | {"first_row": 0}
    return attributes | append | {"complete": False, "first_row": attributes["n_rows"]}


def info_of(path: str, attributes: dict[str, Any], measure: bool = False) -> StoreInfo:
    n_rows = attributes["n_rows"]
    arrays = {
        name: ArrayInfo((n_rows, *item["tail"]), item["dtype"], tuple(item["chunks"]), item["sparse"])
        for name, item in attributes["arrays"].items()
    }
    fs, root = files.filesystem(path)
    same = {*COMPARED, "provenance", "complete", "first_row"} - {"arrays"}
    return StoreInfo(
        path=path,
        arrays=arrays,
        pending=len(pending(path, attributes)),
        nbytes=sum(item.nbytes for item in arrays.values() if not item.sparse),
        id=attributes.get("id"),
        stored_bytes=int(fs.du(root)) if measure else None,
        **{key: from_json(attributes[key]) for key in same},
    )


def pending(path: str, attributes: dict[str, Any]) -> list[int]:
    """The blocks without a mark, which is written when the data of its block are."""
    fs, root = files.filesystem(path)
    total = count_blocks(attributes["n_rows"], attributes["block_rows"])
    if attributes["complete"]:
        return []
    done = files.names_in(fs, f"{root}/{MANIFEST}/{attributes['id']}")
    first = attributes["first_row"] // attributes["block_rows"]
    return [index for index in range(first, total) if str(index) not in done]
