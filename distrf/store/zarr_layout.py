"""A row store: what it holds, its blocks and chunks, and what it says of itself.

A row store is a Zarr (format 3) group. The first axis of every array is the rows. Rows are written in blocks of ``block_rows``; a
block is a whole number of chunks, so two blocks never share a chunk and can be written by different processes. A block of CSR rows is
a file of its own, as SciPy writes it. While the store is
written, its folder ``manifest`` has an empty file for each block that is finished, made after the data of the block. The
attribute ``complete`` is set when all blocks are, and the folder removed. While rows are appended, the file ``append.json`` is the
document of the longer store.

The attribute ``distrf`` of the group is a document of all that the store holds. It carries a checksum of itself; the metadata of
the arrays are compared with it when a store is opened. A chunk carries its CRC32C, by Zarr's own codec. Zarr takes a chunk that
is not there for one of fill values, so the store through which rows are read refuses it. Two whole chunks of one array that are
exchanged are not noticed: each is what was written, at another place.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import InputError, StoreError
from ..plain_data import size
from . import files
from .spec import check_sealed, from_json, sealed, to_json

FORMAT = "distrf-store 7"
ZARR, PARTS, APPEND, MANIFEST = "zarr.json", "_spec.json", "append.json", "manifest"
#: In the metadata of a Parquet file of ours: the name that it was given.
NAME = "distrf name"
CHUNK_BYTES = 64 * 2**20
#: What a store is made to hold: a path that holds something else is not written to.
COMPARED = ("kind", "n_rows", "block_rows", "arrays", "spec", "classes", "columns", "target")
_STATE = ("provenance", "complete", "id", "versions", "first_row")


@dataclass(frozen=True)
class ArrayInfo:
    """One row-aligned array of a store.

    Attributes
    ----------
    tail : tuple of int
        Shape of a row: the array has shape (n_rows, *tail).
    dtype : str
    chunks : tuple of int
    sparse : bool
        Whether it is kept as CSR rows.
    """

    tail: tuple[int, ...]
    dtype: str
    chunks: tuple[int, ...]
    sparse: bool

    def checked(self, name: str, block: Any, rows: int) -> Any:
        """A block in the dtype of the store; InputError for a wrong shape or an unsafe cast."""
        wanted, dtype = (rows, *self.tail), np.dtype(self.dtype)
        block = block if self.sparse else np.asarray(block)
        if tuple(block.shape) != wanted:
            raise InputError(f"array {name!r} of this block has shape {wanted}; received {tuple(block.shape)}")
        if np.can_cast(block.dtype, dtype, "same_kind"):
            cast = block.astype(dtype, copy=False)
            if dtype.kind not in "iu" or not (cast != block).sum():  # an integer out of range wraps around
                return cast
        raise InputError(
            f"array {name!r} is stored as {dtype}; the {block.dtype} values received do not fit; cast them first"
        )


@dataclass(frozen=True, kw_only=True)
class StoreInfo:
    """What a row store holds and how much of it is written.

    Attributes
    ----------
    kind : "rows", "features", "predictions" or "parts"
        Features are stored without compression. Parts are a folder of Parquet files, one for each block; their rows are not counted:
        a block is a row here.
    n_rows, block_rows : int
        Rows of the store, and of a block.
    arrays : dict of str to ArrayInfo
    spec : dict
        What determines the numbers, as JSON.
    classes : list, optional
        Class names behind integer codes.
    columns : list of str, optional
        Names of the columns of X.
    target : str, optional
        Name of the target in the source.
    provenance : dict
        Kept beside the spec and not compared.
    complete : bool
    id : str, optional
        What tells an unfinished store, or rows that are appended, from others at the same path; None for a complete one.
    versions : list of str
        What the store was made from, and what it was after each append.
    first_row : int, optional
        Of a store that gets longer by an append which has not ended: the rows of the shorter one.
    path : str
    """

    kind: str
    n_rows: int
    block_rows: int
    arrays: dict[str, ArrayInfo]
    spec: dict[str, Any]
    classes: list[Any] | None = None
    columns: list[str] | None = None
    target: str | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
    complete: bool = False
    id: str | None = None
    versions: list[str] = field(default_factory=list)
    first_row: int | None = None
    path: str = ""

    @classmethod
    def of(
        cls,
        arrays: Mapping[str, tuple[tuple[int, ...], Any]],
        n_rows: int,
        block_rows: int,
        *,
        sparse: Collection[str] = (),
        **contents: Any,
    ) -> StoreInfo:
        """What a store shall hold.

        Parameters
        ----------
        arrays : mapping of str to (tuple of int, dtype)
            For each row-aligned array the shape of a row and its dtype.
        n_rows : int
        block_rows : int
            Rows of a block; more than n_rows means n_rows.
        sparse : collection of str
            Names of arrays that are kept as CSR rows.
        **contents
            `kind`, `spec`, `classes`, `columns`, `target`, `provenance`.

        Raises
        ------
        InputError
            An array cannot be stored.
        """
        n_rows, block_rows = int(n_rows), max(1, min(int(block_rows), int(n_rows)))
        found = {}
        for name, (row_shape, kind) in arrays.items():
            tail, dtype = tuple(int(size) for size in row_shape), np.dtype(kind).newbyteorder("<")
            if dtype.kind not in "biuf" or any(size < 1 for size in tail):
                raise InputError(
                    f"stored arrays are numeric, of sizes >= 1; {name!r} has dtype {dtype} and the row shape {tail}; store "
                    "labels as int32 codes and pass classes="
                )
            found[name] = ArrayInfo(tail, dtype.str, chunk_shape(tail, dtype, block_rows), name in sparse)
        contents = from_json(to_json(contents, where="store"))
        return cls(arrays=found, n_rows=n_rows, block_rows=block_rows, **contents)

    def document(self, *names: str) -> dict[str, Any]:
        """The fields of these names as JSON."""
        arrays = {name: vars(array) for name, array in self.arrays.items()}
        return {name: to_json(arrays if name == "arrays" else getattr(self, name)) for name in names}

    @property
    def made(self) -> dict[str, Any]:
        """What determines the content, as JSON."""
        return self.document(*COMPARED)

    @property
    def nbytes(self) -> int:
        """Bytes of the dense arrays in memory."""
        arrays = [array for array in self.arrays.values() if not array.sparse]
        return self.n_rows * sum(math.prod(array.tail) * np.dtype(array.dtype).itemsize for array in arrays)

    @property
    def n_blocks(self) -> int:
        """Number of row blocks, the last one possibly shorter."""
        return -(-self.n_rows // self.block_rows)

    def bounds(self, index: int) -> tuple[int, int]:
        """First row and end row of block ``index``."""
        return index * self.block_rows, min(self.n_rows, (index + 1) * self.block_rows)

    @property
    def file(self) -> str:
        """The name of the file of its document."""
        return PARTS if self.kind == "parts" else ZARR if self.first_row is None else APPEND

    def mark(self, index: int) -> str:
        """The file in the store that says that a block is finished; a part file says it itself."""
        return f"part-{index:06d}.parquet" if self.kind == "parts" else f"{MANIFEST}/{self.id}/{index}"

    @property
    def pending(self) -> list[int]:
        """The blocks without a mark, which is written when the data of its block are."""
        if self.complete and self.kind != "parts":
            return []
        done = files.names_in(os.path.dirname(f"{self.path}/{self.mark(0)}"))
        # The first one of an append begins with the rows that the last block of the shorter store has.
        blocks = range((self.first_row or 0) // self.block_rows, self.n_blocks)
        return [index for index in blocks if os.path.basename(self.mark(index)) not in done]

    def facts(self) -> list[tuple[str, Any]]:
        """What is shown of the store in short: names and values."""
        left = len(self.pending)
        arrays = {
            name: f"{' x '.join(map(str, (self.n_rows, *a.tail)))} {np.dtype(a.dtype)}{', CSR' * a.sparse}"
            for name, a in self.arrays.items()
        }
        blocks = f"{self.n_blocks:,} blocks of {self.block_rows:,} ({f'{left:,} not finished' if left else 'complete'})"
        return [("rows", f"{self.n_rows:,} in {blocks}"), *arrays.items(), ("in memory", size(self.nbytes))]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        facts = self.document("path", *COMPARED, "provenance", "complete")
        counts = {"rows": facts.pop("n_rows"), "blocks": self.n_blocks, "blocks_pending": len(self.pending)}
        return facts | counts | {"bytes": self.nbytes}


def chunk_shape(tail: tuple[int, ...], dtype: np.dtype, block_rows: int) -> tuple[int, ...]:
    """Chunks of an array: a whole block, or an equal share of its rows above 64 MB. All columns lie in one chunk.

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
    least = -(-block_rows * row_bytes // CHUNK_BYTES)
    counts = (count for count in range(least, min(8 * least, block_rows) + 1) if block_rows % count == 0)
    # No divisor near the wanted size (a prime number of rows): one chunk a block is still correct.
    return (block_rows // next(counts, 1), *tail)


def block_lengths(n: int, unit: int, usual: int, wanted: int | None) -> tuple[int, ...]:
    """Rows of every block of n rows in chunks of `unit` rows: whole chunks, except the last, near `wanted` in place of `usual`."""
    step = max(1, (wanted or usual) // unit) * unit
    return tuple(min(n - first, step) for first in range(0, n, step)) or (0,)


def stored(path: str | os.PathLike[str], file: str = ZARR) -> StoreInfo | None:
    """What a store that distrf wrote says of itself.

    Parameters
    ----------
    path : path or URL
    file : str
        Which says it: ``zarr.json`` of a store, ``_spec.json`` of part files, ``append.json`` of rows that are appended.

    Returns
    -------
    StoreInfo, or None where there is none of distrf

    Raises
    ------
    StoreError
        One of another format, or a document that was changed since it was written.
    """
    path = files.normalise(path)
    document = None
    with suppress(ValueError, LookupError, TypeError, AttributeError):  # of others, or damaged
        document = (files.read_json(f"{path}/{file}") or {})["attributes"].get("distrf")
    if not isinstance(document, dict):
        return None
    check_sealed(document, FORMAT, f"the {file} of {path!r}")
    arrays = {
        name: ArrayInfo(tuple(a["tail"]), a["dtype"], tuple(a["chunks"]), a["sparse"])
        for name, a in document["arrays"].items()
    }
    found: dict[str, Any] = from_json({key: document[key] for key in (*COMPARED, *_STATE)})
    return StoreInfo(**found | {"arrays": arrays, "path": path})


def info(path: str | os.PathLike[str], file: str = ZARR) -> StoreInfo:
    """`stored`; StoreError where there is none."""
    found = stored(path, file)
    if found is None:
        path = files.normalise(path)
        files.require(path)
        raise StoreError(
            f"{path!r} is not a Zarr store written by distrf: its {file} is missing or damaged; files of tables end in .parquet or .csv"
        )
    return found


def write_store(store: StoreInfo) -> None:
    """Write the document of a store in one step."""
    document = sealed({"format": FORMAT} | store.document(*COMPARED, *_STATE))
    group = {"attributes": {"distrf": document}, "zarr_format": 3, "node_type": "group"}
    files.write_json(f"{store.path}/{store.file}", group)
