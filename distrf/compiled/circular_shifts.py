"""Terms of circular convolutions, added shift by shift where an FFT would round too coarsely."""

from __future__ import annotations

import numpy as np

from .jit import jit

#: How many shifts are added in one sweep over the outputs. Lists of shifts are padded to a multiple of it.
TOGETHER = 8


@jit
def _spread(X: np.ndarray, chosen: np.ndarray, out: np.ndarray, sums: np.ndarray, counts: np.ndarray) -> None:
    n, m, L = out.shape
    for i in range(n):
        o, x = out[i].reshape(m * L), X[i]  # as one flat row: indexing with two numbers takes twice the time
        total, count = 0.0, 0
        for j in range(x.size):
            o[chosen[j] * L + j] = x[j]
            total += x[j]
            count += x[j] != 0.0
        sums[i], counts[i] = total, count


@jit
def _add_weights(
    inputs: np.ndarray, values: np.ndarray, matrices: np.ndarray, places: np.ndarray, out: np.ndarray
) -> None:
    n, t, L = out.shape
    for i in range(n):
        x = inputs[i]
        for b in range(t):
            o, v, q, at = out[i, b], values[b], matrices[b], places[b]
            for s in range(0, v.size, 8):
                v0, v1, v2, v3 = v[s], v[s + 1], v[s + 2], v[s + 3]
                v4, v5, v6, v7 = v[s + 4], v[s + 5], v[s + 6], v[s + 7]
                lo = 0
                for g in range(9):  # between two places none of the eight shifted rows wraps around
                    hi = at[s + g] if g < 8 else L
                    if hi > lo:
                        x0 = x[q[s], lo - at[s] + (L if at[s] > lo else 0) :]
                        x1 = x[q[s + 1], lo - at[s + 1] + (L if at[s + 1] > lo else 0) :]
                        x2 = x[q[s + 2], lo - at[s + 2] + (L if at[s + 2] > lo else 0) :]
                        x3 = x[q[s + 3], lo - at[s + 3] + (L if at[s + 3] > lo else 0) :]
                        x4 = x[q[s + 4], lo - at[s + 4] + (L if at[s + 4] > lo else 0) :]
                        x5 = x[q[s + 5], lo - at[s + 5] + (L if at[s + 5] > lo else 0) :]
                        x6 = x[q[s + 6], lo - at[s + 6] + (L if at[s + 6] > lo else 0) :]
                        x7 = x[q[s + 7], lo - at[s + 7] + (L if at[s + 7] > lo else 0) :]
                        y = o[lo:hi]
                        for k in range(hi - lo):
                            a = v0 * x0[k] + v1 * x1[k] + v2 * x2[k] + v3 * x3[k]
                            y[k] += a + (v4 * x4[k] + v5 * x5[k] + v6 * x6[k] + v7 * x7[k])
                        lo = hi


@jit
def _add_entries(
    starts: np.ndarray,
    columns: np.ndarray,
    values: np.ndarray,
    rows: np.ndarray,
    chosen: np.ndarray,
    vectors: np.ndarray,
    out: np.ndarray,
) -> None:
    t, L = vectors.shape[0], vectors.shape[2]
    for i in range(rows.size):
        for b in range(t):
            o = out[rows[i], b]
            for e in range(starts[i], starts[i + 1]):
                j, v = columns[e], values[e]
                c = vectors[b, chosen[j]]
                head, o_head = c[: L - j], o[j:]
                for k in range(L - j):
                    o_head[k] += v * head[k]
                tail = c[L - j :]
                for k in range(j):
                    o[k] += v * tail[k]


def spread_columns(X: np.ndarray, chosen: np.ndarray, out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Write each column of X into one of m zero-padded copies of its row.

    Parameters
    ----------
    X : C-contiguous array of shape (n, d), float64
    chosen : array of shape (d,), int64, in 0 ... m - 1: the copy that column j goes to
    out : C-contiguous array of shape (n, m, L), L >= d. ``out[i, chosen[j], j]`` becomes X[i, j]; nothing else
        is written, so the rest must be zeros already

    Returns
    -------
    sums : array of shape (n,), the sum of each row
    counts : array of shape (n,), int64, the number of entries of each row that are not 0
    """
    sums, counts = np.empty(len(X)), np.empty(len(X), dtype=np.int64)
    _spread(X, chosen, out, sums, counts)
    return sums, counts


def add_weight_shifts(
    inputs: np.ndarray, values: np.ndarray, matrices: np.ndarray, places: np.ndarray, out: np.ndarray
) -> None:
    """Add ``values[b, s] * roll(inputs[i, matrices[b, s]], places[b, s])`` to out[i, b], for every s.

    Parameters
    ----------
    inputs : array of shape (n, m, L), the copies of rows that `spread_columns` wrote
    values : array of shape (t, r), r a multiple of `TOGETHER`: weights of block b
    matrices : array of shape (t, r), int64, in 0 ... m - 1: the circulant matrix that the weight belongs to
    places : array of shape (t, r), int64, in 0 ... L - 1: its place in the first column of the matrix,
        ascending in each block
    out : C-contiguous array of shape (n, t, L), float64, added to in place
    """
    _add_weights(inputs, values, matrices, places, out)


def add_entry_shifts(
    starts: np.ndarray,
    columns: np.ndarray,
    values: np.ndarray,
    rows: np.ndarray,
    chosen: np.ndarray,
    vectors: np.ndarray,
    out: np.ndarray,
) -> None:
    """Add ``v * roll(vectors[b, chosen[j]], j)`` to out[rows[i], b] for every b and each entry v in column j of row i.

    Parameters
    ----------
    starts, columns, values : the entries of k rows: those of row i stand from starts[i] to starts[i + 1]
    rows : array of shape (k,), int64: the row of `out` that row i of the entries belongs to
    chosen : array of shape (d,), int64, in 0 ... m - 1: the circulant matrix of each column
    vectors : C-contiguous array of shape (t, m, L), float64, first columns of the matrices of each block
    out : C-contiguous array of shape (n, t, L), float64, added to in place
    """
    _add_entries(starts, columns, values, rows, chosen, vectors, out)
