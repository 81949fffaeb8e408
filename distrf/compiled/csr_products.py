"""Products of CSR rows whose results are dense; SciPy makes them sparse first, or copies its operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from .jit import jit


@jit
def _add_transposed(data, indices, indptr, G, out):
    for i in range(indptr.size - 1):
        g = G[i]
        for e in range(indptr[i], indptr[i + 1]):
            o, v = out[indices[e]], data[e]
            for j in range(g.size):
                o[j] += v * g[j]


@jit
def _products(data, indices, indptr, values, places, starts, out):
    for i in range(indptr.size - 1):
        o = out[i]
        for e in range(indptr[i], indptr[i + 1]):
            v, j = data[e], indices[e]
            for f in range(starts[j], starts[j + 1]):
                o[places[f]] += v * values[f]


@jit
def _square_distances(data, indices, indptr, out):
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


def add_transposed_product(F: Any, G: np.ndarray, out: np.ndarray) -> None:
    """Add F'G to `out`, in time proportional to the entries of F and without scratch.

    Parameters
    ----------
    F : CSR matrix of shape (n, D)
    G : array of shape (n, l)
    out : array of shape (D, l), float64, rows contiguous, written in place
    """
    _add_transposed(F.data, F.indices, F.indptr, np.ascontiguousarray(G), out)


def row_products(X: Any, Y: Any) -> np.ndarray:
    """x.y of all rows of two CSR matrices of shapes (n, d) and (m, d): a dense array of shape (n, m), float64."""
    columns = sp.csr_array(Y.T)
    out = np.zeros((X.shape[0], Y.shape[0]))
    _products(X.data, X.indices, X.indptr, columns.data, columns.indices, columns.indptr, out)
    return out


def square_distances(X: Any) -> np.ndarray:
    """|x - y|^2 of all pairs of rows of a CSR matrix of shape (n, d), sorted indices: shape (n, n), float64.

    Sums of squared differences, so that near rows keep their digits.
    """
    out = np.zeros((X.shape[0], X.shape[0]))
    _square_distances(X.data, X.indices, X.indptr, out)
    return out
