"""A map from outside the package, as a package of its own would have it: one file, and one call at its end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distrf.maps import FeatureEstimator, FeatureMap
from distrf.parameters import SEED, estimator, number, param, whole
from distrf.randomness import variates
from distrf.registry import register_map


@dataclass(frozen=True)
class ReluMap(FeatureMap):
    """z(x) = sqrt(2 / D) max(0, W x + b): E z(x).z(y) is the arc-cosine kernel of order 1 for b = 0."""

    seed: int
    bias: float

    kind = "relu"

    def fill_columns(self, X, out, start, stop):
        count = self.n_features_in * self.n_components
        weights = variates(self.seed, "relu", 0, count, "normal").reshape(self.n_components, -1)
        out[:] = np.sqrt(2 / self.n_components) * np.maximum(X @ weights[start:stop].T + self.bias, 0)

    def work(self):
        return 2.0 * self.n_features_in * self.n_components, 8.0 * self.n_features_in * self.n_components


@estimator
class RandomReluFeatures(FeatureEstimator):
    """Rectified random projections.

    Parameters
    ----------
    n_components : int, default=256
        D, the number of features.
    bias : float, default=0.0
        Added to each projection.
    random_state : int or None, default=None
        Seed of the weights.
    """

    n_components: int = param(default=256, rule=whole(), kw_only=False)
    bias: float = param(default=0.0, rule=number())
    random_state: int | None = param(default=None, rule=SEED)

    def _make_map(self, d, seed, X=None):
        return ReluMap(d, int(self.n_components), seed, float(self.bias))


register_map("relu", RandomReluFeatures, ReluMap)
