"""Reading rows of Zarr stores, ours and others': NumPy and SciPy blocks out."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import zarr

from ..errors import StoreError
from . import checksums, csr_groups, files
from .zarr_layout import MANIFEST


@dataclass(frozen=True)
class ZarrSource:
    """Where the rows of one array are; small enough to travel in every task.

    ``identity`` names the version of the data in the keys of tasks. ``content`` marks our stores, in which every
    chunk must exist: it is a hash of their metadata, checked on every read. ``decode`` turns int codes into the
    class names of the store.
    """

    path: str
    array: str
    identity: str
    columns: tuple[int, ...] | None = None
    impute: tuple[float, ...] | None = None
    content: str | None = None
    decode: bool = False
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def paths(self) -> tuple[str, ...]:
        """What is read."""
        return (self.path,)

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        # Credentials do not change the data, and have no place in a key.
        return (
            "ZarrSource", self.path, self.array, self.identity, self.columns, self.impute, self.decode,
        )  # fmt: skip


def read_zarr(source: ZarrSource, start: int, stop: int) -> Any:
    """Rows ``start:stop`` of a source: an array, or a csr_array of a CSR store.

    Raises
    ------
    StoreError
        A chunk is missing or fails its checksum, or the store was rewritten since it was opened.
    """
    opened = _opened(source)
    node = opened.node

    def check(array: zarr.Array, first: int, last: int) -> None:
        if source.content is not None:
            _check_chunks(source, opened, array, first, last, (start, stop))

    try:
        if isinstance(node, zarr.Group):
            block: Any = csr_groups.read(node, start, stop, check)
        else:
            check(node, start, stop)
            block = np.asarray(node[start:stop])
    except StoreError:
        raise
    except Exception as error:
        raise StoreError(
            f"rows {start}:{stop} of array {source.array!r} in {source.path!r} cannot be read: a chunk is "
            f"damaged or out of reach ({error}); restore the file, or remove the store and make it again"
        ) from error
    if source.decode:
        return _decode(source, np.asarray(block), opened.classes, start)
    if source.columns is not None:
        block = block[:, list(source.columns)]
    if source.impute is not None and isinstance(block, np.ndarray) and block.dtype.kind == "f":
        block = fill_nan(block, source.impute)
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


def _decode(source: ZarrSource, codes: np.ndarray, classes: np.ndarray | None, start: int) -> np.ndarray:
    assert classes is not None
    if codes.size and (codes.min() < 0 or codes.max() >= classes.size):
        raise StoreError(
            f"class codes lie in 0..{classes.size - 1}; array {source.array!r} of {source.path!r} has "
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
    source: ZarrSource, opened: _Opened, array: zarr.Array, first: int, last: int, rows: tuple[int, int]
) -> None:
    """Every chunk is there, and is the one that was written there."""
    # Zarr gives the fill value for a chunk that is not there, and takes any chunk for one that is.
    fs, root = files.filesystem(source.path, source.storage_options)
    keys = checksums.chunk_keys(array, first, last)
    records: dict[int, np.ndarray] = {}
    for (row, column, key), found in zip(
        keys, checksums.chunk_sums(fs, f"{root}/{array.path}", keys), strict=True
    ):
        if found is None:
            raise StoreError(
                f"chunk {key!r} of array {array.path!r} in {source.path!r} is missing though the store is "
                f"complete (rows {rows[0]}:{rows[1]}); restore the file, or remove the store and make it again"
            )
        if opened.ledger is None:
            continue
        block, slot = opened.ledger.slot(array.path, row, column)
        if block not in records:
            records[block] = opened.ledger.read(opened.manifest, block, source.path)
        if found != records[block][slot]:
            raise StoreError(
                f"chunk {key!r} of array {array.path!r} in {source.path!r} is damaged, or not the one that was written there "
                f"(rows {rows[0]}:{rows[1]}; its checksum is not that of the manifest); restore the file, or remove "
                "the store and make it again"
            )


_CACHE: OrderedDict[tuple[str | None, ...], _Opened] = OrderedDict()
_LOCK = threading.Lock()


def _opened(source: ZarrSource) -> _Opened:
    """What a source reads from, kept for this process."""
    fs, root = files.filesystem(source.path, source.storage_options)
    if source.content is not None and files.content_key(fs, f"{root}/zarr.json") != source.content:
        raise StoreError(
            f"the store {source.path!r} was removed or written again since it was opened; call open_rows again"
        )
    key = (source.path, source.array, source.identity, source.content, repr(source.storage_options))
    with _LOCK:
        if key in _CACHE:
            _CACHE.move_to_end(key)
            return _CACHE[key]
    group: Any = files.open_group(source.path, "r", source.storage_options)
    node: Any = group[source.array] if source.array else group
    opened = _Opened(node, None)
    if source.content is not None:
        attributes = checksums.our_attributes(source.path, source.storage_options)
        classes = class_array(attributes["classes"]) if source.decode else None
        checked = attributes["format"] > 1
        ledger = checksums.Ledger.of(attributes) if checked else None
        opened = _Opened(node, classes, ledger, group[MANIFEST] if checked else None)
    with _LOCK:
        _CACHE[key] = opened
        while len(_CACHE) > 32:
            _CACHE.popitem(last=False)
    return opened
