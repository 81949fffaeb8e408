"""The Hessian of a loss on sampled rows, factored: what preconditions steps over all rows. Number code."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ..losses import Loss

#: The penalty of the sampled Hessian over that of the model: directions that the sample does not show are not followed far.
_DAMPING = 3.0
#: Bytes of the factors of all columns at most; where they would take more, columns share one.
_FACTORS = 1.5 * 2**30
#: A Gram matrix of float32 rows is off by this share of its trace: with a smaller penalty it is made in float64.
_ROUNDING = 1e-6
#: The penalty of the intercept, as a share of its own curvature, or that of the weights, or at most this. It may be no more: features
#: nearly make a constant, and along that sum of both the loss bends little (airline: with a tenth the gap seemed a quarter of what it was).
_OWN, _LEAST_OWN = 1e-6, 1e-3
#: The least penalty, as a share of the trace: rounding makes smaller eigenvalues.
_LEAST = 1e-13
#: Rows of a tile.
_TILE = 2048


@dataclass(frozen=True)
class SampledRows:
    """Sampled rows that stand for all.

    intercept : bool; Z : array of shape (s, P), features and, with an intercept, a last column of ones; Y : array of shape (s, C), encoded targets
    weight : array of shape (s,), with the sum 1; folds : array of shape (s,), given ones
    """

    Z: np.ndarray
    Y: np.ndarray
    weight: np.ndarray
    intercept: bool
    folds: np.ndarray | None = None
    grams: dict[Any, np.ndarray] = field(default_factory=dict, init=False, compare=False, repr=False)

    def scores(self, weights: np.ndarray) -> np.ndarray:
        return np.asarray(self.Z @ weights.astype(self.Z.dtype), dtype=np.float64)

    def gram(self, dtype: Any) -> np.ndarray:
        """Z Z' without the intercept in float64, of products in another dtype. Made once."""
        if dtype not in self.grams:
            Z = self.Z[:, : self.Z.shape[1] - self.intercept]
            gram = np.zeros((len(Z),) * 2)
            for a in range(0, Z.shape[1], _TILE):
                tile = Z[:, a : a + _TILE].astype(dtype)
                gram += tile @ tile.T
            self.grams[dtype] = gram
        return self.grams[dtype]


class SampledHessian:
    """P = the Hessian of the mean loss of sampled rows at some weights + 3 alpha, a block for each column of the weights.

    The intercept has a tiny penalty, so that P has an inverse. With more rows than features, P is factored itself; with fewer, by Woodbury's formula, the Gram matrix of the rows.

    Parameters
    ----------
    rows : SampledRows
    weights : array of shape (P, C), where the Hessian is taken
    bound : bool, whether to take the largest second derivative of the loss in its place: a step of that length never fails
    loss : Loss
    alpha : float
    shared : bool, whether all columns share the mean of their Hessians
    """

    def __init__(
        self,
        rows: SampledRows,
        weights: np.ndarray,
        loss: Loss,
        alpha: float,
        bound: bool = False,
        shared: bool = False,
    ):
        self.rows = rows
        self.bound = bound
        assert loss.smoothness is not None
        bend = loss.second(loss(rows.scores(weights), rows.Y)[1]).astype(np.float64)
        if bound:
            bend[:] = loss.smoothness
        bend *= rows.weight[:, None]
        s, width = rows.Z.shape
        if shared or weights.shape[1] * min(s, width) ** 2 * 8 > _FACTORS or (bend == bend[:, :1]).all():
            bend = bend.mean(axis=1, keepdims=True)
        self.roots = np.sqrt(bend)
        trace = float(bend[:, 0] @ np.einsum("ij,ij->i", rows.Z, rows.Z, dtype=np.float64))
        penalty = max(_DAMPING * alpha, _LEAST * trace, np.finfo(float).tiny)
        self.dtype = np.float64 if penalty < _ROUNDING * trace else rows.Z.dtype
        self.penalty = np.full((width, 1), penalty)
        if rows.intercept:
            own = _OWN * float(bend.mean(axis=1).sum())
            self.penalty[-1] = max(own, min(penalty, _LEAST_OWN))
        self.dual = s < width
        self.factors = [self._factor(root) for root in self.roots.T]

    def _factor(self, root: np.ndarray) -> tuple[np.ndarray, bool]:
        if self.dual:
            matrix = self.rows.gram(self.dtype) / self.penalty[0]
            matrix += 1.0 / self.penalty[-1] if self.rows.intercept else 0.0
            matrix *= root[:, None] * root
        else:
            width = self.rows.Z.shape[1]
            matrix = np.zeros((width, width))
            for a in range(0, len(root), _TILE):
                part = slice(a, a + _TILE)
                tile = (self.rows.Z[part] * root[part, None]).astype(self.dtype)
                matrix += tile.T @ tile
        matrix.ravel()[:: len(matrix) + 1] += 1.0 if self.dual else self.penalty[:, 0]
        return cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)

    def solve(self, G: np.ndarray) -> np.ndarray:
        """P^-1 G for G of shape (P, C)."""
        if len(self.factors) == 1:
            return self._solve(0, G)
        return np.concatenate([self._solve(c, G[:, c : c + 1]) for c in range(G.shape[1])], axis=1)

    def _solve(self, c: int, G: np.ndarray) -> np.ndarray:
        if not self.dual:
            return cho_solve(self.factors[c], G, check_finite=False)
        root, Z, G = self.roots[:, c : c + 1], self.rows.Z, G / self.penalty
        right, parts = np.zeros((len(Z), G.shape[1])), [slice(a, a + _TILE) for a in range(0, len(G), _TILE)]
        for part in parts:
            right += Z[:, part].astype(self.dtype, copy=False) @ G[part].astype(self.dtype)
        inner = (root * cho_solve(self.factors[c], root * right, check_finite=False)).astype(self.dtype)
        for part in parts:
            G[part] -= Z[:, part].astype(self.dtype, copy=False).T @ inner / self.penalty[part]
        return G


def with_ones(Z: np.ndarray) -> np.ndarray:
    """Z with a last column of ones, that of the intercept."""
    return np.concatenate([Z, np.ones((len(Z), 1), Z.dtype)], axis=1)
