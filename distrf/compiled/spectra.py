"""Products of complex spectra, summed over the circulant matrices that a block mixes."""

from __future__ import annotations

import numpy as np

from .jit import jit


@jit
def _mix_spectra(x: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
    m = x.shape[1]
    fours = m - m % 4 if m > 4 else 0  # four products at a time: the sums go to the cache once for four
    for i in range(x.shape[0]):
        for t in range(w.shape[0]):
            o = out[i, t]
            for which in range(0, fours, 4):
                a0, a1, a2, a3 = x[i, which], x[i, which + 1], x[i, which + 2], x[i, which + 3]
                b0, b1, b2, b3 = w[t, which], w[t, which + 1], w[t, which + 2], w[t, which + 3]
                if which == 0:
                    for k in range(o.size):
                        o[k] = (a0[k] * b0[k] + a1[k] * b1[k]) + (a2[k] * b2[k] + a3[k] * b3[k])
                else:
                    for k in range(o.size):
                        o[k] += (a0[k] * b0[k] + a1[k] * b1[k]) + (a2[k] * b2[k] + a3[k] * b3[k])
            for which in range(fours, m):
                a, b = x[i, which], w[t, which]
                if which == 0:
                    for k in range(o.size):
                        o[k] = a[k] * b[k]
                else:
                    for k in range(o.size):
                        o[k] += a[k] * b[k]


def mix_spectra(x: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
    """Write ``out[i, t] = sum over l of x[i, l] * w[t, l]``, frequency by frequency.

    Parameters
    ----------
    x : C-contiguous complex array of shape (n, m, K): of each row, the spectrum of what each of the m matrices
        acts on
    w : C-contiguous complex array of shape (t, m, K): of each block, the spectrum of each of its m matrices
    out : C-contiguous complex array of shape (n, t, K), overwritten
    """
    _mix_spectra(x, w, out)
