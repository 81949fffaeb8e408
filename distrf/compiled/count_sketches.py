"""Count sketches of rows."""

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
