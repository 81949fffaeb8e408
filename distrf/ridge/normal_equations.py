"""Ridge solutions from accumulated normal equations.

Objective, the same for every linear model here: (1 / 2W) sum_i w_i (y_i - b - z_i.u)^2 + (alpha / 2) |u|^2
with W the sum of weights and b not penalised. So u solves (S + alpha I) u = c with S the centred
covariance of the features and c their centred covariance with the targets. The sums are those of shifted features, z - s. Centring removes the shift; without an intercept nothing is centred, so the shift is added again.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, blas, cho_solve, cholesky, eigh, qr

from ..errors import InputError
from ..gram_tiles import lower_tiles
from .alphas import best_alpha, lone_alpha, search
from .gram import GramReduction, GramState

#: One eigendecomposition costs about as much as this many Cholesky factorisations.
_EIGH_FACTOR = 12
#: Eigenvalues below this share of the largest are 0 where no penalty hides them. Of singular values that is 1e-6, the share at
#: which scikit-learn's LinearRegression cuts.
_CUT = 1e-12
#: Without a penalty, columns of which less than this share is new beside the columns before are left to that cut.
_COLLINEAR = 1e-8
#: Columns beyond which fewer rows are turned into as many columns, and the most bytes of such rows: below, nothing is gained.
_WIDE, _SHORT_BYTES = 1024, 2**27


@dataclass(frozen=True)
class Solution:
    """Weights of shape (D, C) and intercepts of shape (C,) for one alpha, in terms of the encoded targets."""

    alpha: float
    weights: np.ndarray
    intercept: np.ndarray


class NormalEquations:
    """The normal equations of all rows, or of all but one cross-validation fold."""

    def __init__(self, state: GramState, n_features: int, fit_intercept: bool):
        self.state = state
        self.n_features = n_features
        self.fit_intercept = fit_intercept
        self.shift = state.shifts
        known = (state.weight, state.sums, state.targets, state.products, state.squares)
        if not all(np.isfinite(a).all() for a in known) or not np.isfinite(self._second_moment(None)):
            raise InputError(
                "the sums of squares of the features or the targets overflow float64: entries above about 1e150 are too "
                "large; scale the rows and the targets"
            )

    def _sum(self, name: str, without: int | None) -> np.ndarray:
        return self._total(getattr(self.state, name), without)

    @staticmethod
    def _total(folds: np.ndarray, without: int | None) -> np.ndarray:
        """Sum over all folds but `without`. It is not the total minus one fold: if that fold has nearly all of the weight,
        the difference would be rounding."""
        return folds[[f for f in range(len(folds)) if f != without]].sum(axis=0)

    def rounding_floor(self, without: int | None = None) -> float:
        """The size below which alphas are lost in the rounding of the Gram matrix.

        The errors of its entries are about independent, of size `rounding` times the mean diagonal entry, so their
        matrix has a spectral norm of sqrt(D) times that: with 2,048 Fourier features in float32 1.3e-9, against 0.5 to
        1e-9 measured.
        """
        return self.state.rounding * self._second_moment(without) / np.sqrt(self.n_features)

    def energy(self) -> float:
        """Mean |z|^2 of the features, about their mean where there is an intercept."""
        mean = self._sum("sums", None) / self._sum("weight", None)
        centre = mean if self.fit_intercept else -self.shift
        return max(
            0.0, self._second_moment(None) - float(mean @ mean) + float((mean - centre) @ (mean - centre))
        )

    def _second_moment(self, without: int | None) -> float:
        """Mean |z|^2 of the shifted features."""
        squares = np.zeros(len(self.state.weight))
        for t, (rows, columns) in enumerate(lower_tiles(self.n_features)):
            if rows == columns:
                squares += np.einsum("kii->k", self.state.tiles[:, t])
        return float(self._total(squares, without) / self._sum("weight", without))

    def _covariance(self, without: int | None) -> np.ndarray:
        """Lower triangle of the (centred) covariance, shape (D, D), Fortran order for LAPACK in place."""
        S = np.zeros((self.n_features, self.n_features), order="F")
        weight = self._sum("weight", without)
        for t, (rows, columns) in enumerate(lower_tiles(self.n_features)):
            shape = (rows.stop - rows.start, columns.stop - columns.start)
            S[rows, columns] = self._total(self.state.tiles[:, t, : shape[0], : shape[1]], without) / weight
        mean = self._sum("sums", without) / weight
        if self.fit_intercept:
            return blas.dsyr(-1.0, mean, lower=1, a=S, overwrite_a=1)
        # (Z + s)'(Z + s) = Z'Z + s h' + h s' with h the mean of Z + s / 2
        return blas.dsyr2(1.0, self.shift, mean + self.shift / 2, lower=1, a=S, overwrite_a=1)

    def moments(self, without: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Second moments of the features over all rows, or all but one fold, shape (D, D), and their means, shape (D,)."""
        lower = NormalEquations(self.state, self.n_features, False)._covariance(without)
        S = np.tril(lower)
        S += np.tril(lower, -1).T
        return S, self._sum("sums", without) / self._sum("weight", without) + self.shift

    def solve(self, alphas: Sequence[float], without: int | None = None) -> Iterator[Solution]:
        """The solution for each alpha, from all rows or from all but one fold.

        Warns (RuntimeWarning) of an alpha that is lost in rounding, if the solution is that of all rows.
        """
        weight = self._sum("weight", without)
        mean = self._sum("sums", without) / weight
        target_mean = self._sum("targets", without) / weight
        right = self._sum("products", without) / weight
        right = right + np.outer(-mean if self.fit_intercept else self.shift, target_mean)
        mean = mean + self.shift
        for alpha, weights in self._solutions(alphas, right, without):
            intercept = target_mean - mean @ weights if self.fit_intercept else np.zeros_like(target_mean)
            yield Solution(alpha, weights, intercept)

    def _solutions(
        self, alphas: Sequence[float], right: np.ndarray, without: int | None
    ) -> Iterator[tuple[float, np.ndarray]]:
        spectrum = None
        lost = self.rounding_floor(without)
        covariance = self._covariance(without)
        for alpha in alphas:
            if spectrum is None and len(alphas) < _EIGH_FACTOR:
                S = covariance.copy(order="F") if len(alphas) > 1 else covariance
                S.ravel(order="K")[:: self.n_features + 1] += alpha
                sizes = np.diag(S).copy()
                try:
                    factor = cholesky(S, lower=True, overwrite_a=True, check_finite=False)
                    # Without a penalty above rounding it may succeed, and fit what rounding left of a column.
                    if (
                        alpha <= lost
                        and (np.diag(factor) ** 2 < max(_COLLINEAR, self.state.rounding) * sizes).any()
                    ):
                        raise LinAlgError
                except LinAlgError:
                    if S is covariance:
                        covariance = self._covariance(without)  # the failed factorisation overwrote it
                else:
                    if without is None:
                        _warn_if_lost(alpha, lost)
                    yield alpha, cho_solve((factor, True), right, check_finite=False)
                    continue
            if spectrum is None:
                values, vectors = eigh(covariance, lower=True, overwrite_a=True, check_finite=False)
                spectrum = values, vectors, vectors.T @ right
            values, vectors, rotated = spectrum
            floor = max(values[-1], 0.0) * len(values) * np.finfo(np.float64).eps
            if alpha <= lost:
                floor = max(floor, lost, _CUT * values[-1])
            if without is None:
                _warn_if_lost(alpha, max(lost, floor) if values[0] <= floor else lost)
            inverse = np.where(values > floor, 1.0 / (np.maximum(values, floor) + alpha + (floor == 0)), 0.0)
            yield alpha, vectors @ (inverse[:, None] * rotated)

    def fold_error(self, solution: Solution, fold: int, counts: np.ndarray) -> float:
        """Weighted sum of squared errors of a solution over the rows of one fold; `counts` : factor on each target."""
        s, u = self.state, solution.weights
        b = solution.intercept + self.shift @ u  # the intercept for shifted features
        products = np.zeros_like(u)
        for t, (rows, columns) in enumerate(lower_tiles(self.n_features)):
            tile = s.tiles[fold, t, : rows.stop - rows.start, : columns.stop - columns.start]
            products[rows] += tile @ u[columns]
            if rows != columns:
                products[columns] += tile.T @ u[rows]
        quadratic = (u * products).sum(axis=0) - 2 * (u * s.products[fold]).sum(axis=0) + s.squares[fold]
        shifted = s.weight[fold] * b**2 + 2 * b * (u.T @ s.sums[fold] - s.targets[fold])
        return float(((quadratic + shifted) * counts).sum())


