"""Alternating circulant projections (Mukuta et al. 2018, Eq. 7).

A block draws each of its columns from one of `n_mixed` independent circulant matrices:

    W x = sum_l F^-1 (F c_l o F (s_l o x)),

where c_l is the first column of matrix l, s_l is 1 for the columns drawn from it and 0 for the others, F is the
Fourier transform and o multiplies entry by entry. The sum takes one inverse FFT. All blocks share the masks
s_l, so that n_mixed forward FFTs of a row serve every block.

Row k of a block has the entries w_j = c_{l(j), (k - j) mod L}, where l(j) is the matrix of column j. Each is
from another place, so given the masks (and signs) the coordinates of a row are independent and have the
kernel's law. Hence the estimate is unbiased for every kernel whose weights have independent coordinates
(Gaussian, Laplacian, Cauchy and the semigroup kernels), and, with a radius for each row, for Matern.

Two rows share an entry of c only in columns drawn from the same matrix, which leaves a fraction 1 / n_mixed of
the correlation of the plain circulant projection. For Fourier features of a constant difference x - y that is
still far from independent rows. So random signs stand on the input too. Where weights are nonnegative (Laplace
features) no signs are used, as in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .circulant import CirculantProjection


@dataclass(frozen=True)
class AlternatingCirculantProjection(CirculantProjection):
    """Each column of a block from one of two circulant matrices, with random signs on the input."""

    name: ClassVar[str] = "alternating_circulant"

    @property
    def n_mixed(self) -> int:
        return 2

    @property
    def _stream(self) -> str:
        return "alternating circulant"


@dataclass(frozen=True)
class AlternatingCirculantLogProjection(AlternatingCirculantProjection):
    """Each column of a block from one of log2 d circulant matrices, with random signs on the input."""

    name: ClassVar[str] = "alternating_circulant-log2"

    @property
    def n_mixed(self) -> int:
        return max(2, round(np.log2(self.n_features_in)))


@dataclass(frozen=True)
class AlternatingCirculantPaperProjection(AlternatingCirculantProjection):
    """As printed in the paper: two circulant matrices, no signs."""

    name: ClassVar[str] = "alternating_circulant-paper"
    sign_place: ClassVar[str] = "nowhere"


@dataclass(frozen=True)
class AlternatingCirculantLogPaperProjection(AlternatingCirculantLogProjection):
    """As printed in the paper: log2 d circulant matrices, no signs."""

    name: ClassVar[str] = "alternating_circulant-log2-paper"
    sign_place: ClassVar[str] = "nowhere"
