"""How far from the origin the phases of a row can be trusted.

The size of a row x is the root mean square of its phases w.x in radians: |x| / l for a kernel of length scale
l. A phase is rounded by eps times the size, about 1e-3 radians at size 1e4 in float32 and at 5e12 in float64.
Beyond 2^23 turns in float32, and 2^52 in float64, every phase is a whole number of turns, so that all rows have
the features of the origin.

So phases of rows of size above `SINGLE` are made in float64, and rows of size above `DOUBLE` are refused.
Whether a row is far depends on that row alone, so features do not depend on how rows are cut into blocks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..compiled.row_norms import row_sizes, row_sizes_csr
from ..errors import RowError
from ..typing import Rows
from .base import dense, few_entries

#: Size of a row beyond which its phases are made in float64, and beyond which it is refused.
SINGLE, DOUBLE = 1e4, 1e15
#: Far rows are computed again, in float64, in tiles of about this many bytes of features and at least this many rows.
_BYTES, _ROWS = 2**24, 512


def near_rows(tile: Rows, first: int, factors: np.ndarray | float, dtype: np.dtype, far: list[int]) -> Rows:
    """Take out of a tile the rows that are too far out for phases in a dtype.

    Parameters
    ----------
    tile : C-contiguous array or CSR matrix of shape (n, d), float32 or float64
    first : row of the block that row 0 of the tile is
    factors : array of shape (d,) or one number, such that |factors * x| is the size of a row x
    dtype : float32 or float64, in which the phases are made
    far : list to which the far rows are appended, by their number in the block

    Returns
    -------
    The tile itself where no row is far, else a copy in which the far rows are zeros.

    Raises
    ------
    RowError : a row is too far out for float64
    """
    bound = SINGLE if dtype.itemsize == 4 else DOUBLE
    if (
        _square_sum(tile, factors) <= 0.5 * bound**2
    ):  # half the bound leaves room for the rounding of a sum in float32
        return tile
    sizes = _sizes(tile, factors)
    beyond = np.flatnonzero(sizes > DOUBLE)
    if beyond.size:
        row = beyond[0]
        raise RowError(
            f"row {{row}} of the block is {sizes[row]:.2g} length scales from the origin, and beyond "
            f"{DOUBLE:.0e} float64 tells no two rows apart; scale or centre the columns, drop constant ones, or "
            "leave out what stands for missing values",
            first + int(row),
        )
    rows = np.flatnonzero(sizes > bound)
    if rows.size == 0:
        return tile
    far.extend((first + rows).tolist())
    tile = tile.copy()
    if isinstance(tile, np.ndarray):
        tile[rows] = 0
    else:
        for i in rows:
            tile.data[tile.indptr[i] : tile.indptr[i + 1]] = 0
    return tile


def near_tile(
    X: Rows,
    start: int,
    stop: int,
    factors: np.ndarray | float,
    dtype: np.dtype,
    far: list[int],
    keep_csr: bool,
) -> Rows:
    """Rows start:stop of a block in a dtype, ready for a product, without those that are too far out for it.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    start, stop : the rows wanted
    factors, dtype, far : see `near_rows`
    keep_csr : whether CSR rows of few entries stay CSR; all others become a C-contiguous array
    """
    tile = X[start:stop]
    if isinstance(tile, np.ndarray):
        return near_rows(np.ascontiguousarray(tile, dtype=dtype), start, factors, dtype, far)
    tile = near_rows(tile.astype(dtype), start, factors, dtype, far)
    return tile if keep_csr and few_entries(tile) else dense(tile)


def _square_sum(tile: Rows, factors: np.ndarray | float) -> float:
    """Sum over all entries of the tile of (factors * x)^2: the squared sizes of its rows, summed."""
    values = tile.reshape(-1) if isinstance(tile, np.ndarray) else tile.data
    if not isinstance(factors, np.ndarray):
        return factors * factors * float(values.dot(values))
    factors = factors.astype(values.dtype)
    values = (tile * factors).reshape(-1) if isinstance(tile, np.ndarray) else values * factors[tile.indices]
    return float(values.dot(values))


def _sizes(tile: Rows, factors: np.ndarray | float) -> np.ndarray:
    """The size of each row of the tile, shape (n,), float64."""
    factors = factors if isinstance(factors, np.ndarray) else np.full(tile.shape[1], factors)
    sizes = np.empty(tile.shape[0])
    if isinstance(tile, np.ndarray):
        row_sizes(tile, factors, sizes)
    else:
        row_sizes_csr(tile.data, tile.indices, tile.indptr, factors, sizes)
    return sizes


def fill_by_reach(
    X: Rows, out: np.ndarray, dtype: np.dtype, fill: Callable[[Rows, np.ndarray, np.dtype], list[int]]
) -> None:
    """Write features from phases in a dtype, and those of rows too far out for it from phases in float64.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    out : array of shape (n, D), overwritten
    dtype : float32 or float64, for the phases of rows that are not far
    fill : called as ``fill(rows, features, dtype)``, writes the features of rows with phases in that dtype, and
        returns the rows that are too far out for it (see `near_rows`), whose features it may leave wrong
    """
    with np.errstate(
        over="ignore"
    ):  # a sum of squares that overflows is above its bound: its rows are then checked one by one
        far = np.array(fill(X, out, dtype), dtype=np.int64)
        step = max(_ROWS, _BYTES // max(1, out.itemsize * out.shape[1]))
        for a in range(0, far.size, step):
            rows = far[a : a + step]
            features = np.empty((rows.size, out.shape[1]), dtype=out.dtype)
            fill(X[rows], features, np.dtype(np.float64))
            out[rows] = features
