"""Column scalings and row norms as frozen maps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from ..errors import InputError, SpecMismatchError
from .base import FeatureMap, check_rows, working_dtype

#: Scalings that shift columns, hence cannot keep a CSR block sparse.
SHIFTING = ("standard", "minmax", "robust")
METHODS = ("standard", "minmax", "maxabs", "robust", "l1-rows", "l2-rows", "divide")


@dataclass(frozen=True)
class ScalingMap(FeatureMap):
    """(x - shift) / scale by column, the arcsinh of that ("robust"), x / |x| by row, or x / divisor.

    method : "standard" | "minmax" | "maxabs" | "robust" (with arrays `shift` and `scale` of shape (d,)),
        "l1-rows" | "l2-rows", or "divide" (by the number `divisor`)
    """

    method: str
    divisor: float = 1.0
    shift: np.ndarray | None = field(default=None, compare=False, repr=False)
    scale: np.ndarray | None = field(default=None, compare=False, repr=False)

    kind: ClassVar[str] = "scaling"
    same_columns: ClassVar[bool] = True

    def __post_init__(self):
        if self.method not in METHODS:
            raise InputError(f"unknown scaling {self.method!r}; known: {', '.join(METHODS)}")
        if not (np.isfinite(self.divisor) and self.divisor != 0):
            raise InputError(f"divisor must be a finite number other than 0, got {self.divisor}")

    @property
    def learned(self) -> bool:
        return self.method in ("standard", "minmax", "maxabs", "robust")

    def __call__(self, X):
        X = check_rows(X, self.n_features_in)
        dtype = working_dtype(X.dtype)
        if sp.issparse(X):
            if self.method in SHIFTING:
                raise InputError(
                    f"scaling {self.method!r} shifts columns and would fill a sparse block; "
                    "use 'maxabs', 'l1-rows' or 'l2-rows', or dense rows"
                )
            X = sp.csr_array(X, dtype=dtype)
            if self.method == "divide":
                # On the entries: SciPy's quotient of a matrix is float64.
                return sp.csr_array((X.data / dtype.type(self.divisor), X.indices, X.indptr), shape=X.shape)
            if self.learned:
                assert self.scale is not None
                return sp.csr_array(X @ sp.diags_array(1.0 / self.scale.astype(dtype)))
            norms = abs(X).sum(axis=1) if self.method == "l1-rows" else np.sqrt((X * X).sum(axis=1))
            return sp.csr_array(sp.diags_array(1.0 / _nonzero(np.asarray(norms).ravel())).astype(dtype) @ X)
        X = X.astype(dtype)
        if self.method == "divide":
            X /= dtype.type(self.divisor)
        elif self.learned:
            # Subtract in float64 where float32 would cancel; a float32 column of large mean keeps its digits.
            X = (X - self.shift) / self.scale
            X = (np.arcsinh(X) if self.method == "robust" else X).astype(dtype)
        else:
            order = 1 if self.method == "l1-rows" else 2
            X /= _nonzero(np.linalg.norm(X, ord=order, axis=1))[:, None]
        return X

    def columns(self, X, start, stop):
        return self(X)[:, start:stop]

    def inverted(self) -> ScalingMap:
        """The map that undoes a column scaling."""
        if self.method == "divide":
            return replace(self, divisor=1.0 / self.divisor)
        if self.method == "robust":
            raise InputError("scaling 'robust' has no inverse here; take 'standard' where rows must come back")
        if not self.learned:
            raise InputError(f"scaling {self.method!r} forgets the row norms and cannot be inverted")
        assert self.shift is not None
        assert self.scale is not None
        return replace(self, shift=-self.shift / self.scale, scale=1.0 / self.scale)

    @property
    def arrays(self):
        return {} if self.scale is None else {"shift": self.shift, "scale": self.scale}

    def with_arrays(self, arrays):
        return replace(self, shift=arrays["shift"], scale=arrays["scale"])

    def without_arrays(self):
        return replace(self, shift=None, scale=None)

    def work(self):
        return 4.0 * self.n_features_in, 16.0 * self.n_features_in

    def spec(self) -> dict[str, Any]:
        return {
            "map": self.kind,
            "method": self.method,
            "divisor": self.divisor,
            "n_features_in": self.n_features_in,
            "n_components": self.n_components,
        }

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> ScalingMap:
        d = int(spec["n_features_in"])
        map_ = cls(d, d, spec["method"], float(spec["divisor"]), arrays.get("shift"), arrays.get("scale"))
        if map_.learned and (map_.scale is None or map_.shift is None):
            raise SpecMismatchError(
                f"the spec of a {map_.method!r} scaling lacks its arrays 'shift' and 'scale'"
            )
        return map_


def _nonzero(norms: np.ndarray) -> np.ndarray:
    """Norms with 1 in place of 0: a row of zeros stays a row of zeros."""
    return np.where(norms == 0, norms.dtype.type(1), norms)
