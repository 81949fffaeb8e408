"""Count sketches of rows."""

from __future__ import annotations

import numpy as np

from .jit import jit


@jit
def count_sketch(
    values: np.ndarray,
    indices: np.ndarray | None,
    indptr: np.ndarray,
    places: np.ndarray,
    weights: np.ndarray,
    out: np.ndarray,
) -> None:
    """Write p count sketches of each row: ``out[i, k, places[k, j]] += weights[k, j] * x[i, j]``, from zeros.

    It takes time proportional to the entries of the rows and the size of `out`.

    Parameters
    ----------
    values, indices : entries and their columns; None for rows of which all entries are there, in their order
    indptr : array of shape (n + 1,): the entries of row i stand from indptr[i] to indptr[i + 1]
    places : array of shape (p, d + 1), integers below D; the last column is that of a constant coordinate 1
    weights : array of shape (p, d + 1), of the dtype of `values`
    out : C-contiguous array of shape (n, p, D), overwritten
    """
    d = places.shape[1] - 1
    for i in range(indptr.size - 1):
        a, b = indptr[i], indptr[i + 1]
        for k in range(places.shape[0]):
            o, h, w = out[i, k], places[k], weights[k]
            o[:] = 0
            o[h[d]] = w[d]
            for at in range(a, b):
                j = at - a if indices is None else indices[at]
                o[h[j]] += w[j] * values[at]
