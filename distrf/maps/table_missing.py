"""The numbers that stand for missing values in the coded rows of a table."""

from __future__ import annotations

import numpy as np

#: Finite on purpose: code that refuses NaN reads coded rows too. Its square, summed over 10^9 rows, is finite in
#: float64. In float32, which holds neither text codes nor seconds, it is an infinity, which all checks refuse.
MISSING = -(2.0**400)

#: So is something that is no number: an infinity, or a text among numbers. It counts as missing, and is told apart in messages.
UNREAD = 2 * MISSING


def is_missing(values: np.ndarray) -> np.ndarray:
    """True where a coded value is missing.

    Parameters
    ----------
    values : float64 array of any shape

    Returns
    -------
    boolean array of that shape
    """
    return (values == MISSING) | (values == UNREAD)


def with_missing(values: np.ndarray) -> np.ndarray:
    """The same coded values with `MISSING` for all that is."""
    unread = values == UNREAD
    return np.where(unread, MISSING, values) if unread.any() else values
