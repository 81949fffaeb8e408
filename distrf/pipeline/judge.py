"""Ridge on rows in memory, and what held-out rows say of it. Number code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.lapack import dposv, sposv
from scipy.optimize import minimize
from scipy.special import log_softmax, ndtr

from ..losses import softmax

#: Times the largest diagonal entry: a penalty at which sums can be solved, whatever they are.
_SAFE = 1e-2
#: Scores of labels are -1 and 1: beyond this they say no more, and a few far rows would decide.
_FARTHEST = 3.0
#: Probability of a row that a model thinks impossible.
LEAST = 1e-12


@dataclass(frozen=True)
class Judged:
    """A candidate with its best penalty, judged by held-out rows.

    losses : of each row, times its weight, which is 1 on average: squared error in units of the variance, or log loss
    alpha : the penalty of least squared error
    scores : of each row, shape (rows, C), in the units of the encoded targets
    groups : of the rows, as numbers: then these are independent, not rows; else None
    unlike : share of the rows that are not copies of others
    metrics : of its gradients, a diagonal and a matrix, each of each split; none where they were not made
    """

    losses: np.ndarray
    alpha: float = 0.0
    scores: Any = None
    groups: np.ndarray | None = None
    unlike: float = 1.0
    metrics: tuple[tuple[np.ndarray, ...], ...] = ()

    @property
    def loss(self) -> float:
        return float(self.losses.mean())

    def error(self, values: np.ndarray) -> float:
        """The standard error of the mean of values of the rows."""
        if self.groups is not None:  # Liang & Zeger 1986: the sums of groups are independent
            places = np.unique(self.groups, return_inverse=True)[1]
            sums = np.bincount(places, values - values.mean())
            return float(np.sqrt((sums @ sums) * len(sums) / max(1, len(sums) - 1)) / len(values))
        return float(np.std(values)) / np.sqrt(max(1.0, self.unlike * len(values)))

    def beats(self, other: Judged, errors: float = 1.0) -> bool:
        """Whether the mean of its losses is lower by more than so many standard errors of the differences."""
        apart = other.losses - self.losses
        return float(apart.mean()) > errors * self.error(apart)


@dataclass(frozen=True)
class Ridge:
    """Solutions of one system for several penalties.

    weights : for each, of shape (P, C)
    mean, centre : of the features and the targets
    moments : sums of products of the centred features over the weight, shape (P, P); None where rows were fewer
    """

    weights: list[np.ndarray]
    mean: np.ndarray
    centre: np.ndarray
    moments: Any

    def scores(self, Z: Any) -> np.ndarray:
        """Of rows, for each penalty, shape (a, rows, C)."""
        W = np.hstack(self.weights)
        F = np.asarray(Z @ W) - self.mean @ W
        return F.reshape(len(F), len(self.weights), -1).swapaxes(0, 1) + self.centre


def row_shares(weight: np.ndarray | None, n: int) -> np.ndarray:
    """Weights of n rows that sum to 1."""
    return np.full(n, 1.0 / n) if weight is None else weight / weight.sum()


def ridge(Z: Any, Y: np.ndarray, weight: np.ndarray | None, alphas: Sequence[float]) -> Ridge:
    """Ridge in float32, float64 where that cannot be solved; with fewer rows than features by the matrix of rows.

    Z : features, shape (rows, P), float32, dense, which are overwritten, or CSR, which are not centred: that would make them dense
    """
    w = row_shares(weight, Z.shape[0])
    mean, centre = np.asarray(w.astype(np.float32) @ Z).ravel(), w @ Y
    root = np.sqrt(w)[:, None].astype(np.float32)
    B = (Y - centre).astype(np.float32) * root
    primal = not sp.issparse(Z) and Z.shape[1] <= Z.shape[0]
    if sp.issparse(Z):
        inner, cross = (Z @ Z.T).toarray(), np.asarray(Z @ mean)
        G = ((inner - cross - cross[:, None] + mean @ mean) * root * root.T).astype(np.float32)
    else:
        A = np.subtract(Z, mean, out=Z)
        A *= root if weight is not None else root[0]
        G = A.T @ A if primal else A @ A.T
    R = A.T @ B if primal else B
    weights = []
    for W in (_solve(G, R, alpha) for alpha in alphas):
        if sp.issparse(Z):
            W = Z.T @ (root * W) - np.outer(mean, (root * W).sum(axis=0))
        weights.append(np.asarray(W if primal or sp.issparse(Z) else A.T @ W))
    return Ridge(weights, mean, centre, G if primal else None)


def _solve(G: np.ndarray, R: np.ndarray, alpha: float) -> np.ndarray:
    """(G + alpha I)^-1 R; with a penalty that loses where rounding leaves no solution."""
    safe = _SAFE * float(np.abs(np.diag(G)).max(initial=0.0))
    for solve, dtype, more in ((sposv, np.float32, 0.0), (dposv, np.float64, 0.0), (dposv, np.float64, safe)):
        A: Any = G.astype(dtype)
        A.ravel(order="K")[:: len(A) + 1] += alpha + more
        # Of a symmetric matrix LAPACK takes the transposed one without a copy.
        _, W, failed = solve(A.T, R, overwrite_a=True)
        if not failed and np.isfinite(W).all():
            return np.asarray(W)
    return np.zeros_like(R)


def softmax_scores(
    Z: np.ndarray,
    T: np.ndarray,
    codes: np.ndarray,
    count: int,
    weight: np.ndarray | None,
    alphas: Sequence[float],
) -> np.ndarray:
    """Scores of rows T by multinomial regression on Z, logistic of two classes: log probabilities up to a constant a row.

    L-BFGS in the coordinates in which the Hessian at equal probabilities is 1, from the largest penalty on.

    Z, T : features, float32; codes : the class of each row of Z, of `count` ones

    Returns
    -------
    Array of shape (a, rows of T, count).
    """
    w = row_shares(weight, len(Z))
    mean = w.astype(np.float32) @ Z
    Z, own, first = Z - mean, (np.arange(len(Z)), codes), int(count == 2)
    shares = np.bincount(codes, w, minlength=count)[first:]
    bend = max(float(np.mean(shares * (1.0 - shares))), 1e-3)
    root = Z * np.sqrt(bend * w)[:, None].astype(np.float32)
    G = (root.T @ root).astype(np.float64)
    D, C = Z.shape[1], count - first
    W, found = np.zeros((D, C)), {}
    b = np.log(np.maximum(shares, 1e-6) / max(1.0 - shares.sum(), 1e-6) ** first)

    def scores(rows: np.ndarray, W: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.hstack([np.zeros((len(rows), first)), rows @ W.astype(np.float32) + b])

    for alpha in sorted(alphas, reverse=True):
        L = cholesky(G + alpha * np.eye(D) + 1e-7 * np.trace(G) / D * np.eye(D), lower=True, check_finite=False)

        def parts(x: np.ndarray, L: np.ndarray = L) -> tuple[np.ndarray, np.ndarray]:
            W = solve_triangular(L, x[: D * C].reshape(D, C), lower=True, trans=1, check_finite=False)
            return W, x[D * C :]

        def loss(x: np.ndarray, L: np.ndarray = L, alpha: float = alpha) -> tuple[float, np.ndarray]:
            W, b = parts(x, L)
            logs = log_softmax(scores(Z, W, b), axis=1)
            R = np.exp(logs)
            R[own] -= 1.0
            R = (R * w[:, None])[:, first:]
            slope = Z.T @ R.astype(np.float32) + alpha * W
            slope = solve_triangular(L, slope, lower=True, check_finite=False)
            value = -float(w @ logs[own]) + alpha / 2 * float((W * W).sum())
            return value, np.r_[slope.ravel(), R.sum(axis=0)]

        start = np.r_[(L.T @ W).ravel(), b]
        options = {"maxiter": 40, "ftol": 1e-6}
        W, b = parts(minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x)
        found[alpha] = scores(T - mean, W, b)
    return np.stack([found[alpha] for alpha in alphas])


def best_of(losses: np.ndarray, weight: np.ndarray) -> int:
    """The penalty of the least mean. losses : shape (a, rows)"""
    return int(np.argmin((losses * weight).mean(axis=1)))


def softmax_losses(scores: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Log loss of each row for each penalty, of the scores of `softmax_scores`."""
    logs = log_softmax(scores, axis=2)[:, np.arange(len(codes)), codes]
    return -np.maximum(logs, np.log(LEAST))


