"""Reading rows of Zarr stores, ours and others': NumPy and SciPy blocks out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import zarr

from ..errors import DistrfError, StoreError
from . import checksums, csr_groups, files
from .files import HashableOptions
from .zarr_layout import MANIFEST

#: Blocks whose checksums a process keeps for a store.
_MOST_RECORDS = 4096


@dataclass(frozen=True)
class ZarrRows:
    """Reads rows of one array of a Zarr store; small enough to travel in every task.

    Parameters
    ----------
    path : str
        The normalised path or URL of the store.
    array : str
        Name of the array; "" for a store that is a single array.
    fingerprint : str
        Names this version of the data in the keys of tasks.
    columns : tuple of int, optional
        Which columns, in this order.
    impute : tuple of float, optional
        What replaces NaN, one number for each column.
    checksum : str, optional
        Of the metadata of a store that distrf wrote, checked on every read; every chunk of it must exist. None for
        stores of others.
    decode : bool
        Integer codes become the class names of the store.
    storage_options : mapping, optional
        Options of the fsspec file system.
    """

    path: str
    array: str
    fingerprint: str
    columns: tuple[int, ...] | None = None
    impute: tuple[float, ...] | None = None
    checksum: str | None = None
    decode: bool = False
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def paths(self) -> tuple[str, ...]:
        """What is read."""
        return (self.path,)

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        # Credentials do not change the data, and have no place in a key.
        return (
            "ZarrRows", self.path, self.array, self.fingerprint, self.columns, self.impute, self.decode,
        )  # fmt: skip

    def read(self, first: int, last: int) -> Any:
        """Rows ``first:last``: an array, or a ``csr_array`` of a CSR store.

        Raises
        ------
        StoreError
            A chunk is missing or fails its checksum, or the store was rewritten since it was opened.
        """
        opened = _opened(self)
        try:
            block: Any = self._read(opened, first, last)
        except DistrfError:
            if opened.ours is not None:  # rows may have been appended meanwhile
                _check_version(self)
            raise
        except checksums.ChunkError as error:
            _check_version(self)
            raise StoreError(_explained(self, error, first, last)) from error
        except MemoryError:  # nothing is damaged
            raise
        except Exception as error:
            raise StoreError(
                f"rows {first}:{last} of array {self.array!r} in {self.path!r} cannot be read: a chunk is "
                f"damaged or out of reach ({error}); restore the file, or remove the store and make it again"
            ) from error
        if self.decode:
            return _decode(self, np.asarray(block), opened.classes, first)
        if self.columns is not None:
            block = block[:, list(self.columns)]
        if self.impute is not None and isinstance(block, np.ndarray) and block.dtype.kind == "f":
            block = fill_nan(block, self.impute)
        return block

    def _read(self, opened: _Opened, first: int, last: int) -> Any:
        """The rows as they are stored; ChunkError for a chunk that is not the one that was written there."""
        for again in (False, True):
            known = opened.ours is None or opened.ours.take_records(first, last, again)
            try:
                if isinstance(opened.node, zarr.Group):
                    return csr_groups.read(opened.node, first, last)
                rows = np.asarray(opened.node[first:last])
                return rows.astype(object).astype(str) if rows.dtype.kind == "T" else rows
            except checksums.ChunkError:
                # Records that this process has kept may be of a store that was made anew since, from the same spec.
                if again or not known:
                    raise
        raise AssertionError


def fill_nan(block: np.ndarray, values: tuple[float, ...]) -> np.ndarray:
    """The block with NaN replaced by one value a column."""
    missing = np.isnan(block)
    if not missing.any():
        return block
    return np.where(missing, np.asarray(values, block.dtype), block)


def class_array(classes: list[Any]) -> np.ndarray:
    """Class names as a fixed-width array: text becomes ``<U``."""
    return np.asarray(classes)


def _decode(rows: ZarrRows, codes: np.ndarray, classes: np.ndarray | None, start: int) -> np.ndarray:
    assert classes is not None
    if codes.size and (codes.min() < 0 or codes.max() >= classes.size):
        raise StoreError(
            f"class codes lie in 0..{classes.size - 1}; array {rows.array!r} of {rows.path!r} has "
            f"{codes.min()}..{codes.max()} in the block from row {start}; remove the store and make it again"
        )
    return classes[codes]


@dataclass(frozen=True)
class _Ours:
    """An open store that distrf wrote, kept for this process."""

    path: str
    block_rows: int
    group: zarr.Group
    manifest: Any
    classes: list[Any] | None
    ledger: checksums.Ledger
    checked: checksums.CheckedStore

    def take_records(self, first: int, last: int, again: bool) -> bool:
        """Make the checksums of the blocks with rows ``first:last`` known; True where they were already."""
        wanted = range(first // self.block_rows, -(-last // self.block_rows))
        records = self.checked.records
        missing = [index for index in wanted if again or index not in records]
        for index in missing:
            record = self.ledger.read(self.manifest, index, self.path)
            if len(records) >= _MOST_RECORDS:
                records.pop(list(records)[0], None)  # noqa: RUF015  other threads add some meanwhile
            records[index] = record
        return not missing


@dataclass(frozen=True)
class _Opened:
    """The open array or CSR group; the class names; the store, where distrf wrote it."""

    node: Any
    classes: np.ndarray | None
    ours: _Ours | None


def _explained(rows: ZarrRows, error: checksums.ChunkError, first: int, last: int) -> str:
    # Zarr gives the fill value for a chunk that is not there, and takes any chunk for one that is.
    what = (
        f"is missing though the store is complete (rows {first}:{last})"
        if error.missing
        else f"is damaged, or not the one that was written there (rows {first}:{last}; its checksum is not that of the manifest)"
    )
    return (
        f"chunk 'c/{error.key}' of array {error.array!r} in {rows.path!r} {what}; restore the file, or remove the store "
        "and make it again"
    )


def _check_version(rows: ZarrRows) -> None:
    """Raise StoreError for a store that is no longer the one that was opened."""
    fs, root = files.filesystem(rows.path, rows.storage_options)
    if files.checksum(fs, f"{root}/zarr.json") != rows.checksum:
        raise StoreError(
            f"the store {rows.path!r} was removed or written again since it was opened; call open_rows again"
        )


def _opened(rows: ZarrRows) -> _Opened:
    """What is read from, kept for this process."""
    version = replace(rows, columns=None, impute=None, storage_options=None)
    return _open_version(version, HashableOptions.of(rows.storage_options))


@lru_cache(maxsize=32)
def _open_version(rows: ZarrRows, hashable: HashableOptions) -> _Opened:
    if rows.checksum is None:
        group = files.open_group(rows.path, "r", hashable.options)
        return _Opened(group[rows.array] if rows.array else group, None, None)  # type: ignore[index]
    # The chunks are not looked at again once they are the right ones, so a store is compared when it is opened.
    _check_version(rows)
    ours = _open_ours(rows.path, rows.checksum, hashable)
    classes = class_array(ours.classes) if rows.decode and ours.classes is not None else None
    return _Opened(ours.group[rows.array], classes, ours)


@lru_cache(maxsize=32)
def _open_ours(path: str, checksum: str, hashable: HashableOptions) -> _Ours:
    attributes = checksums.our_attributes(path, hashable.options)
    ledger = checksums.Ledger.of(attributes)
    checked = checksums.CheckedStore(files.zarr_store(path, True, hashable.options), ledger)
    group = files.open_group(path, "r", hashable.options, store=checked, zarr_format=3)
    assert isinstance(group, zarr.Group)
    return _Ours(path, attributes["block_rows"], group, group[MANIFEST], attributes["classes"], ledger, checked)
