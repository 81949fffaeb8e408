"""Subsampled Walsh-Hadamard sums over the rows of a block, fused: signs, transpose, transform, samples."""

from __future__ import annotations

import numpy as np

from .jit import jit
from .walsh_hadamard import _row

#: Features transposed together: one cache line of float32.
_STRIP = 16


@jit
def _add(F, signs, place, samples, factor, scratch, out):
    n, D = F.shape
    for j0 in range(0, D, _STRIP):
        width = min(_STRIP, D - j0)
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
    F : array of shape (n, D), float32 or float64, columns contiguous; n + place <= R
    signs : shape (n,), of the dtype of F; samples : shape (l,), in 0 ... R - 1; factor : shape (l,)
    length : R, a power of two
    out : array of shape (D, l), float64, written in place
    """
    scratch = np.empty((_STRIP, length), dtype=F.dtype)
    _add(F, signs.astype(F.dtype), place, samples, factor, scratch, out)
