"""Fourier features whose frequencies were learned: compact nonlinear maps (Yu et al. 2015).

`Frequencies` are the linear part x -> Theta x, and its transpose. Phases are in turns, gradients in
radians. Let e_i be the derivative of a loss with respect to the phases of row x_i, an array of shape (m,). Then

    dense:      dL / dTheta = sum_i e_i x_i',
    circulant:  Theta = (circ(r_1); circ(r_2); ...) diag(s), first m rows, and
                dL / dr_b = sum_i corr(S x_i, e_ib) = F^-1 sum_i conj(F S x_i) F e_ib,

where s are signs, S = diag(s) and F is the Fourier transform (Yu et al. 2015, Eqs. 9 and 17; the correlation is
their convolution with the reversed row). The sum over rows is taken over spectra, so that a microbatch costs
one inverse transform for each block of Theta.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.fft
import scipy.sparse as sp

from ..errors import InputError
from ..kernels.shift_invariant import Kernel
from ..parameters import one_of
from ..projections.base import COSINE_COST, FOURIER_COST
from ..projections.circulant import fast_order
from ..randomness import signs
from ..typing import Rows
from .base import FeatureMap, dense, row_tiles
from .fourier import PHASE, count_frequencies, phase_tile

#: Numbers in the spectra of one tile of rows: so few that they stay in the cache.
_TILE_NUMBERS = 2**18


@dataclass(frozen=True)
class Frequencies:
    """m frequencies over d columns, made from an array of numbers: here Theta itself, shape (m, d).

    Parameters
    ----------
    n_features_in : d
    n_frequencies : m
    seed : seed of the signs, for a structure that has some

    Attributes
    ----------
    name : str, key in `STRUCTURES` and in specs
    """

    n_features_in: int
    n_frequencies: int
    seed: int = 0

    name: ClassVar[str] = "dense"

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the array of numbers that make the frequencies."""
        return self.n_frequencies, self.n_features_in

    @property
    def rows_per_tile(self) -> int:
        """Rows to hand to `phases` at once."""
        return 512

    def matrix(self, numbers: np.ndarray) -> np.ndarray:
        """The frequencies of `numbers` (in radians, of `shape`) as rows of a matrix of shape (m, d), float64."""
        return np.asarray(numbers, dtype=np.float64)

    def prepare(self, numbers: np.ndarray, dtype: np.dtype) -> Any:
        """Convert the learned numbers into the form that `phases` needs.

        Parameters
        ----------
        numbers : array of `shape`, in radians
        dtype : float32 or float64, of the phases
        """
        return (numbers / (2.0 * np.pi)).astype(dtype)

    def phases(self, X: Rows, prepared: Any) -> tuple[np.ndarray, Any]:
        """The phases of a tile of rows.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d), of the dtype of the phases; an array stays as it is
        prepared : what `prepare` returned

        Returns
        -------
        phases : C-contiguous array of shape (n, m), in turns
        factors : what `add` needs of the rows
        """
        return np.ascontiguousarray(X @ prepared.T), X

    def start(self, dtype: np.dtype) -> np.ndarray:
        """Zeros to which `add` adds gradients, for phases of that dtype."""
        return np.zeros(self.shape, dtype=dtype)

    def add(self, total: np.ndarray, factors: Any, E: np.ndarray) -> None:
        """Add the gradient of a tile of rows to `total`.

        Parameters
        ----------
        total : what `start` returned, changed in place
        factors : what `phases` returned for the tile
        E : array of shape (n, m), the derivatives of the loss with respect to the phases in radians
        """
        total += (factors.T @ E).T if sp.issparse(factors) else E.T @ factors

    def finish(self, total: np.ndarray) -> np.ndarray:
        """The gradient with respect to the numbers, of their shape, from the sum over all tiles."""
        return total

    def work(self) -> tuple[float, float]:
        """Floating-point operations for one row, and bytes of the numbers in float32. The plan asks."""
        entries = self.n_features_in * self.n_frequencies
        return 2.0 * entries, 4.0 * entries


