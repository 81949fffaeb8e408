"""Random Laplace features of semigroup kernels (Yang et al. 2014; Mukuta et al. 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..compiled.exponential import exp_negative
from ..errors import InputError
from ..kernels.semigroup import SemigroupKernel, get_semigroup_kernel, refuse_negative
from ..projections import Projection, make_projection
from ..projections.circulant import CirculantProjection
from ..projections.nonnegative import NonnegativeProduct
from ..typing import Rows
from .base import SeededMap, dense, few_entries, row_tiles

#: The projections whose weights are nonnegative where the law is: the circulant ones then draw no signs.
LAPLACE_PROJECTIONS = (
    "dense",
    "circulant",
    "alternating_circulant",
    "alternating_circulant-log2",
    "quasi",
)


@dataclass(frozen=True)
class LaplaceMap(SeededMap):
    """Features z(x) = exp(-W x) / sqrt(D) of rows x >= 0, the rows of W drawn from the law of a semigroup kernel.

    E[z(x) . z(y)] = E[exp(-w . (x + y))] = k(x, y) (Mukuta et al. 2018, Eq. 1). W x is computed in float64 for
    rows of every dtype, because Levy weights span more decades than float32 has digits; the features are cast
    last. Rounding may leave entries of W x just below 0, where there are none in exact arithmetic: these are
    taken for 0.

    Parameters
    ----------
    n_features_in : d
    n_components : D
    kernel : SemigroupKernel
    projection : str, one of `LAPLACE_PROJECTIONS`
    seed : seed of all draws

    References
    ----------
    Yang et al., "Random Laplace feature maps for semigroup kernels on histograms", CVPR 2014.
    Mukuta, Ushiku & Harada, "Alternating circulant random features for semigroup kernels", AAAI 2018.
    """

    kernel: SemigroupKernel
    projection: str
    seed: int

    kind: ClassVar[str] = "laplace"
    spec_fields: ClassVar[tuple[str, ...]] = ("kernel", "n_features_in", "n_components", "projection", "seed")

    def __post_init__(self) -> None:
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
        """The projection that draws W, up to the factor `kernel.weight_scale`."""
        return make_projection(self.projection, self.kernel, self.n_features_in, self.n_components, self.seed)

    def weights(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Rows start:stop of W, shape (stop - start, d), float64."""
        return self.projector.weights(start, stop) * self.kernel.weight_scale

    def fill_columns(self, X: Rows, out: np.ndarray, start: int, stop: int) -> None:
        refuse_negative(X)
        if start == stop:
            return
        amplitude = 1.0 / np.sqrt(self.n_components)
        projector, scale = self.projector, self.kernel.weight_scale
        apart = NonnegativeProduct(projector, scale) if isinstance(projector, CirculantProjection) else None
        for begin, end in projector.weight_blocks(start, stop, 8):
            for a, b in row_tiles(X.shape[0], (apart or projector).rows_per_tile):
                tile, target = _float64(X[a:b], projector.accepts_sparse), out[a:b]
                with np.errstate(over="ignore"):  # a product beyond float64 is infinite, and its feature 0
                    if apart is None:
                        column_blocks = projector.phases(tile, begin, end, scale, np.dtype(np.float64))
                    else:
                        column_blocks = apart.phases(tile, begin, end)
                    for first, products in column_blocks:
                        exp_negative(products, target, first - start, amplitude)

    def exact_kernel(self, X: Rows, Y: Rows | None = None) -> np.ndarray:
        return self.kernel(X, Y)

    def work(self) -> tuple[float, float]:
        operations, parameters = self.projector.work()
        # An operation in float64 takes twice the time of one in float32, and a weight twice the bytes. Circulant
        # projections keep the weights beside their spectra.
        copies = 4.0 if isinstance(self.projector, CirculantProjection) else 2.0
        return 2.0 * operations + 40.0 * self.n_components, copies * parameters

    def _sum_of_weights(self) -> float:
        """Sum of the logarithms of the first 64 weights of the first row of W and of the last 64 of the last."""
        D = self.n_components
        head, tail = self.projector.weights(0, 1)[0, :64], self.projector.weights(D - 1, D)[0, -64:]
        return float(np.log(head).sum() + np.log(tail).sum())

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> LaplaceMap:
        return cls(kernel=get_semigroup_kernel(dict(spec["kernel"])), **cls._plain_fields(spec))


def _float64(tile: Rows, accepts_sparse: bool) -> Rows:
    """A tile of rows in float64: CSR where the projection takes it and it pays, else a C-contiguous array."""
    if isinstance(tile, np.ndarray):
        return np.ascontiguousarray(tile, dtype=np.float64)
    tile = tile.astype(np.float64)
    return tile if accepts_sparse and few_entries(tile) else dense(tile)
