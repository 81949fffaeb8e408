"""Independent weights: the projection of Rahimi & Recht 2007; and frequencies that look at q of the columns each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..randomness import variates
from ..typing import Rows
from .base import Projection, cut_at_multiples, weight_cache

#: Rows of W that come from one block of the random stream. Another number would make another map.
_BLOCK = 256
#: Rows of W in a weight block: enough for a fast matrix product, and few enough for the products to stay in the
#: cache.
_WEIGHT_BLOCK = 1024


@dataclass(frozen=True)
class DenseProjection(Projection):
    """W with independent rows from the kernel's law of weights."""

    name: ClassVar[str] = "dense"
    rows_per_tile: ClassVar[int] = 512
    accepts_sparse: ClassVar[bool] = True

    def weights(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        d = self.n_features_in
        stop = self.n_frequencies if stop is None else stop
        out = np.empty((stop - start, d))
        for first, last in cut_at_multiples(start, stop, _BLOCK):
            block = first // _BLOCK
            count, skip = last - first, first - block * _BLOCK
            rows = variates(self.seed, "dense", block, count * d, self.kernel.law, skip * d).reshape(count, d)
            radii = self.kernel.radii(self.seed, block, count, skip)
            out[first - start : last - start] = rows if radii is None else rows * radii[:, None]
        return out

    def _weight_block(self, start: int, stop: int, scale: float, dtype: np.dtype) -> np.ndarray:
        """Rows start:stop of W times `scale`, shape (stop - start, d), from the cache."""
        return weight_cache.get(
            (self, start, stop, scale, dtype.str),
            lambda: (self.weights(start, stop) * scale).astype(dtype),
        )

    @property
    def made_at_once(self) -> int:
        # Fewer rows where they are so long that a weight block would fill the cache.
        return (
            _WEIGHT_BLOCK if 8 * _WEIGHT_BLOCK * self.n_features_in <= weight_cache.max_bytes // 2 else _BLOCK
        )

    def phases(
        self, X: Rows, start: int, stop: int, scale: float, dtype: np.dtype
    ) -> Iterator[tuple[int, np.ndarray]]:
        # Weight blocks begin at multiples of `grid`, so that a cached one serves every request for some of its
        # rows.
        grid = self.made_at_once
        for first in range(start - start % grid, stop, grid):
            W = self._weight_block(first, min(first + grid, self.n_frequencies), scale, dtype)
            end = min(stop, first + grid)
            for a in range(max(start, first), end, _WEIGHT_BLOCK):
                b = min(a + _WEIGHT_BLOCK, end)
                yield a, np.ascontiguousarray(X @ W[a - first : b - first].T)

    def work(self) -> tuple[float, float]:
        entries = self.n_features_in * self.n_frequencies
        return 2.0 * entries, 4.0 * entries


@dataclass(frozen=True)
class FewColumnsProjection(DenseProjection):
    """The rows of `base`, which has q columns, each at q distinct columns of d.

    The columns of a row are drawn one after the other, in proportion to the weights of those that are left: they are the q
    first of d exponential clocks whose rates are the weights. Entries are multiplied by sqrt(d / q) (by d / q if the law is
    heavy-tailed, whose norm is a sum), so that differences in q columns count as those in all d.

    Parameters
    ----------
    base : Projection over q columns
    column_weights : d numbers >= 0; None draws all columns alike
    """

    base: Projection
    column_weights: tuple[float, ...] | None = None

    def weights(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        d, q = self.n_features_in, self.base.n_features_in
        stop = self.n_frequencies if stop is None else stop
        W = np.zeros((stop - start, d))
        factor = (d / q) ** (1.0 if self.kernel.heavy_tailed else 0.5)
        for first, last in cut_at_multiples(start, stop, _BLOCK):
            block = first // _BLOCK
            count, skip = (last - first) * d, (first - block * _BLOCK) * d
            clocks = variates(self.seed, "order", block, count, "exponential", skip).reshape(-1, d)
            if self.column_weights is not None:
                with np.errstate(divide="ignore"):  # columns of weight 0 come last, never
                    clocks /= np.array(self.column_weights)
            columns = np.sort(np.argpartition(clocks, q - 1, axis=1)[:, :q], axis=1)
            entries = factor * self.base.weights(first, last)
            np.put_along_axis(W[first - start : last - start], columns, entries, axis=1)
        return W

    def offsets(self, start: int, stop: int) -> np.ndarray | None:
        return self.base.offsets(start, stop)
