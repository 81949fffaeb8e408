"""Rows in Zarr: the stores that distrf wrote."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import StoreError, did_you_mean
from . import files
from .row_source import RowSource, Selection, column_numbers, single
from .spec import fingerprint_of_spec
from .zarr_arrays import open_nodes
from .zarr_layout import StoreInfo, block_lengths, info


@dataclass(frozen=True)
class ZarrRows:
    """Reads rows of one array of a store; small enough to travel in every task.

    Parameters
    ----------
    path : str
        Of the store.
    array : str
        Name of the array.
    version : str
        Of the data, in the keys of tasks: after every read it is looked for among those of the store.
    columns : tuple of int, optional
        Which columns, in this order.
    decode : bool
        Integer codes become the class names of the store.
    """

    path: str
    array: str
    version: str
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
            with files.reading(self.path, f"rows {first}:{last} of array {self.array!r}"):
                block: Any = node[first:last]
        finally:
            self.current()  # where the store was made anew, it is not damaged
        if not self.decode:
            return block if self.columns is None else block[:, list(self.columns)]
        if block.size and (block.min() < 0 or block.max() >= classes.size):
            found = f"array {self.array!r} of {self.path!r} has {block.min()}..{block.max()} in the block from row {first}"
            raise files.damaged(f"class codes lie in 0..{classes.size - 1}; {found}")
        return classes[block]

    def current(self) -> StoreInfo:
        """What the store says of itself. Raises StoreError where it was removed or made anew; appended rows change nothing."""
        store = info(self.path)  # one request for a block
        if not store.complete or self.version not in store.versions:
            raise StoreError(
                f"the store {self.path!r} was written again since it was opened; call open_rows again"
            )
        return store


@lru_cache(maxsize=32)
def _opened(rows: ZarrRows) -> tuple[Any, np.ndarray]:
    """The open array and the class names of its store."""
    store = rows.current()
    return open_nodes(store)[rows.array], np.asarray(store.classes or [])


@dataclass(frozen=True, kw_only=True)
class ZarrSource(RowSource):
    """One array of a store; see `RowSource`.

    Parameters
    ----------
    rows : ZarrRows
        What reads a block.
    store : StoreInfo
        What the store says of itself.
    """

    rows: ZarrRows
    store: StoreInfo

    @classmethod
    def open(cls, path: str, selection: Selection) -> ZarrSource:
        """The array X."""
        store, chosen = info(path), None
        if not store.complete:
            raise StoreError(
                f"only a complete store can be read, and blocks of {path!r} are not written; run the command that writes it "
                "again, and it resumes where it stopped"
            )
        if "X" not in store.arrays:
            raise StoreError(
                f"rows are the array X of a store; {path!r} holds {store.kind}: {sorted(store.arrays)}"
            )
        open_nodes(store)  # they are compared with what the store says
        X, names = store.arrays["X"], store.columns
        unit = store.block_rows if X.sparse else X.chunks[0]
        if selection.columns is not None:
            chosen = column_numbers(path, selection.columns, names, X.tail[0])
            names = names and [names[j] for j in chosen]
        shape = store.n_rows, X.tail[0] if chosen is None else len(chosen)
        lengths = block_lengths(store.n_rows, unit, store.block_rows, selection.rows_per_block)
        rows = ZarrRows(store.path, "X", fingerprint_of_spec(store.made), chosen)
        return cls(
            path=store.path, shape=shape, dtype=np.dtype(X.dtype), block_lengths=lengths, columns=names, sparse=X.sparse,
            target=selection.target or store.target, classes=store.classes, rows=rows, store=store,
        )  # fmt: skip

    def _beside(self, name: str, what: str = "") -> ZarrSource:
        """An array beside X; codes of a target or a prediction become class names if the store has them.

        Raises StoreError where there is none.
        """
        arrays = self.store.arrays
        if name not in arrays or arrays[name].sparse:
            raise StoreError(
                f"{what}{name!r} is no dense array of {self.path!r}{did_you_mean(name, arrays)}; it has {sorted(arrays)}"
            )
        dtype, tail = np.dtype(arrays[name].dtype), arrays[name].tail
        classes = self.store.classes if dtype.kind in "iu" and name in ("y", "prediction") else None
        rows = replace(self.rows, array=name, columns=None, decode=bool(classes))
        return replace(
            self, shape=(self.shape[0], *tail), dtype=np.asarray(classes).dtype if classes else dtype, columns=None,
            sparse=False, classes=classes, rows=rows,
        )  # fmt: skip

    def target_source(self) -> ZarrSource | None:
        """The array of that name, by default y. A store calls its target y, whatever its name was in the source."""
        name = "y" if self.target in (None, self.store.target) else self.target
        return None if name == "y" and name not in self.store.arrays else self._beside(name, "the target ")

    def column_source(self, name: str) -> RowSource:
        """The array of that name, else a column of X, as it is stored."""
        array = "y" if name == self.store.target else name
        if array in self.store.arrays and array != "X":
            return single(self._beside(array), array)
        return super().column_source(name)

    def read(self, first: int, last: int) -> Any:
        """Rows ``first:last``; see `ZarrRows.read`."""
        return self.rows.read(first, last)

    def blocks(self) -> Iterator[tuple[ZarrRows, int, int]]:
        """The same reader for all blocks."""
        return ((self.rows, first, last) for _, first, last in super().blocks())

    @classmethod
    def fingerprint(cls, path: str) -> str:
        """What the store was made from."""
        return fingerprint_of_spec(info(path).made)

    @classmethod
    def part_fingerprints(cls, path: str) -> list[tuple[str, int]]:
        """Of the rows that the store was made with, and of those of each append."""
        parts = info(path).spec.get("parts")
        return [(p["fingerprint"], p["rows"]) for p in parts] if parts else super().part_fingerprints(path)

    @property
    def nbytes(self) -> int:
        """Bytes in memory; of CSR rows as many as up to four blocks have."""
        if not self.sparse:
            return super().nbytes
        store = self.store
        some = [self.read(*store.bounds(b)) for b in range(0, store.n_blocks, store.n_blocks // 4 + 1)]
        held = sum(block.data.nbytes + block.indices.nbytes + block.indptr[1:].nbytes for block in some)
        return held * self.shape[0] // max(1, sum(block.shape[0] for block in some))
