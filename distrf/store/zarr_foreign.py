"""Rows in Zarr that distrf did not write: the array X of a group, and arrays beside it, or one array that is the whole store."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np
import zarr

from ..errors import StoreError, warn
from . import files
from .file_lists import version_of
from .row_source import BLOCK_BYTES, RowSource, Selection, column_numbers, single
from .spec import fingerprint_of_spec
from .zarr_arrays import zarr_store
from .zarr_layout import block_lengths, stored

_METADATA = ("zarr.json", ".zarray", ".zgroup")
#: Attributes of the CF conventions: numbers are packed, or some stand for missing ones. NaN as text and as xarray encodes it.
_CODED = ("scale_factor", "add_offset", "_Unsigned", "_FillValue", "missing_value")
_NAN = ("nan", "NaN", "AAAAAAAA+H8=")


@dataclass(frozen=True, kw_only=True)
class ForeignSource(RowSource):
    """One array of numbers; columns of X have numbers for names.

    Parameters
    ----------
    array : str
        Its name; "" where it is the whole store.
    version : str
        Of its metadata. Chunks that are written anew in their place do not change it.
    numbers : tuple of int, optional
        Of the columns that are read; None for all.
    """

    array: str
    version: str
    numbers: tuple[int, ...] | None = None

    @classmethod
    def recognises(cls, path: str) -> bool:
        """By metadata of Zarr in which distrf says nothing."""
        return stored(path) is None and any(files.exists(f"{path}/{name}") for name in _METADATA)

    @classmethod
    def open(cls, path: str, selection: Selection) -> Self:
        """The array X, or the store itself."""
        array = "" if isinstance(_node(path, ""), zarr.Array) else "X"
        version, node = _version(path, array), _checked(path, array)
        if node is None or node.ndim != 2 or 0 in node.shape:
            raise StoreError(
                f"rows are the 2-D array X of a Zarr group, or one array; {path!r} has {node or 'none'}; open an array by its own path"
            )
        n, d = node.shape
        chosen = None if selection.columns is None else column_numbers(path, selection.columns, None, d)
        unit = (node.shards or node.chunks)[0]
        return cls(
            path=path, shape=(n, d if chosen is None else len(chosen)), dtype=node.dtype, target=selection.target,
            block_lengths=block_lengths(n, unit, BLOCK_BYTES // (d * node.dtype.itemsize), selection.rows_per_block),
            array=array, version=version, numbers=chosen,
        )  # fmt: skip

    def target_source(self) -> Self | None:
        """The array of that name, by default y where there is one."""
        name = self.target or "y"
        version, node = _version(self.path, name), _checked(self.path, name) if self.array else None
        if node is None and self.target is None:
            return None
        if node is None or node.ndim > 2 or node.shape[:1] != self.shape[:1]:
            raise StoreError(f"{name!r} is no array of the {self.shape[0]} rows of {self.path!r}: it is {node}")
        return replace(self, array=name, version=version, shape=node.shape, dtype=node.dtype, numbers=None)

    def column_source(self, name: str) -> RowSource:
        """The array of that name, else a column of X by its number."""
        found = None if name.isdigit() else replace(self, target=name).target_source()
        return single(found or super().column_source(name), name)

    def read(self, first: int, last: int) -> np.ndarray:
        """Rows ``first:last``."""
        with files.reading(self.path, "a Zarr array"):
            block = np.asarray(_opened(self)[first:last])
        return block if self.numbers is None else block[:, list(self.numbers)]

    @classmethod
    def fingerprint(cls, path: str) -> str:
        """By the metadata of X and y: what else comes to lie there changes nothing of the rows."""
        return fingerprint_of_spec([cls.open(path, Selection()).version, _version(path, "y")])


@lru_cache(maxsize=32)
def _opened(source: ForeignSource) -> Any:
    """The open array, whose checks are done."""
    return _node(source.path, source.array)


def _version(path: str, name: str) -> str:
    """Of the metadata of an array, "" for that which is the whole store."""
    return version_of([f"{path}/{name}/{file}" if name else f"{path}/{file}" for file in _METADATA])


def _node(path: str, name: str) -> Any:
    """What a store has of a name, "" for all of it."""
    with files.reading(path, "a Zarr store"):
        store: Any = zarr.open(zarr_store(path, True), mode="r")
        return store.get(name) if name else store


def _checked(path: str, name: str) -> Any:
    """The array of a name, None if there is none.

    Raises StoreError where it holds no numbers, is part of a store of distrf, or xarray or netCDF packed or masked numbers by the CF
    conventions. Warns of chunks that are not there: Zarr reads the fill value for these, so a lost file looks empty.
    """
    node = _node(path, name)
    if not isinstance(node, zarr.Array):
        return None
    named = f"the array {name!r} of {path!r}" if name else f"the array {path!r}"
    if "distrf" in node.attrs:
        raise StoreError(
            f"{named} is one of a store of distrf; open that by its path, or restore its zarr.json where that says nothing of it"
        )
    if node.dtype.kind not in "biuf":
        raise StoreError(
            f"arrays hold numbers; {named} has the dtype {node.dtype}; open X by its own path, and give others as y="
        )
    said: dict[str, Any] = {key: value for key, value in node.attrs.items() if key in _CODED}
    if node.metadata.zarr_format == 2 and "_ARRAY_DIMENSIONS" in node.attrs and node.metadata.fill_value:
        said["fill_value"] = node.metadata.fill_value  # which xarray takes for what is missing
    if said := {key: value for key, value in said.items() if str(value) not in _NAN}:
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
    return node
