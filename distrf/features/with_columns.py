"""The columns beside random features, as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from ..blocks.samples import sampled_rows, take_rows
from ..errors import InputError
from ..maps.with_columns import WithColumnsMap
from ..randomness import draw_seed
from .base import FeatureEstimator, seed_base, validate_rows
from .fourier import RandomFourierFeatures

_SAMPLE = 1000


class WithColumns(FeatureEstimator):
    """[x / s, z(x)]: a linear model on it is a linear model on the columns plus a kernel machine.

    Parameters
    ----------
    base : feature estimator with dense features; None is RandomFourierFeatures()
    scale : s, a number, or "norm": the root of the mean squared norm of 1,000 sampled rows, so that the columns
        weigh as much as features with |z(x)| = 1
    n_jobs : threads for NumPy and CSR input; -1 takes all cores. Dask decides for Dask arrays
    random_state : seed of the sample; the base gets one derived from it unless it has its own

    Attributes
    ----------
    map_ : WithColumnsMap; `map_.base` is that of the base
    n_features_in_ : int, d
    """

    map_: WithColumnsMap

    def __init__(
        self,
        base: FeatureEstimator | None = None,
        *,
        scale: float | str = "norm",
        n_jobs: int | None = -1,
        random_state: Any = None,
    ):
        self.base = base
        self.scale = scale
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> WithColumns:
        """Fit a clone of the base and the scale of the columns; y is for bases that learn from it."""
        X = validate_rows(self, X, reset=True)
        seed, base = draw_seed(self.random_state), self.planned_base()
        seed_base(base, seed, "columns base")
        fitted = base.fit(X, y)
        if isinstance(self.scale, str) and self.scale != "norm":
            raise InputError(f"scale is a positive number or 'norm', got {self.scale!r}")
        scale = column_scale(X, seed) if isinstance(self.scale, str) else self.scale
        self.map_ = WithColumnsMap.over(fitted.map_, scale)
        self._fitted_base = fitted  # for reports; the map is all that is saved
        return self

    def planned_base(self) -> FeatureEstimator:
        """A clone of the base. Raises InputError for what is no feature estimator."""
        base = RandomFourierFeatures() if self.base is None else self.base
        if not isinstance(base, FeatureEstimator):
            raise InputError(f"base must be a feature estimator of distrf, got {type(base).__name__}")
        return clone(base)


def column_scale(X: Any, seed: int) -> float:
    """Root of the mean squared norm of at most 1,000 sampled rows; 1 for rows of zeros."""
    rows = take_rows(X, sampled_rows(X.shape[0], _SAMPLE, seed, "column scale"), sparse=True)
    values = (rows.data if sp.issparse(rows) else rows).astype(np.float64).ravel()
    mean = float(values @ values) / max(1, rows.shape[0])
    return float(np.sqrt(mean)) if 0 < mean < float("inf") else 1.0
