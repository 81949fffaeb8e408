"""Count sketches of rows, products over segments of columns, gathers of signed columns."""

from __future__ import annotations

from .jit import jit


@jit
def count_sketch(X, places, weights, out):
    """Write p count sketches of each row: ``out[i, k, places[k, j]] += weights[k, j] * X[i, j]``.

    Parameters
    ----------
    X : C-contiguous array of shape (n, d)
    places : array of shape (p, d + 1), integers below D; the last column serves a constant coordinate 1
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
def count_sketch_csr(values, indices, indptr, places, weights, out):
    """`count_sketch` of CSR rows, given by `indptr` of shape (n + 1,); touches nonzeros alone."""
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
def segment_products(P, ends, factors, out, column):
    """Write ``out[i, column + f] = factors[f] * prod(P[i, ends[f] : ends[f + 1]])``.

    Parameters
    ----------
    P : C-contiguous array of shape (n, R)
    ends : array of shape (F + 1,), nondecreasing; an empty run has product 1
    factors : array of shape (F,), float64; products run in float64, since single factors may leave float32
    out : C-contiguous array of shape (n, >= column + F), written in place
    """
    for i in range(out.shape[0]):
        p = P[i]
        o = out[i, column : column + factors.size]
        for f in range(factors.size):
            product = factors[f]
            for r in range(ends[f], ends[f + 1]):
                product *= p[r]
            o[f] = product


@jit
def add_signed_columns(T, places, factors, out):
    """``out[i, k] += factors[k] * T[i, places[k]]``.

    Parameters
    ----------
    T : C-contiguous array of shape (n, b)
    places : array of shape (D,), columns of T
    factors : array of shape (D,), of the dtype of T
    out : C-contiguous array of shape (n, D), written in place
    """
    for i in range(out.shape[0]):
        t, o = T[i], out[i]
        for k in range(places.size):
            o[k] += factors[k] * t[places[k]]
