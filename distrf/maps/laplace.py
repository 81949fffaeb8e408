"""Random Laplace features of semigroup kernels (Yang et al. 2014; Mukuta et al. 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from ..compiled.exponential import exp_negative
from ..errors import InputError
from ..kernels.semigroup import SemigroupKernel, get_semigroup_kernel, refuse_negative
from ..projections import Projection, make_projection
from ..projections.circulant import CirculantProjection
from ..projections.nonnegative import NonnegativeProduct
from .base import FeatureMap, check_rows, row_tiles, verify_checksum, working_dtype

#: Projections that keep weights nonnegative; the circulant ones draw no signs for such a law.
LAPLACE_PROJECTIONS = (
    "dense",
    "circulant",
    "alternating_circulant",
    "alternating_circulant-log2",
    "quasi",
    "quasi-halton",
)


@dataclass(frozen=True)
class LaplaceMap(FeatureMap):
    """z(x) = exp(-W x) / sqrt(D) for x >= 0, rows of W from the kernel's weight law.

    E[z(x) . z(y)] = E[exp(-w . (x + y))] = k(x, y) (Mukuta et al. 2018, Eq. 1): no further factor. W x is
    made in float64 whatever the rows: Levy weights span more decades than float32 has digits, and the
    cast to float32 comes last. W x >= 0 in exact arithmetic, so it is clamped there.
    """

    kernel: SemigroupKernel
    projection: str
    seed: int

    kind: ClassVar[str] = "laplace"

    def __post_init__(self):
        if self.n_components < 1:
            raise InputError(f"n_components must be at least 1, got {self.n_components}")
        if not isinstance(self.kernel, SemigroupKernel):
            raise InputError(f"a Laplace map needs a semigroup kernel, got {self.kernel!r}")
        if self.projection not in LAPLACE_PROJECTIONS:
            raise InputError(
                f"Laplace features need nonnegative weights: projection is one of {', '.join(LAPLACE_PROJECTIONS)}, "
                f"got {self.projection!r}"
            )
        self.projector  # noqa: B018  checks the combination of kernel and projection

    @property
    def projector(self) -> Projection:
        return _projector(self.projection, self.kernel, self.n_features_in, self.n_components, self.seed)

    def weights(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Rows start:stop of W, shape (stop - start, d), float64."""
        return self.projector.weights(start, stop) * self.kernel.weight_scale

    def fill(self, X, out):
        refuse_negative(X)
        self._fill(X, out, 0, self.n_components)

    def columns(self, X, start, stop):
        X = check_rows(X, self.n_features_in)
        refuse_negative(X)
        out = np.empty((X.shape[0], stop - start), dtype=working_dtype(X.dtype))
        self._fill(X, out, start, stop)
        return out

    def _fill(self, X, out: np.ndarray, start: int, stop: int) -> None:
        if start == stop:
            return
        amplitude = 1.0 / np.sqrt(self.n_components)
        projector, scale = self.projector, self.kernel.weight_scale
        product: Any = projector
        if isinstance(projector, CirculantProjection):
            product = NonnegativeProduct(projector, scale)
        for begin, end in projector.weight_blocks(start, stop, 8):
            for a, b in row_tiles(X.shape[0], product.rows_per_tile):
                tile, target = _float64(X[a:b], projector.accepts_sparse), out[a:b]
                with np.errstate(over="ignore"):  # a phase beyond float64 is infinite, its feature zero
                    if product is projector:
                        column_blocks = projector.phases(tile, begin, end, scale, np.dtype(np.float64))
                    else:
                        column_blocks = product.phases(tile, begin, end)
                    for first, products in column_blocks:
                        exp_negative(products, target, first - start, amplitude)

    def exact_kernel(self, X, Y=None):
        return self.kernel(X, Y)

    def work(self):
        operations, parameters = self.projector.work()
        # Float64 throughout: twice the time of a float32 operation, twice the bytes; the circulant ones keep
        # the weights beside their spectra.
        copies = 4.0 if isinstance(self.projector, CirculantProjection) else 2.0
        return 2.0 * operations + 40.0 * self.n_components, copies * parameters

    def _checksum(self) -> float:
        """Sum of the logarithms of the first row's first 64 weights and of the last row's last 64."""
        D = self.n_components
        head, tail = self.projector.weights(0, 1)[0, :64], self.projector.weights(D - 1, D)[0, -64:]
        return float(np.log(head).sum() + np.log(tail).sum())

    def checksum(self) -> float:
        return _checksum(self)

    def spec(self) -> dict[str, Any]:
        return {
            "map": self.kind,
            "kernel": self.kernel.spec(),
            "n_features_in": self.n_features_in,
            "n_components": self.n_components,
            "projection": self.projection,
            "seed": self.seed,
            "checksum": self.checksum(),
        }

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> LaplaceMap:
        map_ = cls(
            n_features_in=int(spec["n_features_in"]),
            n_components=int(spec["n_components"]),
            kernel=get_semigroup_kernel(dict(spec["kernel"])),
            projection=spec["projection"],
            seed=int(spec["seed"]),
        )
        verify_checksum(map_.checksum(), spec["checksum"])
        return map_


def _float64(tile, accepts_sparse: bool):
    """A tile of rows in float64, C-contiguous; CSR only where the projection takes it and it pays."""
    if not sp.issparse(tile):
        return np.ascontiguousarray(tile, dtype=np.float64)
    keep = accepts_sparse and tile.nnz < 0.05 * np.prod(tile.shape)
    return tile.astype(np.float64) if keep else tile.astype(np.float64).toarray()


@lru_cache(maxsize=64)
def _projector(name: str, kernel: SemigroupKernel, d: int, D: int, seed: int) -> Projection:
    return make_projection(name, kernel, d, D, seed)  # type: ignore[arg-type]


@lru_cache(maxsize=64)
def _checksum(map_: LaplaceMap) -> float:
    return map_._checksum()
