"""Reading rows of Zarr stores, ours and others': NumPy and SciPy blocks out."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import DistrfError, StoreError
from . import files
from .files import Place
from .zarr_arrays import open_group, open_nodes
from .zarr_layout import read_store


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
        node, classes, seen = _opened(replace(self, columns=None))
        try:
            block: Any = node[first:last]
        except Exception as error:
            self._check(seen)
            if isinstance(error, (DistrfError, MemoryError)):  # of the latter nothing is damaged
                raise
            raise StoreError(
                f"rows {first}:{last} of array {self.array!r} in {self.path!r} cannot be read: a chunk is "
                f"missing, damaged or out of reach ({error}); restore the file, or remove the store and make it again"
            ) from error
        self._check(seen)
        if block.dtype.kind == "T":
            block = block.astype(object).astype(str)
        if not self.decode:
            return block if self.columns is None else block[:, list(self.columns)]
        if block.size and (block.min() < 0 or block.max() >= classes.size):
            raise StoreError(
                f"class codes lie in 0..{classes.size - 1}; array {self.array!r} of {self.path!r} has {block.min()}..{block.max()} "
                f"in the block from row {first}; remove the store and make it again"
            )
        return classes[block]

    def document(self) -> bytes:
        """What a store of distrf says of itself now; nothing of stores of others, or where it is gone."""
        fs, root = files.filesystem(self.path)
        with suppress(FileNotFoundError, NotADirectoryError):
            return b"" if self.version is None else fs.cat_file(f"{root}/zarr.json")
        return b""

    def _check(self, seen: bytes) -> None:
        """Raise StoreError where the store was made anew since it was opened. Appended rows change nothing."""
        if self.document() != seen:
            _opened.cache_clear()
            _opened(replace(self, columns=None))


@lru_cache(maxsize=32)
def _opened(rows: ZarrRows) -> tuple[Any, np.ndarray, bytes]:
    """The open array and, of a store that distrf wrote, its class names and its document as it is now."""
    seen = rows.document()
    if rows.version is None:
        group: Any = open_group(rows.path, "r")
        return (group[rows.array] if rows.array else group), np.empty(0), seen
    store = read_store(rows.path) if seen else None
    if store is None or not store.complete or rows.version not in store.versions:
        raise StoreError(
            f"the store {rows.path!r} was removed or written again since it was opened; call open_rows again"
        )
    return open_nodes(store)[rows.array], np.asarray(store.classes or []), seen
