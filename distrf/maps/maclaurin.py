"""Random Maclaurin features (Kar & Karnick 2012, Algorithm 1) of dot-product kernels.

The kernel is f(x.y) = sum_n a_n (x.y)^n with all a_n >= 0. A feature draws a degree N, then N vectors w_ij of
random signs:

    z_i(x) = sqrt(a_N / P(N)) prod_{j=1..N} w_ij.x,    E z_i(x) z_i(y) = sum_n P(n) (a_n / P(n)) (x.y)^n = f(x.y),

since E (w.x)(w.y) = x.y. The probability P(n) of a degree is proportional to base^-(n+1) over the n with
a_n > 0: a degree with a_n = 0 would make a feature that is always zero. For base = 2 and all a_n > 0 it is the
paper's law. (The paper writes p^-(n+1) for any p > 1, but these sum to 1 / (p - 1).)

Degrees up to `exact` are not drawn but have columns of their own: degree 0 the constant column sqrt(a_0),
degree 1 the d columns sqrt(a_1) x. (Both together are the paper's H0/1 heuristic.) The other m columns are
random features of the rest of the series. Over the degrees that are drawn, with
M = E (w.x)^2 (w.y)^2 = |x|^2 |y|^2 + 2 (x.y)^2 - 2 sum_j x_j^2 y_j^2,

    Var z(x).z(y) = (1 / m) [ sum_n (a_n^2 / P(n)) M^n - (sum_n a_n (x.y)^n)^2 ].
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from ..compiled.count_sketches import column_products
from ..errors import InputError
from ..kernels.dot_product import DotProductKernel
from ..projections.base import cut_at_multiples
from ..projections.cache import weight_cache
from ..randomness import raw_words, uniforms
from ..typing import Rows
from .base import SeededMap, dense, refuse_overflow, row_tiles

#: Features whose signs come from one block of the random stream. Another number would make another map.
_BLOCK = 256
#: Numbers of one weight block (16 MiB in float32). It holds the sign vectors of whole features, of one at least.
_WEIGHT_NUMBERS = 2**22
#: Rows of a tile.
_ROWS = 512


@dataclass(frozen=True)
class MaclaurinMap(SeededMap):
    """Features z(x) with E[z(x) . z(y)] = f(x.y). The exact columns come first, then the random ones.

    Parameters
    ----------
    n_features_in : d
    n_components : D, the exact columns and at least one random one where degrees are left
    kernel : DotProductKernel
    base : float above 1: the probability of degree n is proportional to base^-(n+1)
    exact : the highest degree with columns of its own: -1 (none), 0 (one column) or 1 (d more)
    seed : seed of all draws

    References
    ----------
    Kar & Karnick, "Random feature maps for dot product kernels", AISTATS 2012.
    """

    kernel: DotProductKernel
    base: float
    exact: int
    seed: int

    kind: ClassVar[str] = "maclaurin"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(self.base) and self.base > 1):
            raise InputError(f"base must be a finite number above 1, got {self.base!r}")
        if self.exact not in (-1, 0, 1):
            raise InputError(
                f"exact is -1, 0 or 1, the highest degree with columns of its own, got {self.exact!r}"
            )
        if self.n_components < self.n_exact + self.has_random:
            raise InputError(
                f"exact={self.exact} takes {self.n_exact} columns of their own for the degrees it names and one "
                f"at least for the others, got n_components={self.n_components}; ask for more, or exact=-1"
            )

    @property
    def degrees(self) -> np.ndarray:
        """Degrees that are drawn, ascending, shape (k,).

        A series without end is cut after about 52 / log2(base) degrees: uniform numbers of 52 bits reach no
        rarer ones.
        """
        return _law(self.kernel, self.base, self.exact)[0]

    @property
    def probabilities(self) -> np.ndarray:
        """Probability P(n) of each of `degrees`, shape (k,), float64."""
        return _law(self.kernel, self.base, self.exact)[1]

    @property
    def has_random(self) -> bool:
        """Whether the exact columns leave degrees to draw."""
        return len(self.degrees) > 0

    @property
    def n_constant(self) -> int:
        """1 where degree 0 has a column of its own, else 0."""
        return int(self.exact >= 0 and self.kernel.coefficient(0) > 0)

    @property
    def n_exact(self) -> int:
        """Number of columns that are not random."""
        linear = self.exact >= 1 and self.kernel.coefficient(1) > 0
        return self.n_constant + self.n_features_in * int(linear)

    def drawn_degrees(self, start: int, stop: int) -> np.ndarray:
        """Degrees N of random features start:stop, shape (stop - start,)."""
        if not self.has_random:  # the exact columns are the whole kernel, and the others zero
            return np.zeros(stop - start, dtype=np.int64)
        below = np.cumsum(self.probabilities)
        u = uniforms(self.seed, "maclaurin degrees", 0, stop - start, start)
        return self.degrees[np.minimum(np.searchsorted(below, u), len(below) - 1)]

    def sign_vectors(self, start: int, stop: int) -> np.ndarray:
        """Vectors w of random features start:stop, those of a feature side by side: shape (sum of N, d), int8."""
        d = self.n_features_in
        width = -(-d // 64)  # words of a vector
        vectors = [np.empty((0, d), dtype=np.int8)]
        for first, last in cut_at_multiples(start, stop, _BLOCK):
            block = first // _BLOCK
            skip = int(self.drawn_degrees(block * _BLOCK, first).sum())
            count = int(self.drawn_degrees(first, last).sum())
            words = raw_words(self.seed, "maclaurin signs", block, count * width, skip * width)
            bytes_ = words.astype("<u8").view(np.uint8).reshape(count, 8 * width)
            bits = np.unpackbits(bytes_, axis=1, count=d, bitorder="little")
            vectors.append(1 - 2 * bits.view(np.int8))
        return np.concatenate(vectors)

    def _factors(self, drawn: np.ndarray) -> np.ndarray:
        """Factor sqrt(a_N / (m P(N))) of random features of the degrees `drawn`; 0 where none is left to draw."""
        if not self.has_random:
            return np.zeros(len(drawn))
        m = self.n_components - self.n_exact
        values = np.array([self.kernel.coefficient(int(n)) for n in self.degrees])
        return np.sqrt(values / (m * self.probabilities))[np.searchsorted(self.degrees, drawn)]

    def fill_columns(self, X: Rows, out: np.ndarray, start: int, stop: int) -> None:
        split = min(max(self.n_exact, start), stop)
        if split > start:
            out[:, : split - start] = self._exact(X, start, split)
        if not isinstance(X, np.ndarray):
            X = X.astype(out.dtype)
        for first, last in self._weight_blocks(split - self.n_exact, stop - self.n_exact):
            W, ends, factors = self._weight_block(first, last, out.dtype)
            column = first + self.n_exact - start
            for a, b in row_tiles(X.shape[0], _ROWS):
                tile = X[a:b]
                if isinstance(tile, np.ndarray):
                    tile = np.ascontiguousarray(tile, dtype=out.dtype)
                column_products(np.ascontiguousarray(tile @ W), ends, factors, out[a:b], column)
        refuse_overflow(out)

    def _exact(self, X: Rows, start: int, stop: int) -> np.ndarray:
        """Exact columns start:stop of the features, shape (n, stop - start), float64."""
        out = np.full((X.shape[0], stop - start), np.sqrt(self.kernel.coefficient(0)))
        skip = max(self.n_constant - start, 0)
        if stop - start > skip:
            columns = X[:, start + skip - self.n_constant : stop - self.n_constant]
            out[:, skip:] = np.sqrt(self.kernel.coefficient(1)) * dense(columns)
        return out

    def _weight_blocks(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Cut random features start:stop into weight blocks of bounded size; none if start = stop."""
        step = min(_BLOCK, max(1, _WEIGHT_NUMBERS // (2 * self.n_features_in)))
        return cut_at_multiples(start, stop, step) if start < stop else iter(())

    def _weight_block(
        self, first: int, last: int, dtype: np.dtype
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What `column_products` needs of features first:last.

        Returns
        -------
        W : array of shape (d, R), the sign vectors as columns, those of a feature side by side
        ends : array of shape (last - first + 1,): feature f owns columns ends[f] to ends[f + 1]
        factors : array of shape (last - first,), float64
        """
        drawn = self.drawn_degrees(first, last)
        W = weight_cache.get(
            (self, first, last, dtype.str),
            lambda: np.ascontiguousarray(self.sign_vectors(first, last).T, dtype=dtype),
        )
        return W, np.concatenate([[0], np.cumsum(drawn)]), self._factors(drawn)

    def exact_kernel(self, X: Rows, Y: Rows | None = None) -> np.ndarray:
        return self.kernel(X, Y)

    def variance(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """Exact variance over seeds of z(x).z(y), by the formula at the head of this file.

        Parameters
        ----------
        X, Y : arrays of shape (n, d), one pair of rows x, y for each i

        Returns
        -------
        Array of shape (n,), float64.
        """
        X, Y = np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64)
        t = (X * Y).sum(axis=1)
        M = (X * X).sum(axis=1) * (Y * Y).sum(axis=1) + 2 * t**2 - 2 * (X * X * Y * Y).sum(axis=1)
        mean, square = np.zeros(len(X)), np.zeros(len(X))
        for n, p in zip(self.degrees, self.probabilities, strict=True):
            a = self.kernel.coefficient(int(n))
            mean += a * t**n
            square += a**2 / p * M**n
        return (square - mean**2) / max(1, self.n_components - self.n_exact)

    def work(self) -> tuple[float, float]:
        vectors = float((self.degrees * self.probabilities).sum()) * (self.n_components - self.n_exact)
        # Beside the matrix product, a feature takes the time of 120 operations (measured).
        return (
            2.0 * self.n_features_in * vectors + 120.0 * self.n_components,
            4.0 * self.n_features_in * vectors,
        )

    def _sum_of_weights(self) -> float:
        """Sum of degrees and signs of the first 16 random features and the last, with weights that differ."""
        m = self.n_components - self.n_exact
        total = 0.0
        for first, last in ((0, min(m, 16)), (max(0, m - 16), m)):
            drawn = self.drawn_degrees(first, last)
            W = self.sign_vectors(first, last)[:, :64].astype(np.float64)
            total += float(drawn @ np.arange(1, len(drawn) + 1))
            total += float(np.arange(1, len(W) + 1) @ W @ np.sqrt(np.arange(1, W.shape[1] + 1)))
        return total


@lru_cache(maxsize=64)
def _law(kernel: DotProductKernel, base: float, exact: int) -> tuple[np.ndarray, np.ndarray]:
    """The degrees above `exact` with a_n > 0, ascending, and their probabilities: shape (k,) each."""
    end = kernel.degree if kernel.degree is not None else exact + 1 + math.ceil(52 / math.log2(base))
    degrees = [n for n in range(exact + 1, end + 1) if kernel.coefficient(n) > 0]
    weights = np.array([base ** -float(n - exact) for n in degrees])
    return np.array(degrees, dtype=np.int64), weights / weights.sum() if len(weights) else weights
