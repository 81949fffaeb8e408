"""Random Fourier features (Rahimi & Recht 2007, Algorithm 1), in both phase conventions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ..compiled.cosine import cos_offset, cos_sin
from ..errors import InputError
from ..kernels.base import as_float64
from ..kernels.shift_invariant import Kernel
from ..projections import Projection, make_projection
from ..projections.base import COSINE_COST
from ..randomness import uniforms
from ..typing import Rows
from .base import SeededMap, row_tiles
from .phase_precision import phase_tile, times_diagonal

PHASES = ("paired", "offset")
#: Ranges of length scales for which weights over the length scale stay within float32, and within float64.
_SINGLE_SCALES, _DOUBLE_SCALES = (1e-30, 1e30), (1e-290, 1e290)


@dataclass(frozen=True)
class FourierMap(SeededMap):
    """Features z(x) with E[z(x) . z(y)] = k(x, y) for a shift-invariant kernel k.

    With the phase "paired", columns 2 j and 2 j + 1 are sqrt(2 / D) cos(w_j . x) and sqrt(2 / D) sin(w_j . x),
    for D / 2 frequencies w_j. With "offset", column j is sqrt(2 / D) cos(w_j . x + b_j) for D frequencies, each
    b_j uniform on a turn; so is the last column of an odd number of paired ones. A frequency is a row of the projection
    divided by the length scale.

    Parameters
    ----------
    n_features_in : d
    n_components : D
    kernel : Kernel, shift-invariant
    length_scale : l, the unit of the distances between rows
    projection : str, key in `distrf.projections.PROJECTIONS`
    phase : "paired" or "offset"
    seed : seed of all draws
    order : q, the columns that a frequency looks at; None is all
    root : array A of shape (d, d), or its diagonal, by which rows are multiplied first: distances are those in the metric
        A A'. None is the identity
    column_weights : array of shape (d,), in proportion to which the columns of a frequency of order q are drawn; None draws
        all alike

    References
    ----------
    Rahimi & Recht, "Random features for large-scale kernel machines", NIPS 2007, Algorithm 1.
    """

    kernel: Kernel
    length_scale: float
    projection: str
    phase: str
    seed: int
    order: int | None = None
    root: np.ndarray | None = field(default=None, compare=False, repr=False)
    column_weights: np.ndarray | None = field(default=None, compare=False, repr=False)

    kind: ClassVar[str] = "fourier"

    @property
    def longest(self) -> float:
        """1 for cosines with their sines, whose squares sum to 1; 2 where there are cosines alone."""
        return 1.0 if self.phase == "paired" and self.n_components % 2 == 0 else 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        count_frequencies(self.phase, self.n_components)
        if not (np.isfinite(self.length_scale) and self.length_scale > 0):
            raise InputError(f"length_scale must be a positive number, got {self.length_scale}")
        if not _within(self.length_scale, _DOUBLE_SCALES):
            raise InputError(
                f"length_scale must lie between {_DOUBLE_SCALES[0]} and {_DOUBLE_SCALES[1]}, as weights over it must "
                f"in float64, got {self.length_scale}; scale the columns"
            )
        self.projector  # noqa: B018  checks the combination of kernel and projection

    @property
    def n_frequencies(self) -> int:
        """Number of frequencies: D / 2, rounded up, for the phase "paired", D for "offset"."""
        return count_frequencies(self.phase, self.n_components)

    @property
    def _per_frequency(self) -> int:
        """Columns of the features that belong to one frequency."""
        return 2 if self.phase == "paired" else 1

    @property
    def projector(self) -> Projection:
        """The projection that draws the frequencies, for length scale 1."""
        d, m = self.n_features_in, self.n_frequencies
        weights = None if self.column_weights is None else tuple(self.column_weights.tolist())
        few = None if self.order is None else (self.order, weights)
        return make_projection(self.projection, self.kernel, d, m, self.seed, few)

    def frequencies(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Frequencies start:stop as rows of a matrix of shape (stop - start, d), in radians, float64."""
        W = self.projector.weights(start, stop) / self.length_scale
        return W if self.root is None else times_root(W, self.root.T)

    def offsets(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Offsets b of frequencies start:stop, for cosines without sines, shape (stop - start,), in turns, float64."""
        stop = self.n_frequencies if stop is None else stop
        offsets = self.projector.offsets(start, stop)
        return uniforms(self.seed, "offset", 0, stop - start, start) if offsets is None else offsets

    def columns(self, X: Rows, start: int, stop: int) -> Rows:
        per = self._per_frequency
        first, last = (
            start - start % per,
            min(stop + stop % per, self.n_components),
        )  # a cosine is made with its sine
        out = super().columns(X, first, last)
        return (
            out
            if (first, last) == (start, stop)
            else np.ascontiguousarray(out[:, start - first : stop - first])
        )

    def fill_columns(self, X: Rows, out: np.ndarray, start: int, stop: int) -> None:
        # Weights without a mean make phases of millions of turns: their fractions need float64.
        single = not self.kernel.heavy_tailed and _within(self.length_scale, _SINGLE_SCALES)
        dtype = out.dtype if single else np.dtype(np.float64)
        projector, per, root = self.projector, self._per_frequency, self.root
        scale, amplitude = 1.0 / (2.0 * np.pi * self.length_scale), np.sqrt(2.0 / self.n_components)
        paired = self.n_components // 2 if per == 2 else 0  # the first frequencies have a sine
        keep_csr = projector.accepts_sparse and (root is None or root.ndim < 2)
        for begin, end in projector.weight_blocks(start // per, -(-stop // per), dtype.itemsize):
            for a, b in row_tiles(X.shape[0], projector.rows_per_tile):
                tile = phase_tile(X, a, b, self._column_sizes, dtype, keep_csr)
                kind = tile.dtype
                if root is not None:
                    tile = times_root(tile, root.astype(kind))
                for first, phases in projector.phases(tile, begin, end, scale, kind):
                    both = min(max(paired - first, 0), phases.shape[1])
                    if both:
                        cos_sin(
                            np.ascontiguousarray(phases[:, :both]), out[a:b], first * per - start, amplitude
                        )
                    if both < phases.shape[1]:
                        offsets = self.offsets(first + both, first + phases.shape[1]).astype(kind)
                        alone = np.ascontiguousarray(phases[:, both:])
                        cos_offset(alone, offsets, out[a:b], (first + both) * per - start, amplitude)

    @property
    def _column_sizes(self) -> np.ndarray | float:
        """Factors f for which |f * x| is the size of a row x, see `distrf.maps.phase_precision`."""
        if self.root is None:
            return 1.0 / self.length_scale
        if self.root.ndim == 1:
            return np.abs(self.root) / self.length_scale
        # A is the root. The size is that of the products x_i A_ij before they are summed: they may cancel
        # in the sum, but their rounding does not.
        return np.sqrt((self.root**2).sum(axis=1)) / self.length_scale

    def exact_kernel(self, X: Rows, Y: Rows | None = None) -> np.ndarray:
        if self.order is not None:
            raise InputError(
                f"order={self.order} is a mean of too many kernels to be computed; compare without order"
            )
        if self.root is not None:
            X = times_root(as_float64(X), self.root)
            Y = None if Y is None else times_root(as_float64(Y), self.root)
        return self.kernel(X, Y, self.length_scale)

    def work(self) -> tuple[float, float]:
        operations, parameters = self.projector.work()
        if self.root is not None:
            operations += 2.0 * self.root.size
        return operations + COSINE_COST * self.n_components, parameters

    def held_bytes(self, itemsize: int) -> int:
        # The root, and a copy in the dtype of the rows.
        return 0 if self.root is None else (8 + itemsize) * self.root.size

    def _sum_of_weights(self) -> float:
        """Sum of the first 64 coordinates of the first frequency and the last 64 of the last, at l = 1."""
        m = self.n_frequencies
        head, tail = self.projector.weights(0, 1)[0, :64], self.projector.weights(m - 1, m)[0, -64:]
        return float(head.sum() + tail.sum())


def times_root(X: Rows, root: np.ndarray) -> Rows:
    """Rows times a matrix, or times a diagonal of shape (d,); CSR rows stay CSR then."""
    return X @ root if root.ndim == 2 else times_diagonal(X, root)


def _within(number: float, bounds: tuple[float, float]) -> bool:
    return bounds[0] <= number <= bounds[1]


def count_frequencies(phase: str, n_components: int) -> int:
    """The number of frequencies behind D features.

    Parameters
    ----------
    phase : "paired" or "offset"
    n_components : D

    Returns
    -------
    D / 2 for "paired", rounded up, D for "offset".

    Raises
    ------
    InputError : the phase is unknown, or D is below 1
    """
    if phase not in PHASES:
        raise InputError(f"phase is 'paired' or 'offset', got {phase!r}")
    if n_components < 1:
        raise InputError(f"n_components must be at least 1, got {n_components}")
    return n_components if phase == "offset" else -(-n_components // 2)
