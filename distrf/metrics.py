"""The error of a kernel approximation, on sampled rows."""

from __future__ import annotations

import numpy as np

from .errors import InputError
from .execution.labelled import plain_rows
from .execution.sampling import sampled_rows, take_rows
from .maps import FeatureMap, check_rows, working_dtype
from .maps.estimator import FeatureEstimator
from .typing import ArrayLike

__all__ = ["kernel_error"]

#: Features that are made at once: whole random blocks of the dense projection.
_COLUMNS = 2048


def kernel_error(
    map_: FeatureEstimator | FeatureMap, X: ArrayLike, *, n_rows: int = 2000, seed: int = 0
) -> float:
    """Measure how well a map approximates its kernel, |K - Z Z'| / |K|, on a seeded sample of rows.

    Two matrices of n_rows^2 numbers are in memory, and 2,048 features of these rows at a time.

    Parameters
    ----------
    map_ : fitted feature estimator or FeatureMap
        A fitted feature estimator or its `map_`, which must know its kernel (`exact_kernel`).
    X : {array, CSR matrix, Dask array} of shape (n, d)
        Rows. Of a Dask array only sampled blocks are read.
    n_rows : int, default=2000
        Rows to sample; all rows where X has fewer. Above 64,000 rows of X, neighbours are sampled eight at
        a time.
    seed : int, default=0
        Seed of the sample.

    Returns
    -------
    float
        The error in the Frobenius norm. Features are computed in the precision of the rows, the kernel in float64.

    Raises
    ------
    InputError
        The map is not fitted, `n_rows` is below 1, or the kernel matrix is zero.

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import RandomFourierFeatures
    >>> from distrf.metrics import kernel_error
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> features = RandomFourierFeatures(length_scale=2.0, n_components=4096, random_state=7).fit(X)
    >>> kernel_error(features, X) < 0.05
    True
    """
    map_ = getattr(map_, "map_", map_)
    if not isinstance(map_, FeatureMap):
        raise InputError(
            f"kernel_error takes a fitted feature estimator or its map_, got {type(map_).__name__}; call fit first"
        )
    if n_rows < 1:
        raise InputError(f"n_rows must be at least 1, got {n_rows}")
    X = plain_rows(X)
    rows = check_rows(take_rows(X, sampled_rows(X.shape[0], n_rows, seed, "kernel-error")), map_.n_features_in)
    rows = rows.astype(working_dtype(rows.dtype), copy=False)
    K = map_.exact_kernel(rows)
    left = K.copy()
    for first in range(0, map_.n_components, _COLUMNS):
        Z = map_.columns(rows, first, min(first + _COLUMNS, map_.n_components))
        left -= Z @ Z.T
    norm = np.linalg.norm(K)
    if not norm > 0:
        raise InputError(
            f"the kernel matrix of the sampled rows is zero (of {len(rows)} rows, such as rows of zeros under a "
            "homogeneous kernel), and no error is relative to it; give other rows"
        )
    return float(np.linalg.norm(left) / norm)