@dataclass(frozen=True)
class CirculantFrequencies(Frequencies):
    """The numbers are ceil(m / L) vectors r of L = `fast_order(d)` numbers; d random signs s stand on the input.

    Entry j of row k of a block is s_j r_{(k - j) mod L}, as in the projection "circulant".
    """

    name: ClassVar[str] = "circulant"

    @property
    def order(self) -> int:
        """L, the number of rows of a block."""
        return fast_order(self.n_features_in)

    @property
    def shape(self) -> tuple[int, int]:
        return -(-self.n_frequencies // self.order), self.order

    @property
    def rows_per_tile(self) -> int:
        return max(8, min(32, _TILE_NUMBERS // (self.shape[0] * self.order)))

    def signs(self) -> np.ndarray:
        """Signs of the columns of the rows, shape (d,), float64."""
        return signs(self.seed, "circulant signs", 0, self.n_features_in)

    def matrix(self, numbers: np.ndarray) -> np.ndarray:
        d, m, L = self.n_features_in, self.n_frequencies, self.order
        index = (np.arange(L)[:, None] - np.arange(d)) % L
        blocks = np.asarray(numbers, dtype=np.float64)[:, index]
        return blocks.reshape(-1, d)[:m] * self.signs()

    def prepare(self, numbers: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        spectra = scipy.fft.rfft(np.asarray(numbers, dtype=np.float64) / (2.0 * np.pi), axis=1)
        return spectra.astype(np.result_type(dtype, np.complex64)), self.signs().astype(dtype)

    def phases(self, X: Rows, prepared: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        spectra, flips = prepared
        x = scipy.fft.rfft(dense(X) * flips, self.order, axis=1, overwrite_x=True)
        phases = scipy.fft.irfft(x[:, None] * spectra, self.order, axis=2, overwrite_x=True)
        phases = phases.reshape(len(x), self.shape[0] * self.order)
        return np.ascontiguousarray(phases[:, : self.n_frequencies]), x

    def start(self, dtype: np.dtype) -> np.ndarray:
        return np.zeros((self.shape[0], self.order // 2 + 1), dtype=np.result_type(dtype, np.complex64))

    def add(self, total: np.ndarray, factors: Any, E: np.ndarray) -> None:
        blocks, L = self.shape
        padded = E
        if E.shape[1] < blocks * L:
            padded = np.zeros((len(E), blocks * L), dtype=E.dtype)
            padded[:, : E.shape[1]] = E
        spectra = scipy.fft.rfft(padded.reshape(len(E), blocks, L), axis=2)
        total += (factors.conj()[:, None] * spectra).sum(axis=0)

    def finish(self, total: np.ndarray) -> np.ndarray:
        return scipy.fft.irfft(total, self.order, axis=1)

    def work(self) -> tuple[float, float]:
        blocks, L = self.shape
        operations = (1 + blocks) * 2.5 * L * np.log2(max(L, 2)) + 4.0 * blocks * L
        return FOURIER_COST * operations, 4.0 * blocks * (L + 2)


STRUCTURES: dict[str, type[Frequencies]] = {f.name: f for f in (Frequencies, CirculantFrequencies)}


def get_frequencies(structure: str, n_features_in: int, n_frequencies: int, seed: int) -> Frequencies:
    """The structure of that name."""
    return STRUCTURES[structure](n_features_in, n_frequencies, seed)


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
    structure : "dense" or "circulant", see `distrf.maps.learned`
    seed : seed of the signs of the structure "circulant"
    kernel, length_scale : the kernel that the features approximate; None where they were learned for a loss
    frequencies : the learned numbers in radians, float64: Theta of shape (m, d) for "dense", the vectors of the
        blocks, shape (blocks, L), for "circulant"
    offsets : b in turns, shape (m,), float64; None for the phase "paired"

    References
    ----------
    Yu et al., "Compact nonlinear maps and circulant extensions", 2015.
    """

    phase: str = field(metadata={"rule": PHASE})
    structure: str = field(metadata={"rule": one_of(*STRUCTURES)})
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
        from ..compiled.cosine import cos_offset, cos_sin  # late, with Numba

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
        """Root mean square of each column of Theta, shape (d,): factors of the sizes in `distrf.maps.fourier.phase_dtype`."""
        assert self.frequencies is not None
        if self.structure == "circulant":  # every column holds the same numbers, in another order
            return np.full(self.n_features_in, np.sqrt(np.mean(self.frequencies**2)))
        return np.sqrt(np.einsum("ij,ij->j", self.frequencies, self.frequencies) / len(self.frequencies))

    def exact_kernel(self, X: Rows, Y: Rows | None = None) -> np.ndarray:
        if self.kernel is None:
            raise InputError(
                "these frequencies were learned for a loss and approximate no given kernel; "
                "objective='kernel' learns those of one"
            )
        return super().exact_kernel(X, Y)

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