def _warn_if_lost(alpha: float, lost: float) -> None:
    if 0 < alpha < lost:
        warnings.warn(
            f"alpha={alpha:g} is below the rounding error of the Gram matrix, about {lost:.1g}; directions "
            "without signal are dropped, or fitted to rounding. A larger alpha, or float64 rows, avoids this",
            RuntimeWarning,
            stacklevel=3,
        )


@dataclass(frozen=True)
class Compared:
    """The result of a comparison: the alpha taken, and all alphas compared with their errors.

    errors : mean squared error of each alpha on held-out rows; None if none were compared
    """

    alpha: float
    alphas: list[float]
    errors: np.ndarray | None


def compare_alphas(
    system: NormalEquations, alphas: Sequence[float] | None, reduction: GramReduction
) -> Compared:
    """Choose the alpha of least squared error on held-out rows.

    alphas : the alphas to compare; None searches (see alphas.py)
    reduction : the reduction that made the sums. It has the targets and the rule by which folds are held out; those that have no
        weight or all of it are not

    Raises InputError if no fold can be held out. A search then takes `lone_alpha` instead.
    """
    weights, folds = system.state.weight, _folds(system, reduction)
    if not folds:
        if alphas is not None:
            raise InputError(
                "no rows can be held out to compare alphas: there is one row, or sample_weight is zero on all rows "
                "of all folds but one; give one alpha, or another random_state"
            )
        alone = lone_alpha(system.energy())
        return Compared(alone, [alone], None)

    state = system.state
    counts = reduction.targets.error_factors(
        weights.sum(), state.targets.sum(axis=0), state.squares.sum(axis=0)
    )

    def errors(alphas: Sequence[float]) -> np.ndarray:
        squares = np.zeros(len(alphas))
        for f in folds:
            # The rounding of the Gram matrix may be more than the error: near its least eigenvalue weights are huge, and
            # their error comes out as anything, below 0 too.
            floor = system.rounding_floor(f) * weights[f]
            for i, one in enumerate(system.solve(alphas, without=f)):
                lost = floor * float(((one.weights**2).sum(axis=0) * counts).sum())
                squares[i] += max(system.fold_error(one, f, counts), lost)
        return squares / (weights[folds].sum() * len(counts))

    if alphas is not None:
        alphas, cv_errors = list(alphas), errors(alphas)
    else:
        energy = system.energy()
        lost = max(system.rounding_floor(), system.n_features * np.finfo(np.float64).eps * energy)
        alphas, cv_errors = search(errors, energy, lost)
    return Compared(best_alpha(alphas, cv_errors), alphas, cv_errors)


