"""How far from the origin phases can be trusted: rows that need float64, and rows that no phase tells apart.

The size of a row is the root mean square of its phases w.x, in radians: |x| / l for a kernel of length scale l. Phases
round by eps times the size, some 1e-3 radians at 1e4 in float32 and at 5e12 in float64; beyond 2^23 turns in float32,
and 2^52 in float64, all phases are whole turns, and all rows coincide with the origin.

Whether a row is far is a rule of that row alone, so features do not depend on how rows are cut into blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..compiled.row_norms import row_sizes, row_sizes_csr
from ..errors import InputError

#: Sizes beyond which phases are made in float64, and beyond which rows are refused.
SINGLE, DOUBLE = 1e4, 1e15
#: Bytes of features of far rows that are made apart at once, and the least rows.
_BYTES, _ROWS = 2**24, 512


def near_rows(tile: Any, first: int, factors: np.ndarray | float, dtype: np.dtype, far: list[int]) -> Any:
    """The tile with zeros for the rows that are too far out for phases in `dtype`.

    Their row numbers are appended to `far`.

    tile : C-contiguous array or CSR matrix of float32 or float64, of which row 0 is row `first` of a block
    factors : of each column, or of all, so that |factors * x| is the size of a row
    Raises InputError for rows too far for float64.
    """
    bound = SINGLE if dtype.itemsize == 4 else DOUBLE
    if _square_sum(tile, factors) <= 0.5 * bound**2:  # with room for the rounding of a sum in float32
        return tile
    sizes = _sizes(tile, factors)
    beyond = np.flatnonzero(sizes > DOUBLE)
    if beyond.size:
        row = beyond[0]
        raise InputError(
            f"row {first + row} of the block is {sizes[row]:.2g} length scales from the origin, and beyond "
            f"{DOUBLE:.0e} float64 tells no two rows apart; scale or centre the columns, drop constant ones, or "
            "leave out what stands for missing values"
        )
    rows = np.flatnonzero(sizes > bound)
    if rows.size == 0:
        return tile
    far.extend((first + rows).tolist())
    tile = tile.copy()
    if sp.issparse(tile):
        for i in rows:
            tile.data[tile.indptr[i] : tile.indptr[i + 1]] = 0
    else:
        tile[rows] = 0
    return tile


def _square_sum(tile: Any, factors: np.ndarray | float) -> float:
    """Sum over the tile of (factors * x)^2."""
    values = tile.reshape(-1) if isinstance(tile, np.ndarray) else tile.data
    if not isinstance(factors, np.ndarray):
        return factors * factors * float(values.dot(values))
    factors = factors.astype(values.dtype)
    values = (tile * factors).reshape(-1) if isinstance(tile, np.ndarray) else values * factors[tile.indices]
    return float(values.dot(values))


def _sizes(tile: Any, factors: np.ndarray | float) -> np.ndarray:
    factors = factors if isinstance(factors, np.ndarray) else np.full(tile.shape[1], factors)
    sizes = np.empty(tile.shape[0])
    if sp.issparse(tile):
        row_sizes_csr(tile.data, tile.indices, tile.indptr, factors, sizes)
    else:
        row_sizes(tile, factors, sizes)
    return sizes


def fill_by_reach(
    X: Any, out: np.ndarray, dtype: np.dtype, fill: Callable[[Any, np.ndarray, np.dtype], list[int]]
) -> None:
    """Features of the rows of X from phases in `dtype`, but from float64 ones for rows that are too far out for it.

    fill(rows, features, dtype) : fills features of `near_rows` and returns the far ones
    """
    with np.errstate(over="ignore"):  # sums that overflow are looked at again
        far = np.array(fill(X, out, dtype), dtype=np.int64)
        step = max(_ROWS, _BYTES // max(1, out.itemsize * out.shape[1]))
        for a in range(0, far.size, step):
            rows = far[a : a + step]
            features = np.empty((rows.size, out.shape[1]), dtype=out.dtype)
            fill(X[rows], features, np.dtype(np.float64))
            out[rows] = features
