"""Circulant projections by FFT (Yu et al. 2015; SCRF, Feng et al. 2015).

W consists of blocks circ(c) diag(s). The vector c has independent coordinates from the kernel's law of weights.
The vector s of random signs is the same for all blocks, so that one forward FFT of a row serves every block.

Row k of a block is w_j = s_j c_{(k - j) mod L}: its d coordinates are d different entries of c. The law is
symmetric, so every row has exactly the kernel's law of weights, also given the signs. Hence the estimate is
unbiased for every kernel with independent coordinates, not for the Gaussian alone. Sharing the signs costs no
variance: given them, blocks are independent and unbiased. For a scale mixture (Matern), each row is multiplied
by a radius of its own. Only the rows of one block depend on each other.

For one block, paired features, the Gaussian kernel and v = x - y, the vector z = circ(c) S v has covariances
r_{j-k}, where r is the circular autocorrelation of S v / l. Then E[cos z_j cos z_k] = e^{-s} cosh r_{j-k}, so
that, given the signs,

    Var = (e^{-s} / L) sum_k (cosh r_k - 1),    s = |v|^2 / l^2.

Without input signs (S = 1) a constant v has r_k = s for all k, and L times the variance of independent rows.
That holds for the paper's SCRF too. Its signs stand on the rows and change nothing, because the cosine is even
and a uniform offset is symmetric. So its Theorem 2 does not hold.

An alternating circulant projection (Mukuta et al. 2018, Eq. 7) draws each column of a block from one of `n_mixed` independent
circulant matrices:

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

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.fft

from ..randomness import signs, uniforms, variates
from .base import VECTOR_FOURIER_COST, Projection, cut_at_multiples, weight_cache

#: Numbers in one column block of 32 rows, whose spectra and phases then stay in the cache. (From 2^17 to 2^19
#: the time is the same.)
_COLUMN_BLOCK_NUMBERS = 2**18


def fast_order(d: int) -> int:
    """The order L of the circulant blocks over d columns: the smallest number 16 * 2^a 3^b 5^c that is at least d.

    Rows of X are padded with zeros to L. Every L >= d makes valid rows of W, L for each block, because c is as long. Of such a length
    `distrf.compiled.circular_products` makes the transforms 1.2 to 4.7 times as fast as SciPy those of the next number 2^a 3^b 5^c.
    """
    return 16 * int(scipy.fft.next_fast_len(-(-d // 16), real=True))


@dataclass(frozen=True)
class CirculantProjection(Projection):
    """Circulant blocks with random signs on the input (Yu et al. 2015): W = circ(c) diag(s).

    The order L of the blocks is `fast_order(d)`. There are t = ceil(m / L) blocks; of the last one the first
    rows are used. Where some weights are far above the others (Cauchy law), float64 phases err by about the
    rounding of the largest weight of their block, or of the next one: two blocks share an inverse FFT.

    Attributes
    ----------
    signed : whether random signs stand on the columns of W (the input); papers have them on its rows, where they do nothing
    mixed : the number of circulant matrices from which the columns of a block are drawn; None is log2 d
    stream : the name of the random stream, and beginning of the names of the others
    """

    name: ClassVar[str] = "circulant"
    signed: ClassVar[bool] = True
    mixed: ClassVar[int | None] = 1
    stream: ClassVar[str] = "circulant"

    @property
    def order(self) -> int:
        """L, the number of rows of a block."""
        return fast_order(self.n_features_in)

    @property
    def n_mixed(self) -> int:
        """Number of circulant matrices from which the columns of a block are drawn."""
        return max(2, round(np.log2(self.n_features_in))) if self.mixed is None else self.mixed

    @property
    def rows_per_tile(self) -> int:  # type: ignore[override]
        return max(8, min(32, 2 * _COLUMN_BLOCK_NUMBERS // (self.order * self.n_mixed)))

    @property
    def _blocks_together(self) -> int:
        """How many circulant blocks are cached together as a weight block: an even number, as one transform serves two."""
        blocks = max(1, _COLUMN_BLOCK_NUMBERS // (32 * self.order))
        return blocks + blocks % 2

    def vectors(self, block: int) -> np.ndarray:
        """First columns of the circulant matrices of a block, shape (n_mixed, L), float64."""
        count = self.n_mixed * self.order
        values = variates(self.seed, self.stream, block, count, self.kernel.law)
        return values.reshape(self.n_mixed, self.order)

    def column_factors(self) -> np.ndarray:
        """Factor of each column of X for each mixed matrix, shape (n_mixed, d): a sign, or 0 where not drawn."""
        d, mixed = self.n_features_in, self.n_mixed
        factors = np.ones(d)
        if self.signed and self.kernel.symmetric:
            factors = signs(self.seed, f"{self.stream} signs", 0, d)
        if mixed == 1:
            return factors[None]
        chosen = (uniforms(self.seed, f"{self.stream} columns", 0, d) * mixed).astype(np.int64)
        return np.where(chosen == np.arange(mixed)[:, None], factors, 0.0)

    @property
    def _has_row_factors(self) -> bool:
        return self.kernel.radii(self.seed, 0, 1) is not None

    def row_factors(self, block: int) -> np.ndarray:
        """The radius of each row of a block, shape (L,)."""
        radii = self.kernel.radii(self.seed, block, self.order)
        return np.ones(self.order) if radii is None else radii

    def weights(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        L, d = self.order, self.n_features_in
        stop = self.n_frequencies if stop is None else stop
        columns, out = self.column_factors(), np.zeros((stop - start, d))
        for first, last in cut_at_multiples(start, stop, L):
            block = first // L
            k = np.arange(first, last)[:, None] - block * L
            rows = out[first - start : last - start]
            for c, factors in zip(self.vectors(block), columns, strict=True):
                rows += c[(k - np.arange(d)) % L] * factors
            if self._has_row_factors:
                rows *= self.row_factors(block)[k]
        return out

    def _spectra(self, first: int, last: int, scale: float, dtype: np.dtype) -> np.ndarray:
        """FFTs of `scale` times the vectors of blocks first:last, shape (2, pairs, n_mixed, L); see `circulant_spectra`."""

        from ..compiled.circular_products import circulant_spectra  # late, with Numba

        def make() -> np.ndarray:
            vectors = np.stack([self.vectors(block) for block in range(first, last)])
            return circulant_spectra(vectors * scale).astype(dtype)

        return weight_cache.get((self, "spectra", first, scale, dtype.str), make)

    def _columns(self, dtype: np.dtype) -> np.ndarray:
        """`column_factors` in a dtype, from the cache."""
        return weight_cache.get((self, "columns", dtype.str), lambda: self.column_factors().astype(dtype))

    def _rows(self, first: int, last: int, dtype: np.dtype) -> np.ndarray:
        """Factors of the rows of blocks first:last, shape ((last - first) L,)."""

        def make() -> np.ndarray:
            return np.concatenate([self.row_factors(block) for block in range(first, last)]).astype(dtype)

        return weight_cache.get((self, "rows", first, dtype.str), make)

    def phases(
        self, X: np.ndarray, start: int, stop: int, scale: float, dtype: np.dtype
    ) -> Iterator[tuple[int, np.ndarray]]:
        from ..compiled.circular_products import circular_products, row_spectra

        L, per = self.order, self._blocks_together
        x = row_spectra(np.asarray(X, dtype), self._columns(dtype), L)
        begin, end = start // L, -(-stop // L)
        # Weight blocks begin at multiples of `per` blocks, so that a cached one serves every request for some
        # of its rows.
        for first in range(begin - begin % per, end, per):
            last = min(first + per, -(-self.n_frequencies // L))
            lo, hi = max(first, begin), min(last, end)
            pairs = slice((lo - first) // 2, -(-(hi - first) // 2))
            w = self._spectra(first, last, scale, dtype)[:, pairs]
            products = np.empty((x.shape[1], 2 * w.shape[1] * L), dtype=dtype)
            circular_products(x, w, products.reshape(len(products), -1, L))
            made = first + 2 * pairs.start  # the block that column 0 belongs to: lo, or one before it
            a, b = max(start, lo * L), min(stop, hi * L)
            column_block = np.ascontiguousarray(products[:, a - made * L : b - made * L])
            if self._has_row_factors:
                column_block *= self._rows(first, last, dtype)[a - first * L : b - first * L]
            yield a, column_block

    def work(self) -> tuple[float, float]:
        L, mixed = self.order, self.n_mixed
        blocks = -(-self.n_frequencies // L)
        transforms = (mixed + blocks) * 2.5 * L * np.log2(L)
        return VECTOR_FOURIER_COST * (transforms + 4.0 * mixed * blocks * L), 4.0 * mixed * blocks * (L + 2)


@dataclass(frozen=True)
class AlternatingCirculantProjection(CirculantProjection):
    """Each column of a block from one of two circulant matrices, with random signs on the input."""

    name: ClassVar[str] = "alternating_circulant"
    mixed: ClassVar[int | None] = 2
    stream: ClassVar[str] = "alternating circulant"


@dataclass(frozen=True)
class AlternatingCirculantLogProjection(AlternatingCirculantProjection):
    """Each column of a block from one of log2 d circulant matrices, with random signs on the input."""

    name: ClassVar[str] = "alternating_circulant-log2"
    mixed: ClassVar[int | None] = None
