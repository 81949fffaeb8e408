"""The columns of the rows themselves, beside the features of another map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..errors import InputError
from ..kernels.base import as_float64
from ..typing import Rows
from .base import FeatureMap, dense

#: Bytes of features that are copied beside the columns at a time, and the rows of which there are whole multiples.
_TILE_BYTES, _TILE_ROWS = 2**24, 1024


@dataclass(frozen=True)
class WithColumnsMap(FeatureMap):
    """Features z(x) = [x / scale, base(x)]: the kernel of the base map plus x.y / scale^2.

    Parameters
    ----------
    n_features_in : d, that of the base map
    n_components : d plus the number of features of the base map
    base : FeatureMap of dense features
    scale : a positive number
    """

    base: FeatureMap
    scale: float

    kind: ClassVar[str] = "with-columns"

    def __post_init__(self) -> None:
        super().__post_init__()
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
        """The map of the columns and the features of `base`."""
        d = base.n_features_in
        return cls(d, d + base.n_components, base, float(scale))

    @property
    def label(self) -> str:
        return self.base.label

    def held_bytes(self, itemsize: int) -> int:
        return self.base.held_bytes(itemsize)

    def scratch_bytes(self, itemsize: int) -> int:
        return self.base.scratch_bytes(itemsize) + max(
            _TILE_BYTES, _TILE_ROWS * self.base.n_components * itemsize
        )

    @property
    def whole_rows(self) -> bool:  # type: ignore[override]
        return self.base.whole_rows

    def fill_columns(self, X: Rows, out: np.ndarray, start: int, stop: int) -> None:
        split = min(max(self.n_features_in, start), stop)  # the first feature of the base map
        np.divide(
            dense(X[:, start:split]), out.dtype.type(self.scale), out=out[:, : split - start], casting="unsafe"
        )
        first, last = split - self.n_features_in, stop - self.n_features_in
        if first < last:
            step = _TILE_ROWS * max(1, _TILE_BYTES // (_TILE_ROWS * (last - first) * out.itemsize))
            for a in range(0, X.shape[0], step):
                out[a : a + step, split - start :] = self.base.columns(X[a : a + step], first, last)

    def exact_kernel(self, X: Rows, Y: Rows | None = None) -> np.ndarray:
        A = as_float64(X)
        B = A if Y is None else as_float64(Y)
        return self.base.exact_kernel(X, Y) + A @ B.T / self.scale**2

    def work(self) -> tuple[float, float]:
        operations, parameters = self.base.work()
        return operations + 2.0 * self.n_features_in, parameters
