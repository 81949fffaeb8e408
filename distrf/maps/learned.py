"""Fourier features whose frequencies were learned: compact nonlinear maps (Yu et al. 2015)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ..compiled.cosine import cos_offset, cos_sin
from ..errors import InputError
from ..kernels.shift_invariant import Kernel
from ..projections.base import COSINE_COST
from ..typing import Rows
from .base import FeatureMap, row_tiles
from .fourier import count_frequencies
from .frequencies import Frequencies, get_frequencies
from .phase_precision import phase_tile


@dataclass(frozen=True)
class LearnedFourierMap(FeatureMap):
    """Features from frequencies theta_i that were learned from data.

    With the phase "offset", feature i is sqrt(2 / D) cos(theta_i . x + b_i). With "paired", features
    2 i and 2 i + 1 are sqrt(2 / D) cos(theta_i . x) and sqrt(2 / D) sin(theta_i . x), for D / 2 frequencies.

    Parameters
    ----------
    n_features_in : d
    n_components : D
    phase : "paired" or "offset"
    structure : "dense" or "circulant", see `distrf.maps.frequencies`
    seed : seed of the signs of the structure "circulant"
    kernel, length_scale : the kernel that the features approximate; None where they were learned for a loss
    frequencies : the learned numbers in radians, float64: Theta of shape (m, d) for "dense", the vectors of the
        blocks, shape (blocks, L), for "circulant"
    offsets : b in turns, shape (m,), float64; None for the phase "paired"

    References
    ----------
    Yu et al., "Compact nonlinear maps and circulant extensions", 2015.
    """

    phase: str
    structure: str
    seed: int
    kernel: Kernel | None = None
    length_scale: float | None = None
    frequencies: np.ndarray | None = field(default=None, compare=False, repr=False)
    offsets: np.ndarray | None = field(default=None, compare=False, repr=False)

    kind: ClassVar[str] = "learned"
    whole_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.linear  # noqa: B018  checks phase, structure and the number of components

    @property
    def n_frequencies(self) -> int:
        """m, the number of frequencies: D / 2 for the phase "paired", D for "offset"."""
        return count_learned(self.phase, self.n_components)

    @property
    def linear(self) -> Frequencies:
        """The linear part x -> Theta x."""
        return get_frequencies(self.structure, self.n_features_in, self.n_frequencies, self.seed)

    def matrix(self) -> np.ndarray:
        """Theta as a matrix of shape (m, d), in radians, float64."""
        assert self.frequencies is not None
        return self.linear.matrix(self.frequencies)

    def fill_columns(self, X: Rows, out: np.ndarray, start: int, stop: int) -> None:
        assert self.frequencies is not None
        linear, sizes, prepared = self.linear, self._column_sizes(), {}
        whole = (start, stop) == (0, self.n_components)
        features = out if whole else np.empty((len(out), self.n_components), dtype=out.dtype)
        amplitude = np.sqrt(2.0 / self.n_components)
        for a, b in row_tiles(X.shape[0], linear.rows_per_tile):
            tile = phase_tile(X, a, b, sizes, out.dtype, keep_csr=True)
            if tile.dtype not in prepared:
                prepared[tile.dtype] = linear.prepare(self.frequencies, tile.dtype)
            phases, _ = linear.phases(tile, prepared[tile.dtype])
            if self.offsets is None:
                cos_sin(phases, features[a:b], 0, amplitude)
            else:
                cos_offset(phases, self.offsets.astype(tile.dtype), features[a:b], 0, amplitude)
        if not whole:
            out[:] = features[:, start:stop]

    def _column_sizes(self) -> np.ndarray:
        """Root mean square of each column of Theta, shape (d,): factors of the sizes of `distrf.maps.phase_precision`."""
        assert self.frequencies is not None
        if self.structure == "circulant":  # every column holds the same numbers, in another order
            return np.full(self.n_features_in, np.sqrt(np.mean(self.frequencies**2)))
        return np.sqrt(np.einsum("ij,ij->j", self.frequencies, self.frequencies) / len(self.frequencies))

    def exact_kernel(self, X: Rows, Y: Rows | None = None) -> np.ndarray:
        if self.kernel is None or self.length_scale is None:
            raise InputError(
                "these frequencies were learned for a loss and approximate no given kernel; "
                "objective='kernel' learns those of one"
            )
        return self.kernel(X, Y, self.length_scale)

    def work(self) -> tuple[float, float]:
        operations, parameters = self.linear.work()
        return operations + COSINE_COST * self.n_components, parameters + 4.0 * self.n_components


def count_learned(phase: str, n_components: int) -> int:
    """`count_frequencies` of a learned map. Raises InputError for an odd number of paired features."""
    if phase == "paired" and n_components % 2:
        raise InputError(
            f"phase='paired' learns a cosine and a sine of each frequency, so n_components must be even, got "
            f"{n_components}; use {n_components + 1} or phase='offset'"
        )
    return count_frequencies(phase, n_components)
