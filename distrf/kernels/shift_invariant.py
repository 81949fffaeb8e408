"""Shift-invariant kernels: exact values and the law of their weights (Bochner).

k(x, y) = kappa(v / l) with v = x - y and l the length scale. The weights of k at l = 1 are rows
w = r * g: g has independent coordinates of a standard law, r is a radius (1 unless the kernel is a
scale mixture). Rahimi & Recht 2007, Figure 1; Matern: multivariate t with 2 nu degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.spatial.distance import cdist

from ..errors import InputError
from ..randomness import variates


@dataclass(frozen=True)
class WeightLaw:
    """What a projection must know of a kernel: the law of its weight rows. A plain, frozen value.

    Attributes
    ----------
    name : key in the registry and in specs
    law : law of the coordinates of a weight row, see `distrf.randomness.quantile`
    isotropic : whether k depends on |v|_2 alone, so that weight directions are uniform on the sphere
    heavy_tailed : weights without variance; their phases are computed in float64
    """

    name: ClassVar[str]
    law: ClassVar[str]
    isotropic: ClassVar[bool] = False
    heavy_tailed: ClassVar[bool] = False

    def radii(self, seed: int, block: int, count: int, start: int = 0) -> np.ndarray | None:
        """Radii of `count` weight rows, shape (count,), or None where every radius is 1."""
        return None

    @classmethod
    def _registry(cls) -> Mapping[str, type]:
        """The kernels of this family that a spec can name."""
        raise NotImplementedError

    def spec(self) -> dict[str, Any]:
        """The JSON of the kernel. Raises InputError for one that no spec can name, since it could not be loaded."""
        check_registered(self, self._registry())
        return {"name": self.name, **asdict(self)}


def check_registered(kernel: Any, registry: Mapping[str, type]) -> None:
    """Raise InputError for a kernel of a class that its registry does not hold under its name."""
    if registry.get(kernel.name) is not type(kernel):
        raise InputError(
            f"the kernel {type(kernel).__name__}, named {kernel.name!r}, is not one of {', '.join(sorted(registry))}: "
            "what is saved with it could not be loaded; it serves for fitting and transforming alone"
        )


@dataclass(frozen=True)
class Kernel(WeightLaw):
    """Base of the shift-invariant kernels; a subclass is one entry in the registry below.

    Attributes
    ----------
    metric : SciPy name of the norm in which length-scale rules measure distances
    """

    metric: ClassVar[str] = "euclidean"

    @classmethod
    def _registry(cls):
        return KERNELS

    def __call__(self, X: np.ndarray, Y: np.ndarray | None = None, length_scale: float = 1.0) -> np.ndarray:
        """Exact kernel matrix, shape (n, m), for X of shape (n, d) and Y of shape (m, d), float64."""
        X = np.asarray(X, dtype=np.float64) / length_scale
        Y = X if Y is None else np.asarray(Y, dtype=np.float64) / length_scale
        return self._values(X, Y)

    def _values(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def length_scale_of_gamma(self, gamma: float) -> float:
        """The length scale that scikit-learn's `gamma` stands for."""
        raise InputError(
            f"gamma is scikit-learn's parameter of the gaussian and laplacian kernels, got kernel={self.name!r}; "
            "give length_scale"
        )


@dataclass(frozen=True)
class Gaussian(Kernel):
    """exp(-|v|_2^2 / 2 l^2)."""

    name: ClassVar[str] = "gaussian"
    law: ClassVar[str] = "normal"
    isotropic: ClassVar[bool] = True

    def _values(self, X, Y):
        return np.exp(-0.5 * cdist(X, Y, "sqeuclidean"))

    def length_scale_of_gamma(self, gamma: float) -> float:
        return float((2.0 * gamma) ** -0.5)


@dataclass(frozen=True)
class Laplacian(Kernel):
    """exp(-|v|_1 / l); Cauchy weights."""

    name: ClassVar[str] = "laplacian"
    law: ClassVar[str] = "cauchy"
    metric: ClassVar[str] = "cityblock"
    heavy_tailed: ClassVar[bool] = True

    def _values(self, X, Y):
        return np.exp(-cdist(X, Y, "cityblock"))

    def length_scale_of_gamma(self, gamma: float) -> float:
        return 1.0 / gamma


@dataclass(frozen=True)
class Cauchy(Kernel):
    """prod_j 1 / (1 + (v_j / l)^2); Laplace weights."""

    name: ClassVar[str] = "cauchy"
    law: ClassVar[str] = "laplace"

    def _values(self, X, Y):
        out = np.empty((len(X), len(Y)))
        for i, x in enumerate(X):
            out[i] = np.exp(-np.log1p((x - Y) ** 2).sum(axis=1))
        return out


@dataclass(frozen=True)
class Matern(Kernel):
    """Matern kernel of |v|_2 / l with smoothness nu = 1/2, 3/2 or 5/2 (Rasmussen & Williams 2006, Eq. 4.17)."""

    nu: float = 1.5

    name: ClassVar[str] = "matern"
    law: ClassVar[str] = "normal"
    isotropic: ClassVar[bool] = True
    heavy_tailed: ClassVar[bool] = True

    def __post_init__(self):
        if self.nu not in (0.5, 1.5, 2.5):
            raise InputError(f"the Matern kernel is offered for nu in {{0.5, 1.5, 2.5}}, got nu={self.nu!r}")

    def _values(self, X, Y):
        r = np.sqrt(2 * self.nu) * cdist(X, Y)
        polynomial = {0.5: 1.0, 1.5: 1.0 + r, 2.5: 1.0 + r + r * r / 3.0}[self.nu]
        return polynomial * np.exp(-r)

    def radii(self, seed: int, block: int, count: int, start: int = 0) -> np.ndarray:
        dof = round(2 * self.nu)  # chi-square with 1, 3 or 5 degrees of freedom: a sum of squared normals
        g = variates(seed, "radius", block, dof * count, "normal", dof * start).reshape(count, dof)
        return np.sqrt(dof / (g * g).sum(axis=1))


KERNELS: dict[str, type[Kernel]] = {k.name: k for k in (Gaussian, Laplacian, Cauchy, Matern)}


def get_shift_invariant_kernel(kernel: str | Kernel | dict[str, Any], **parameters: Any) -> Kernel:
    """A kernel from its name, its spec or itself.

    Raises InputError for a name that is not in the registry.
    """
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, dict):
        parameters = {k: v for k, v in kernel.items() if k != "name"}
        kernel = kernel.get("name", "")
    if not isinstance(kernel, str) or kernel not in KERNELS:
        raise InputError(f"unknown kernel {kernel!r}; known: {', '.join(sorted(KERNELS))}, or a Kernel object")
    try:
        return KERNELS[kernel](**parameters)
    except TypeError:
        raise InputError(f"kernel {kernel!r} does not take the parameters {sorted(parameters)}") from None
