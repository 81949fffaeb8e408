"""Dot-product kernels with nonnegative Maclaurin coefficients: exact values and coefficients.

k(x, y) = f(gamma x.y), f(t) = sum_n a_n t^n with all a_n >= 0: exactly the dot-product kernels that are
positive definite in every dimension (Schoenberg 1942; Kar & Karnick 2012, Theorem 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..errors import InputError
from ..parameters import number, whole
from .base import AnyKernel, declared, register_kernel

_DEGREE = whole(), "highest power of x.y"
_GAMMA = number(above=0), "factor on x.y"


@dataclass(frozen=True)
class DotProductKernel(AnyKernel):
    """Base of the dot-product kernels.

    A kernel defines `of_products`, `_coefficient` and the attribute `name`.

    Attributes
    ----------
    degree : int, highest power of x.y, or None for a series without end
    """

    registry: ClassVar[dict[str, type[DotProductKernel]]] = {}
    family: ClassVar[str] = "dot-product "
    degree: ClassVar[int | None] = None

    @property
    def exact_from(self) -> str:
        return "products"

    def _matrix(self, X: np.ndarray, Y: np.ndarray, length_scale: float) -> np.ndarray:
        return self.of_products(X @ Y.T)

    def coefficient(self, n: int) -> float:
        """a_n gamma^n, the coefficient of (x.y)^n. Raises InputError where it leaves float64."""
        try:
            value = self._coefficient(n)
        except OverflowError:
            value = math.inf
        if value == math.inf:
            raise InputError(
                f"the coefficient of (x.y)^{n} of {self!r} is beyond float64; choose a smaller gamma (gamma='norm' "
                "makes gamma x.x 1 on average), coef0 or degree"
            )
        return value

    def _coefficient(self, n: int) -> float:
        """`coefficient` without its check; it may overflow."""
        raise NotImplementedError


@register_kernel
@dataclass(frozen=True)
class Polynomial(DotProductKernel):
    """(gamma x.y + coef0)^degree, gamma > 0, coef0 >= 0."""

    degree: int = declared(2, *_DEGREE)  # type: ignore[misc]
    gamma: float = declared(1.0, *_GAMMA)
    coef0: float = declared(1.0, number(0), "what is added to gamma x.y")

    name: ClassVar[str] = "polynomial"

    def of_products(self, t: np.ndarray) -> np.ndarray:
        return (self.gamma * t + self.coef0) ** self.degree

    def _coefficient(self, n: int) -> float:
        if n > self.degree:
            return 0.0
        return math.comb(self.degree, n) * self.gamma**n * self.coef0 ** (self.degree - n)


@register_kernel
@dataclass(frozen=True)
class Homogeneous(DotProductKernel):
    """(gamma x.y)^degree, gamma > 0."""

    degree: int = declared(2, *_DEGREE)  # type: ignore[misc]
    gamma: float = declared(1.0, *_GAMMA)

    name: ClassVar[str] = "homogeneous"

    def of_products(self, t: np.ndarray) -> np.ndarray:
        return (self.gamma * t) ** self.degree

    def _coefficient(self, n: int) -> float:
        return self.gamma**n if n == self.degree else 0.0


@register_kernel
@dataclass(frozen=True)
class Exponential(DotProductKernel):
    """exp(gamma x.y), gamma = 1 / s^2 > 0."""

    gamma: float = declared(1.0, *_GAMMA)

    name: ClassVar[str] = "exponential"

    def of_products(self, t: np.ndarray) -> np.ndarray:
        return np.exp(self.gamma * t)

    def _coefficient(self, n: int) -> float:
        return math.exp(n * math.log(self.gamma) - math.lgamma(n + 1))


#: The dot-product kernels by name.
DOT_PRODUCTS = DotProductKernel.registry
