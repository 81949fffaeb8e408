"""Weighted norms of rows in float64. The norm of a row does not depend on the rows around it, to the last bit."""

from __future__ import annotations

import numpy as np

from .jit import jit


@jit
def row_sizes(X: np.ndarray, factors: np.ndarray, out: np.ndarray) -> None:
    """Write ``out[i] = sqrt(sum over j of (factors[j] * X[i, j])^2)``; infinity where that is too large for float64.

    Parameters
    ----------
    X : C-contiguous array of shape (n, d)
    factors : array of shape (d,), float64
    out : array of shape (n,), float64, overwritten
    """
    d = factors.size
    fours = d - d % 4
    for i in range(out.size):
        x = X[i]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0  # four sums, so that an addition need not wait for the one before
        for j in range(0, fours, 4):
            v0, v1 = factors[j] * x[j], factors[j + 1] * x[j + 1]
            v2, v3 = factors[j + 2] * x[j + 2], factors[j + 3] * x[j + 3]
            s0 += v0 * v0
            s1 += v1 * v1
            s2 += v2 * v2
            s3 += v3 * v3
        for j in range(fours, d):
            v = factors[j] * x[j]
            s0 += v * v
        out[i] = np.sqrt((s0 + s1) + (s2 + s3))


@jit
def row_sizes_csr(
    values: np.ndarray, indices: np.ndarray, indptr: np.ndarray, factors: np.ndarray, out: np.ndarray
) -> None:
    """`row_sizes` of CSR rows.

    Parameters
    ----------
    values, indices, indptr : the arrays of a CSR matrix of shape (n, d)
    factors, out : as in `row_sizes`
    """
    for i in range(out.size):
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            v = factors[indices[e]] * values[e]
            total += v * v
        out[i] = np.sqrt(total)
