"""Rows in Zarr: stores of distrf, groups of others with arrays X and y, single arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import zarr

from ..errors import DistrfError, InputError, StoreError, brief, did_you_mean, warn
from . import files
from .file_lists import version_of
from .row_source import BLOCK_BYTES, RowSource, Selection, column_numbers
from .spec import fingerprint_of_spec
from .zarr_arrays import CsrArray, Node, open_group, open_nodes
from .zarr_layout import StoreInfo, info, stored

#: Attributes of the CF conventions: numbers are packed, or some stand for missing ones. NaN as text and as xarray encodes it.
_CODED = ("scale_factor", "add_offset", "_Unsigned", "_FillValue", "missing_value")
_NAN = ("nan", "NaN", "AAAAAAAA+H8=")


@dataclass(frozen=True)
class ZarrRows:
    """Reads rows of one array of a Zarr store; small enough to travel in every task.

    Parameters
    ----------
    path : str
        Of the store.
    array : str
        Name of the array; "" for a store that is a single array.
    version : str
        Of the data, in the keys of tasks.
    ours : bool
        Whether distrf wrote the store: then after every read the version is looked for among those of the store.
    columns : tuple of int, optional
        Which columns, in this order.
    decode : bool
        Integer codes become the class names of the store.
    """

    path: str
    array: str
    version: str
    ours: bool
    columns: tuple[int, ...] | None = None
    decode: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        """What is read."""
        return (self.path,)

    def read(self, first: int, last: int) -> Any:
        """Rows ``first:last``: an array, or a ``csr_array`` of a CSR store.

        Raises
        ------
        StoreError
            A chunk is missing or fails its checksum, or the store was made anew since it was opened.
        """
        node, classes = _opened(replace(self, columns=None))
        try:
            block: Any = node[first:last]
        except Exception as error:
            self.current()
            if isinstance(error, (DistrfError, MemoryError)):  # of the latter nothing is damaged
                raise
            what = f"rows {first}:{last} of array {self.array!r} in {self.path!r}"
            raise files.damaged(f"{what} cannot be read ({brief(error)})") from error
        self.current()
        if block.dtype.kind == "T":
            block = block.astype(object).astype(str)
        if not self.decode:
            return block if self.columns is None else block[:, list(self.columns)]
        if block.size and (block.min() < 0 or block.max() >= classes.size):
            found = f"array {self.array!r} of {self.path!r} has {block.min()}..{block.max()} in the block from row {first}"
            raise files.damaged(f"class codes lie in 0..{classes.size - 1}; {found}")
        return classes[block]

    def current(self) -> StoreInfo | None:
        """What a store of distrf says of itself, None of others. Raises StoreError where it was removed or made anew; appended rows change nothing."""
        if not self.ours:
            return None
        store = info(self.path)  # one request for a block
        if not store.complete or self.version not in store.versions:
            raise StoreError(
                f"the store {self.path!r} was written again since it was opened; call open_rows again"
            )
        return store


@lru_cache(maxsize=32)
def _opened(rows: ZarrRows) -> tuple[Any, np.ndarray]:
    """The open array and, of a store that distrf wrote, its class names."""
    store = rows.current()
    return _arrays(rows.path, store)[rows.array], np.asarray((store and store.classes) or [])


def _arrays(path: str, ours: StoreInfo | None) -> Any:
    """All arrays by name, as a Zarr group or a dict; "" is the name of one that is the whole store."""
    if ours is not None:
        return open_nodes(ours)
    found = open_group(path, "r")
    return {"": found} if isinstance(found, zarr.Array) else found


@dataclass(frozen=True, kw_only=True)
class ZarrSource(RowSource):
    """One array of a Zarr store; see `RowSource`.

    Parameters
    ----------
    rows : ZarrRows
        What reads a block.
    node : zarr.Array or CsrArray
        The open array.
    arrays : zarr.Group or dict
        All, by name. A store that is a single array has the name "".
    ours : StoreInfo, optional
        What a store of distrf says of itself; None for stores of others.
    """

    rows: ZarrRows
    node: Node
    arrays: Any
    ours: StoreInfo | None

    @classmethod
    def recognises(cls, path: str) -> bool:
        """Whatever no other format does."""
        return True

    @classmethod
    def open(cls, path: str, selection: Selection) -> ZarrSource:
        """X: the array of that name, else the only 2-D array, or the store itself where it is one array."""
        place, ours = files.normalise(path), stored(path)
        if ours is None:
            files.require(place)
        elif not ours.complete:
            raise StoreError(
                f"only a complete store can be read, and blocks of {path!r} are not written; run the command that writes it "
                "again, and it resumes where it stopped"
            )
        arrays = _arrays(place, ours)
        node, name = _find_x(place, arrays)
        n, d = node.shape
        names, chosen = ours.columns if ours else None, None
        if selection.columns is not None:
            chosen = column_numbers(path, selection.columns, names, d)
            names = names and [names[j] for j in chosen]
        return cls(
            path=place,
            shape=(n, d if chosen is None else len(chosen)),
            dtype=np.dtype(node.dtype),
            block_lengths=_block_lengths(place, node, selection.rows_per_block, ours),
            columns=names,
            sparse=isinstance(node, CsrArray),
            target=selection.target or (ours.target if ours else None),
            classes=ours.classes if ours else None,
            rows=_reader(place, name, ours, columns=chosen),
            node=node,
            arrays=arrays,
            ours=ours,
        )

    def _named(self, name: str | None) -> tuple[str, Any]:
        """The name of an array and the array. An ingested store calls its target y, whatever its name was in the source."""
        name = "y" if name is None or (self.ours and self.ours.target == name) else name
        return name, _find(self.path, self.arrays, name)

    def _beside(self, name: str, node: Any, what: str = "") -> ZarrSource:
        """An array beside X; codes of a target or a prediction become class names if the store has them.

        Raises StoreError where there is none, or it has other rows.
        """
        if not isinstance(node, zarr.Array):
            names = sorted(self.arrays)
            raise StoreError(
                f"{what}{name!r} is no dense array of {self.path!r}{did_you_mean(name, names)}; it has {names}"
            )
        if node.shape[:1] != self.shape[:1] or node.ndim > 2:
            raise StoreError(
                f"X and {name} must have the same rows: X has shape {self.node.shape}, {name!r} has shape {node.shape} in {self.path!r}"
            )
        coded = node.dtype.kind in "iu" and name in ("y", "prediction")
        classes = self.ours.classes if self.ours and coded else None
        dtype = np.asarray(classes).dtype if classes else _fixed_width(node, self.block_lengths[0])
        rows = _reader(self.rows.path, name, self.ours, decode=bool(classes))
        return replace(
            self, shape=tuple(node.shape), dtype=dtype, columns=None, sparse=False, classes=classes, rows=rows, node=node
        )  # fmt: skip

    def target_source(self) -> ZarrSource | None:
        """The array of that name, by default y."""
        name, node = self._named(self.target)
        return None if node is None and name == "y" else self._beside(name, node, "the target ")

    def column_source(self, name: str) -> ZarrSource:
        """The array of that name with as many rows, else a column of X, as it is stored."""
        array, node = self._named(name)
        if node is not None and array != "X":
            found = self._beside(array, node)
            if math.prod(found.shape[1:]) != 1:
                raise InputError(
                    f"a column has one value a row; {array!r} of {self.path!r} has shape {found.shape}"
                )
            return found
        names = self.ours.columns if self.ours else None
        rows = replace(self.rows, columns=column_numbers(self.path, [name], names, self.node.shape[1]))
        return replace(self, shape=(self.shape[0], 1), columns=[name], rows=rows)

    def read(self, first: int, last: int) -> Any:
        """Rows ``first:last``; see `ZarrRows.read`."""
        return self.rows.read(first, last)

    def blocks(self) -> Iterator[tuple[ZarrRows, int, int]]:
        """The same reader for all blocks."""
        return ((self.rows, first, last) for _, first, last in super().blocks())

    @classmethod
    def fingerprint(cls, path: str) -> str:
        """What a store of distrf was made from; of another where its metadata are, and since when."""
        return cls.open(path, Selection()).rows.version

    @classmethod
    def part_fingerprints(cls, path: str) -> list[tuple[str, int]]:
        """Of the rows that a store of distrf was made with, and of those of each append."""
        ours = stored(path)
        parts = ours.spec.get("parts") if ours else None
        return [(p["fingerprint"], p["rows"]) for p in parts] if parts else super().part_fingerprints(path)

    @property
    def nbytes(self) -> int:
        """Bytes in memory; of a CSR array by the entries of rows in some blocks."""
        if isinstance(self.node, CsrArray):
            with files.reading(self.path, "CSR rows"):
                return int(self.shape[0] * self.node.mean_row_bytes())
        return super().nbytes


def _reader(path: str, name: str, ours: StoreInfo | None, **options: Any) -> ZarrRows:
    """What reads the array of a name, and names this version of the data: of others by their metadata."""
    if ours is not None:
        return ZarrRows(path, name, fingerprint_of_spec(ours.made), True, **options)
    metadata = [f"{path}/zarr.json", f"{path}/{name}/zarr.json", f"{path}/{name}/.zarray"]
    return ZarrRows(path, name, version_of(metadata), False, **options)


def _find(path: str, arrays: Any, name: str) -> Any:
    """What has a name, None if there is nothing; of stores of others it is checked (a block of ours cannot be read without its chunks)."""
    with files.reading(path, "a Zarr store"):
        node = arrays.get(name)
    if isinstance(node, zarr.Array) and (isinstance(arrays, zarr.Group) or not name):
        if name and "distrf" in node.attrs:
            raise files.damaged(
                f"the zarr.json of {path!r} has arrays of a store of distrf and no distrf attribute"
            )
        _check_foreign(path, node)
    return node


def _find_x(path: str, arrays: Any) -> tuple[Node, str]:
    """The array of X and its name. Raises StoreError if there is none."""
    name = "" if isinstance(arrays, dict) and "" in arrays else "X"
    node = _find(path, arrays, name)
    if node is None and isinstance(arrays, zarr.Group):
        with files.reading(path, "a Zarr store"):
            matrices = [key for key, item in arrays.arrays() if len(item.shape) == 2]
        name = matrices[0] if len(matrices) == 1 else name
        node = _find(path, arrays, name)
    if not isinstance(node, Node) or len(node.shape) != 2 or node.dtype.kind not in "biuf":
        raise StoreError(
            f"X is the 2-D numeric array called X, or else the only 2-D array, got {node}; {path!r} has {sorted(arrays)}; open one "
            f"by its own path, {path}/NAME"
        )
    return node, name


def _block_lengths(path: str, node: Node, wanted: int | None, ours: StoreInfo | None) -> tuple[int, ...]:
    """Rows of every block of an array: whole chunks, except the last."""
    n, *tail = node.shape
    unit = int((node.shards or node.chunks)[0]) if isinstance(node, zarr.Array) else node.block_rows
    unit_bytes = unit * math.prod(tail) * node.dtype.itemsize
    if unit_bytes < 1:
        raise StoreError(f"{path!r} is empty: {n} rows of {math.prod(tail)} values")
    if wanted is None:
        wanted = ours.block_rows if ours else max(1, BLOCK_BYTES // unit_bytes) * unit
    elif wanted < 1 or (wanted % unit and wanted < n):
        near = max(unit, wanted // unit * unit)
        raise StoreError(
            f"a block is a whole multiple of the chunks it reads: rows_per_block={wanted}, chunks of "
            f"{unit} rows in {path!r}; use rows_per_block={near} or {near + unit}"
        )
    return tuple(min(n - first, wanted) for first in range(0, n, wanted)) or (0,)


def _fixed_width(node: zarr.Array, rows: int) -> np.dtype:
    """The dtype in which an array is read: text of any width as the widest, found by one pass over it."""
    if node.dtype.kind != "T":
        return node.dtype
    blocks = (np.asarray(node[first : first + rows]) for first in range(0, node.shape[0], rows))
    widths = (np.strings.str_len(block).max(initial=0) for block in blocks)
    return np.dtype(f"<U{max(1, *widths)}")


def _check_foreign(path: str, node: zarr.Array) -> None:
    """Raise StoreError where xarray or netCDF packed and masked numbers by the CF conventions; warn of chunks that are not there.

    Zarr reads the fill value for these, so a lost file looks empty.
    """
    named = f"the array {node.path!r} of {path!r}" if node.path else f"the array {path!r}"
    said: dict[str, Any] = {name: value for name, value in node.attrs.items() if name in _CODED}
    if node.metadata.zarr_format == 2 and "_ARRAY_DIMENSIONS" in node.attrs and node.metadata.fill_value:
        said["fill_value"] = node.metadata.fill_value  # which xarray takes for what is missing
    if said := {name: value for name, value in said.items() if str(value) not in _NAN}:
        raise StoreError(
            f"rows are read as they are stored; {named} is encoded by the CF conventions ({said}), so its numbers "
            "would be other ones; decode it first: xarray.open_zarr(path).drop_encoding().to_zarr(other)"
        )
    if lost := 0 if files.is_web(path) else node.nchunks - node.nchunks_initialized:
        warn(
            f"{lost} of {node.nchunks} chunks of {named} are not there and are read as its fill value {node.fill_value}; restore "
            "them, if they were not empty when written",
            UserWarning,
        )
