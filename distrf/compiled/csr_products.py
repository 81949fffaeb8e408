"""Products of CSR rows whose results are dense arrays.

SciPy would make the results sparse first, or copy what it multiplies.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from .jit import jit


@jit
def _add_transposed(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, G: np.ndarray, out: np.ndarray
) -> None:
    for i in range(indptr.size - 1):
        g = G[i]
        for e in range(indptr[i], indptr[i + 1]):
            o, v = out[indices[e]], data[e]
            for j in range(g.size):
                o[j] += v * g[j]


def add_transposed_product(F: sp.csr_array, G: np.ndarray, out: np.ndarray) -> None:
    """Add F'G to `out`, in time proportional to the stored entries of F and without further memory.

    Parameters
    ----------
    F : CSR matrix of shape (n, D)
    G : array of shape (n, l)
    out : array of shape (D, l), float64, rows contiguous, added to in place
    """
    _add_transposed(F.data, F.indices, F.indptr, np.ascontiguousarray(G), out)
