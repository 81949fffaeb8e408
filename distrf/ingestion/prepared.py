"""The rows of a source as a store keeps them: dense or CSR, of one type, without gaps, their labels as numbers."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import InputError, first_entry, first_not_finite
from ..store.formats import open_source
from ..store.row_source import RowSource, Selection
from ..store.zarr_arrays import joined
from .shuffle import shuffled

PIECE_BYTES = 8 * 2**20

Pieces = Iterator[tuple[Any, np.ndarray | None]]
Blocks = Generator[tuple[int, Any, np.ndarray | None], None, None]


@dataclass(frozen=True)
class Prepared:
    """Rows that can be read again and again, in order, as pieces of any size.

    Parameters
    ----------
    source : RowSource
    labels : RowSource, optional
    sparse : bool
        Whether X is CSR.
    dtype : numpy.dtype
        Of X.
    width : int
        Columns of X.
    entries : int
        Mean entries of a row of X.
    classes : list of str, optional
        Class names of text labels, which become int32 codes.
    """

    source: RowSource
    labels: RowSource | None
    sparse: bool
    dtype: np.dtype
    width: int
    entries: int
    classes: list[str] | None = None

    @classmethod
    def open(cls, path: str, selection: Selection, sparse: str | None = None, dtype: Any = None) -> Prepared:
        """The rows at a path.

        Parameters
        ----------
        path : str
            Normalised.
        selection : Selection
        sparse : "csr", "dense" or None
            None leaves them as they are, but for CSR rows of which more than a quarter is stored: those become dense.
        dtype : optional
            Another floating-point type.

        Returns
        -------
        Prepared

        Raises
        ------
        StoreError
            Nothing can be read there.
        InputError
            There are no such columns, target or split.
        """
        X = open_source(path, replace(selection, in_order=True))
        (n, d), labels = X.shape, X.target_source()
        for source in (X, labels):
            if source is not None:
                source.check_missing(strict=False)
        stored = X.nbytes // (X.dtype.itemsize + 4) if X.sparse else n * d
        csr = sparse == "csr" or (sparse is None and X.sparse and 4 * stored <= n * d)
        rows = cls(X, labels, csr, np.dtype(dtype or X.dtype), d, d, X.text_classes())
        if csr and not X.sparse:
            stored = sum(int(np.count_nonzero(x)) for x, _ in rows.read_source())
        return replace(rows, entries=max(1, stored // max(1, n))) if csr else rows

    @property
    def n_rows(self) -> int:
        """All rows."""
        return self.source.shape[0]

    @property
    def row_bytes(self) -> int:
        """Mean bytes of a row of X."""
        return self.entries * (self.dtype.itemsize + (4 if self.sparse else 0))

    @property
    def arrays(self) -> dict[str, tuple[tuple[int, ...], Any]]:
        """Shape of a row, and type, of X and y."""
        arrays: dict[str, tuple[tuple[int, ...], Any]] = {"X": ((self.width,), self.dtype)}
        if self.labels is not None:
            coded = self.classes is not None
            arrays["y"] = (self.labels.shape[1:], np.dtype(np.int32) if coded else self.labels.dtype)
        return arrays

    def read_source(self) -> Pieces:
        """The rows as the source has them."""
        return self.source.stream(self.labels, max(1, PIECE_BYTES // (self.width * self.dtype.itemsize)))

    def read(self) -> Pieces:
        """The rows as the store keeps them.

        Raises
        ------
        InputError
            At a value that is not finite, or if rows are missing at the end.
        """
        row, names = 0, np.asarray(self.classes or [])
        order = np.argsort(names)  # those of an append come last
        for rows, y in self.read_source():
            X = self._converted(rows)
            if self.sparse:
                bad = first_not_finite(X)
            else:  # NaN of dense rows are missing values
                infinite = np.isinf(X)
                bad = first_entry(X, infinite) if infinite.any() else None
            if bad is not None:
                i, j, value = bad
                name = f" ({self.source.columns[j]!r})" if self.source.columns else ""
                raise InputError(
                    f"values must be finite; row {row + i}, column {j}{name} is {value} in {self.dtype}; clean the data"
                )
            if y is not None and self.classes is not None:
                y = order[np.searchsorted(names, y, sorter=order)].astype(np.int32)
            if y is not None and (bad := first_not_finite(y)):
                raise InputError(
                    f"targets must be finite; row {row + bad[0]} has NaN or infinity; remove the row"
                )
            row += X.shape[0]
            yield X, y
        if row != self.n_rows:
            raise InputError(
                f"the source changed while it was read: {self.n_rows} rows were counted, {row} were read; start again"
            )

    def _converted(self, X: Any) -> Any:
        if sp.issparse(X):
            X = sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], self.width))
        X = X.toarray() if sp.issparse(X) and not self.sparse else sp.csr_array(X) if self.sparse else X
        with np.errstate(over="ignore"):  # an overflow is reported with its row
            return X.astype(self.dtype, copy=False)

    def blocks(self, block_rows: int, first_rows: int, seed: int | None, folder: str) -> Blocks:
        """Blocks of equal rows, the last one shorter.

        Parameters
        ----------
        block_rows : int
        first_rows : int
            Rows of the first block, which may be fewer.
        seed : int, optional
            Of the order of the rows; None leaves it.
        folder : str
            In which they are shuffled.

        Yields
        ------
        (int, X, y)
            Number of the block, and its rows.
        """
        pieces = self.read()
        if seed is not None:
            pieces = shuffled(pieces, self.n_rows * (self.row_bytes + 16), seed, folder)
        return reblock(pieces, block_rows, first_rows)


def reblock(pieces: Pieces, block_rows: int, first_rows: int) -> Blocks:
    """Pieces of any size as blocks of `block_rows` rows, the first one of `first_rows`, the last one shorter."""

    def block() -> tuple[Any, np.ndarray | None]:
        rows, labels = zip(*waiting, strict=True)
        return joined(rows), None if labels[0] is None else joined(labels)

    waiting: list[tuple[Any, np.ndarray | None]] = []
    count, index, full = 0, 0, first_rows
    for X, y in pieces:
        while X.shape[0]:
            taken = min(full - count, X.shape[0])
            waiting.append((X[:taken], None if y is None else y[:taken]))
            X, y = X[taken:], None if y is None else y[taken:]
            count += taken
            if count == full:
                yield index, *block()
                waiting, count, index, full = [], 0, index + 1, block_rows
    if waiting:
        yield index, *block()
