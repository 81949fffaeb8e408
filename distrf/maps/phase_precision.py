"""The precision that the phases of a tile of rows need.

The size of a row x is the root mean square of its phases w.x in radians: |x| / l for a kernel of length scale l. A phase is rounded by eps
times the size, about 1e-3 radians at size 1e4 in float32 and at 5e12 in float64. Beyond 2^23 turns in float32, and 2^52 in float64, every
phase is a whole number of turns, so that all rows have the features of the origin.

So the phases of a tile with a row of size above `SINGLE` are made in float64, and rows of size above `DOUBLE` are refused.
"""

from __future__ import annotations

import numpy as np

from ..errors import RowError
from ..typing import Rows
from .base import dense, few_entries

#: Size of a row beyond which its phases are made in float64, and beyond which it is refused.
SINGLE, DOUBLE = 1e4, 1e15


@np.errstate(over="ignore")  # of squares: such rows are refused, or measured again in float64
def phase_dtype(tile: Rows, first: int, factors: np.ndarray | float, dtype: np.dtype) -> np.dtype:
    """The dtype in which to make the phases of a tile: `dtype`, or float64 where a row is too large for float32.

    Parameters
    ----------
    tile : array or CSR matrix of shape (n, d), float32 or float64
    first : row of the block that row 0 of the tile is
    factors : array of shape (d,) or one number, such that |factors * x| is the size of a row x
    dtype : float32 or float64, for rows that are not large

    Raises
    ------
    RowError : a row is too large for float64
    """
    scaled, factor = (tile, factors) if np.ndim(factors) == 0 else (times_diagonal(tile, factors), 1.0)
    values = scaled.reshape(-1) if isinstance(scaled, np.ndarray) else scaled.data
    if factor * factor * float(values.dot(values)) <= SINGLE**2:  # the sum of all squared sizes
        return dtype
    scaled = scaled.astype(np.float64) * factor
    squares = np.square(scaled) if isinstance(scaled, np.ndarray) else scaled.power(2)
    sizes = np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
    if (sizes <= SINGLE).all():
        return dtype
    beyond = np.flatnonzero(~(sizes <= DOUBLE))
    if beyond.size:
        row = int(beyond[0])
        raise RowError(
            f"row {{row}} of the block is {sizes[row]:.2g} length scales from the origin, and beyond {DOUBLE:.0e} float64 "
            "tells no two rows apart; scale or centre the columns, drop constant ones, or leave out what stands for missing values",
            first + row,
        )
    return np.dtype(np.float64)


def phase_tile(
    X: Rows, start: int, stop: int, factors: np.ndarray | float, dtype: np.dtype, keep_csr: bool
) -> Rows:
    """Rows start:stop of a block in the dtype of their phases, ready for a product.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    start, stop : the rows wanted
    factors, dtype : see `phase_dtype`
    keep_csr : whether CSR rows of few entries stay CSR; all others become a C-contiguous array
    """
    tile = X[start:stop].astype(dtype, copy=False)
    tile = tile.astype(phase_dtype(tile, start, factors, dtype), copy=False)
    return tile if keep_csr and few_entries(tile) else np.ascontiguousarray(dense(tile))


def times_diagonal(X: Rows, factors: np.ndarray | float) -> Rows:
    """Rows times a number, or column by column times factors of shape (d,); CSR rows stay CSR."""
    if isinstance(X, np.ndarray) or np.ndim(factors) == 0:
        return X * np.asarray(factors, dtype=X.dtype)
    return type(X)((X.data * np.asarray(factors, dtype=X.dtype)[X.indices], X.indices, X.indptr), shape=X.shape)


def times_root(X: Rows, root: np.ndarray) -> Rows:
    """Rows times a matrix, or times a diagonal of shape (d,); CSR rows stay CSR then."""
    return X @ root if root.ndim == 2 else times_diagonal(X, root)
