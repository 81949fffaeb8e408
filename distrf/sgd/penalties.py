"""The penalty alpha |u|^2 / 2 on the weights of linear models: value and slope. Number code."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Penalty:
    """alpha |u|^2 / 2 for the weights u of all features.

    Parameters
    ----------
    alpha : float >= 0
    units : array of shape (D, 1), factors on the weights before the penalty is taken. None is 1
    shares : array of shape (C,), factors on the penalty of each column of weights. None is 1
    """

    alpha: float
    units: np.ndarray | None = None
    shares: np.ndarray | None = None

    @property
    def curvature(self) -> float:
        """The largest second derivative."""
        largest = 1.0 if self.units is None else float(self.units.max()) ** 2
        return float(np.max(self._strength)) * largest

    @property
    def _strength(self) -> float | np.ndarray:
        return self.alpha if self.shares is None else self.alpha * self.shares

    def times(self, factor: float) -> Penalty:
        """The penalty times a factor."""
        return replace(self, alpha=factor * self.alpha)

    def value(self, U: np.ndarray) -> float:
        """The penalty of weights U, summed over columns."""
        U = U if self.units is None else U * self.units
        return float((0.5 * self._strength * U * U).sum())

    def slope(self, U: np.ndarray) -> np.ndarray:
        """Gradient, in the shape of U."""
        return self._strength * U if self.units is None else self._strength * (self.units**2 * U)
