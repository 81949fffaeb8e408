"""Bins of random grids, and their hashes (Rahimi & Recht 2007, Algorithm 2).

Row x falls into bin b_j = floor(x_j / u_j + s_j) of a grid with pitches u and shifts s. The hash of the bin is
H = m_0 + sum_j m_j b_j mod 2^64 with random 64-bit words m. The top 32 bits of H are strongly universal
(Dietzfelbinger 1996; "Multilinear", Lemire & Kaser 2014): over the draw of m, the top halves of two bins are a
uniform pair, if the bins are less than 2^32 steps apart in each coordinate.
"""

from __future__ import annotations

import numpy as np

from .jit import jit

#: Numbers of bins end at +-2^52: up to there float64 tells neighbours apart.
_FAR = 2.0**52


@jit
def bin_hashes(
    values: np.ndarray,
    indices: np.ndarray | None,
    indptr: np.ndarray,
    rates: np.ndarray,
    shifts: np.ndarray,
    words: np.ndarray,
    out: np.ndarray,
) -> None:
    """Write the hash of the bin of each row in each grid, in time proportional to the entries of the rows.

    Parameters
    ----------
    values, indices : entries, float64, and their columns; None for rows of which all entries are there, in their order
    indptr : array of shape (n + 1,): the entries of row i stand from indptr[i] to indptr[i + 1]
    rates : array of shape (P, d): 1 / u
    shifts : array of shape (P, d): s, in [0, 1)
    words : array of shape (P, d + 1), int64: m, with m_0 first
    out : array of shape (n, P), uint64, overwritten
    """
    for i in range(indptr.size - 1):
        first = indptr[i]
        x = values[first : indptr[i + 1]]
        for p in range(rates.shape[0]):
            r, s, m = rates[p], shifts[p], words[p]
            h = np.int64(0)
            for e in range(x.size):  # an entry of 0 adds nothing: it lies in bin 0, since 0 <= s < 1
                j = e if indices is None else indices[first + e]
                b = np.floor(x[e] * r[j] + s[j])
                h += m[j + 1] * np.int64(min(max(b, -_FAR), _FAR))
            out[i, p] = np.uint64(m[0] + h)


@jit
def signed_columns(
    hashes: np.ndarray,
    starts: np.ndarray,
    widths: np.ndarray,
    columns: np.ndarray,
    values: np.ndarray,
    size: float,
) -> None:
    """Write the column and the signed value of the entry that each bin makes.

    Parameters
    ----------
    hashes : array of shape (n, P), uint64
    starts, widths : arrays of shape (P,), int64: grid p owns the columns from starts[p] on, widths[p] < 2^31 of
        them
    columns : array of shape (n, P), int32 or int64, overwritten
    values : array of shape (n, P), float32 or float64, overwritten with +-size
    size : the absolute value of an entry
    """
    for i in range(hashes.shape[0]):
        for p in range(hashes.shape[1]):
            h = hashes[i, p] >> np.uint64(32)
            # 31 bits choose one of the grid's columns, the top bit the sign.
            place = ((h & np.uint64(0x7FFFFFFF)) * np.uint64(widths[p])) >> np.uint64(31)
            columns[i, p] = starts[p] + np.int64(place)
            values[i, p] = -size if h >> np.uint64(31) else size
