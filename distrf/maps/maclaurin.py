"""Random Maclaurin features (Kar & Karnick 2012, Algorithm 1) of dot-product kernels.

f(x.y) = sum_n a_n (x.y)^n with all a_n >= 0. A feature draws a degree N, then N vectors of random signs:

    z_i(x) = sqrt(a_N / P(N)) prod_{j=1..N} w_ij.x,    E z_i(x) z_i(y) = sum_n P(n) (a_n / P(n)) (x.y)^n = f(x.y),

since E (w.x)(w.y) = x.y. Degrees follow P(n) proportional to base^-(n+1), over the n with a_n > 0 alone: for
base = 2 and all a_n > 0 it is the paper's law. (The paper writes p^-(n+1) for any p > 1, which sums to
1 / (p - 1); and a degree with a_n = 0 would make a feature that is always zero.)

Degrees up to `exact` take no part in it: degree 0 is one constant column sqrt(a_0), degree 1 the d columns
sqrt(a_1) x (with both: the paper's H0/1 heuristic), and the other m columns sketch the rest of the series.
With M = E (w.x)^2 (w.y)^2 = |x|^2 |y|^2 + 2 (x.y)^2 - 2 sum_j x_j^2 y_j^2, over the degrees that are drawn,

    Var z(x).z(y) = (1 / m) [ sum_n (a_n^2 / P(n)) M^n - (sum_n a_n (x.y)^n)^2 ].
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from ..compiled.count_sketches import segment_products
from ..errors import InputError
from ..kernels.dot_product import DotProductKernel, get_dot_product_kernel
from ..projections.cache import weight_cache
from ..randomness import raw_words, uniforms
from .base import FeatureMap, check_rows, refuse_overflow, row_tiles, verify_checksum, working_dtype

#: Features that share one random block; a fixed part of the definition of the map.
_BLOCK = 256
#: Numbers of one block of sign vectors (16 MiB in float32). A block has whole features, at least one.
_WEIGHT_NUMBERS = 2**22
_ROWS = 512


@dataclass(frozen=True)
class MaclaurinMap(FeatureMap):
    """z(x) with E[z(x) . z(y)] = f(x.y). Columns: the exact ones, then the random ones.

    base : degrees are drawn with probability proportional to base^-(n+1); above 1
    exact : degrees up to this have columns of their own: -1 (none), 0 (one column) or 1 (d more)
    """

    kernel: DotProductKernel
    base: float
    exact: int
    seed: int

    kind: ClassVar[str] = "maclaurin"

    def __post_init__(self):
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
        """Degrees that are drawn, ascending, shape (k,): those that the law reaches with 52-bit uniforms."""
        return _law(self.kernel, self.base, self.exact)[0]

    @property
    def probabilities(self) -> np.ndarray:
        """P(n) of `degrees`, shape (k,), float64."""
        return _law(self.kernel, self.base, self.exact)[1]

    @property
    def has_random(self) -> bool:
        return len(self.degrees) > 0

    @property
    def n_constant(self) -> int:
        """1 where degree 0 has its own column, else 0."""
        return int(self.exact >= 0 and self.kernel.coefficient(0) > 0)

    @property
    def n_exact(self) -> int:
        """Columns that are not random."""
        linear = self.exact >= 1 and self.kernel.coefficient(1) > 0
        return self.n_constant + self.n_features_in * int(linear)

    def drawn_degrees(self, start: int, stop: int) -> np.ndarray:
        """Degrees N of random features start:stop, shape (stop - start,)."""
        if not self.has_random:  # the exact columns are the kernel: the others stay zero
            return np.zeros(stop - start, dtype=np.int64)
        below = np.cumsum(self.probabilities)
        u = uniforms(self.seed, "maclaurin degrees", 0, stop - start, start)
        return self.degrees[np.minimum(np.searchsorted(below, u), len(below) - 1)]

    def sign_vectors(self, start: int, stop: int) -> np.ndarray:
        """Vectors w of random features start:stop, those of a feature one below the other, shape (sum N, d)."""
        d = self.n_features_in
        width = -(-d // 64)  # words of a vector
        vectors = [np.empty((0, d), dtype=np.int8)]
        for block in range(start // _BLOCK, -(-stop // _BLOCK)):
            first, last = max(start, block * _BLOCK), min(stop, (block + 1) * _BLOCK)
            skip = int(self.drawn_degrees(block * _BLOCK, first).sum())
            count = int(self.drawn_degrees(first, last).sum())
            words = raw_words(self.seed, "maclaurin signs", block, count * width, skip * width)
            bytes_ = words.astype("<u8").view(np.uint8).reshape(count, 8 * width)
            bits = np.unpackbits(bytes_, axis=1, count=d, bitorder="little")
            vectors.append(1 - 2 * bits.view(np.int8))
        return np.concatenate(vectors)

    def _factors(self, drawn: np.ndarray) -> np.ndarray:
        """sqrt(a_N / (m P(N))) of random features of these degrees; 0 where nothing is left to sketch."""
        if not self.has_random:
            return np.zeros(len(drawn))
        m = self.n_components - self.n_exact
        values = np.array([self.kernel.coefficient(int(n)) for n in self.degrees])
        return np.sqrt(values / (m * self.probabilities))[np.searchsorted(self.degrees, drawn)]

    def fill(self, X, out):
        self._fill(X, out, 0, self.n_components)
        refuse_overflow(out)

    def columns(self, X, start, stop):
        X = check_rows(X, self.n_features_in)
        out = np.empty((X.shape[0], stop - start), dtype=working_dtype(X.dtype))
        self._fill(X, out, start, stop)
        refuse_overflow(out)
        return out

    def _fill(self, X, out: np.ndarray, start: int, stop: int) -> None:
        split = min(max(self.n_exact, start), stop)
        if split > start:
            out[:, : split - start] = self._exact(X, start, split)
        if split == stop:
            return
        if sp.issparse(X):
            X = X.astype(out.dtype)
        for first, last in self._weight_blocks(split - self.n_exact, stop - self.n_exact):
            W, ends, factors = self._weight_block(first, last, out.dtype)
            column = first + self.n_exact - start
            for a, b in row_tiles(X.shape[0], _ROWS):
                tile = X[a:b] if sp.issparse(X) else np.ascontiguousarray(X[a:b], dtype=out.dtype)
                segment_products(np.ascontiguousarray(tile @ W), ends, factors, out[a:b], column)

    def _exact(self, X, start: int, stop: int) -> np.ndarray:
        """Exact columns start:stop."""
        out = np.full((X.shape[0], stop - start), np.sqrt(self.kernel.coefficient(0)))
        skip = max(self.n_constant - start, 0)
        if stop - start > skip:
            columns = X[:, start + skip - self.n_constant : stop - self.n_constant]
            out[:, skip:] = np.sqrt(self.kernel.coefficient(1)) * (
                columns.toarray() if sp.issparse(columns) else columns
            )
        return out

    def _weight_blocks(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Cut random features start:stop into blocks whose sign vectors are of bounded size, on a fixed grid."""
        step = min(_BLOCK, max(1, _WEIGHT_NUMBERS // (2 * self.n_features_in)))
        for first in range(start - start % step, stop, step):
            yield max(first, start), min(first + step, stop)

    def _weight_block(
        self, first: int, last: int, dtype: np.dtype
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sign vectors of features first:last as columns (d, R), where each feature's begin, and its factor."""
        drawn = self.drawn_degrees(first, last)
        W = weight_cache.get(
            (self, first, last, dtype.str),
            lambda: np.ascontiguousarray(self.sign_vectors(first, last).T, dtype=dtype),
        )
        return W, np.concatenate([[0], np.cumsum(drawn)]), self._factors(drawn)

    def exact_kernel(self, X, Y=None):
        return self.kernel(X, Y)

    def variance(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """Exact variance of z(x).z(y) over seeds for each pair of rows, shape (n,), float64 (see above)."""
        X, Y = np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64)
        t = (X * Y).sum(axis=1)
        M = (X * X).sum(axis=1) * (Y * Y).sum(axis=1) + 2 * t**2 - 2 * (X * X * Y * Y).sum(axis=1)
        mean, square = np.zeros(len(X)), np.zeros(len(X))
        for n, p in zip(self.degrees, self.probabilities, strict=True):
            a = self.kernel.coefficient(int(n))
            mean += a * t**n
            square += a**2 / p * M**n
        return (square - mean**2) / max(1, self.n_components - self.n_exact)

    def work(self):
        vectors = float((self.degrees * self.probabilities).sum()) * (self.n_components - self.n_exact)
        return 2.0 * self.n_features_in * vectors + 4.0 * self.n_components, 4.0 * self.n_features_in * vectors

    def checksum(self) -> float:
        return _checksum(self)

    def spec(self) -> dict[str, Any]:
        return {
            "map": self.kind,
            "kernel": self.kernel.spec(),
            "n_features_in": self.n_features_in,
            "n_components": self.n_components,
            "base": self.base,
            "exact": self.exact,
            "seed": self.seed,
            "checksum": self.checksum(),
        }

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> MaclaurinMap:
        map_ = cls(
            n_features_in=int(spec["n_features_in"]),
            n_components=int(spec["n_components"]),
            kernel=get_dot_product_kernel(dict(spec["kernel"])),
            base=float(spec["base"]),
            exact=int(spec["exact"]),
            seed=int(spec["seed"]),
        )
        verify_checksum(map_.checksum(), spec["checksum"])
        return map_


@lru_cache(maxsize=64)
def _law(kernel: DotProductKernel, base: float, exact: int) -> tuple[np.ndarray, np.ndarray]:
    """Degrees above `exact` with a_n > 0 and their probabilities."""
    end = kernel.degree if kernel.degree is not None else exact + 1 + math.ceil(52 / math.log2(base))
    degrees = [n for n in range(exact + 1, end + 1) if kernel.coefficient(n) > 0]
    weights = np.array([base ** -float(n - exact) for n in degrees])
    return np.array(degrees, dtype=np.int64), weights / weights.sum() if len(weights) else weights


@lru_cache(maxsize=64)
def _checksum(map_: MaclaurinMap) -> float:
    """Degrees and signs of the first random features and of the last, with weights that tell them apart."""
    m = map_.n_components - map_.n_exact
    total = 0.0
    for first, last in ((0, min(m, 16)), (max(0, m - 16), m)):
        drawn = map_.drawn_degrees(first, last)
        W = map_.sign_vectors(first, last)[:, :64].astype(np.float64)
        total += float(drawn @ np.arange(1, len(drawn) + 1))
        total += float(np.arange(1, len(W) + 1) @ W @ np.sqrt(np.arange(1, W.shape[1] + 1)))
    return total
