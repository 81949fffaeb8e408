"""Complex products of spectra, summed over the mixed parts."""

from __future__ import annotations

import numpy as np

from .jit import jit


@jit
def _mix_spectra(x, w, out):
    m = x.shape[1]
    fours = m - m % 4 if m > 4 else 0  # four parts make one journey of the sums to the cache
    for i in range(x.shape[0]):
        for t in range(w.shape[0]):
            o = out[i, t]
            for part in range(0, fours, 4):
                a0, a1, a2, a3 = x[i, part], x[i, part + 1], x[i, part + 2], x[i, part + 3]
                b0, b1, b2, b3 = w[t, part], w[t, part + 1], w[t, part + 2], w[t, part + 3]
                if part == 0:
                    for k in range(o.size):
                        o[k] = (a0[k] * b0[k] + a1[k] * b1[k]) + (a2[k] * b2[k] + a3[k] * b3[k])
                else:
                    for k in range(o.size):
                        o[k] += (a0[k] * b0[k] + a1[k] * b1[k]) + (a2[k] * b2[k] + a3[k] * b3[k])
            for part in range(fours, m):
                a, b = x[i, part], w[t, part]
                if part == 0:
                    for k in range(o.size):
                        o[k] = a[k] * b[k]
                else:
                    for k in range(o.size):
                        o[k] += a[k] * b[k]


def mix_spectra(x: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
    """Write ``out[i, t] = sum over l of x[i, l] * w[t, l]``, elementwise over frequencies.

    Parameters
    ----------
    x : C-contiguous complex array of shape (n, m, K), spectra of the m parts of each row
    w : C-contiguous complex array of shape (t, m, K), spectra of the m vectors of each block
    out : C-contiguous complex array of shape (n, t, K), written in place
    """
    _mix_spectra(x, w, out)
