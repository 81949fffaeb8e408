"""Sampled sums of Walsh-Hadamard transforms over the rows of a block.

One loop takes a few columns, multiplies them by signs, transposes them, transforms them and adds the samples,
so that no transformed block ever exists.
"""

from __future__ import annotations

import numpy as np

from .jit import jit
from .walsh_hadamard import _row

#: Columns of a column block, which are transposed together: one cache line of float32.
_COLUMNS = 16


@jit
def _add(
    F: np.ndarray,
    signs: np.ndarray,
    place: int,
    samples: np.ndarray,
    factor: np.ndarray,
    scratch: np.ndarray,
    out: np.ndarray,
) -> None:
    n, D = F.shape
    for j0 in range(0, D, _COLUMNS):
        width = min(_COLUMNS, D - j0)
        if n < scratch.shape[1]:
            scratch[:] = 0
        for r in range(n):
            s = signs[r]
            for j in range(width):
                scratch[j, place + r] = s * F[r, j0 + j]
        for j in range(width):
            x, o = scratch[j], out[j0 + j]
            _row(x)
            for c in range(samples.size):
                o[c] += factor[c] * x[samples[c]]


def add_hadamard_samples(
    F: np.ndarray,
    signs: np.ndarray,
    place: int,
    samples: np.ndarray,
    factor: np.ndarray,
    length: int,
    out: np.ndarray,
) -> None:
    """Add ``factor[c] * sum over r of H_R[samples[c], place + r] signs[r] F[r, j]`` to ``out[j, c]``.

    Parameters
    ----------
    F : array of shape (n, D), float32 or float64, rows contiguous; place + n <= R
    signs : array of shape (n,)
    place : the column of H_R that row 0 of F meets
    samples : array of shape (l,), integers in 0 ... R - 1
    factor : array of shape (l,)
    length : R, a power of two
    out : array of shape (D, l), float64, added to in place
    """
    scratch = np.empty((_COLUMNS, length), dtype=F.dtype)
    _add(F, signs.astype(F.dtype), place, samples, factor, scratch, out)
