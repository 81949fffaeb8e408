"""Complex products of spectra, summed over the mixed parts."""

from __future__ import annotations

import numpy as np

from .jit import jit


@jit
def _mix_spectra(x, w, out):
    for i in range(x.shape[0]):
        for t in range(w.shape[0]):
            o = out[i, t]
            for part in range(x.shape[1]):
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
