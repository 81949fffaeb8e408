"""Reading rows of Zarr stores, ours and others': NumPy and SciPy blocks out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import DistrfError, StoreError
from . import files
from .files import Place
from .zarr_arrays import open_group, open_nodes
from .zarr_layout import StoreInfo, read_store


@dataclass(frozen=True)
class ZarrRows:
    """Reads rows of one array of a Zarr store; small enough to travel in every task.

    Parameters
    ----------
    path : Place
        Of the store.
    array : str
        Name of the array; "" for a store that is a single array.
    fingerprint : str
        Names this version of the data in the keys of tasks.
    columns : tuple of int, optional
        Which columns, in this order.
    version : str, optional
        One of the versions of a store that distrf wrote, looked for after every read. None for stores of others.
    decode : bool
        Integer codes become the class names of the store.
    """

    path: Place
    array: str
    fingerprint: str
    columns: tuple[int, ...] | None = None
    version: str | None = None
    decode: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        """What is read."""
        return (self.path,)

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        # Credentials do not change the data, and have no place in a key.
        return (
            "ZarrRows", self.path, self.array, self.fingerprint, self.columns, self.decode,
        )  # fmt: skip

    def read(self, first: int, last: int) -> Any:
        """Rows ``first:last``: an array, or a ``csr_array`` of a CSR store.

        Raises
        ------
        StoreError
            A chunk is missing or fails its checksum, or the store was made anew since it was opened.
        """
        opened = _opened(replace(self, columns=None))
        try:
            block: Any = opened.read(first, last)
        except Exception as error:
            opened.check()
            if isinstance(error, (DistrfError, MemoryError)):  # of the latter nothing is damaged
                raise
            raise StoreError(
                f"rows {first}:{last} of array {self.array!r} in {self.path!r} cannot be read: a chunk is "
                f"missing, damaged or out of reach ({error}); restore the file, or remove the store and make it again"
            ) from error
        opened.check()
        if self.decode:
            count = opened.classes.size
            if block.size and (block.min() < 0 or block.max() >= count):
                raise StoreError(
                    f"class codes lie in 0..{count - 1}; array {self.array!r} of {self.path!r} has {block.min()}..{block.max()} "
                    f"in the block from row {first}; remove the store and make it again"
                )
            return opened.classes[block]
        if self.columns is not None:
            block = block[:, list(self.columns)]
        return block


class _Opened:
    """An open array and, of a store that distrf wrote, its class names and its document as it was seen last."""

    def __init__(self, rows: ZarrRows):
        self._rows, self._seen = rows, b""
        self._fs, self._root = files.filesystem(rows.path)
        if rows.version is None:
            group: Any = open_group(rows.path, "r")
            self.node = group[rows.array] if rows.array else group
            return
        store: Any = self.check()
        self.node = open_nodes(store)[rows.array]
        self.classes = np.asarray(store.classes or [])

    def read(self, first: int, last: int) -> Any:
        """The rows as they are stored."""
        rows: Any = self.node[first:last]
        return rows.astype(object).astype(str) if rows.dtype.kind == "T" else rows

    def check(self) -> StoreInfo | None:
        """The store, where its document changed; StoreError for one that was made anew. Appended rows change nothing."""
        path, version = self._rows.path, self._rows.version
        if version is None:
            return None
        try:
            found = self._fs.cat_file(f"{self._root}/zarr.json")
        except (FileNotFoundError, NotADirectoryError):
            found = b""
        if found and found == self._seen:
            return None
        store = read_store(path) if found else None
        if store is None or not store.complete or version not in store.versions:
            raise StoreError(
                f"the store {path!r} was removed or written again since it was opened; call open_rows again"
            )
        self._seen = found
        return store


@lru_cache(maxsize=32)
def _opened(rows: ZarrRows) -> _Opened:
    return _Opened(rows)
