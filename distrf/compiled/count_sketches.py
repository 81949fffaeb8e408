"""Count sketches of rows, and products of neighbouring columns."""

from __future__ import annotations

import numpy as np

from .jit import jit


@jit
def count_sketch(X: np.ndarray, places: np.ndarray, weights: np.ndarray, out: np.ndarray) -> None:
    """Write p count sketches of each row: ``out[i, k, places[k, j]] += weights[k, j] * X[i, j]``, from zeros.

    Parameters
    ----------
    X : C-contiguous array of shape (n, d)
    places : array of shape (p, d + 1), integers below D; the last column is that of a constant coordinate 1
    weights : array of shape (p, d + 1), of the dtype of X
    out : C-contiguous array of shape (n, p, D), overwritten
    """
    n, d = X.shape
    for i in range(n):
        x = X[i]
        for k in range(places.shape[0]):
            o, h, w = out[i, k], places[k], weights[k]
            o[:] = 0
            o[h[d]] = w[d]
            for j in range(d):
                o[h[j]] += w[j] * x[j]


@jit
def count_sketch_csr(
    values: np.ndarray,
    indices: np.ndarray,
    indptr: np.ndarray,
    places: np.ndarray,
    weights: np.ndarray,
    out: np.ndarray,
) -> None:
    """`count_sketch` of CSR rows, in time proportional to the stored entries and the size of `out`.

    Parameters
    ----------
    values, indices : stored entries and their columns, of the whole matrix
    indptr : array of shape (n + 1,): the entries of row i stand from indptr[i] to indptr[i + 1]
    places, weights, out : as in `count_sketch`
    """
    d = places.shape[1] - 1
    for i in range(indptr.size - 1):
        a, b = indptr[i], indptr[i + 1]
        for k in range(places.shape[0]):
            o, h, w = out[i, k], places[k], weights[k]
            o[:] = 0
            o[h[d]] = w[d]
            for at in range(a, b):
                j = indices[at]
                o[h[j]] += w[j] * values[at]


@jit
def column_products(P: np.ndarray, ends: np.ndarray, factors: np.ndarray, out: np.ndarray, column: int) -> None:
    """Write products of neighbouring columns: ``out[i, column + f] = factors[f] * prod(P[i, ends[f] : ends[f + 1]])``.

    The products are made in float64, because single factors may leave the range of float32.

    Parameters
    ----------
    P : C-contiguous array of shape (n, R)
    ends : array of shape (F + 1,), ascending; a product of no columns is 1
    factors : array of shape (F,), float64
    out : C-contiguous array of shape (n, at least column + F), written in place
    column : first column of `out` to write
    """
    for i in range(out.shape[0]):
        p = P[i]
        o = out[i, column : column + factors.size]
        for f in range(factors.size):
            product = factors[f]
            for r in range(ends[f], ends[f + 1]):
                product *= p[r]
            o[f] = product
