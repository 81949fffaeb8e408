"""Rows in Zarr: stores of distrf, groups of others with arrays X and y, single arrays."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import zarr

from ..errors import InputError, StoreError
from . import files, zarr_document
from .csr_groups import CsrArray
from .files import Options
from .fingerprints import fingerprint_of_files, fingerprint_of_spec
from .foreign_arrays import count_missing
from .row_source import RowSource, Selection, column_numbers
from .zarr_place import ZarrPlace
from .zarr_reader import ZarrRows, class_array

_METADATA = ("zarr.json", ".zarray", ".zattrs", ".zgroup")


@dataclass(frozen=True, kw_only=True)
class ZarrSource(RowSource):
    """One array of a Zarr store; see `RowSource`.

    Parameters
    ----------
    rows : ZarrRows
        What reads a block.
    node : zarr.Array or CsrArray
        The open array.
    place : ZarrPlace
        The open store.
    """

    rows: ZarrRows
    node: Any
    place: ZarrPlace

    @classmethod
    def recognises(cls, path: str, storage_options: Options = None) -> bool:
        """True where the metadata of a group or an array are."""
        fs, root = files.filesystem(path, storage_options)
        return any(fs.exists(f"{root}/{name}") for name in ("zarr.json", ".zgroup", ".zarray"))

    @classmethod
    def open(cls, path: str, selection: Selection) -> ZarrSource:
        """X: the array of that name, else the only 2-D array, or the store itself where it is one array."""
        place = ZarrPlace.open(path, selection)
        node, name = place.find_x()
        n, d = node.shape
        lengths = place.block_lengths(node)
        names = place.store.columns if place.store else None
        chosen = None if selection.columns is None else column_numbers(path, selection.columns, names, d)
        if names is not None and chosen is not None:
            names = [names[j] for j in chosen]
        sparse = isinstance(node, CsrArray)
        return cls(
            path=path,
            shape=(n, d if chosen is None else len(chosen)),
            dtype=np.dtype(node.dtype),
            block_lengths=lengths,
            columns=names,
            sparse=sparse,
            target=place.store.target if place.store else selection.target,
            classes=place.store.classes if place.store else None,
            rows=replace(place.reader(name), columns=chosen),
            node=node,
            place=place,
        )

    @classmethod
    def open_array(cls, path: str, name: str, selection: Selection) -> ZarrSource:
        """One dense array of a store, by its name. Raises StoreError if there is none."""
        place = ZarrPlace.open(path, selection)
        node = place.find_array(name)
        return cls._dense(place, node, name, place.block_lengths(node))

    @classmethod
    def _dense(
        cls, place: ZarrPlace, node: zarr.Array, name: str, block_lengths: tuple[int, ...]
    ) -> ZarrSource:
        """An array beside X; codes of a target or a prediction become class names if the store has them."""
        coded = node.dtype.kind in "iu" and name in ("y", "prediction")
        classes = place.store.classes if place.store and coded else None
        return cls(
            path=place.path,
            shape=tuple(node.shape),
            dtype=np.dtype(class_array(classes).dtype if classes else _fixed_width(node, block_lengths)),
            block_lengths=block_lengths,
            classes=classes,
            rows=replace(place.reader(name), decode=bool(classes)),
            node=node,
            place=place,
        )

    def check_missing(self, strict: bool) -> None:
        """Count the chunks that a store of others lacks; a block of ours cannot be read without its chunks."""
        if self.place.store is None and isinstance(self.node, zarr.Array):
            count_missing(self.path, self.node, strict, self.place.selection.storage_options)

    def target_source(self) -> ZarrSource | None:
        """The array of that name, by default y."""
        node, name = self.place.find_y()
        if node is None:
            return None
        if node.ndim not in (1, 2) or node.shape[0] != self.shape[0]:
            raise StoreError(
                f"X and y must have the same rows: X has shape {self.node.shape}, {name!r} has shape {node.shape} "
                f"in {self.path!r}"
            )
        return self._dense(self.place, node, name, self.block_lengths)

    def column_source(self, name: str) -> ZarrSource:
        """The array of that name with as many rows, else a column of X, as it is stored."""
        place = self.place
        # An ingested store calls its target y, whatever its name was in the source.
        array = "y" if place.store is not None and place.store.target == name else name
        if isinstance(place.node, zarr.Group) and array in place.names and array != "X":
            node = place.find_array(array)
            if node.shape[:1] != self.shape[:1] or math.prod(node.shape[1:]) != 1:
                raise InputError(
                    f"a column has one value for each of {self.shape[0]} rows; {array!r} of {self.path!r} has shape "
                    f"{node.shape}"
                )
            return self._dense(place, node, array, self.block_lengths)
        names = place.store.columns if place.store else None
        chosen = column_numbers(self.path, [name], names, self.node.shape[1])
        rows = replace(self.rows, columns=chosen, impute=None)
        return replace(self, shape=(self.shape[0], 1), columns=[name], rows=rows)

    def read(self, first: int, last: int) -> Any:
        """Rows ``first:last``; see `ZarrRows.read`."""
        return self.rows.read(first, last)

    def blocks(self) -> Iterator[tuple[ZarrRows, int, int]]:
        """The same reader for all blocks."""
        return ((self.rows, first, last) for _, first, last in super().blocks())

    def filled(self, values: tuple[float, ...]) -> ZarrSource:
        """NaN read as these numbers."""
        return replace(self, rows=replace(self.rows, impute=values))

    @classmethod
    def fingerprint(cls, path: str, storage_options: Options = None) -> str:
        """What a store of distrf was made from; of another its path and metadata."""
        fs, root = files.filesystem(path, storage_options)
        if not fs.isdir(root):
            return fingerprint_of_files([path], storage_options)
        ours = zarr_document.made_from(path, storage_options=storage_options)
        if ours is not None:
            return fingerprint_of_spec(ours)
        found = hashlib.sha256(path.encode())
        for name in sorted(fs.find(root, maxdepth=2)):
            if name.rsplit("/", 1)[-1] in _METADATA:
                found.update(fs.cat_file(name))
        return found.hexdigest()[:32]

    @classmethod
    def part_fingerprints(cls, path: str, storage_options: Options = None) -> list[tuple[str, int]]:
        """Of the rows that a store of distrf was made with, and of those of each append."""
        made = zarr_document.made_from(path, storage_options=storage_options)
        parts = [] if made is None else made["spec"].get("parts", [])
        if parts:
            return [(part["fingerprint"], part["rows"]) for part in parts]
        return super().part_fingerprints(path, storage_options)

    @property
    def nbytes(self) -> int:
        """Bytes in memory; of a CSR array by the entries of rows in some blocks."""
        if not self.sparse:
            return super().nbytes
        return int(self.shape[0] * self.node.mean_row_bytes())


def _fixed_width(node: zarr.Array, block_lengths: Sequence[int]) -> np.dtype:
    """The dtype in which an array is read: text of any width as the widest, found by one pass over it."""
    if node.dtype.kind != "T":
        return node.dtype
    edges = itertools.pairwise([0, *itertools.accumulate(block_lengths)])
    return np.dtype(
        f"<U{max(1, *(np.strings.str_len(np.asarray(node[a:b])).max(initial=0) for a, b in edges))}"
    )
