"""Dot-product kernels with nonnegative Maclaurin coefficients: exact values and coefficients.

k(x, y) = f(gamma x.y), f(t) = sum_n a_n t^n with all a_n >= 0: exactly the dot-product kernels that are
positive definite in every dimension (Schoenberg 1942; Kar & Karnick 2012, Theorem 1).
"""

from __future__ import annotations

import math
import numbers
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from ..errors import InputError
from .shift_invariant import check_registered


@dataclass(frozen=True)
class DotProductKernel:
    """Base of the dot-product kernels; a subclass is one entry in the registry below.

    Attributes
    ----------
    name : key in the registry and in specs
    degree : highest power of x.y, or None for a series without end
    """

    name: ClassVar[str]
    degree: ClassVar[int | None] = None

    def __call__(self, X: Any, Y: Any = None) -> np.ndarray:
        """Exact kernel matrix, shape (n, m), for X of shape (n, d) and Y of shape (m, d), float64."""
        X = np.asarray(X, dtype=np.float64)
        return self.of_products(X @ (X if Y is None else np.asarray(Y, dtype=np.float64)).T)

    def of_products(self, t: np.ndarray) -> np.ndarray:
        """The kernel where x.y = t, elementwise, float64."""
        raise NotImplementedError

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
        raise NotImplementedError

    def spec(self) -> dict[str, Any]:
        """The JSON of the kernel. Raises InputError for one that no spec can name, since it could not be loaded."""
        check_registered(self, DOT_PRODUCTS)
        return {"name": self.name, **asdict(self)}


def _check(name: str, value: Any, low: float, *, above: bool = False) -> None:
    number = float(value) if isinstance(value, numbers.Real) else math.nan
    if not (number > low if above else number >= low) or number == math.inf:
        rule = f"above {low:g}" if above else f"at least {low:g}"
        raise InputError(f"{name} must be a finite number, {rule}, got {value!r}")


def _check_degree(degree: Any) -> None:
    if not isinstance(degree, numbers.Integral) or degree < 1:
        raise InputError(f"degree must be an integer, at least 1, got {degree!r}")


@dataclass(frozen=True)
class Polynomial(DotProductKernel):
    """(gamma x.y + coef0)^degree, gamma > 0, coef0 >= 0."""

    degree: int = 2  # type: ignore[misc]
    gamma: float = 1.0
    coef0: float = 1.0

    name: ClassVar[str] = "polynomial"

    def __post_init__(self):
        _check_degree(self.degree)
        _check("gamma", self.gamma, 0, above=True)
        _check("coef0", self.coef0, 0)

    def of_products(self, t):
        return (self.gamma * t + self.coef0) ** self.degree

    def _coefficient(self, n):
        if n > self.degree:
            return 0.0
        return math.comb(self.degree, n) * self.gamma**n * self.coef0 ** (self.degree - n)


@dataclass(frozen=True)
class Homogeneous(DotProductKernel):
    """(gamma x.y)^degree, gamma > 0."""

    degree: int = 2  # type: ignore[misc]
    gamma: float = 1.0

    name: ClassVar[str] = "homogeneous"

    def __post_init__(self):
        _check_degree(self.degree)
        _check("gamma", self.gamma, 0, above=True)

    def of_products(self, t):
        return (self.gamma * t) ** self.degree

    def _coefficient(self, n):
        return self.gamma**n if n == self.degree else 0.0


@dataclass(frozen=True)
class Exponential(DotProductKernel):
    """exp(gamma x.y), gamma = 1 / s^2 > 0."""

    gamma: float = 1.0

    name: ClassVar[str] = "exponential"

    def __post_init__(self):
        _check("gamma", self.gamma, 0, above=True)

    def of_products(self, t):
        return np.exp(self.gamma * t)

    def _coefficient(self, n):
        return math.exp(n * math.log(self.gamma) - math.lgamma(n + 1))


DOT_PRODUCTS: dict[str, type[DotProductKernel]] = {k.name: k for k in (Polynomial, Homogeneous, Exponential)}


def get_dot_product_kernel(
    kernel: str | DotProductKernel | dict[str, Any], **parameters: Any
) -> DotProductKernel:
    """A dot-product kernel from its name, its spec or itself.

    Raises InputError for a name that is not in the registry and for parameters that the kernel has not.
    """
    if isinstance(kernel, DotProductKernel):
        return kernel
    if isinstance(kernel, dict):
        parameters = {k: v for k, v in kernel.items() if k != "name"}
        kernel = kernel.get("name", "")
    if not isinstance(kernel, str) or kernel not in DOT_PRODUCTS:
        raise InputError(
            f"unknown dot-product kernel {kernel!r}; known: {', '.join(sorted(DOT_PRODUCTS))}, "
            "or a DotProductKernel object"
        )
    try:
        return DOT_PRODUCTS[kernel](**parameters)
    except TypeError:
        raise InputError(f"kernel {kernel!r} does not take the parameters {sorted(parameters)}") from None
