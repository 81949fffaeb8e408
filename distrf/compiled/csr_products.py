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


@jit
def _products(
    data: np.ndarray,
    indices: np.ndarray,
    indptr: np.ndarray,
    values: np.ndarray,
    places: np.ndarray,
    starts: np.ndarray,
    out: np.ndarray,
) -> None:
    for i in range(indptr.size - 1):
        o = out[i]
        for e in range(indptr[i], indptr[i + 1]):
            v, j = data[e], indices[e]
            for f in range(starts[j], starts[j + 1]):
                o[places[f]] += v * values[f]


@jit
def _square_distances(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, out: np.ndarray) -> None:
    for i in range(indptr.size - 1):
        for j in range(i):
            a, b = indptr[i], indptr[j]
            last_a, last_b = indptr[i + 1], indptr[j + 1]
            total = 0.0
            while a < last_a or b < last_b:
                column_a = indices[a] if a < last_a else np.iinfo(np.int64).max
                column_b = indices[b] if b < last_b else np.iinfo(np.int64).max
                v = 0.0
                if column_a <= column_b:
                    v += data[a]
                    a += 1
                if column_b <= column_a:
                    v -= data[b]
                    b += 1
                total += v * v
            out[i, j] = out[j, i] = total


def add_transposed_product(F: sp.csr_array, G: np.ndarray, out: np.ndarray) -> None:
    """Add F'G to `out`, in time proportional to the stored entries of F and without further memory.

    Parameters
    ----------
    F : CSR matrix of shape (n, D)
    G : array of shape (n, l)
    out : array of shape (D, l), float64, rows contiguous, added to in place
    """
    _add_transposed(F.data, F.indices, F.indptr, np.ascontiguousarray(G), out)


def row_products(X: sp.csr_array, Y: sp.csr_array) -> np.ndarray:
    """The products x.y of all rows of two CSR matrices.

    Parameters
    ----------
    X : CSR matrix of shape (n, d)
    Y : CSR matrix of shape (m, d)

    Returns
    -------
    Array of shape (n, m), float64.
    """
    columns = sp.csr_array(Y.T)
    out = np.zeros((X.shape[0], Y.shape[0]))
    _products(X.data, X.indices, X.indptr, columns.data, columns.indices, columns.indptr, out)
    return out


def square_distances(X: sp.csr_array) -> np.ndarray:
    """The squared distances |x - y|^2 of all pairs of rows.

    They are sums of squared differences, so that near rows keep their digits.

    Parameters
    ----------
    X : CSR matrix of shape (n, d) whose columns ascend within each row

    Returns
    -------
    Array of shape (n, n), float64.
    """
    out = np.zeros((X.shape[0], X.shape[0]))
    _square_distances(X.data, X.indices, X.indptr, out)
    return out
