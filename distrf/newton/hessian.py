"""The Hessian of a loss on sampled rows, factored: what preconditions steps over all rows. Number code."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve

from ..losses import Loss

#: The penalty of the sampled Hessian over that of the model: directions that the sample does not show are not followed far.
_DAMPING = 3.0
#: Bytes of the factors of all columns at most; where they would take more, columns share one.
FACTORS = 1.5 * 2**30
#: A Gram matrix of float32 rows is off by this share of its trace: with a smaller penalty it is made in float64.
_ROUNDING = 1e-6
#: The curvature of an intercept is no less than this share of the largest of all outputs, or this: sampled rows may show none.
_OWN, _LEAST_OWN = 1e-6, 1e-12
#: The least penalty, as a share of the trace: rounding makes smaller eigenvalues.
_LEAST = 1e-13
#: Rows of a tile.
_TILE = 2048


@dataclass(frozen=True)
class SampledRows:
    """Sampled rows that stand for all.

    Z : array of shape (s, D), features; CSR where it has fewer rows than columns and these are sparse; Y : array of shape (s, C), encoded targets
    weight : array of shape (s,), with the sum 1; intercept : whether weights have a last row, its
    folds : array of shape (s,), given ones; total : estimate of the weight of all rows
    """

    Z: Any
    Y: np.ndarray
    weight: np.ndarray
    intercept: bool
    folds: np.ndarray | None = None
    total: float = 1.0
    grams: dict[Any, np.ndarray] = field(default_factory=dict, init=False, compare=False, repr=False)

    def means(self, shares: np.ndarray) -> np.ndarray:
        """Z' shares in float64, of shape (D, C)."""
        means = np.zeros((self.Z.shape[1], shares.shape[1]))
        for a in range(0, len(self.Y), _TILE):
            means += self.Z[a : a + _TILE].astype(np.float64).T @ shares[a : a + _TILE]
        return means

    def gram(self, dtype: Any) -> np.ndarray:
        """Z Z' in float64, of products in another dtype; of dense rows with an intercept, of Z minus its means. Made once."""
        if dtype not in self.grams:
            s = len(self.Y)
            gram = np.zeros((s, s))
            if sp.issparse(self.Z):
                turned = self.Z.T.tocsr().astype(np.float64)
                for a in range(0, s, _TILE):
                    gram[a : a + _TILE] = (self.Z[a : a + _TILE] @ turned).toarray()
            else:
                mean = self.means(np.full((s, 1), self.intercept / s))[:, 0]
                for a in range(0, len(mean), _TILE):
                    tile = (self.Z[:, a : a + _TILE] - mean[a : a + _TILE].astype(self.Z.dtype)).astype(dtype)
                    gram += tile @ tile.T
            self.grams[dtype] = gram
        return self.grams[dtype]