def calibrated_losses(scores: np.ndarray, codes: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Log loss of each row, of scores calibrated on one half of the rows and judged on the other, and swapped.

    One temperature for all scores and an offset a class: what tells apart is to decide, not what calibrates.

    scores : shape (rows, C), or (rows, 1) of two classes; codes : the class of each row
    """
    S = np.clip(scores, -_FARTHEST, _FARTHEST).astype(np.float64)
    S = np.hstack([-S, S]) if S.shape[1] == 1 else S
    rows, losses = np.arange(len(S)), np.empty(len(S))

    def probabilities(x: np.ndarray, part: np.ndarray) -> np.ndarray:
        return softmax(x[0] * S[part] + x[1:])

    def loss(x: np.ndarray, part: np.ndarray) -> tuple[float, np.ndarray]:
        P, own = probabilities(x, part), (np.arange(len(part)), codes[part])
        share = weight[part] / weight[part].sum()
        value = -share @ np.log(np.maximum(P[own], LEAST)) + 1e-4 * x[1:] @ x[1:]
        P[own] -= 1.0
        P *= share[:, None]
        return float(value), np.concatenate([[(P * S[part]).sum()], P.sum(axis=0) + 2e-4 * x[1:]])

    x, options = np.r_[2.0, np.zeros(S.shape[1])], {"maxiter": 30, "ftol": 1e-7}
    for half in (0, 1):
        learn, judged = rows[half::2], rows[1 - half :: 2]
        x = minimize(loss, x, args=(learn,), jac=True, method="L-BFGS-B", options=options).x
        P = probabilities(x, judged)
        losses[judged] = -np.log(np.maximum(P[np.arange(len(judged)), codes[judged]], LEAST))
    return losses


def number_losses(scores: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Log loss of whole numbers: a normal distribution around the regression, integrated over each number.

    Its spread is learned from one half of the rows, and judged on the other, and swapped.

    scores, y : shape (rows,), in the units of y
    """
    apart, losses = np.abs(y - scores), np.empty(len(y))
    for half in (0, 1):
        learn, judged = slice(half, None, 2), slice(1 - half, None, 2)
        spread = max(float(np.sqrt(np.average(apart[learn] ** 2, weights=weight[learn]))), 1e-6)
        ends = ndtr((apart[judged, None] - [0.5, -0.5]) / -spread)
        losses[judged] = -np.log(np.maximum(np.abs(ends[:, 0] - ends[:, 1]), LEAST))
    return losses


def law_losses(scores: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """As `number_losses`, whatever their law is: the shares of the numbers among rows of like scores, some fifty."""
    codes, losses = np.unique(y, return_inverse=True)[1], np.empty(len(y))
    for half in (0, 1):
        learn, judged = slice(half, None, 2), slice(1 - half, None, 2)
        own = scores[learn]
        edges = np.quantile(own, np.linspace(0, 1, max(2, len(own) // 50) + 1)[1:-1])
        counts = np.zeros((len(edges) + 1, codes.max() + 1))
        np.add.at(counts, (np.searchsorted(edges, own), codes[learn]), weight[learn])
        all_rows = counts.sum(axis=0) + 0.5
        # The prior weighs as much as the rows: with a tenth of that, twenty values looked like labels.
        shares = counts + 50.0 * all_rows / all_rows.sum()
        shares /= shares.sum(axis=1, keepdims=True)
        losses[judged] = -np.log(shares[np.searchsorted(edges, scores[judged]), codes[judged]])
    return losses
