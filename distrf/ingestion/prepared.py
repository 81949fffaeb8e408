"""The rows of a source as a store keeps them: dense or CSR, of one type, without gaps, their labels as numbers."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import InputError, first_not_finite
from ..store import missing_values
from ..store.formats import open_source
from ..store.row_source import RowSource, Selection
from ..store.zarr_arrays import joined
from ..store.zarr_reader import fill_nan
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
    row_bytes : int
        Mean bytes of a row of X.
    classes : list of str, optional
        Class names of text labels, which become int32 codes.
    impute : tuple of float, optional
        What replaces NaN, one number for each column.
    """

    source: RowSource
    labels: RowSource | None
    sparse: bool
    dtype: np.dtype
    width: int
    row_bytes: int
    classes: list[str] | None = None
    impute: tuple[float, ...] | None = None

    @classmethod
    def open(cls, path: str, selection: Selection, sparse: str | None = None) -> Prepared:
        """The rows at a path.

        Parameters
        ----------
        path : str
            Normalised.
        selection : Selection
        sparse : "csr", "dense" or None
            None leaves them as they are, but for CSR rows of which more than a quarter is stored: those become dense.

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
        (n, d), entry = X.shape, X.dtype.itemsize + 4
        if selection.missing and not X.sparse and X.dtype.kind == "f":
            X = X.filled((np.nan,) * d)
        labels = X.target_source()
        for source in (X, labels):
            if source is not None:
                source.check_missing(strict=False)
        as_csr = sparse == "csr" or (sparse is None and X.sparse and 4 * X.nbytes // entry <= n * d)
        rows = cls(X, labels, as_csr, X.dtype, d, d * X.dtype.itemsize, X.text_classes())
        if as_csr:
            stored = (
                X.nbytes // entry if X.sparse else sum(int(np.count_nonzero(x)) for x, _ in rows.read_source())
            )
            rows = replace(rows, row_bytes=max(1, stored * entry // n))
        return rows

    @property
    def n_rows(self) -> int:
        """All rows."""
        return self.source.shape[0]

    @property
    def arrays(self) -> dict[str, tuple[tuple[int, ...], Any]]:
        """Shape of a row, and type, of X and y."""
        arrays: dict[str, tuple[tuple[int, ...], Any]] = {"X": ((self.width,), self.dtype)}
        if self.labels is not None:
            y_dtype = np.dtype(np.int32) if self.classes is not None else self.labels.dtype
            arrays["y"] = (self.labels.shape[1:], y_dtype)
        return arrays

    def filled(self, rule: Any) -> Prepared:
        """The rows with NaN replaced by fixed numbers: "mean", "median", "zero", a number or one for each column.

        Raises InputError for CSR rows, or a column without values.
        """
        if rule is None or self.dtype.kind != "f":  # of integers none is missing
            return self
        if self.sparse:
            raise InputError('impute= works on dense rows; pass sparse="dense"')

        def numbered() -> Iterator[tuple[int, np.ndarray]]:
            row = 0
            for X, _ in self.read_source():
                yield row, self._converted(X)
                row += X.shape[0]

        names: Any = self.source.columns or range(self.width)
        return replace(self, impute=missing_values.resolve(rule, numbered(), self.n_rows, names))

    def cast(self, dtype: Any) -> Prepared:
        """The rows in another floating-point type. Raises InputError where the values do not fit."""
        dtype = np.dtype(dtype)
        if not np.can_cast(self.dtype, dtype, "same_kind") or (dtype.kind in "iu" and dtype != self.dtype):
            raise InputError(f"dtype= is float32 or float64; received {dtype} for rows of {self.dtype}")
        return replace(
            self, dtype=dtype, row_bytes=max(1, self.row_bytes * dtype.itemsize // self.dtype.itemsize)
        )

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
        row, names = 0, None if self.classes is None else np.asarray(self.classes)
        order: Any = None if names is None else np.argsort(names)  # those of an append come last
        for rows, y in self.read_source():
            X = self._converted(rows)
            if (bad := first_not_finite(X)) is not None:
                i, j, value = bad
                name = f" ({self.source.columns[j]!r})" if self.source.columns else ""
                raise InputError(
                    f"values must be finite; row {row + i}, column {j}{name} is {value} in {self.dtype}; pass "
                    'impute="mean", "median", "zero" or a number for missing values, or clean the data'
                )
            if y is not None and names is not None:
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
        with np.errstate(over="ignore"):  # an overflow is reported with its row
            if sp.issparse(X):
                X = sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], self.width))
            if self.sparse:
                return sp.csr_array(X).astype(self.dtype, copy=False)
            X = X.toarray() if sp.issparse(X) else X
            X = X if self.impute is None else fill_nan(X, self.impute)
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
