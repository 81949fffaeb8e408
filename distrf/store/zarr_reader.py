"""Reading rows of Zarr stores, ours and others': NumPy and SciPy blocks out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import zarr

from ..errors import StoreError
from . import checksums, csr_groups, files
from .files import HashableOptions
from .zarr_layout import MANIFEST


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
        node = opened.node

        def check(array: zarr.Array, low: int, high: int) -> None:
            if self.checksum is not None:
                _check_chunks(self, opened, array, low, high, (first, last))

        try:
            if isinstance(node, zarr.Group):
                block: Any = csr_groups.read(node, first, last, check)
            else:
                check(node, first, last)
                block = np.asarray(node[first:last])
        except StoreError:
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
class _Opened:
    """The open array or CSR group; the class names; of a store with checksums, where those are."""

    node: Any
    classes: np.ndarray | None
    ledger: checksums.Ledger | None = None
    manifest: Any = None


def _check_chunks(
    rows: ZarrRows, opened: _Opened, array: zarr.Array, first: int, last: int, block: tuple[int, int]
) -> None:
    """Raise StoreError unless every chunk is there, and is the one that was written there."""
    # Zarr gives the fill value for a chunk that is not there, and takes any chunk for one that is.
    fs, root = files.filesystem(rows.path, rows.storage_options)
    keys = checksums.chunk_keys(array, first, last)
    records: dict[int, np.ndarray] = {}
    for (row, column, key), found in zip(
        keys, checksums.chunk_sums(fs, f"{root}/{array.path}", keys), strict=True
    ):
        if found is None:
            raise StoreError(
                f"chunk {key!r} of array {array.path!r} in {rows.path!r} is missing though the store is "
                f"complete (rows {block[0]}:{block[1]}); restore the file, or remove the store and make it again"
            )
        if opened.ledger is None:
            continue
        index, slot = opened.ledger.slot(array.path, row, column)
        if index not in records:
            records[index] = opened.ledger.read(opened.manifest, index, rows.path)
        if found != records[index][slot]:
            raise StoreError(
                f"chunk {key!r} of array {array.path!r} in {rows.path!r} is damaged, or not the one that was written there "
                f"(rows {block[0]}:{block[1]}; its checksum is not that of the manifest); restore the file, or remove "
                "the store and make it again"
            )


def _opened(rows: ZarrRows) -> _Opened:
    """What is read from, kept for this process."""
    fs, root = files.filesystem(rows.path, rows.storage_options)
    if rows.checksum is not None and files.checksum(fs, f"{root}/zarr.json") != rows.checksum:
        raise StoreError(
            f"the store {rows.path!r} was removed or written again since it was opened; call open_rows again"
        )
    version = replace(rows, columns=None, impute=None, storage_options=None)
    return _open_version(version, HashableOptions.of(rows.storage_options))


@lru_cache(maxsize=32)
def _open_version(rows: ZarrRows, hashable: HashableOptions) -> _Opened:
    group: Any = files.open_group(rows.path, "r", hashable.options)
    node: Any = group[rows.array] if rows.array else group
    if rows.checksum is None:
        return _Opened(node, None)
    attributes = checksums.our_attributes(rows.path, hashable.options)
    classes = class_array(attributes["classes"]) if rows.decode else None
    if attributes["format"] == 1:  # has no checksums
        return _Opened(node, classes)
    return _Opened(node, classes, checksums.Ledger.of(attributes), group[MANIFEST])
