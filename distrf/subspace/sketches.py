"""Sketches: Theta of Chen et al. 2016, Algorithms 1 and 2, applied to row blocks of F.

Y = F' Theta is a sum over blocks of rows, and Theta is a function of (seed, global row index) alone. So
Y does not depend, beyond rounding, on how rows are cut into blocks. Number code: NumPy in and out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..errors import InputError
from ..randomness import sample_indices, signs, variates

#: Rows of one random block of Theta.
_ROWS = 256
#: A tile with fewer than R / 16 rows of a logical SRHT block is multiplied as a dense matrix, because the transform costs
#: R log R whatever the number of rows.
_SHORT = 16
_PRODUCT_BYTES = 16 * 2**20


@dataclass(frozen=True)
class Sketch:
    """Base: Theta of shape (n_rows, width), E[Theta Theta'] a multiple of the identity."""

    n_rows: int
    width: int
    seed: int
    stream: str = "sketch"

    name: ClassVar[str]

    def rows(self, first: int, last: int) -> np.ndarray:
        """Rows first:last of Theta, dense, shape (last - first, width), float64."""
        raise NotImplementedError

    def add(self, first: int, F: np.ndarray, out: np.ndarray) -> None:
        """Add F' Theta[first : first + m] to `out` (D, width), float64; F of shape (m, D)."""
        theta = self.rows(first, first + F.shape[0]).astype(F.dtype)
        add_product(F, theta, out)

    def flops_per_row(self, n_features: int) -> float:
        """Arithmetic of one row of F."""
        return 2.0 * n_features * self.width


def add_product(F: Any, G: np.ndarray, out: np.ndarray) -> None:
    """Add F'G to the float64 `out` by tiles of features: products in the dtype of F, and little scratch.

    F : array of shape (m, D)
    """
    step = max(256, _PRODUCT_BYTES // (F.dtype.itemsize * max(1, G.shape[1])))
    for a in range(0, F.shape[1], step):
        out[a : a + step] += F[:, a : a + step].T @ G


@dataclass(frozen=True)
class GaussianSketch(Sketch):
    """Independent standard normal entries (Algorithm 1)."""

    name: ClassVar[str] = "gaussian"

    def rows(self, first: int, last: int) -> np.ndarray:
        blocks = []
        for block in range(first // _ROWS, -(-last // _ROWS)):
            a, b = max(first, block * _ROWS) - block * _ROWS, min(last, (block + 1) * _ROWS) - block * _ROWS
            w = self.width
            blocks.append(variates(self.seed, self.stream, block, (b - a) * w, "normal", a * w).reshape(-1, w))
        return np.concatenate(blocks) if blocks else np.empty((0, self.width))


@dataclass(frozen=True)
class SRHTSketch(Sketch):
    """Subsampled randomised Hadamard transform over all rows (Tropp 2011; Algorithm 2), distributed.

    Theta[i, s] = sign_i H_N[s', i] / sqrt(width) for `width` distinct samples s' of N. H_N = H_B (x) H_R with
    R = 2^ceil(log2 width): logical blocks of R rows, cut on the global row index, are transformed alone, and
    sample (s_b, s_r) of block b counts H_B[s_b, b] times. Rows beyond n are zero, and tiles of a block add up.
    """

    name: ClassVar[str] = "srht"

    @property
    def block(self) -> int:
        """R, rows of a logical block."""
        return 1 << max(0, int(self.width - 1).bit_length())

    @property
    def n_blocks(self) -> int:
        """B, a power of two."""
        return 1 << max(0, int(-(-self.n_rows // self.block) - 1).bit_length())

    def samples(self) -> tuple[np.ndarray, np.ndarray]:
        """(s_b, s_r) of each sample, shapes (width,)."""
        chosen = sample_indices(self.seed, f"{self.stream}/samples", self.n_blocks * self.block, self.width)
        return np.divmod(chosen, self.block)

    def row_signs(self, block: int) -> np.ndarray:
        """Signs of the rows of a logical block, shape (R,)."""
        return signs(self.seed, f"{self.stream}/signs", block, self.block)

    def _blocks(self, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """(logical block, first row, last row) of the rows first:last."""
        R = self.block
        for block in range(first // R, -(-last // R)):
            yield block, max(first, block * R), min(last, (block + 1) * R)

    def _explicit(self, block: int, a: int, b: int) -> np.ndarray:
        """Rows a:b of Theta, all of one logical block."""
        sample_block, sample_row = self.samples()
        place = np.arange(a, b) - block * self.block
        H = _hadamard(place[:, None], sample_row) * _hadamard(sample_block, block)
        return self.row_signs(block)[place, None] * H / np.sqrt(self.width)

    def rows(self, first: int, last: int) -> np.ndarray:
        tiles = [self._explicit(*bounds) for bounds in self._blocks(first, last)]
        return np.concatenate(tiles) if tiles else np.empty((0, self.width))

    def add(self, first: int, F: Any, out: np.ndarray) -> None:
        from ..compiled.walsh_hadamard import add_hadamard_samples  # late, with Numba

        sample_block, sample_row = self.samples()
        for block, a, b in self._blocks(first, first + F.shape[0]):
            tile = F[a - first : b - first]
            if b - a < self.block / _SHORT:
                add_product(tile, self._explicit(block, a, b).astype(F.dtype), out)
                continue
            place = a - block * self.block
            row_signs = self.row_signs(block)[place : place + b - a]
            factor = _hadamard(sample_block, block) / np.sqrt(self.width)
            add_hadamard_samples(tile, row_signs, place, sample_row, factor, self.block, out)

    def flops_per_row(self, n_features: int) -> float:
        return 16.0 * n_features * np.log2(max(self.block, 2))


def _hadamard(i: Any, j: Any) -> np.ndarray:
    """Entries H[i, j] = (-1)^popcount(i & j) of Sylvester's matrix, float64."""
    return 1.0 - 2.0 * (np.bitwise_count(np.bitwise_and(i, j)) & 1)


SKETCHES: dict[str, type[Sketch]] = {s.name: s for s in (GaussianSketch, SRHTSketch)}


def make_sketch(name: str, n_rows: int, width: int, seed: int, stream: str = "sketch") -> Sketch:
    """The sketch of that name. Raises InputError for an unknown name."""
    if name not in SKETCHES:
        raise InputError(f"unknown sketch {name!r}; known: {', '.join(SKETCHES)}")
    return SKETCHES[name](n_rows, width, seed, stream)
