"""Rules that set a kernel's length scale from a seeded sample of rows."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist, pdist

from ..blocks.samples import sampled_rows, take_rows
from ..errors import InputError
from ..kernels import Kernel

RULES = ("median", "knn", "knn-cnm", "scale")
_SAMPLE = 1000
_NEIGHBOUR = 50


def resolve_length_scale(
    kernel: Kernel,
    length_scale: float | str,
    gamma: float | None,
    X: Any,
    seed: int,
    whitening: np.ndarray | None = None,
) -> float:
    """The number that `length_scale` or `gamma` stands for on the rows of X.

    Parameters
    ----------
    length_scale : number, or "knn" (mean distance, in the kernel's norm, to the 50th neighbour within
        1,000 sampled rows), "knn-cnm" (half of it: Yu et al. 2015 use exp(-2 |v|^2 / sigma^2)),
        "median" (median distance within the sample) or "scale" (scikit-learn's gamma = 1 / (d var X))
    gamma : scikit-learn's parameter, which goes first; for the gaussian and laplacian kernels
    whitening : matrix of shape (d, d) that the rows go through first

    Raises InputError for unknown rules and for rows that are all equal.
    """
    if gamma is not None:
        if not _positive(gamma):
            raise InputError(f"gamma must be a positive number, got {gamma!r}")
        return kernel.length_scale_of_gamma(float(gamma))
    if not isinstance(length_scale, str):
        if not _positive(length_scale):
            raise InputError(f"length_scale must be a positive number or one of {RULES}, got {length_scale!r}")
        return float(length_scale)
    if length_scale not in RULES:
        raise InputError(f"unknown length-scale rule {length_scale!r}; known: {', '.join(RULES)}, or a number")
    rows = take_rows(X, sampled_rows(X.shape[0], _SAMPLE, seed, "length-scale")).astype(np.float64)
    if not np.isfinite(rows).all():
        raise InputError("X must be finite, but the sampled rows hold NaN or infinity; impute or drop them")
    if whitening is not None:
        rows = rows @ whitening
    if length_scale == "scale":
        value = kernel.length_scale_of_gamma(1.0 / (rows.shape[1] * rows.var())) if rows.var() > 0 else 0.0
    elif length_scale == "median":
        value = float(np.median(pdist(rows, kernel.metric))) if len(rows) > 1 else 0.0
    else:
        k = min(_NEIGHBOUR, len(rows) - 1)
        distances = np.partition(cdist(rows, rows, kernel.metric), k, axis=1)[:, k]  # column 0: the row itself
        value = float(distances.mean()) * (0.5 if length_scale == "knn-cnm" else 1.0)
    if not value > 0:
        raise InputError(
            f"the rule length_scale={length_scale!r} needs at least 2 distinct rows, got n_samples = {X.shape[0]} "
            "with all sampled rows equal; give a number"
        )
    return value


def _positive(value: Any) -> bool:
    return isinstance(value, numbers.Real) and 0 < float(value) < float("inf")
