"""Landmark rows for Nystroem features, from a seeded sample of the rows."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..execution.sampling import sampled_rows, take_rows
from ..kernels.exact import lean
from ..randomness import raw_words, sample_indices
from ..typing import ArrayLike
from .length_scale import refuse_not_finite

RULES = ("uniform", "k-means++", "kmeans")
#: The rules but "uniform" choose from a sample: so many rows for each landmark, and so many bytes at most.
_PER_LANDMARK = 10
_SAMPLE_BYTES = 256 * 2**20


def choose_landmarks(rule: str, X: ArrayLike, m: int, seed: int) -> np.ndarray:
    """Choose landmark rows from the rows of X.

    Parameters
    ----------
    rule : "uniform" (distinct rows), or, within a sample of 10 m rows (fewer where they pass 256 MiB):
        "k-means++" (spread out by squared distance: scikit-learn's seeding), "kmeans" (centres of
        scikit-learn's MiniBatchKMeans: Zhang, Tsang & Kwok 2008)
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
    return _centres(rows, m, state)


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