def without_folds(system: NormalEquations, reduction: GramReduction, alpha: float) -> list[Solution | None]:
    """For each fold the solution from all rows outside of it; None if it is not held out, or has all the weight."""
    solutions: list[Solution | None] = [None] * reduction.rule.n_sets
    for f in _folds(system, reduction):
        solutions[f] = next(system.solve([alpha], without=f))
    return solutions


def _folds(system: NormalEquations, reduction: GramReduction) -> list[int]:
    """The folds that can be held out."""
    weights = system.state.weight
    shares = weights / weights.sum()
    return [f for f in range(reduction.rule.held) if 0 < shares[f] < 1 and np.delete(weights, f).any()]


def is_short(n_rows: int, n_features: int) -> bool:
    """Whether systems of as many unknowns as rows should take the place of those of the features."""
    return n_features > max(n_rows, _WIDE) and 8 * n_rows * n_features <= _SHORT_BYTES


def turned_rows(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Short rows (n, D), dense or CSR, as Z (n, n) with the same products of rows, and the basis Q (D, n) with Z = X Q.

    Ridge weights lie in the span of the rows: of any of the rows, for any penalty, those of X are Q times those of Z.
    """
    Q, R = qr((X.toarray() if sp.issparse(X) else X).astype(np.float64).T, mode="economic", check_finite=False)
    return np.ascontiguousarray(R.T), Q
