"""Dot-product kernels k(x, y) = f(gamma x.y), whose series have no negative coefficients: they are positive definite (Schoenberg 1942)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..parameters import number, param, whole
from .base import AnyKernel, register_kernel

_GAMMA = number(above=0)


@dataclass(frozen=True)
class DotProductKernel(AnyKernel):
    """Base of the dot-product kernels. A kernel defines `of_products` and the attribute `name`."""

    registry: ClassVar[dict[str, type[DotProductKernel]]] = {}
    family: ClassVar[str] = "dot-product "

    def of_products(self, t: np.ndarray) -> np.ndarray:
        """The kernel as a function of t = x.y, elementwise, float64."""
        raise NotImplementedError

    def _matrix(self, X: np.ndarray, Y: np.ndarray, length_scale: float) -> np.ndarray:
        return self.of_products(X @ Y.T)


@register_kernel
@dataclass(frozen=True)
class Polynomial(DotProductKernel):
    """(gamma x.y + coef0)^degree, gamma > 0, coef0 >= 0."""

    degree: int = param(default=2, rule=whole(), kw_only=False)
    gamma: float = param(default=1.0, rule=_GAMMA, kw_only=False)
    coef0: float = param(default=1.0, rule=number(0), kw_only=False)

    name: ClassVar[str] = "polynomial"

    def of_products(self, t: np.ndarray) -> np.ndarray:
        return (self.gamma * t + self.coef0) ** self.degree


@register_kernel
@dataclass(frozen=True)
class Exponential(DotProductKernel):
    """exp(gamma x.y), gamma = 1 / s^2 > 0."""

    gamma: float = param(default=1.0, rule=_GAMMA, kw_only=False)

    name: ClassVar[str] = "exponential"

    def of_products(self, t: np.ndarray) -> np.ndarray:
        return np.exp(self.gamma * t)


#: The dot-product kernels by name.
DOT_PRODUCTS = DotProductKernel.registry
