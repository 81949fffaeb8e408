"""Penalties on the weights of linear models: value, slope of the smooth part, proximal step. Number code."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np


@dataclass(frozen=True)
class Penalty:
    """Base: l1_ratio alpha |u|_1 + (1 - l1_ratio) squares |u|^2 / 2 for the weights u of all features.

    Parameters
    ----------
    alpha : float >= 0
    l1_ratio : float in [0, 1], share of the l1 norm
    squares : float >= 0, strength of the squared l2 norm; None is alpha. alpha="auto" chooses it apart from alpha,
        because the l1 norm and the squares have different units
    units : array of shape (D, 1), factors on the weights before the penalty is taken. None is 1
    shares : array of shape (2, C), factors on the l1 norm and on the squares of each column of weights. None is 1

    Attributes
    ----------
    name : str, the value of an estimator's `penalty`
    """

    alpha: float
    l1_ratio: float = 0.0
    squares: float | None = None
    units: np.ndarray | None = None
    shares: np.ndarray | None = None

    name: ClassVar[str]

    @classmethod
    def of(cls, alpha: float, l1_ratio: float) -> Penalty:
        """The penalty from the parameters of an estimator; l1_ratio is read by the elastic net alone."""
        return cls(alpha)

    @property
    def smooth(self) -> bool:
        """Whether it has no kink. A preconditioner, momentum and constant steps need a smooth penalty."""
        return not self.l1_ratio

    @property
    def curvature(self) -> float:
        """The largest second derivative of the smooth part."""
        largest = 1.0 if self.units is None else float(self.units.max()) ** 2
        return float(np.max(self._strength)) * largest

    @property
    def _strength(self) -> Any:
        strength = (self.alpha if self.squares is None else self.squares) * (1.0 - self.l1_ratio)
        return strength if self.shares is None else strength * self.shares[1]

    @property
    def _threshold(self) -> Any:
        threshold = self.alpha * self.l1_ratio
        return threshold if self.shares is None else threshold * self.shares[0]

    def times(self, factor: float) -> Penalty:
        """The penalty times a factor."""
        squares = None if self.squares is None else factor * self.squares
        return replace(self, alpha=factor * self.alpha, squares=squares)

    def value(self, U: np.ndarray) -> float:
        """The penalty of weights U, summed over columns."""
        U = U if self.units is None else U * self.units
        if self.shares is None:
            l1 = self._threshold * float(np.abs(U).sum()) if self.l1_ratio else 0.0
            return l1 + 0.5 * self._strength * float((U * U).sum())
        return float((self._threshold * np.abs(U) + 0.5 * self._strength * U * U).sum())

    def slope(self, U: np.ndarray) -> np.ndarray:
        """Gradient of the smooth part, in the shape of U."""
        return self._strength * U if self.units is None else self._strength * (self.units**2 * U)

    def proximal(self, U: np.ndarray, eta: float) -> np.ndarray:
        """The proximal step of the l1 part (soft thresholding): each weight moves towards zero by eta alpha l1_ratio."""
        threshold = eta * self._threshold
        return soft(U, threshold if self.units is None else threshold * self.units)


@dataclass(frozen=True)
class L2(Penalty):
    """alpha |u|^2 / 2."""

    name = "l2"


@dataclass(frozen=True)
class L1(Penalty):
    """alpha |u|_1."""

    l1_ratio: float = 1.0

    name = "l1"


@dataclass(frozen=True)
class ElasticNet(Penalty):
    """alpha (l1_ratio |u|_1 + (1 - l1_ratio) |u|^2 / 2)."""

    name = "elasticnet"

    @classmethod
    def of(cls, alpha: float, l1_ratio: float) -> ElasticNet:
        return cls(alpha, l1_ratio)


#: The penalties by name.
PENALTIES: dict[str, type[Penalty]] = {p.name: p for p in (L2, L1, ElasticNet)}


def soft(W: np.ndarray, threshold: float | np.ndarray) -> np.ndarray:
    """W with every entry moved towards zero by the threshold, no further."""
    return np.sign(W) * np.maximum(np.abs(W) - threshold, 0.0)
