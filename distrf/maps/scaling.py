"""Scalings of columns and of rows as frozen maps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from ..errors import InputError
from ..typing import Rows
from .base import FeatureMap, check_rows, working_dtype

#: Methods that shift columns, so that zeros would not stay zeros: they refuse CSR rows.
#: Linear ones, and those that bend columns.
LINEAR, ROBUST = ("standard", "minmax", "maxabs"), ("robust", "robust-zeros")
SHIFTING = ("standard", "minmax", "robust")
METHODS = (*LINEAR, *ROBUST, "l1-rows", "l2-rows", "divide")


@dataclass(frozen=True)
class ScalingMap(FeatureMap):
    """Rows in other units: their columns scaled, or each row divided by its norm.

    Parameters
    ----------
    n_features_in : d
    n_components : d
    method : "standard", "minmax" or "maxabs": (x - shift) / scale, column by column; "robust": the arcsinh of that;
        "robust-zeros": the same less its value at 0;
        "l1-rows" or "l2-rows": each row divided by its norm, rows of zeros stay as they are; "divide": x / divisor
    divisor : number other than 0, for "divide"
    shift, scale : arrays of shape (d,), for the methods that scale columns
    """

    method: str
    divisor: float = 1.0
    shift: np.ndarray | None = field(default=None, compare=False, repr=False)
    scale: np.ndarray | None = field(default=None, compare=False, repr=False)

    kind: ClassVar[str] = "scaling"
    label: ClassVar[str] = "scale"  # type: ignore[misc]
    same_columns: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in METHODS:
            raise InputError(f"unknown scaling {self.method!r}; known: {', '.join(METHODS)}")
        if not (np.isfinite(self.divisor) and self.divisor != 0):
            raise InputError(f"divisor must be a finite number other than 0, got {self.divisor}")

    @property
    def learned(self) -> bool:
        """Whether the method needs `shift` and `scale`."""
        return self.method in LINEAR + ROBUST

    def __call__(self, X: Rows) -> Rows:
        X = check_rows(X, self.n_features_in)
        dtype = working_dtype(X.dtype)
        if isinstance(X, np.ndarray):
            return self._scaled(X.astype(dtype, copy=False), ..., None)
        if self.method in SHIFTING:
            raise InputError(
                f"scaling {self.method!r} shifts columns and would fill a sparse block; "
                "use 'maxabs', 'l1-rows' or 'l2-rows', or dense rows"
            )
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        data = self._scaled(X.data.astype(dtype, copy=False), X.indices, rows)
        return sp.csr_array((data, X.indices, X.indptr), shape=X.shape)

    def _scaled(self, values: np.ndarray, columns: Any, rows: np.ndarray | None) -> np.ndarray:
        """Rows, or the entries of CSR rows in such rows and columns, in other units, in their dtype."""
        if self.method == "divide":
            return values / values.dtype.type(self.divisor)
        if self.learned:
            return self._in_units(values, columns).astype(values.dtype)
        exponents = np.frexp(_by_row(np.maximum, abs(values), rows))[1]
        values = np.ldexp(values, -exponents)  # so that no square overflows
        norms = _by_row(np.add, abs(values) if self.method == "l1-rows" else values * values, rows)
        norms = norms if self.method == "l1-rows" else np.sqrt(norms)
        return values / np.where(norms == 0, norms.dtype.type(1), norms)  # a row of zeros stays one

    def _in_units(self, values: np.ndarray, columns: Any = ...) -> np.ndarray:
        """Rows, or entries of the columns of such numbers. `shift` is float64, so that the difference is too: a float32
        column of large mean keeps its digits.
        """
        assert self.shift is not None
        assert self.scale is not None
        units = (values - self.shift[columns]) / self.scale[columns]
        if self.method not in ROBUST:
            return units
        zero = np.arcsinh(self.shift / self.scale)[columns] if self.method == "robust-zeros" else 0.0
        return np.arcsinh(units) + zero

    def columns(self, X: Rows, start: int, stop: int) -> Rows:
        return self(X)[:, start:stop]

    def work(self) -> tuple[float, float]:
        return 4.0 * self.n_features_in, 16.0 * self.n_features_in


def _by_row(function: np.ufunc, values: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
    """The sums or maxima of rows, from 0, each beside all values of its row."""
    if rows is None:
        return function.reduce(values, axis=1, keepdims=True, initial=0)
    made = np.zeros(rows.max(initial=-1) + 1, dtype=values.dtype)
    function.at(made, rows, values)
    return made[rows]
