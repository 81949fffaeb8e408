"""Columns of unlike units: factors that bring them to like sizes inside a fit. Number code.

Directions whose variance is below a millionth of the largest are out of reach of the preconditioner, and float32 knows
no numbers beyond 1e38. So columns in units more than a hundred times apart are measured in units of their own. Weights
are divided by the same factors, and penalties are of the weights in the units of the rows.
"""

from __future__ import annotations

import numpy as np

from ..errors import InputError

#: Columns are scaled where their sizes are so far apart, or the largest so far from 1, up or down.
APART, _EXTREME = 1e2, 1e9
#: Sizes whose squares are numbers.
_SMALLEST, _LARGEST = 1e-140, 1e140
#: Steps of the numbers around a shift, below which what it leaves is no signal.
_ROUNDING = 4.0


def column_sizes(
    Z: np.ndarray, weight: np.ndarray | None = None, shift: np.ndarray | None = None
) -> np.ndarray:
    """Root mean square of the entries of each column that are not zero, shape (D,); 0 where there is none.

    So a rare column of ones has the size of a common one, which is in the same unit. A constant column from which its
    mean was subtracted holds rounding alone, and has the size 0.

    Parameters
    ----------
    Z : array of shape (s, D)
    weight : array of shape (s,), or None
    shift : array of shape (D,), what was subtracted from the rows, or None

    Raises
    ------
    InputError : sizes whose squares are no numbers
    """
    rows = Z if weight is None else Z[weight > 0]
    largest = np.abs(rows).max(axis=0, initial=0.0).astype(np.float64)
    high = float(largest.max(initial=0.0))
    if high and not _SMALLEST < high < _LARGEST:
        raise InputError(
            f"the largest features must lie between {_SMALLEST:g} and {_LARGEST:g} in size, so that their squares are "
            f"numbers; got {high:.3g}; scale the columns, as StreamingScaler does"
        )
    largest[largest <= _SMALLEST] = 0.0
    shares = rows / np.where(largest > 0, largest, 1.0)
    count = np.count_nonzero(shares, axis=0)
    sizes = largest * np.sqrt(np.einsum("ij,ij->j", shares, shares) / np.maximum(count, 1))
    rounding = 0.0 if shift is None else _ROUNDING * np.finfo(Z.dtype).eps * np.abs(shift)
    return np.where(sizes > rounding, sizes, 0.0)


def unlike(sizes: np.ndarray, most: float = APART) -> float | None:
    """The smallest over the largest size where columns are more than so many times apart; None where they are alike."""
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
    penalty : of the squares of the weights, over the smoothness of the loss: what it outweighs need not grow
    """
    reach = np.hypot(sizes, np.sqrt(penalty))
    found = reach[reach > 0]
    reach = np.where(sizes > 0, reach, found.max() if len(found) else 1.0)
    return np.exp2(-np.round(np.log2(reach)))
