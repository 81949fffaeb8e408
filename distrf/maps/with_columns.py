"""The columns themselves in front of the features of another map."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from ..errors import InputError
from .base import FeatureMap, OverBase, check_rows, working_dtype


@dataclass(frozen=True)
class WithColumnsMap(OverBase, FeatureMap):
    """z(x) = [x / scale, base(x)], d + D features: the kernel of the base plus x.y / scale^2.

    base : FeatureMap with D dense features; scale : a positive number
    """

    base: FeatureMap
    scale: float

    kind: ClassVar[str] = "with-columns"

    def __post_init__(self):
        d, D = self.base.n_features_in, self.base.n_components
        if (self.n_features_in, self.n_components) != (d, d + D):
            raise InputError(
                f"columns beside {D} features of {d} columns are {d + D}, got {self.n_components} of "
                f"{self.n_features_in} columns"
            )
        if self.base.sparse_output:
            raise InputError(f"columns join dense features, but those of {self.base.kind!r} are sparse")
        if not 0 < self.scale < float("inf"):
            raise InputError(f"scale must be a positive number, got {self.scale!r}")

    @classmethod
    def over(cls, base: FeatureMap, scale: float) -> WithColumnsMap:
        d = base.n_features_in
        return cls(d, d + base.n_components, base, float(scale))

    @property
    def whole_rows(self) -> bool:  # type: ignore[override]
        return self.base.whole_rows

    def fill(self, X, out):
        d = self.n_features_in
        np.divide(_dense(X), out.dtype.type(self.scale), out=out[:, :d], casting="unsafe")
        out[:, d:] = self.base(X)

    def columns(self, X, start, stop):
        check_rows(X, self.n_features_in)
        dtype, d = working_dtype(X.dtype), self.n_features_in
        column_blocks = []
        if start < d:
            column_blocks.append((_dense(X[:, start : min(stop, d)]) / dtype.type(self.scale)).astype(dtype))
        if stop > d:
            column_blocks.append(self.base.columns(X, max(start - d, 0), stop - d))
        return np.hstack(column_blocks)

    def exact_kernel(self, X, Y=None):
        A = np.asarray(_dense(X), dtype=np.float64)
        B = A if Y is None else np.asarray(_dense(Y), dtype=np.float64)
        return self.base.exact_kernel(X, Y) + A @ B.T / self.scale**2

    def work(self):
        operations, parameters = self.base.work()
        return operations + 2.0 * self.n_features_in, parameters

    def spec(self) -> dict[str, Any]:
        return {
            "map": self.kind,
            "base": self.base.spec(),
            "scale": self.scale,
            "n_features_in": self.n_features_in,
            "n_components": self.n_components,
        }

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> WithColumnsMap:
        from . import map_from_spec  # the registry knows this class, and this class any other

        base = map_from_spec(spec["base"], arrays)
        return cls(int(spec["n_features_in"]), int(spec["n_components"]), base, float(spec["scale"]))


def _dense(X: Any) -> np.ndarray:
    return X.toarray() if sp.issparse(X) else X
