"""Rows in Zarr: stores of distrf, groups of others with arrays X and y, single arrays."""

from __future__ import annotations

import hashlib
import itertools
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import zarr

from ..errors import InputError, StoreError, did_you_mean
from . import files, zarr_layout
from .files import Place
from .fingerprints import fingerprint_of_files, fingerprint_of_spec
from .row_source import BLOCK_BYTES, RowSource, Selection, column_numbers
from .zarr_arrays import CsrArray, Node, open_group, open_nodes
from .zarr_layout import StoreInfo
from .zarr_reader import ZarrRows

#: NaN as text and as xarray encodes it.
_NAN = ("nan", "NaN", "AAAAAAAA+H8=")


@dataclass(frozen=True)
class OpenStore:
    """An open Zarr store, ours or of others.

    Parameters
    ----------
    path : Place
    selection : Selection
        As it was opened.
    arrays : zarr.Group or dict
        By name. A store that is a single array has the name "".
    ours : StoreInfo, optional
        What a store of distrf says of itself; None for stores of others.
    """

    path: Place
    selection: Selection
    arrays: Any
    ours: StoreInfo | None

    @classmethod
    def open(cls, path: str, selection: Selection) -> OpenStore:
        """Raises StoreError where nothing can be read, or where a store of ours is not complete or is damaged."""
        path = files.normalise(path)
        document = zarr_layout.read_document(path)
        if document is None:
            files.require(path)
            node = open_group(path, "r")
            return cls(path, selection, {"": node} if isinstance(node, zarr.Array) else node, None)
        ours = zarr_layout.read_store(path, document)
        if not ours.complete:
            raise StoreError(
                f"only a complete store can be read, and blocks of {path!r} are not written; run the command that writes it "
                "again, and it resumes where it stopped"
            )
        return cls(path, selection, open_nodes(ours), ours)

    @property
    def names(self) -> list[str]:
        """What it holds, for messages."""
        return [name or "(a single array)" for name in sorted(self.arrays)]

    def find(self, name: str) -> Any:
        """What has a name, None if there is nothing. Raises StoreError where its numbers are not as they are stored."""
        with files.reading(self.path, "a Zarr store"):
            node = self.arrays.get(name)
        if self.ours is None and isinstance(node, zarr.Array):
            if "distrf" in node.attrs and name:
                raise StoreError(
                    f"the zarr.json of {self.path!r} is damaged: it has arrays of a store of distrf and no distrf attribute; "
                    "restore it, or remove the store and make it again"
                )
            _check_encoding(self.path, node)
        return node

    def find_x(self) -> tuple[Node, str]:
        """The array of X and its name. Raises StoreError if there is none."""
        name = "" if isinstance(self.arrays, dict) and "" in self.arrays else "X"
        if (node := self.find(name)) is None:
            with files.reading(self.path, "a Zarr store"):
                matrices = (
                    [key for key, item in self.arrays.arrays() if len(item.shape) == 2]
                    if self.ours is None
                    else []
                )
            if len(matrices) != 1:
                raise StoreError(
                    f"X is the array called X, or else the only 2-D array; {self.path!r} has {self.names}; open one "
                    f"by its own path, {self.path}/NAME"
                )
            name = matrices[0]
            node = self.find(name)
        if isinstance(node, zarr.Group) or len(node.shape) != 2 or node.dtype.kind not in "biuf":
            what = (
                "a group" if isinstance(node, zarr.Group) else f"of shape {node.shape} and dtype {node.dtype}"
            )
            raise StoreError(f"X is a 2-D numeric array; {name or 'the array'} of {self.path!r} is {what}")
        return node, name

    def find_array(self, name: str, what: str = "") -> zarr.Array:
        """The dense array of a name. Raises StoreError if there is none."""
        found = self.find(name)
        if not isinstance(found, zarr.Array):
            raise StoreError(
                f"{what}{name!r} is no dense array of {self.path!r}{did_you_mean(name, self.names)}; it has {self.names}"
            )
        return found

    def block_lengths(self, node: Node) -> tuple[int, ...]:
        """Rows of every block of an array: whole chunks, except the last."""
        n, *tail = node.shape
        row_size = math.prod(tail)
        if isinstance(node, zarr.Array):
            unit, itemsize = int((node.shards or node.chunks)[0]), node.dtype.itemsize
        else:
            unit, itemsize = node.block_rows, 1
        if row_size < 1:
            raise StoreError(f"{self.path!r} is empty: {n} rows of {row_size} values")
        wanted = self.selection.rows_per_block
        if wanted is None:
            near = max(1, BLOCK_BYTES // (unit * row_size * itemsize)) * unit
            wanted = self.ours.block_rows if self.ours else near
        elif wanted < 1 or (wanted % unit and wanted < n):
            near = max(unit, wanted // unit * unit)
            raise StoreError(
                f"a block is a whole multiple of the chunks it reads: rows_per_block={wanted}, chunks of "
                f"{unit} rows in {self.path!r}; use rows_per_block={near} or {near + unit}"
            )
        return tuple(min(n - first, wanted) for first in range(0, n, wanted)) or (0,)

    def reader(self, name: str, **options: Any) -> ZarrRows:
        """What reads the array of a name, and names this version of the data."""
        fs, root = files.filesystem(self.path)
        inner = f"{root}/{name}" if name else root
        seen = [
            files.fingerprint(fs, file)
            for file in (f"{root}/zarr.json", f"{inner}/zarr.json", f"{inner}/.zarray")
        ]
        version = None if self.ours is None else fingerprint_of_spec(self.ours.made)
        return ZarrRows(self.path, name, fingerprint_of_spec(seen)[:16], version=version, **options)


@dataclass(frozen=True, kw_only=True)
class ZarrSource(RowSource):
    """One array of a Zarr store; see `RowSource`.

    Parameters
    ----------
    rows : ZarrRows
        What reads a block.
    node : zarr.Array or CsrArray
        The open array.
    store : OpenStore
    """

    rows: ZarrRows
    node: Node
    store: OpenStore

    @classmethod
    def recognises(cls, path: str) -> bool:
        """True where the metadata of a group or an array are."""
        fs, root = files.filesystem(path)
        return any(fs.exists(f"{root}/{name}") for name in ("zarr.json", ".zgroup", ".zarray"))

    @classmethod
    def open(cls, path: str, selection: Selection) -> ZarrSource:
        """X: the array of that name, else the only 2-D array, or the store itself where it is one array."""
        store = OpenStore.open(path, selection)
        node, name = store.find_x()
        ours = store.ours
        n, d = node.shape
        names, chosen = ours.columns if ours else None, None
        if selection.columns is not None:
            chosen = column_numbers(path, selection.columns, names, d)
            names = names and [names[j] for j in chosen]
        return cls(
            path=store.path,
            shape=(n, d if chosen is None else len(chosen)),
            dtype=np.dtype(node.dtype),
            block_lengths=store.block_lengths(node),
            columns=names,
            sparse=isinstance(node, CsrArray),
            target=ours.target if ours else selection.target,
            classes=ours.classes if ours else None,
            rows=store.reader(name, columns=chosen),
            node=node,
            store=store,
        )

    @classmethod
    def _dense(
        cls, store: OpenStore, node: zarr.Array, name: str, block_lengths: tuple[int, ...]
    ) -> ZarrSource:
        """An array beside X; codes of a target or a prediction become class names if the store has them."""
        coded = node.dtype.kind in "iu" and name in ("y", "prediction")
        classes = store.ours.classes if store.ours and coded else None
        return cls(
            path=store.path,
            shape=tuple(node.shape),
            dtype=np.asarray(classes).dtype if classes else _fixed_width(node, block_lengths),
            block_lengths=block_lengths,
            classes=classes,
            rows=store.reader(name, decode=bool(classes)),
            node=node,
            store=store,
        )

    def check_missing(self, strict: bool) -> None:
        """Count the chunks that a store of others lacks; a block of ours cannot be read without its chunks."""
        if self.store.ours is None and isinstance(self.node, zarr.Array):
            _count_missing(self.path, self.node, strict)

    def target_source(self) -> ZarrSource | None:
        """The array of that name, by default y."""
        wanted, ours = self.store.selection.target, self.store.ours
        # An ingested store calls its target y, whatever its name was in the source.
        name = "y" if wanted is None or (ours and ours.target == wanted) else wanted
        if name == "y" and self.store.find(name) is None:
            return None
        node = self.store.find_array(name, "the target ")
        if node.ndim not in (1, 2) or node.shape[0] != self.shape[0]:
            raise StoreError(
                f"X and y must have the same rows: X has shape {self.node.shape}, {name!r} has shape {node.shape} "
                f"in {self.path!r}"
            )
        return self._dense(self.store, node, name, self.block_lengths)

    def column_source(self, name: str, exact: bool = False) -> ZarrSource:
        """The array of that name with as many rows, else a column of X, as it is stored."""
        ours = self.store.ours
        array = "y" if ours and ours.target == name else name
        if array in self.store.names and array != "X":
            node = self.store.find_array(array)
            if node.shape[:1] != self.shape[:1] or math.prod(node.shape[1:]) != 1:
                raise InputError(
                    f"a column has one value for each of {self.shape[0]} rows; {array!r} of {self.path!r} has shape "
                    f"{node.shape}"
                )
            return self._dense(self.store, node, array, self.block_lengths)
        chosen = column_numbers(self.path, [name], ours.columns if ours else None, self.node.shape[1])
        rows = replace(self.rows, columns=chosen)
        return replace(self, shape=(self.shape[0], 1), columns=[name], rows=rows)

    def read(self, first: int, last: int) -> Any:
        """Rows ``first:last``; see `ZarrRows.read`."""
        return self.rows.read(first, last)

    def blocks(self) -> Iterator[tuple[ZarrRows, int, int]]:
        """The same reader for all blocks."""
        return ((self.rows, first, last) for _, first, last in super().blocks())

    @classmethod
    def fingerprint(cls, path: str) -> str:
        """What a store of distrf was made from; of another its path and metadata."""
        path = files.normalise(path)
        ours = zarr_layout.made_from(path)
        if ours is not None:
            return fingerprint_of_spec(ours)
        fs, root = files.filesystem(path)
        if not fs.isdir(root):
            return fingerprint_of_files([path])
        found = hashlib.sha256(path.encode())
        for name in sorted(fs.find(root, maxdepth=2)):
            if name.endswith(("/zarr.json", "/.zarray", "/.zattrs", "/.zgroup")):
                found.update(fs.cat_file(name))
        return found.hexdigest()[:32]

    @classmethod
    def part_fingerprints(cls, path: str) -> list[tuple[str, int]]:
        """Of the rows that a store of distrf was made with, and of those of each append."""
        made = zarr_layout.made_from(files.normalise(path))
        parts = [] if made is None else made["spec"].get("parts", [])
        if parts:
            return [(part["fingerprint"], part["rows"]) for part in parts]
        return super().part_fingerprints(path)

    @property
    def nbytes(self) -> int:
        """Bytes in memory; of a CSR array by the entries of rows in some blocks."""
        if isinstance(self.node, CsrArray):
            return int(self.shape[0] * self.node.mean_row_bytes())
        return super().nbytes


def _fixed_width(node: zarr.Array, block_lengths: Sequence[int]) -> np.dtype:
    """The dtype in which an array is read: text of any width as the widest, found by one pass over it."""
    if node.dtype.kind != "T":
        return node.dtype
    edges = itertools.pairwise([0, *itertools.accumulate(block_lengths)])
    return np.dtype(
        f"<U{max(1, *(np.strings.str_len(np.asarray(node[a:b])).max(initial=0) for a, b in edges))}"
    )


def _check_encoding(path: str, node: zarr.Array) -> None:
    """Raise StoreError for an array whose stored numbers are not its values: xarray and netCDF pack and mask by the CF conventions."""
    attributes: dict[str, Any] = dict(node.attrs)
    said: dict[str, Any] = {
        key: attributes[key] for key in ("scale_factor", "add_offset", "_Unsigned") if key in attributes
    }
    said |= {
        key: attributes[key]
        for key in ("_FillValue", "missing_value")
        if str(attributes.get(key, "nan")) not in _NAN
    }
    fill = node.metadata.fill_value
    if node.metadata.zarr_format == 2 and "_ARRAY_DIMENSIONS" in attributes and fill and str(fill) not in _NAN:
        said["fill_value"] = fill  # which xarray takes for what is missing
    if said:
        raise StoreError(
            f"rows are read as they are stored; {_named(node, path)} is encoded by the CF "
            f"conventions ({', '.join(f'{name} = {value!r}' for name, value in said.items())}), so its numbers would "
            "be other ones; decode it first: xarray.open_zarr(path).drop_encoding().to_zarr(other)"
        )


def _count_missing(path: str, node: zarr.Array, strict: bool) -> None:
    """Warn of chunks that are not there, StoreError if `strict`. Zarr reads the fill value for them, so a lost file looks empty."""
    total, there = (0, 0) if files.is_web(path) else (node.nchunks, node.nchunks_initialized)
    if there == total:
        return
    text = (
        f"{total - there} of {total} chunks of {_named(node, path)} are not there and are read as its "
        f"fill value {node.fill_value}"
    )
    if strict:
        raise StoreError(f"{text}; restore them, or leave out strict=True if they were empty when written")
    warnings.warn(f"{text}; strict=True (--strict) refuses such a store", UserWarning, stacklevel=2)


def _named(node: zarr.Array, path: str) -> str:
    """An array in a message; one that is the whole store has no name of its own."""
    return f"the array {node.path!r} of {path!r}" if node.path else f"the array {path!r}"
