"""Landmark rows for Nystroem features, from a seeded sample of the rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from ..execution.sampling import sampled_rows, take_rows
from ..kernels.base import AnyKernel
from ..kernels.exact import kernel_block, lean, middle
from ..randomness import permutation, raw_words, sample_indices, uniforms
from ..typing import ArrayLike
from .length_scale import refuse_not_finite

RULES = ("uniform", "k-means++", "kmeans", "leverage")
#: The rules but "uniform" choose from a sample: so many rows for each landmark, and so many bytes at most.
_PER_LANDMARK = 10
_SAMPLE_BYTES = 256 * 2**20
#: Share of leverage sampling that is uniform.
_UNIFORM = 0.25


def choose_landmarks(
    rule: str, kernel: AnyKernel, length_scale: float, X: ArrayLike, m: int, seed: int
) -> np.ndarray:
    """Choose landmark rows from the rows of X.

    Parameters
    ----------
    rule : "uniform" (distinct rows), or, within a sample of 10 m rows (fewer where they pass 256 MiB):
        "k-means++" (spread out by squared distance: scikit-learn's seeding), "kmeans" (centres of
        scikit-learn's MiniBatchKMeans: Zhang, Tsang & Kwok 2008), "leverage" (by approximate ridge
        leverage scores: Musco & Musco 2017, Algorithm 3)
    kernel, length_scale : of the leverage scores; the other rules do not use them
    X : array, CSR matrix or Dask array of shape (n, d)
    m : int, number of landmarks
    seed : int, of all draws

    Returns
    -------
    Rows of shape (min(m, n), d), in the dtype of X.

    Raises
    ------
    InputError : an unknown rule, or sampled rows that are not finite
    """
    n, d = X.shape
    m = min(m, n)
    if rule == "uniform":
        rows = take_rows(X, sample_indices(seed, "landmarks", n, m))
    else:
        size = max(m, min(_PER_LANDMARK * m, _SAMPLE_BYTES // (8 * d)))
        # Sampling eight neighbours at a time reads fewer blocks, but may leave out seven of the m rows wanted.
        rows = take_rows(X, sampled_rows(n, size + 8, seed, "landmarks"))
    refuse_not_finite(rows)
    if rule == "uniform" or len(rows) <= m:
        return rows
    state = int(raw_words(seed, "landmarks", 1, 1)[0] >> 32)
    if rule == "k-means++":
        from sklearn.cluster import kmeans_plusplus  # on first use: cold workers start quickly

        return rows[np.sort(kmeans_plusplus(lean(rows), m, random_state=state)[1])]
    if rule == "kmeans":
        return _centres(rows, m, state)
    return rows[np.sort(leverage_sample(kernel, length_scale, rows, m, seed))]


def _centres(rows: np.ndarray, m: int, state: int) -> np.ndarray:
    from sklearn.cluster import MiniBatchKMeans

    batch = max(1024, min(len(rows), 4 * m))
    clusters = MiniBatchKMeans(
        m, n_init=1, max_iter=20, batch_size=batch, init_size=len(rows), random_state=state
    )
    with warnings.catch_warnings():
        # Fewer distinct rows than landmarks: the map drops the directions that repeat.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clusters.fit(lean(rows)).cluster_centers_.astype(rows.dtype, copy=False)


def leverage_sample(kernel: AnyKernel, length_scale: float, rows: np.ndarray, m: int, seed: int) -> np.ndarray:
    """Indices of m distinct rows, drawn in proportion to approximate ridge leverage scores, shape (m,).

    Recursive sampling (Musco & Musco 2017, Algorithm 3): scores of the first 2 m, 4 m, ... rows of a seeded
    order come from the landmarks of the level before, J with weights S,

        l_i = [k(x_i, x_i) - k(x_i, J) (k(J, J) + lambda S^-2)^-1 k(J, x_i)] / lambda,

    lambda = sum of the eigenvalues of S k(J, J) S beyond the k-th, over k, with k = m / 4. A quarter of the
    probability is uniform: the scores of rows far from J are overrated, and a dense cluster whose rows
    score little each could be left out (kddcup99, m = 64: spectral error 0.22 without it, 0.06 with it).
    """
    order = permutation(seed, "leverage order", 0, len(rows))
    points = lean(np.asarray(rows, dtype=np.float64)[order])
    chosen, size, level = np.arange(m), m, 0
    weights = np.full(m, np.sqrt(min(2.0, len(rows) / m)))  # one in two of the first level
    while size < len(rows):
        size = min(2 * size, len(rows))
        scores = _leverage(kernel, length_scale, points[:size], chosen, weights)
        p = (1 - _UNIFORM) * scores / scores.sum() + _UNIFORM / size
        keys = -np.log(uniforms(seed, "leverage", level, size)) / p
        chosen = np.argpartition(keys, m - 1)[:m]
        weights = 1.0 / np.sqrt(np.minimum(m * p[chosen], 1.0))
        level += 1
    return order[chosen]


def _leverage(
    kernel: AnyKernel, length_scale: float, rows: Any, chosen: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Ridge leverage scores of all rows, an array or CSR, by the weighted rows `chosen`, shape (n,)."""
    m = len(chosen)
    J = rows[chosen]
    centre = None if sp.issparse(J) else middle(J)
    KJ = kernel_block(kernel, J, J, length_scale, centre)
    k = max(1, m // 4)
    spectrum = scipy.linalg.eigvalsh(KJ * np.outer(weights, weights))
    ridge = max(float(np.maximum(spectrum[:-k], 0.0).sum()) / k, 1e-10 * float(spectrum[-1]))
    factor = scipy.linalg.cholesky(KJ + np.diag(ridge / weights**2 + 1e-12 * np.trace(KJ) / m), lower=True)
    scores = np.empty(rows.shape[0])
    for a in range(0, rows.shape[0], 1024):
        tile = rows[a : a + 1024]
        B = kernel_block(kernel, tile, J, length_scale, centre)
        B = scipy.linalg.solve_triangular(factor, B.T, lower=True)
        scores[a : a + 1024] = (kernel.diagonal(tile) - (B * B).sum(axis=0)) / ridge
    return np.clip(scores, 1e-12, 1.0)
