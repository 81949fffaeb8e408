"""Losses of learned maps and their gradients with respect to everything that is learned. Number code.

What is learned is one vector of numbers: the frequencies Theta, the offsets b (none for paired phases), the weights w
and the intercepts c of a linear model on the features

    z = sqrt(2/D) cos(Theta x + b),    or paired    z = sqrt(2/D) (cos Theta x, sin Theta x).

With g the slope of the loss at the scores w'z + c of a row, and h = w g, the derivative with respect to its
phases is e = -sqrt(2/D) sin(Theta x + b) h, or -sqrt(2/D) sin(Theta x) h_cos + sqrt(2/D) cos(Theta x) h_sin, and
the gradients are the sums over rows of z g' for w, g for c, e for b, and e x' for Theta (`maps.learned`
has the circulant case). They are Eqs. 7, 9 and 17 of Yu et al. (2015), with the factor sqrt(2/k) that these drop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..maps.learned import LearnedFourierMap
from ..sgd.batch_work import BatchWork, Sums


class Parts(NamedTuple):
    """Theta or its numbers, b, w of shape (D, C), and c: views of the vector, or their slices of it."""

    theta: Any
    b: Any
    w: Any
    c: Any


@dataclass(frozen=True)
class Layout:
    """How Theta, b, w and c are stored in one vector of everything that is learned.

    map : the learned map, without arrays; with the kernel where it is learned for one
    n_outputs : C, the scores of the linear model; 0 if only the map is learned
    """

    map: LearnedFourierMap
    n_outputs: int
    intercept: bool = True

    @property
    def places(self) -> Parts:
        """Slices of the vector."""
        (rows, columns), D = self.map.linear.shape, self.map.n_components
        offsets = D if self.map.phase == "offset" else 0
        sizes = rows * columns, offsets, D * self.n_outputs, self.n_outputs * self.intercept
        ends = np.cumsum(sizes).tolist()
        return Parts(*(slice(end - size, end) for size, end in zip(sizes, ends, strict=True)))

    @property
    def size(self) -> int:
        """Length of the vector."""
        return self.places.c.stop

    def split(self, p: np.ndarray) -> Parts:
        """Theta, b, w and c as views of the vector p."""
        at = self.places
        w = p[at.w].reshape(self.map.n_components, self.n_outputs)
        return Parts(p[at.theta].reshape(self.map.linear.shape), p[at.b], w, p[at.c])


class CosineFeatures:
    """Features and their gradients for one value of the learned vector, in one precision."""

    def __init__(self, layout: Layout, p: np.ndarray, dtype: np.dtype):
        learned = layout.split(p)
        self.layout, self.linear, self.dtype = layout, layout.map.linear, dtype
        self.paired = layout.map.phase == "paired"
        self._prepared = self.linear.prepare(learned.theta, dtype)
        m = self.linear.n_frequencies
        self._offsets = (learned.b / (2.0 * np.pi)).astype(dtype)
        self.w, self.c = learned.w.astype(dtype), learned.c.astype(dtype)
        self._amplitude = float(np.sqrt(2.0 / layout.map.n_components))
        self.theta = self.linear.start(dtype)
        self.offsets = np.zeros(m)

    def forward(self, X: Any) -> tuple[np.ndarray, tuple[Any, np.ndarray]]:
        """(features, shape (n, D); what `backward` needs, with the cosine and the sine of each phase side by side)."""
        from ..compiled.cosine import cos_sin  # late, with Numba

        phases, factors = self.linear.phases(X, self._prepared)
        if not self.paired:
            phases += self._offsets
        both = np.empty((len(phases), 2 * phases.shape[1]), dtype=self.dtype)
        cos_sin(phases, both, 0, self._amplitude)
        return both if self.paired else np.ascontiguousarray(both[:, 0::2]), (factors, both)

    def scores(self, Z: np.ndarray) -> np.ndarray:
        """Z w + c, shape (n, C)."""
        scores = Z @ self.w
        return scores + self.c if len(self.c) else scores

    def backward(self, H: np.ndarray, intermediates: tuple[Any, np.ndarray]) -> None:
        """Add the gradients of Theta and b; H, shape (n, D), is the derivative with respect to the features."""
        rows, both = intermediates
        C, S = both[:, 0::2], both[:, 1::2]
        if self.paired:
            E = C * H[:, 1::2]
            E -= S * H[:, 0::2]
        else:
            E = S * H
            np.negative(E, out=E)
            self.offsets += E.sum(axis=0, dtype=np.float64)
        self.linear.add(self.theta, rows, E)

    def add_gradient(self, sums: Parts) -> None:
        """Add the summed gradients of Theta and b to `sums`, in place."""
        sums.theta[:] += self.linear.finish(self.theta)
        sums.b[:] += self.offsets[: len(sums.b)]


@dataclass(frozen=True)
class CompactWork(BatchWork):
    """Gradients of microbatches that learn map and linear model together."""

    layout: Layout = None  # type: ignore[assignment]

    def gradient(self, taken: Sequence[Any], W: np.ndarray) -> Sums:
        """Sums over the microbatch: the gradient, in the order of the vector W, the loss, the weight."""
        X, Y, weight, *_ = taken
        n, dtype, total = X.shape[0], Y.dtype, np.zeros(len(W))
        features = CosineFeatures(self.layout, W, dtype)
        sums = self.layout.split(total)
        value, step = 0.0, features.linear.rows_per_tile
        for a in range(0, n, step):
            b = min(a + step, n)
            Z, intermediates = features.forward(X[a:b])
            loss, slope = self.loss(features.scores(Z), Y[a:b])
            if weight is not None:
                slope = slope * weight[a:b, None].astype(dtype)
                loss = loss * weight[a:b]
            value += float(loss.sum(dtype=np.float64))
            sums.w[:] += Z.T @ slope
            if len(sums.c):
                sums.c[:] += slope.sum(axis=0, dtype=np.float64)
            features.backward(slope @ features.w.T, intermediates)
        features.add_gradient(sums)
        return Sums(total, value, float(n if weight is None else weight.sum()))

    def scores(self, Z: Any, W: np.ndarray) -> np.ndarray:
        """The scores of rows, which are not features yet."""
        features = CosineFeatures(self.layout, W, Z.dtype)
        return features.scores(features.forward(Z)[0])

    def tile_rows(self, W: np.ndarray) -> int:
        return self.layout.map.linear.rows_per_tile


@dataclass(frozen=True)
class KernelWork(BatchWork):
    """Gradients of microbatches that fit the map to a kernel (Yu et al. 2015, Eq. 10), over pairs of their rows.

    The loss of a microbatch is its weight, the sum of v_i over its rows, times the mean of (K(x_i, x_j) - z_i.z_j)^2 over
    ordered pairs of different rows, weighted by v_i v_j. With R = Z Z' - K, its diagonal zero, and P the matrix of
    the pairs' weights over their mean, the derivative with respect to Z is 4 (P o R) Z: Eq. 11, whose pairs must be
    the ordered ones.
    """

    layout: Layout = None  # type: ignore[assignment]

    def gradient(self, taken: Sequence[Any], W: np.ndarray) -> Sums:
        """Sums over the microbatch: the gradient, in the order of the vector W, the loss, the weight."""
        X = taken[0].toarray() if sp.issparse(taken[0]) else taken[0]
        dtype, total = X.dtype, np.zeros(len(W))
        v = np.ones(len(X)) if taken[2] is None else np.asarray(taken[2], dtype=np.float64)
        pairs = float(v.sum() ** 2 - v @ v)  # weight of the ordered pairs
        if not pairs > 1e-12 * float(v @ v):
            return Sums(total, 0.0, 0.0)
        features = CosineFeatures(self.layout, W, dtype)
        step = features.linear.rows_per_tile
        tiles = [(a, min(a + step, len(X))) for a in range(0, len(X), step)]
        forward = [features.forward(X[a:b]) for a, b in tiles]
        Z = np.concatenate([Z for Z, _ in forward])
        R = Z @ Z.T
        R -= self.layout.map.exact_kernel(X).astype(dtype)
        np.fill_diagonal(R, 0.0)
        share = (v / np.sqrt(pairs / v.sum())).astype(dtype)
        H = R * share[:, None] * share
        value = float((H * R).sum(dtype=np.float64))
        H = 4.0 * (H @ Z)
        for (a, b), (_, intermediates) in zip(tiles, forward, strict=True):
            features.backward(H[a:b], intermediates)
        features.add_gradient(self.layout.split(total))
        return Sums(total, value, float(v.sum()))
