"""Scalings of columns and of rows as frozen maps."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
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
        if not isinstance(X, np.ndarray):
            if self.method in SHIFTING:
                raise InputError(
                    f"scaling {self.method!r} shifts columns and would fill a sparse block; "
                    "use 'maxabs', 'l1-rows' or 'l2-rows', or dense rows"
                )
            X = sp.csr_array(X, dtype=dtype)
            if self.method == "divide":
                # The entries alone are divided: SciPy's quotient of a matrix and a number is float64.
                return sp.csr_array((X.data / dtype.type(self.divisor), X.indices, X.indptr), shape=X.shape)
            if self.method == "robust-zeros":
                bent = self._in_units(X.data, X.indices).astype(dtype)
                return sp.csr_array((bent, X.indices, X.indptr), shape=X.shape)
            if self.learned:
                assert self.scale is not None
                return sp.csr_array(X @ sp.diags_array(1.0 / self.scale.astype(dtype)))
            exponents = np.frexp(abs(X).max(axis=1).toarray().ravel())[1]  # so that no square overflows
            X = sp.csr_array(
                (np.ldexp(X.data, -np.repeat(exponents, np.diff(X.indptr))), X.indices, X.indptr), shape=X.shape
            )
            norms = abs(X).sum(axis=1) if self.method == "l1-rows" else np.sqrt((X * X).sum(axis=1))
            return sp.csr_array(sp.diags_array(1.0 / _nonzero(np.asarray(norms).ravel())).astype(dtype) @ X)
        X = X.astype(dtype)
        if self.method == "divide":
            X /= dtype.type(self.divisor)
        elif self.learned:
            X = self._in_units(X).astype(dtype)
        else:
            X = np.ldexp(
                X, -np.frexp(np.abs(X).max(axis=1, initial=0))[1][:, None]
            )  # so that no square overflows
            order = 1 if self.method == "l1-rows" else 2
            X /= _nonzero(np.linalg.norm(X, ord=order, axis=1))[:, None]
        return X

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

    def inverted(self) -> ScalingMap:
        """The map that takes scaled rows back.

        Raises
        ------
        InputError : the method is "robust" or "robust-zeros", or divides rows by their norms
        """
        if self.method == "divide":
            return replace(self, divisor=1.0 / self.divisor)
        if self.method in ROBUST:
            raise InputError(
                f"scaling {self.method!r} has no inverse here; take 'standard' where rows must come back"
            )
        if not self.learned:
            raise InputError(f"scaling {self.method!r} forgets the row norms and cannot be inverted")
        assert self.shift is not None
        assert self.scale is not None
        return replace(self, shift=-self.shift / self.scale, scale=1.0 / self.scale)

    def work(self) -> tuple[float, float]:
        return 4.0 * self.n_features_in, 16.0 * self.n_features_in


def _nonzero(norms: np.ndarray) -> np.ndarray:
    """The norms with 1 in place of 0, so that a row of zeros stays one."""
    return np.where(norms == 0, norms.dtype.type(1), norms)
