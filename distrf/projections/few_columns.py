"""Frequencies that look at q of the columns each: rows of W with q entries, drawn for q columns, at columns drawn by weight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..randomness import variates
from .base import Projection, cut_at_multiples
from .dense import _BLOCK, DenseProjection


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
