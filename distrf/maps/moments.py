"""Moments of the columns in one pass: mean, variance, range, covariance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..execution.passes import SizedState, run_pass
from ..execution.row_blocks import rows_per_block
from ..execution.sampling import sampled_rows, take_rows
from .base import check_rows


@dataclass
class Moments(SizedState):
    """Moments of the columns over the rows seen so far.

    Attributes
    ----------
    count : int
        Rows.
    mean, squares, low, high : float64 arrays of shape (d,)
        Mean, sum of squared deviations from the mean, least and greatest value of each column.
    """

    count: int
    mean: np.ndarray
    squares: np.ndarray  # sum of squared deviations from the mean
    low: np.ndarray
    high: np.ndarray

    @property
    def variance(self) -> np.ndarray:
        return self.squares / max(self.count, 1)


@dataclass(frozen=True)
class MomentsReduction:
    """Merges block moments by the pairwise update of Chan, Golub & LeVeque 1983."""

    d: int

    @property
    def nbytes(self) -> int:
        return 32 * self.d

    @property
    def flops_per_row(self) -> float:
        return 6.0 * self.d

    @property
    def scratch_per_row(self) -> int:
        """Deviations from the mean, in float64."""
        return 8 * self.d

    @property
    def csr_scratch_bytes(self) -> int:
        return 40 * self.d

    def initial(self) -> Moments:
        z = np.zeros(self.d)
        return Moments(0, z, z.copy(), np.full(self.d, np.inf), np.full(self.d, -np.inf))

    @np.errstate(over="ignore", invalid="ignore")  # StreamingScaler asks once more in other units
    def update(self, state: Moments, first_row: int, X: Any) -> Moments:
        X = check_rows(X, self.d)
        n = X.shape[0]
        if n == 0:
            return state
        if sp.issparse(X):
            X = sp.csr_array(X, dtype=np.float64)
            mean = np.asarray(X.mean(axis=0)).ravel()
            stored = np.bincount(X.indices, minlength=self.d)
            squares = np.bincount(X.indices, (X.data - mean[X.indices]) ** 2, self.d) + (n - stored) * mean**2
            low, high = (np.asarray(f(axis=0).todense()).ravel() for f in (X.min, X.max))
        else:
            mean = X.mean(axis=0, dtype=np.float64)
            deviations = X - mean
            squares = np.square(deviations, out=deviations).sum(axis=0)
            low, high = X.min(axis=0), X.max(axis=0)
        low, high = low.astype(np.float64), high.astype(np.float64)  # differences of int8 would wrap
        return self.combine(state, Moments(n, mean, np.maximum(squares, 0), low, high))

    @np.errstate(over="ignore", invalid="ignore")
    def combine(self, left: Moments, right: Moments) -> Moments:
        n = left.count + right.count
        if left.count == 0 or right.count == 0:
            return left if right.count == 0 else right
        delta = right.mean - left.mean
        return Moments(
            n,
            left.mean + delta * (right.count / n),
            left.squares + right.squares + delta**2 * (left.count * right.count / n),
            np.minimum(left.low, right.low),
            np.maximum(left.high, right.high),
        )


def column_moments(X: Any) -> Moments:
    """Moments of the columns, in one pass.

    Parameters
    ----------
    X : array, CSR matrix or Dask array of shape (n, d)

    Returns
    -------
    Moments

    Raises
    ------
    InputError
        A value is not finite.
    """
    return run_pass(
        MomentsReduction(X.shape[1]), [X], label="moments", block_rows=rows_per_block(8 * X.shape[1])
    )


@dataclass(frozen=True)
class CovarianceReduction:
    """Count, sum and products of rows of d columns less a shift."""

    d: int
    shift: tuple[float, ...]

    @property
    def nbytes(self) -> int:
        return 8 * self.d * (self.d + 1)

    @property
    def flops_per_row(self) -> float:
        return 2.0 * self.d**2

    @property
    def scratch_per_row(self) -> int:
        return 8 * self.d  # rows less the shift, dense

    @property
    def scratch_bytes(self) -> int:
        return 8 * self.d**2  # the product, before it is added

    def initial(self) -> list[Any]:
        return [0, np.zeros(self.d), np.zeros((self.d, self.d))]

    def update(self, state: list[Any], first_row: int, X: Any) -> list[Any]:
        X = check_rows(X, self.d)
        D = (X.toarray() if sp.issparse(X) else X) - np.asarray(self.shift)
        state[0] += X.shape[0]
        state[1] += D.sum(axis=0)
        state[2] += D.T @ D
        return state

    def combine(self, left: list[Any], right: list[Any]) -> list[Any]:
        return [a + b for a, b in zip(left, right, strict=True)]


def covariance(X: Any) -> np.ndarray:
    """Covariance of the columns, in one pass about a shift near the mean.

    Parameters
    ----------
    X : array, CSR matrix or Dask array of shape (n, d)

    Returns
    -------
    float64 array of shape (d, d)
        A column that varies by rounding alone counts as constant: its row and its column here are exactly zero.

    Raises
    ------
    InputError
        A value is not finite.
    """
    shift = take_rows(X, sampled_rows(X.shape[0], 64, 0, "shift")).mean(axis=0, dtype=np.float64)
    reduction = CovarianceReduction(X.shape[1], tuple(float(s) for s in shift))
    count, total, squares = run_pass(
        reduction, [X], label="covariance", block_rows=rows_per_block(8 * X.shape[1])
    )
    mean = total / count
    C = squares / count - np.outer(mean, mean)
    same = np.diag(C) <= (10 * np.finfo(np.float64).eps * (shift + mean)) ** 2
    C[same] = 0.0
    C[:, same] = 0.0
    return C
