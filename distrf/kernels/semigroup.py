"""Semigroup kernels on nonnegative data: exact values and the law of their weights (Laplace).

k(x, y) = kappa(x + y) = E[exp(-w . (x + y))] for x, y >= 0, w with independent nonnegative coordinates
(Berg, Christensen & Ressel 1984; Yang et al. 2014; Mukuta et al. 2018, Eq. 1). A weight is
`weight_scale` times a draw of a standard law, so that projections need to know the law alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..errors import InputError, RowError, first_entry
from ..parameters import number, param
from ..typing import Rows
from .base import register_kernel
from .shift_invariant import WeightLaw

#: Parameters whose squares and reciprocals, times weights and rows, stay in float64.
_RANGE = (1e-75, 1e75)
_IN_RANGE = number(above=_RANGE[0], below=_RANGE[1])


@dataclass(frozen=True)
class SemigroupKernel(WeightLaw):
    """Base of the semigroup kernels; its parameters are fields, so there is no length scale.

    Attributes
    ----------
    parameter : str, the field that sets the scale, such as beta or lam
    """

    registry: ClassVar[dict[str, type[SemigroupKernel]]] = {}
    family: ClassVar[str] = "semigroup "
    parameter: ClassVar[str]

    @property
    def weight_scale(self) -> float:
        """Factor from a draw of the standard law to a weight."""
        raise NotImplementedError

    def of_sum(self, Z: np.ndarray) -> np.ndarray:
        """kappa(z) for sums z = x + y along the last axis, float64.

        A Laplace feature has the variance kappa(2 z) - kappa(z)^2 (Mukuta et al. 2018, Theorem 1).
        """
        return np.exp(-self._exponent(np.asarray(Z, dtype=np.float64)))

    def _exponent(self, Z: np.ndarray) -> np.ndarray:
        """-log kappa, shape Z.shape[:-1]."""
        raise NotImplementedError

    def with_median(self, Z: np.ndarray) -> SemigroupKernel:
        """This kernel with the parameter at which the median row of sums Z = x + y has kappa = 1/e.

        Raises InputError where more than half of the rows are zero.
        """
        raise NotImplementedError

    def check_rows(self, X: Rows) -> None:
        refuse_negative(X)

    def _matrix(self, X: np.ndarray, Y: np.ndarray, length_scale: float) -> np.ndarray:
        refuse_negative(X, "row {row} of X")
        refuse_negative(Y, "row {row} of Y")
        out = np.empty((len(X), len(Y)))
        for i, x in enumerate(X):
            out[i] = self.of_sum(x + Y)
        return out


@register_kernel
@dataclass(frozen=True)
class ExponentialSemigroup(SemigroupKernel):
    """exp(-beta sum_j sqrt(x_j + y_j)); Levy weights w = beta^2 / (2 g^2), g normal."""

    beta: float = param(default=1.0, rule=_IN_RANGE, kw_only=False)

    name: ClassVar[str] = "exponential_semigroup"
    law: ClassVar[str] = "levy"
    parameter: ClassVar[str] = "beta"

    @property
    def weight_scale(self) -> float:
        return self.beta**2

    def _exponent(self, Z: np.ndarray) -> np.ndarray:
        return self.beta * np.sqrt(Z).sum(axis=-1)

    def with_median(self, Z: np.ndarray) -> ExponentialSemigroup:
        middle = float(np.median(np.sqrt(Z).sum(axis=-1)))
        _require_rows(middle, "beta")
        return ExponentialSemigroup(1.0 / middle)


@register_kernel
@dataclass(frozen=True)
class ReciprocalSemigroup(SemigroupKernel):
    """prod_j lam / (x_j + y_j + lam); exponential weights of rate lam."""

    lam: float = param(default=1.0, rule=_IN_RANGE, kw_only=False)

    name: ClassVar[str] = "reciprocal_semigroup"
    law: ClassVar[str] = "exponential"
    parameter: ClassVar[str] = "lam"

    @property
    def weight_scale(self) -> float:
        return 1.0 / self.lam

    def _exponent(self, Z: np.ndarray) -> np.ndarray:
        return np.log1p(Z / self.lam).sum(axis=-1)

    def with_median(self, Z: np.ndarray) -> ReciprocalSemigroup:
        _require_rows(float(np.median(Z.sum(axis=-1))), "lam")
        # Bisection within the range of allowed parameters, even if there are entries of 1e-300 or 1e300.
        least, most = np.log(_RANGE)
        low = max(np.log(Z[Z > 0].min()) - 40.0, least + 1e-9)
        high = min(np.log(Z.sum(axis=-1).max()) + 1.0, most - 1e-9)
        for _ in range(60):  # the median exponent falls as lam grows: log1p(z / lam) <= z / lam
            middle = 0.5 * (low + high)
            above = float(np.median(ReciprocalSemigroup(float(np.exp(middle)))._exponent(Z))) > 1.0
            low, high = (middle, high) if above else (low, middle)
        return ReciprocalSemigroup(float(np.exp(0.5 * (low + high))))


#: The semigroup kernels by name.
SEMIGROUP_KERNELS = SemigroupKernel.registry


def refuse_negative(X: Rows, rows: str = "row {row} of the block") -> None:
    """Raise RowError with the position of the first negative entry of an array or CSR matrix."""
    values = X if isinstance(X, np.ndarray) else X.data
    if values.size == 0 or values.dtype.kind in "ub" or not values.min() < 0:
        return
    row, column, value = first_entry(X, values < 0)
    raise RowError(
        f"Negative values in data: a semigroup kernel is defined for nonnegative entries, but {rows}, column {column} is "
        f"{value} ({int((values < 0).sum())} such entries); shift or clip the columns, or use RandomFourierFeatures",
        row,
    )


def _require_rows(middle: float, parameter: str) -> None:
    if not (middle > 0 and np.isfinite(middle)):
        raise InputError(
            f"the rule {parameter}='median' needs rows that are not all zeros, but the median sampled pair sums "
            f"to {middle}; give a number"
        )
