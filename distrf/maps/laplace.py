"""Random Laplace features of semigroup kernels (Yang et al. 2014; Mukuta et al. 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..errors import InputError, RowError
from ..kernels.semigroup import SemigroupKernel, refuse_negative
from ..projections import Projection, make_projection
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
    last. Circulant products round by eps times the largest weight times the largest entry: features are then
    1e-13 off, 5e-8 at worst (histograms, counts, one-hot rows, entries of 1e-12 to 1e15; D^-1/2 is 1). Rounding may
    leave entries of W x just below 0, where there are none in exact arithmetic: these are taken for 0.

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

    def __post_init__(self) -> None:
        super().__post_init__()
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
        projector, scale, dtype = self.projector, self.kernel.weight_scale, np.dtype(np.float64)
        for begin, end in projector.weight_blocks(start, stop, 8):
            for a, b in row_tiles(X.shape[0], projector.rows_per_tile):
                tile = _float64(X[a:b], projector.accepts_sparse)
                # A product beyond float64 is infinite, and its feature 0; of an FFT it is no number.
                with np.errstate(over="ignore", invalid="ignore"):
                    for first, products in projector.phases(tile, begin, end, scale, dtype):
                        if np.isnan(products.max(initial=0.0)):
                            raise RowError(
                                "row {row} of the block is too large for circulant products in float64; divide the rows by "
                                "a constant, or take projection='dense'",
                                a + int(np.isnan(products).any(axis=1).argmax()),
                            )
                        np.maximum(products, 0.0, out=products)
                        np.exp(np.negative(products, out=products), out=products)
                        out[a:b, first - start : first - start + products.shape[1]] = amplitude * products

    def exact_kernel(self, X: Rows, Y: Rows | None = None) -> np.ndarray:
        return self.kernel(X, Y)

    def work(self) -> tuple[float, float]:
        operations, parameters = self.projector.work()
        # An operation in float64 takes twice the time of one in float32, and a weight twice the bytes.
        return 2.0 * operations + 40.0 * self.n_components, 2.0 * parameters

    def _sum_of_weights(self) -> float:
        """Sum of the logarithms of the first 64 weights of the first row of W and of the last 64 of the last."""
        D = self.n_components
        head, tail = self.projector.weights(0, 1)[0, :64], self.projector.weights(D - 1, D)[0, -64:]
        return float(np.log(head).sum() + np.log(tail).sum())


def _float64(tile: Rows, accepts_sparse: bool) -> Rows:
    """A tile of rows in float64: CSR where the projection takes it and it pays, else a C-contiguous array."""
    if isinstance(tile, np.ndarray):
        return np.ascontiguousarray(tile, dtype=np.float64)
    tile = tile.astype(np.float64)
    return tile if accepts_sparse and few_entries(tile) else dense(tile)
