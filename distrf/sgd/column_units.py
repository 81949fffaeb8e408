"""Columns of unlike units: factors that bring them to like sizes inside a fit. Number code.

The preconditioner cannot speed up directions whose variance is below a millionth of the largest, and float32 ends at 1e38.
So if the sizes of columns differ by more than a factor of 100, each column is multiplied by a factor of its own. Weights
are divided by it, and penalties still apply to the weights in the original units of the rows.
"""

from __future__ import annotations

import numpy as np

from ..errors import InputError

#: Columns are scaled if their sizes differ by more than the first factor, or the largest differs from 1 by the second.
APART, _EXTREME = 1e2, 1e9
#: Columns that are measured at a time.
_TILE = 64
#: Bounds of sizes whose squares neither overflow nor vanish in float64.
_SMALLEST, _LARGEST = 1e-140, 1e140
#: A shifted column whose size is below this many units in the last place of its mean holds rounding alone.
_ROUNDING = 4.0


def column_sizes(
    Z: np.ndarray, weight: np.ndarray | None = None, shift: np.ndarray | None = None
) -> np.ndarray:
    """The size of each column: root mean square of its nonzero entries, shape (D,); 0 if it has none.

    Zeros are left out, so that a column with few ones has the same size as a column with many, which is in the same unit.
    A constant column from which its mean was subtracted holds rounding alone, and has the size 0.

    Parameters
    ----------
    Z : array of shape (s, D)
    weight : array of shape (s,), or None
    shift : array of shape (D,), what was subtracted from the rows, or None

    Raises
    ------
    InputError : the square of a size would overflow or vanish
    """
    rows = Z if weight is None or (weight > 0).all() else Z[weight > 0]
    largest = np.maximum(rows.max(axis=0, initial=0.0), -rows.min(axis=0, initial=0.0)).astype(np.float64)
    high = float(largest.max(initial=0.0))
    if high and not _SMALLEST < high < _LARGEST:
        raise InputError(
            f"the largest features must lie between {_SMALLEST:g} and {_LARGEST:g} in size, so that their squares are "
            f"numbers; got {high:.3g}; scale the columns, as StreamingScaler does"
        )
    largest[largest <= _SMALLEST] = 0.0
    sizes = np.empty(len(largest))
    for a in range(0, len(largest), _TILE):
        part = slice(a, a + _TILE)
        shares = rows[:, part] / np.where(largest[part] > 0, largest[part], 1.0)
        squares, count = np.einsum("ij,ij->j", shares, shares), np.count_nonzero(shares, axis=0)
        sizes[part] = largest[part] * np.sqrt(squares / np.maximum(count, 1))
    rounding = 0.0 if shift is None else _ROUNDING * np.finfo(Z.dtype).eps * np.abs(shift)
    return np.where(sizes > rounding, sizes, 0.0)


def unlike(sizes: np.ndarray, most: float = APART) -> float | None:
    """The smallest size over the largest if they differ by more than `most`, so that columns are scaled; else None."""
    sizes = sizes[sizes > 0]
    if not len(sizes):
        return None
    low, high = float(sizes.min()), float(sizes.max())
    return low / high if high > most * low or not 1.0 / _EXTREME < high < _EXTREME else None


def unit_factors(sizes: np.ndarray, penalty: float) -> np.ndarray:
    """A power of two for each column, shape (D,), that brings size^2 + penalty near 1.

    Parameters
    ----------
    sizes : array of shape (D,)
    penalty : strength of the squared l2 penalty over the smoothness of the loss. It outweighs smaller columns, which
        therefore need no larger factor
    """
    reach = np.hypot(sizes, np.sqrt(penalty))
    positive = reach[reach > 0]
    reach = np.where(sizes > 0, reach, positive.max() if len(positive) else 1.0)
    return np.exp2(-np.round(np.log2(reach)))
