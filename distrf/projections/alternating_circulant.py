"""Alternating circulant projections (Mukuta et al. 2018, Eq. 7).

A block draws each of its columns from one of `n_mixed` independent circulant matrices:

    W x = sum_l F^-1 (F c_l o F (s_l o x)),

s_l the 0/1 mask of the columns drawn from matrix l. One inverse FFT serves the sum, and the masks are
shared by all blocks, so that n_mixed forward FFTs serve every block. Row k of a block is
w_j = c_{l(j), (k - j) mod L}: one entry for every column, each from another place, so the coordinates
are independent and have the kernel's law, given the masks and the signs. Hence it is unbiased for every
kernel whose weights have independent coordinates (Gaussian, Laplacian, Cauchy, and the semigroup
kernels), and with a radius for each row for Matern.

Two rows share an entry of c only where both columns came from the same matrix: a fraction 1 / n_mixed of
the correlation of the plain circulant is left. For Fourier features of a constant difference that is
still far from independent rows, so random signs stand on the input too; where the weights are
nonnegative (Laplace features) no signs are used, as in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .circulant import CirculantProjection


@dataclass(frozen=True)
class AlternatingCirculantProjection(CirculantProjection):
    """Columns of a block from two circulant matrices, random signs on the input."""

    name: ClassVar[str] = "alternating_circulant"

    @property
    def n_mixed(self) -> int:
        return 2

    @property
    def _stream(self) -> str:
        return "alternating circulant"


@dataclass(frozen=True)
class AlternatingCirculantLogProjection(AlternatingCirculantProjection):
    """Columns of a block from log2 d circulant matrices, random signs on the input."""

    name: ClassVar[str] = "alternating_circulant-log2"

    @property
    def n_mixed(self) -> int:
        return max(2, round(np.log2(self.n_features_in)))


@dataclass(frozen=True)
class AlternatingCirculantPaperProjection(AlternatingCirculantProjection):
    """As printed: two circulant matrices, no signs."""

    name: ClassVar[str] = "alternating_circulant-paper"
    sign_place: ClassVar[str] = "nowhere"


@dataclass(frozen=True)
class AlternatingCirculantLogPaperProjection(AlternatingCirculantLogProjection):
    """As printed: log2 d circulant matrices, no signs."""

    name: ClassVar[str] = "alternating_circulant-log2-paper"
    sign_place: ClassVar[str] = "nowhere"
