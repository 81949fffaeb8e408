"""Ridge solutions from accumulated normal equations.

Objective, the same for every linear model here: (1 / 2W) sum_i w_i (y_i - b - z_i.u)^2 + (alpha / 2) |u|^2
with W the sum of weights and b not penalised. So u solves (S + alpha I) u = c with S the centred
covariance of the features and c their centred covariance with the targets.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, blas, cho_solve, cholesky, eigh

from ..blocks.gram_tiles import lower_tiles
from .gram import GramState

#: One eigendecomposition costs about as much as this many Cholesky factorisations.
_EIGH_FACTOR = 12


@dataclass(frozen=True)
class Solution:
    """Weights of shape (D, C) and intercepts of shape (C,) for one alpha, for centred targets."""

    alpha: float
    weights: np.ndarray
    intercept: np.ndarray


class NormalEquations:
    """Normal equations of all rows, with any cross-validation fold taken out on demand."""

    def __init__(self, state: GramState, n_features: int, fit_intercept: bool):
        self.state = state
        self.n_features = n_features
        self.fit_intercept = fit_intercept

    def _sum(self, name: str, without: int | None) -> np.ndarray:
        array = getattr(self.state, name)
        return array.sum(axis=0) if without is None else array.sum(axis=0) - array[without]

    def _covariance(self, without: int | None) -> np.ndarray:
        """Lower triangle of the (centred) covariance, shape (D, D), Fortran order for LAPACK in place."""
        S = np.zeros((self.n_features, self.n_features), order="F")
        weight = self._sum("weight", without)
        for t, (rows, columns) in enumerate(lower_tiles(self.n_features)):
            shape = (rows.stop - rows.start, columns.stop - columns.start)
            tile = self.state.tiles[:, t, : shape[0], : shape[1]]
            total = tile[0] if len(tile) == 1 else tile.sum(axis=0)
            S[rows, columns] = (total if without is None else total - tile[without]) / weight
        if self.fit_intercept:
            mean = self._sum("sums", without) / weight
            S = blas.dsyr(-1.0, mean, lower=1, a=S, overwrite_a=1)
        return S

    def solve(self, alphas: Sequence[float], without: int | None = None) -> Iterator[Solution]:
        """Solutions for the alphas in turn, from all rows or all but one fold."""
        weight = self._sum("weight", without)
        mean = self._sum("sums", without) / weight
        target_mean = self._sum("targets", without) / weight
        right = self._sum("products", without) / weight
        if self.fit_intercept:
            right = right - np.outer(mean, target_mean)
        for alpha, weights in self._solutions(alphas, right, without):
            intercept = target_mean - mean @ weights if self.fit_intercept else np.zeros_like(target_mean)
            yield Solution(alpha, weights, intercept)

    def _solutions(self, alphas, right, without) -> Iterator[tuple[float, np.ndarray]]:
        spectrum = None
        for alpha in alphas:
            if spectrum is None and len(alphas) < _EIGH_FACTOR:
                S = self._covariance(without)
                S.ravel(order="K")[:: self.n_features + 1] += alpha
                try:
                    factor = cholesky(S, lower=True, overwrite_a=True, check_finite=False)
                    yield alpha, cho_solve((factor, True), right, check_finite=False)
                    continue
                except LinAlgError:
                    if alpha > 0:
                        warnings.warn(
                            f"alpha={alpha:g} is below the rounding error of the Gram matrix; directions without "
                            "signal are dropped. A larger alpha, or float64 rows, avoids this",
                            RuntimeWarning,
                            stacklevel=2,
                        )
            if spectrum is None:
                values, vectors = eigh(
                    self._covariance(without), lower=True, overwrite_a=True, check_finite=False
                )
                spectrum = values, vectors, vectors.T @ right
            values, vectors, rotated = spectrum
            floor = max(values[-1], 0.0) * len(values) * np.finfo(np.float64).eps
            inverse = np.where(values > floor, 1.0 / (np.maximum(values, floor) + alpha + (floor == 0)), 0.0)
            yield alpha, vectors @ (inverse[:, None] * rotated)

    def fold_error(self, solution: Solution, fold: int) -> float:
        """Weighted sum of squared errors of a solution over the rows of one fold, all targets."""
        s, u, b = self.state, solution.weights, solution.intercept
        products = np.zeros_like(u)
        for t, (rows, columns) in enumerate(lower_tiles(self.n_features)):
            tile = s.tiles[fold, t, : rows.stop - rows.start, : columns.stop - columns.start]
            products[rows] += tile @ u[columns]
            if rows != columns:
                products[columns] += tile.T @ u[rows]
        quadratic = (u * products).sum(axis=0) - 2 * (u * s.products[fold]).sum(axis=0) + s.squares[fold]
        shifted = s.weight[fold] * b**2 + 2 * b * (u.T @ s.sums[fold] - s.targets[fold])
        return float((quadratic + shifted).sum())


def choose_alpha(system: NormalEquations, alphas: Sequence[float], holdout: bool) -> tuple[float, np.ndarray]:
    """The alpha of least squared error over held-out rows, and each alpha's mean squared error.

    With `holdout`, set 0 is held out once; otherwise each fold is, in turn.
    """
    folds = [0] if holdout else range(len(system.state.weight))
    errors, weight = np.zeros(len(alphas)), 0.0
    for f in folds:
        weight += system.state.weight[f]
        for i, solution in enumerate(system.solve(alphas, without=f)):
            errors[i] += system.fold_error(solution, f)
    errors /= weight * system.state.targets.shape[1]
    return float(alphas[int(np.argmin(errors))]), errors