class SampledHessian:
    """P = the Hessian of the mean loss of sampled rows at some weights + 3 alpha, a block for each column of the weights.

    The intercept has no penalty and is eliminated: with m the mean of the rows, each with its second derivative as weight, it is that of
    rows Z - 1 m', whose Hessian has no entries between it and the weights. A penalty on it would hide how little the loss bends along a
    sum of features that is nearly constant (airline: with a tenth of its curvature the gap seemed a quarter of what it was).
    With more rows than features, P is factored itself; with fewer, by Woodbury's formula, the Gram matrix of the rows.

    Parameters
    ----------
    rows : SampledRows
    loss : Loss
    alpha : float
    weights : array of shape (P, C), where the Hessian is taken
    damping : float, what is added to all eigenvalues, in units of the trace over the number of rows: for directions that the sample
        does not show
    least : float, share of the largest second derivative of the loss that each row has at least: for a loss that bends elsewhere
    shared : bool, whether all columns share the mean of their Hessians
    """

    def __init__(
        self, rows: SampledRows, loss: Loss, alpha: float, weights: np.ndarray, damping: float = 0.0,
        least: float = 0.0, shared: bool = False,
    ):  # fmt: skip
        self.rows = rows
        bend = loss.second(loss(scores(rows.Z, weights), rows.Y)[1]).astype(np.float64)
        assert loss.smoothness is not None
        bend = np.maximum(bend, least * loss.smoothness) * rows.weight[:, None]
        s, width = rows.Z.shape
        if shared or weights.shape[1] * min(s, width) ** 2 * 8 > FACTORS or (bend == bend[:, :1]).all():
            bend = bend.mean(axis=1, keepdims=True)
        self.roots, own, damping = np.sqrt(bend), bend.sum(axis=0), damping / s
        self.shares = rows.intercept * bend / np.where(own > 0, own, 1.0)
        self.means = rows.means(self.shares)
        norms = squared_norms(rows.Z)
        trace = max(0.0, float((norms @ bend - own * (self.means**2).sum(axis=0)).max()))
        self.own = np.maximum(own, max(_OWN * own.max(), _LEAST_OWN)) + damping * own.max()
        self.penalty = max(_DAMPING * alpha + damping * trace, _LEAST * trace, np.finfo(float).tiny)
        self.dtype = np.float64 if self.penalty < _ROUNDING * trace else rows.Z.dtype
        self.dual = s < width
        self.factors = [self._factor(c) for c in range(bend.shape[1])]

    def _factor(self, c: int) -> tuple[np.ndarray, bool]:
        root, share, mean = self.roots[:, c], self.shares[:, c], self.means[:, c].astype(self.rows.Z.dtype)
        if self.dual:
            matrix = self.rows.gram(self.dtype) / self.penalty
            off = matrix @ share
            matrix -= off[:, None]
            matrix -= off - share @ off
            matrix *= root[:, None]
            matrix *= root
        else:
            matrix = np.zeros((len(mean),) * 2)
            for a in range(0, len(root), _TILE):
                part = slice(a, a + _TILE)
                tile = ((self.rows.Z[part] - mean) * root[part, None]).astype(self.dtype)
                matrix += tile.T @ tile
        matrix.ravel()[:: len(matrix) + 1] += 1.0 if self.dual else self.penalty
        return cho_factor(matrix.T, lower=True, overwrite_a=True, check_finite=False)

    def solve(self, G: np.ndarray) -> np.ndarray:
        """P^-1 G for G of shape (P, C)."""
        parts = [G] if len(self.factors) == 1 else np.split(G, G.shape[1], axis=1)
        return np.concatenate([self._solve(c, part) for c, part in enumerate(parts)], axis=1)

    def _solve(self, c: int, G: np.ndarray) -> np.ndarray:
        root, mean, Z = self.roots[:, c : c + 1], self.means[:, c : c + 1], self.rows.Z
        X, own = G[: len(mean)] - mean * G[len(mean) :].sum(axis=0), G[len(mean) :] / self.own[c]
        if not self.dual:
            X = cho_solve(self.factors[c], X, check_finite=False)
        elif sp.issparse(Z):
            X /= self.penalty
            inner = root * cho_solve(self.factors[c], root * (Z @ X - mean.T @ X), check_finite=False)
            X -= (Z.T @ inner - mean * inner.sum(axis=0)) / self.penalty
        else:
            X /= self.penalty
            right, off = np.zeros((len(Z), X.shape[1])), mean[:, 0].astype(Z.dtype)
            parts = [slice(a, a + _TILE) for a in range(0, len(X), _TILE)]
            for part in parts:
                right += (Z[:, part] - off[part]).astype(self.dtype, copy=False) @ X[part].astype(self.dtype)
            inner = (root * cho_solve(self.factors[c], root * right, check_finite=False)).astype(self.dtype)
            for part in parts:
                X[part] -= (Z[:, part] - off[part]).astype(self.dtype, copy=False).T @ inner / self.penalty
        return np.concatenate([X, own - mean.T @ X])


def squared_norms(Z: Any) -> np.ndarray:
    """|z|^2 of each row, dense or CSR."""
    if sp.issparse(Z):
        return np.asarray(Z.multiply(Z).sum(axis=1, dtype=np.float64)).ravel()
    return np.einsum("ij,ij->i", Z, Z, dtype=np.float64)


def scores(Z: Any, weights: np.ndarray) -> np.ndarray:
    """The scores of rows in float64; weights have a last row where there is an intercept."""
    D = Z.shape[1]
    return np.asarray(Z @ weights[:D].astype(Z.dtype), dtype=np.float64) + weights[D:].sum(axis=0)
