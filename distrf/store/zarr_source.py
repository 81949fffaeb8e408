"""Reading rows of Zarr stores, ours and others': NumPy and SciPy blocks out."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import zarr

from distrf.errors import StoreError
from distrf.store import csr, files


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
    node, classes = _opened(source)

    def check(array: zarr.Array, first: int, last: int) -> None:
        if source.content is not None:
            _check_chunks(source, array, first, last, (start, stop))

    try:
        if isinstance(node, zarr.Group):
            block: Any = csr.read(node, start, stop, check)
        else:
            check(node, start, stop)
            block = np.asarray(node[start:stop])
    except StoreError:
        raise
    except Exception as error:
        raise StoreError(
            f"rows {start}:{stop} of array {source.array!r} in {source.path!r} cannot be read: a chunk is "
            f"damaged or out of reach ({error}); restore the file, or make the store again"
        ) from error
    if source.decode:
        return _decode(source, np.asarray(block), classes, start)
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
            f"{codes.min()}..{codes.max()} in the block from row {start}; make the store again"
        )
    return classes[codes]


def _check_chunks(source: ZarrSource, array: zarr.Array, first: int, last: int, rows: tuple[int, int]) -> None:
    # Zarr gives the fill value for a chunk that is not there, so a lost file would read as data.
    fs, root = files.filesystem(source.path, source.storage_options)
    size, columns = array.chunks[0], -(-array.shape[1] // array.chunks[1]) if array.ndim > 1 else 1
    tail = (0,) * (array.ndim - 2)
    for index in range(first // size, -(-last // size)):
        for column in range(columns):
            where = (index,) if array.ndim == 1 else (index, column, *tail)
            key = array.metadata.encode_chunk_key(where)
            if not fs.exists(f"{root}/{array.path}/{key}"):
                raise StoreError(
                    f"chunk {key!r} of array {array.path!r} in {source.path!r} is missing though the store is "
                    f"complete (rows {rows[0]}:{rows[1]}); restore the file, or make the store again"
                )


_CACHE: OrderedDict[tuple[str | None, ...], tuple[Any, np.ndarray | None]] = OrderedDict()
_LOCK = threading.Lock()


def _opened(source: ZarrSource) -> tuple[Any, np.ndarray | None]:
    """The open array or CSR group, kept for this process, and the class names."""
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
    classes = None
    if source.decode:
        attributes: Any = group.attrs["distrf"]
        classes = class_array(attributes["classes"])
    with _LOCK:
        _CACHE[key] = (node, classes)
        while len(_CACHE) > 32:
            _CACHE.popitem(last=False)
    return node, classes
