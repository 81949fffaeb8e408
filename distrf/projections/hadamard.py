"""Fastfood and structured orthogonal features (SORF): blocks of diagonals and Walsh-Hadamard transforms.

Both make W in blocks of p rows, where p is the power of two at or above d, and at least 16. A block is

    W_b = S_b  H G_bk ... H G_b1  P H B,     H = H_p with entries +-1,

cut to its first d columns: rows of X are padded with zeros. S and G are diagonal, B is a diagonal of signs, P a
permutation. The inner rotation P H B is the same for all blocks and is applied once to each row of X. In what
follows k = exp(-s / 2) is the Gaussian kernel and s = |v|^2, in units of the length scale.

Fastfood has one diagonal G, which is normal. Let g be its vector. *Given B and P*, row i of H G P H B is g with
some fixed signs, turned by a fixed rotation. So its direction is uniform, and S gives it an independent norm of
the chi_p law. Each row is exactly N(0, I_p), and its first d coordinates are exactly N(0, I_d), whatever the
padding: the estimate is unbiased given B and P. Hence blocks are uncorrelated, as they would be with a B and P
each.

SORF has two diagonals of signs, and P = 1. With y = H G_1 H B v / p, |y| = |v|, a row gives w.v = sum_j e_j y_j
with independent signs e, so that its mean cosine is E prod_j cos y_j. As |cos t - exp(-t^2 / 2)| <= t^4 / 12
and E y_j^4 <= 3 s^2 / p^2,

    | E k_hat - k |  <=  s^2 / (4 p)    for every v and d.

For s well below sqrt(p) the bias is -k s^2 / (4 p), towards zero, with its largest size 0.55 / p at s = 4.
Given B, E sum_j y_j^4 lies between s^2 / p and 3 s^2 / p, so that the common B adds at most a ninth of the
squared bias to the squared error.

Farther out the bound is above 1 and says nothing, and the estimate can be wrong. Along an axis, v = t e_i, all
entries of H B v are +-t, and y_j = (t / p) n_j with even integers n_j. So k_hat returns to 1 at t = pi p / 2,
which is 25 length scales for p = 16. It is off by more than 0.1 from 6 (p = 16), 24 (p = 32) and 49 (p = 64)
length scales on. `fit` refuses p < 64.

The variance of paired features to first order in 1 / p, divided by that of as many independent weights, with
q = k^2 s^2 / (1 - k^2)^2 <= 1 and u = sum_j v_j^4 / s^2 (from the fourth moments of H B v), is

    Fastfood  1 + (1 - 2 u) q,    SORF (and exactly orthogonal blocks, d = p)  1 - q.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..randomness import chi, permutation, signs, variates
from .base import HADAMARD_COST, Projection, cut_at_multiples, weight_cache

#: The least p. Narrower blocks would leave SORF a handful of distinct weights, and fill no vector of the processor.
_NARROWEST = 16
#: Columns of one column block, which holds at least one block of W: enough to make few calls for small d, and
#: few enough to stay in the cache.
_COLUMNS = 1024


@dataclass(frozen=True)
class HadamardProjection(Projection):
    """Base of Fastfood and SORF. A subclass defines the diagonals of a block.

    Attributes
    ----------
    n_diagonals : int, k: how many diagonals a block has, beside S and B
    permutes : bool, whether there is a permutation P
    """

    # Measured: 32 to 128 rows take the same time within 10 % for d = 128 ... 16,384, in both dtypes.
    rows_per_tile: ClassVar[int] = 64
    isotropic: ClassVar[bool] = True
    n_diagonals: ClassVar[int]
    permutes: ClassVar[bool]

    @property
    def block_rows(self) -> int:
        """p, the number of rows of W in a block."""
        return max(_NARROWEST, 1 << (self.n_features_in - 1).bit_length())

    def diagonals(self, block: int) -> np.ndarray:
        """The diagonals of G_b1 ... G_bk, shape (k, p), float64."""
        raise NotImplementedError

    def row_factors(self, block: int) -> np.ndarray | None:
        """The diagonal of S_b without the factor `_flattening`, shape (p,), float64; None where it is 1."""
        return self.kernel.radii(self.seed, block, self.block_rows)

    @property
    def _has_row_factors(self) -> bool:
        return self.kernel.radii(self.seed, 0, 1) is not None

    def common_signs(self) -> np.ndarray:
        """The diagonal of B, shape (p,), float64."""
        return signs(self.seed, f"{self.name} common signs", 0, self.block_rows)

    def common_order(self) -> np.ndarray:
        """P as an array of indices, shape (p,): (P u)_j = u[order_j]."""
        return permutation(self.seed, f"{self.name} common order", 0, self.block_rows)

    @property
    def _flattening(self) -> float:
        """The factor that makes k + 1 transforms sqrt(p) times a rotation. It is applied together with B."""
        return self.block_rows ** (-self.n_diagonals / 2.0)

    def weights(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        from ..compiled.walsh_hadamard import walsh_hadamard  # late, with Numba

        d, p = self.n_features_in, self.block_rows
        stop = self.n_frequencies if stop is None else stop
        out = np.empty((stop - start, d))
        common = self.common_signs()[:d] * self._flattening
        for first, last in cut_at_multiples(start, stop, p):
            block = first // p
            rows = np.arange(first, last) - block * p
            # Rows of H, whose entries are (-1)^popcount(i & j), times the factors from left to right. Each is
            # symmetric.
            R = 1.0 - 2.0 * (np.bitwise_count(rows[:, None] & np.arange(p)) & 1)
            for g in self.diagonals(block)[:0:-1]:
                R *= g
                walsh_hadamard(R)
            R *= self.diagonals(block)[0]
            if self.permutes:
                R[:, self.common_order()] = R.copy()
            walsh_hadamard(R)
            factors = self.row_factors(block)
            if factors is not None:
                R *= factors[rows, None]
            out[first - start : last - start] = R[:, :d] * common
        return out

    def phases(
        self, X: np.ndarray, start: int, stop: int, scale: float, dtype: np.dtype
    ) -> Iterator[tuple[int, np.ndarray]]:
        from ..compiled.walsh_hadamard import hadamard_blocks, walsh_hadamard

        n, d, p = len(X), self.n_features_in, self.block_rows
        U = np.zeros((n, p), dtype=dtype)
        np.multiply(X, self._cached_common(scale, dtype), out=U[:, :d])
        walsh_hadamard(U)
        if self.permutes:
            U = np.take(U, weight_cache.get((self, "common order"), self.common_order), axis=1)
        # Column blocks begin at multiples of `grid` blocks of W, so that what is cached serves every request.
        grid, blocks = max(1, _COLUMNS // p), -(-self.n_frequencies // p)
        buffer = np.empty(n * min(grid, blocks) * p, dtype=dtype)
        first_block, last_block = start // p, -(-stop // p)
        for left in range(first_block - first_block % grid, last_block, grid):
            right = min(left + grid, blocks)
            a, b = max(first_block, left), min(last_block, right)
            G = self._cached(self.diagonals, left, right, dtype)[a - left : b - left]
            S = None
            if self._has_row_factors:
                S = self._cached(self.row_factors, left, right, dtype)[a - left : b - left]
            products = buffer[: n * (b - a) * p].reshape(n, -1)
            hadamard_blocks(U, G, S, products)
            first, last = max(start, a * p), min(stop, b * p)
            yield first, np.ascontiguousarray(products[:, first - a * p : last - a * p])

    def _cached(self, make: Callable[[int], Any], first: int, last: int, dtype: np.dtype) -> np.ndarray:
        """What `make` (a method of this class) gives for the blocks first:last, stacked, from the cache."""
        return weight_cache.get(
            (self, make.__name__, first, dtype.str),
            lambda: np.stack([make(block) for block in range(first, last)]).astype(dtype),
        )

    def _cached_common(self, scale: float, dtype: np.dtype) -> np.ndarray:
        """`scale` times the signs of B for the d columns, shape (d,), from the cache."""
        factor = scale * self._flattening
        return weight_cache.get(
            (self, "common signs", scale, dtype.str),
            lambda: (self.common_signs()[: self.n_features_in] * factor).astype(dtype),
        )

    def work(self) -> tuple[float, float]:
        p = self.block_rows
        blocks = -(-self.n_frequencies // p)
        transforms = 1 + blocks * self.n_diagonals
        vectors = 1 + self.permutes + blocks * (self.n_diagonals + self._has_row_factors)
        return HADAMARD_COST * transforms * p * (np.log2(p) + 1.0), 4.0 * vectors * p


@dataclass(frozen=True)
class FastfoodProjection(HadamardProjection):
    """Fastfood (Le, Sarlos & Smola 2013, Eqs. 7-8): W_b = S_b H G_b P H B, with exact norms and no bias.

    G is standard normal. The permutation P and the signs B are common to all blocks. The variance is up to
    twice that of independent weights, because the rows of a block share one vector g.
    """

    name: ClassVar[str] = "fastfood"
    n_diagonals: ClassVar[int] = 1
    permutes: ClassVar[bool] = True

    def diagonals(self, block: int) -> np.ndarray:
        return variates(self.seed, "fastfood normal", block, self.block_rows, "normal")[None]

    def row_factors(self, block: int) -> np.ndarray | None:
        # A row of H G P H B has norm sqrt(p) |g|. A normal vector has a norm of the chi_p law.
        p = self.block_rows
        factors = chi(self.seed, "fastfood chi", block, p, p) / np.linalg.norm(self.diagonals(block))
        radii = self.kernel.radii(self.seed, block, p)
        return factors if radii is None else factors * radii

    @property
    def _has_row_factors(self) -> bool:
        return True


@dataclass(frozen=True)
class StructuredOrthogonalProjection(HadamardProjection):
    """SORF (Yu et al. 2016, Eq. 8): W_b = sqrt(p) (H D1)(H D2)(H D3) / p^(3/2), where D3 is common to all blocks.

    For d = p the rows of a block are orthogonal, with norm sqrt(p) exactly, times the radius of a scale
    mixture. That removes most of the variance at short distances. The bias is at most s^2 / (4 p), which says
    something for s below 2 sqrt(p) alone: far out along a column the estimate returns to 1 (see the head of
    this file).
    """

    name: ClassVar[str] = "structured_orthogonal"
    n_diagonals: ClassVar[int] = 2
    permutes: ClassVar[bool] = False
    # From p = 64 on, rows of data do not usually lie as far apart as the error begins.
    least_features: ClassVar[int] = 33

    def diagonals(self, block: int) -> np.ndarray:
        p = self.block_rows
        return signs(self.seed, "structured_orthogonal signs", block, 2 * p).reshape(2, p)
