"""A stream of rows from any source, and the steps between a source and the blocks of a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import InputError, first_not_finite
from ..store import missing_values
from ..store.row_source import Selection
from ..store.zarr_reader import fill_nan

PIECE_BYTES = 8 * 2**20

Pieces = Iterator[tuple[Any, np.ndarray | None]]


@dataclass(frozen=True, kw_only=True)
class TableSelection(Selection):
    """What `ingest` wants of a table; see `Selection`.

    Parameters
    ----------
    split : str, optional
        Which members of an ``.npz`` file: "train", "test".
    """

    split: str | None = None


@dataclass(frozen=True)
class RowStream:
    """Rows that can be read again and again, in order, as pieces of any size.

    Parameters
    ----------
    n_rows, n_columns : int
    dtype : numpy.dtype
        Of X.
    read : callable
        Yields ``(X, y)``: X is an array of shape (m, d), or a csr_array; y has shape (m, *y_tail), or is None.
    sparse : bool
        Whether X is CSR.
    columns : list of str, optional
        Names of the columns of X.
    y_dtype : numpy.dtype, optional
        Of y; int32 codes into `classes` where labels are text. None without labels.
    y_tail : tuple of int
        Shape of a row of y.
    classes : list of str, optional
        Sorted class names.
    stored : int, optional
        Entries of a CSR source.
    """

    n_rows: int
    n_columns: int
    dtype: np.dtype
    read: Callable[[], Pieces]
    sparse: bool = False
    columns: list[str] | None = None
    y_dtype: np.dtype | None = None
    y_tail: tuple[int, ...] = ()
    classes: list[str] | None = None
    stored: int | None = None  # entries of a sparse source

    def row_bytes(self) -> int:
        """Mean bytes of a row of X."""
        if self.sparse:
            return max(1, (self.stored or 0) * (self.dtype.itemsize + 4) // max(1, self.n_rows))
        return self.n_columns * self.dtype.itemsize


def encode(labels: np.ndarray) -> tuple[np.ndarray, list[str] | None]:
    """Labels as they are, or codes and class names for text.

    Parameters
    ----------
    labels : array of shape (n, ...)

    Returns
    -------
    labels : array
        int32 codes where they are text.
    classes : list of str, or None

    Raises
    ------
    InputError
        Labels are neither numbers nor text.
    """
    if labels.dtype.kind in "biuf":
        return labels, None
    if labels.dtype.kind not in "US":
        raise InputError(f"targets are numbers or text; received dtype {labels.dtype}; convert them first")
    names, codes = np.unique(labels.astype(str), return_inverse=True)
    return codes.astype(np.int32).reshape(labels.shape), [str(name) for name in names]


def as_stored(stream: RowStream, sparse: str | None) -> RowStream:
    """The rows as CSR or dense, as a caller wants them.

    Parameters
    ----------
    stream : RowStream
    sparse : "csr", "dense" or None
        None leaves them as they are, but for CSR rows of which more than a quarter is stored: those become dense.

    Returns
    -------
    RowStream
    """
    if sparse == "csr":
        return sparsify(stream)
    full = stream.sparse and (stream.stored or 0) * 4 > stream.n_rows * stream.n_columns
    return densify(stream) if full or sparse == "dense" else stream


def densify(stream: RowStream) -> RowStream:
    """The same rows as dense arrays.

    Parameters
    ----------
    stream : RowStream

    Returns
    -------
    RowStream
    """
    if not stream.sparse:
        return stream
    return replace(stream, sparse=False, read=lambda: ((X.toarray(), y) for X, y in stream.read()))


def sparsify(stream: RowStream) -> RowStream:
    """The same rows as CSR. Dense rows are read once to count their entries.

    Parameters
    ----------
    stream : RowStream

    Returns
    -------
    RowStream
    """
    if stream.sparse:
        return stream
    stored = sum(int(np.count_nonzero(X)) for X, _ in stream.read())
    return replace(
        stream, sparse=True, stored=stored, read=lambda: ((sp.csr_array(X), y) for X, y in stream.read())
    )


def fill(stream: RowStream, rule: str | float) -> tuple[RowStream, tuple[float, ...] | None]:
    """The rows with NaN replaced by fixed numbers.

    Parameters
    ----------
    stream : RowStream
    rule : "mean", "median", "zero" or a number

    Returns
    -------
    stream : RowStream
    values : tuple of float, or None
        One for each column; None where nothing can be missing (integers).

    Raises
    ------
    InputError
        CSR rows, or a column without values.
    """
    if stream.dtype.kind != "f":
        return stream, None
    if stream.sparse:
        raise InputError('impute= works on dense rows; pass sparse="dense"')

    def numbered() -> Iterator[tuple[int, np.ndarray]]:
        row = 0
        for X, _ in stream.read():
            yield row, X
            row += X.shape[0]

    values = missing_values.resolve(
        rule, numbered(), stream.n_rows, stream.columns or list(range(stream.n_columns))
    )
    return replace(stream, read=lambda: ((fill_nan(X, values), y) for X, y in stream.read())), values


def cast(stream: RowStream, dtype: Any) -> RowStream:
    """The rows in another floating-point dtype.

    Parameters
    ----------
    stream : RowStream
    dtype : dtype
        float32 or float64.

    Returns
    -------
    RowStream

    Raises
    ------
    InputError
        The values do not fit.
    """
    dtype = np.dtype(dtype)
    if not np.can_cast(stream.dtype, dtype, "same_kind") or (dtype.kind in "iu" and dtype != stream.dtype):
        raise InputError(f"dtype= is float32 or float64; received {dtype} for rows of {stream.dtype}")

    def read() -> Pieces:
        with np.errstate(over="ignore"):  # an overflow is reported with its row by `checked`
            for X, y in stream.read():
                yield X.astype(dtype, copy=False), y

    return replace(stream, dtype=dtype, read=read)


def checked(stream: RowStream) -> RowStream:
    """The same rows; reading stops at a value that is not finite, or if rows are missing at the end.

    Parameters
    ----------
    stream : RowStream

    Returns
    -------
    RowStream
        Its `read` raises InputError.
    """

    def read() -> Pieces:
        row = 0
        for X, y in stream.read():
            _require_finite(X, row, stream)
            if y is not None and (bad := first_not_finite(y)):
                raise InputError(
                    f"targets must be finite; row {row + bad[0]} has NaN or infinity; remove the row"
                )
            row += X.shape[0]
            yield X, y
        if row != stream.n_rows:
            raise InputError(
                f"the source changed while it was read: {stream.n_rows} rows were counted, {row} were read; "
                "start again"
            )

    return replace(stream, read=read)


def reblock(
    pieces: Pieces, block_rows: int, first_rows: int | None = None
) -> Iterator[tuple[int, Any, np.ndarray | None]]:
    """Pieces of any size as blocks of equal rows, the last one shorter.

    Parameters
    ----------
    pieces : iterator of (X, y)
    block_rows : int
    first_rows : int, optional
        Rows of the first block, where it is another number.

    Returns
    -------
    iterator of (int, X, y)
        Number of the block, and its rows.
    """
    held: list[tuple[Any, np.ndarray | None]] = []
    count = index = 0
    full = block_rows if first_rows is None else first_rows
    for X, y in pieces:
        while X.shape[0]:
            take = min(full - count, X.shape[0])
            held.append((X[:take], None if y is None else y[:take]))
            X, y = X[take:], None if y is None else y[take:]
            count += take
            if count == full:
                yield index, *_joined(held)
                held, count, index, full = [], 0, index + 1, block_rows
    if held:
        yield index, *_joined(held)


def _joined(held: list[tuple[Any, np.ndarray | None]]) -> tuple[Any, np.ndarray | None]:
    if len(held) == 1:
        return held[0]
    pieces = [X for X, _ in held]
    X = sp.csr_array(sp.vstack(pieces, format="csr")) if sp.issparse(pieces[0]) else np.concatenate(pieces)
    labels = [y for _, y in held if y is not None]
    return X, np.concatenate(labels) if labels else None


def _require_finite(X: Any, row: int, stream: RowStream) -> None:
    bad = first_not_finite(X)
    if bad is None:
        return
    i, j, value = bad
    name = f" ({stream.columns[j]!r})" if stream.columns else ""
    raise InputError(
        f"values must be finite; row {row + i}, column {j}{name} is {value} in {stream.dtype}; pass "
        'impute="mean", "median", "zero" or a number for missing values, or clean the data'
    )
