"""Frequencies that are numbers, not seeds: phases of rows, and the gradients of what is made of them.

The linear part of learned maps, x -> Theta x, and its transpose. Phases are in turns, gradients in radians:
with e_i the derivative of a loss with respect to the phases of row x_i,

    dense:      dL / dTheta = sum_i e_i x_i',
    circulant:  Theta = (circ(r_1); circ(r_2); ...) diag(s), first m rows, and
                dL / dr_b = sum_i corr(S x_i, e_ib) = F^-1 sum_i conj(F S x_i) F e_ib

(Yu et al. 2015, Eqs. 9 and 17; the correlation is their convolution with the reversed row). The sum is taken
over spectra, so that a slice of rows costs one inverse transform a block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.fft
import scipy.sparse as sp

from ..compiled.phase_gradients import correlate_spectra
from ..compiled.spectra import mix_spectra
from ..errors import InputError
from ..projections.circulant import fast_order
from ..randomness import signs

#: Numbers of the spectra of a tile of rows: near the core.
_TILE_NUMBERS = 2**18


@dataclass(frozen=True)
class Frequencies:
    """m frequencies over d columns; `seed` is of the signs, where there are any."""

    n_features_in: int
    n_frequencies: int
    seed: int = 0

    name: ClassVar[str]

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the numbers that make the frequencies."""
        raise NotImplementedError

    @property
    def rows_per_tile(self) -> int:
        """Rows of X to hand to `phases` at once."""
        return 512

    def matrix(self, numbers: np.ndarray) -> np.ndarray:
        """The frequencies as an explicit matrix in radians, shape (m, d), float64."""
        raise NotImplementedError

    def prepare(self, numbers: np.ndarray, dtype: np.dtype) -> Any:
        """What `phases` needs of the numbers (radians), in the working precision."""
        raise NotImplementedError

    def phases(self, X: Any, prepared: Any) -> tuple[np.ndarray, Any]:
        """(phases in turns, C-contiguous, shape (n, m); what `add` needs of the rows)."""
        raise NotImplementedError

    def start(self, dtype: np.dtype) -> np.ndarray:
        """An empty sum for `add`."""
        raise NotImplementedError

    def add(self, total: np.ndarray, kept: Any, E: np.ndarray) -> None:
        """Add the gradient of a tile: E, shape (n, m), is the derivative with respect to its phases in radians."""
        raise NotImplementedError

    def finish(self, total: np.ndarray) -> np.ndarray:
        """The gradient with respect to the numbers, in their shape, from the sum over tiles."""
        raise NotImplementedError

    def work(self) -> tuple[float, float]:
        """Floating-point operations per row, and bytes of the numbers in float32."""
        raise NotImplementedError


@dataclass(frozen=True)
class DenseFrequencies(Frequencies):
    """Theta itself, m x d numbers."""

    name: ClassVar[str] = "dense"

    @property
    def shape(self):
        return self.n_frequencies, self.n_features_in

    def matrix(self, numbers):
        return np.asarray(numbers, dtype=np.float64)

    def prepare(self, numbers, dtype):
        return (numbers / (2.0 * np.pi)).astype(dtype)

    def phases(self, X, prepared):
        return np.ascontiguousarray(X @ prepared.T), X

    def start(self, dtype):
        return np.zeros(self.shape, dtype=dtype)

    def add(self, total, kept, E):
        total += (kept.T @ E).T if sp.issparse(kept) else E.T @ kept

    def finish(self, total):
        return total

    def work(self):
        entries = self.n_features_in * self.n_frequencies
        return 2.0 * entries, 4.0 * entries


@dataclass(frozen=True)
class CirculantFrequencies(Frequencies):
    """ceil(m / L) vectors r of L = `fast_order(d)` numbers, and d random signs on the input.

    Row k of a block is s_j r_{(k - j) mod L}: the conventions of the projection "circulant".
    """

    name: ClassVar[str] = "circulant"

    @property
    def order(self) -> int:
        """L, the order of a block."""
        return fast_order(self.n_features_in)

    @property
    def shape(self):
        return -(-self.n_frequencies // self.order), self.order

    @property
    def rows_per_tile(self):
        return max(8, min(32, _TILE_NUMBERS // (self.shape[0] * self.order)))

    def signs(self) -> np.ndarray:
        """Signs of the input coordinates, shape (d,)."""
        return signs(self.seed, "circulant signs", 0, self.n_features_in)

    def matrix(self, numbers):
        d, m, L = self.n_features_in, self.n_frequencies, self.order
        index = (np.arange(L)[:, None] - np.arange(d)) % L
        blocks = np.asarray(numbers, dtype=np.float64)[:, index]
        return blocks.reshape(-1, d)[:m] * self.signs()

    def prepare(self, numbers, dtype):
        spectra = scipy.fft.rfft(np.asarray(numbers, dtype=np.float64) / (2.0 * np.pi), axis=1)
        return spectra[:, None].astype(np.result_type(dtype, np.complex64)), self.signs().astype(dtype)

    def phases(self, X, prepared):
        spectra, flips = prepared
        X = X.toarray() if sp.issparse(X) else X
        x = scipy.fft.rfft(X * flips, self.order, axis=1, overwrite_x=True)
        product = np.empty((len(x), *spectra[:, 0].shape), dtype=x.dtype)
        mix_spectra(x[:, None], spectra, product)
        phases = scipy.fft.irfft(product, self.order, axis=2, overwrite_x=True).reshape(
            len(x), self.shape[0] * self.order
        )
        return np.ascontiguousarray(phases[:, : self.n_frequencies]), x

    def start(self, dtype):
        return np.zeros((self.shape[0], self.order // 2 + 1), dtype=np.result_type(dtype, np.complex64))

    def add(self, total, kept, E):
        blocks, L = self.shape
        padded = E
        if E.shape[1] < blocks * L:
            padded = np.zeros((len(E), blocks * L), dtype=E.dtype)
            padded[:, : E.shape[1]] = E
        correlate_spectra(kept, scipy.fft.rfft(padded.reshape(len(E), blocks, L), axis=2), total)

    def finish(self, total):
        return scipy.fft.irfft(total, self.order, axis=1)

    def work(self):
        blocks, L = self.shape
        return (1 + blocks) * 2.5 * L * np.log2(max(L, 2)) + 4.0 * blocks * L, 4.0 * blocks * (L + 2)


STRUCTURES: dict[str, type[Frequencies]] = {f.name: f for f in (DenseFrequencies, CirculantFrequencies)}


def get_frequencies(structure: str, n_features_in: int, n_frequencies: int, seed: int) -> Frequencies:
    """The linear part of that structure. Raises InputError for an unknown one."""
    if structure not in STRUCTURES:
        raise InputError(f"structure is one of {', '.join(STRUCTURES)}; got {structure!r}")
    return STRUCTURES[structure](n_features_in, n_frequencies, seed)
