"""Shift-invariant kernels: exact values and the law of their weights (Bochner).

k(x, y) = kappa(v / l) with v = x - y and l the length scale. The weights of k at l = 1 are rows
w = r * g: g has independent coordinates of a standard law, r is a radius (1 unless the kernel is a
scale mixture). Rahimi & Recht 2007, Figure 1; Matern: multivariate t with 2 nu degrees of freedom.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.spatial.distance import cdist

from ..errors import InputError
from ..parameters import one_of, param
from ..randomness import variates
from .base import AnyKernel, register_kernel


@dataclass(frozen=True)
class WeightLaw(AnyKernel):
    """What a projection needs of a kernel: the law of its weight rows. A plain, frozen value.

    Attributes
    ----------
    law : str, law of the coordinates of a weight row, see `distrf.randomness.quantile`
    symmetric : bool, whether w and -w have the same law, so that random signs may be applied to weights
    isotropic : bool, whether k depends on |v|_2 alone, so that weight directions are uniform on the sphere
    heavy_tailed : bool, whether weights have no mean: float32 has no digit left of the phases of some, so they are
        computed in float64
    """

    law: ClassVar[str]
    symmetric: ClassVar[bool] = False
    isotropic: ClassVar[bool] = False

    @property
    def heavy_tailed(self) -> bool:
        return self.law in ("cauchy", "levy")

    def radii(self, seed: int, block: int, count: int, start: int = 0) -> np.ndarray | None:
        """Radii of weight rows start, start + 1, ... of a block, or None where every radius is 1.

        Parameters
        ----------
        seed : seed of the map
        block : number of the block of weight rows
        count : radii wanted
        start : row of the block that the first radius belongs to: a radius depends on its place alone

        Returns
        -------
        Array of shape (count,), float64, or None.
        """
        return None


@dataclass(frozen=True)
class Kernel(WeightLaw):
    """Base of the shift-invariant kernels.

    An isotropic kernel defines `of_squares`, any other `_values`; and the attributes `name` and `law`, and those other
    attributes that differ from here.

    Attributes
    ----------
    metric : str, SciPy's name of the norm in which length-scale rules measure distances
    why_not_binned : str, why random binning cannot serve the kernel; None if `pitches` is defined
    """

    registry: ClassVar[dict[str, type[Kernel]]] = {}
    family: ClassVar[str] = ""
    symmetric: ClassVar[bool] = True
    metric: ClassVar[str] = "euclidean"
    why_not_binned: ClassVar[str | None] = "it has no law of pitches"

    def _matrix(self, X: np.ndarray, Y: np.ndarray, length_scale: float) -> np.ndarray:
        return self._values(X / length_scale, Y / length_scale)

    def _values(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """The kernel matrix of rows in units of the length scale, float64."""
        return self.of_squares(cdist(X, Y, "sqeuclidean"))

    def of_squares(self, squares: np.ndarray) -> np.ndarray:
        """The values of an isotropic kernel at squared distances in units of the length scale, elementwise, float64."""
        raise NotImplementedError

    @property
    def smooth(self) -> bool:
        """Whether it is a smooth function of |v|^2, so that rounding of squared distances stays rounding."""
        return self.isotropic

    def length_scale_of_gamma(self, gamma: float) -> float:
        """The length scale of scikit-learn's `gamma`. Raises InputError if scikit-learn's kernel has no gamma."""
        mine = Kernel.length_scale_of_gamma
        known = [name for name, kernel in self.registry.items() if kernel.length_scale_of_gamma is not mine]
        raise InputError(
            f"gamma is scikit-learn's parameter of the kernels {', '.join(known)}; got kernel={self.name!r}; "
            "give length_scale"
        )

    def pitches(self, seed: int, grid: int, d: int) -> np.ndarray:
        """Draws of the law p(u) = u k''(u) of a product of one-dimensional kernels at length scale 1.

        Rahimi & Recht 2007, Section 4: k is convex and decreasing on (0, inf).

        Parameters
        ----------
        seed : seed of the map
        grid : number of the grid
        d : columns

        Returns
        -------
        Array of shape (d,), float64: the width of a bin in each column.
        """
        raise NotImplementedError


@register_kernel
@dataclass(frozen=True)
class Gaussian(Kernel):
    """exp(-|v|_2^2 / 2 l^2)."""

    name: ClassVar[str] = "gaussian"
    law: ClassVar[str] = "normal"
    isotropic: ClassVar[bool] = True
    why_not_binned: ClassVar[str | None] = "k'' < 0 for u < l, so that p(u) is no probability"

    def of_squares(self, squares: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 * squares)

    def length_scale_of_gamma(self, gamma: float) -> float:
        return float((2.0 * gamma) ** -0.5)


@register_kernel
@dataclass(frozen=True)
class Laplacian(Kernel):
    """exp(-|v|_1 / l); Cauchy weights."""

    name: ClassVar[str] = "laplacian"
    law: ClassVar[str] = "cauchy"
    metric: ClassVar[str] = "cityblock"
    why_not_binned: ClassVar[str | None] = None

    def _values(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return np.exp(-cdist(X, Y, "cityblock"))

    def length_scale_of_gamma(self, gamma: float) -> float:
        return 1.0 / gamma

    def pitches(self, seed: int, grid: int, d: int) -> np.ndarray:
        # p(u) = u e^-u: the sum of two exponential draws.
        return variates(seed, "binning pitch", grid, 2 * d, "exponential").reshape(2, d).sum(axis=0)


@register_kernel
@dataclass(frozen=True)
class Cauchy(Kernel):
    """prod_j 1 / (1 + (v_j / l)^2); Laplace weights."""

    name: ClassVar[str] = "cauchy"
    law: ClassVar[str] = "laplace"
    why_not_binned: ClassVar[str | None] = "k'' < 0 for u < l / sqrt(3), so that p(u) is no probability"

    def _values(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        out = np.empty((len(X), len(Y)))
        for i, x in enumerate(X):
            out[i] = np.exp(-np.log1p((x - Y) ** 2).sum(axis=1))
        return out


@register_kernel
@dataclass(frozen=True)
class Matern(Kernel):
    """Matern kernel of |v|_2 / l with smoothness nu = 1/2, 3/2 or 5/2 (Rasmussen & Williams 2006, Eq. 4.17)."""

    nu: float = param(default=1.5, rule=one_of(0.5, 1.5, 2.5), kw_only=False)

    name: ClassVar[str] = "matern"
    law: ClassVar[str] = "normal"
    isotropic: ClassVar[bool] = True
    why_not_binned: ClassVar[str | None] = "it depends on |v|_2 and is no product over the columns"

    @property
    def heavy_tailed(self) -> bool:
        # Weights are multivariate t with 2 nu degrees of freedom. With 3 and 5 their variance is finite, and phases in float32 lose
        # 1.7 and 1.3 times what those of the Gaussian kernel lose, as measured; with 1 a thousand times as much.
        return self.nu == 0.5

    @property
    def smooth(self) -> bool:
        return (
            self.nu > 0.5
        )  # exp(-|v|) is linear in |v|: rounding eps of a squared distance would be an error of sqrt(eps)

    def of_squares(self, squares: np.ndarray) -> np.ndarray:
        r = np.sqrt(2 * self.nu * squares)
        polynomial = {0.5: 1.0, 1.5: 1.0 + r, 2.5: 1.0 + r + r * r / 3.0}[self.nu]
        return polynomial * np.exp(-r)

    def radii(self, seed: int, block: int, count: int, start: int = 0) -> np.ndarray:
        dof = round(2 * self.nu)  # chi-square with 1, 3 or 5 degrees of freedom: a sum of squared normals
        g = variates(seed, "radius", block, dof * count, "normal", dof * start).reshape(count, dof)
        return np.sqrt(dof / (g * g).sum(axis=1))


#: The shift-invariant kernels by name.
KERNELS = Kernel.registry
