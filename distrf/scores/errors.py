"""Errors of predicted numbers: weighted sums over rows, and the scores that follow from them. Number code."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..errors import InputError
from ..execution.passes import SizedState
from ..targets import checked_weights, float_columns, r2_of_sums


@dataclass
class ErrorSums(SizedState):
    """Weighted sums over rows: weight, errors, and moments of y, each of shape (outputs,).

    Attributes
    ----------
    weight : float
    sums : shape (3, outputs)
        Squared errors, absolute errors and squares of y.
    mean, spread : shape (outputs,)
        Of y, and its squared deviations from it.
    """

    weight: float = 0.0
    sums: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    mean: np.ndarray = field(default_factory=lambda: np.empty(0))
    spread: np.ndarray = field(default_factory=lambda: np.empty(0))

    nbytes = 512  # of a few outputs

    def add(self, y: np.ndarray, predicted: np.ndarray, weight: np.ndarray | None = None) -> None:
        """Count the rows of a block.

        Parameters
        ----------
        y, predicted : arrays of shape (rows,) or (rows, outputs)
        weight : array of shape (rows,), optional

        Raises
        ------
        InputError
            The columns differ, or a weight is negative or not finite.
        """
        y, predicted = float_columns(y), float_columns(predicted)
        if y.shape != predicted.shape:
            raise InputError(f"predictions have {predicted.shape[1]} columns, y has {y.shape[1]}")
        w = np.ones(len(y)) if weight is None else checked_weights(weight, y)
        total, missed = float(w.sum()), y - predicted
        mean = w @ y / total if total > 0 else np.zeros(y.shape[1])
        sums = np.stack([w @ losses for losses in (missed**2, np.abs(missed), y**2)])
        self.merge(ErrorSums(total, sums, mean, w @ (y - mean) ** 2))

    def merge(self, other: ErrorSums) -> None:
        """Count the rows of another state, which is left as it is."""
        if not other.mean.size:
            return
        if not self.mean.size:
            vars(self).update(vars(other))
            return
        total = self.weight + other.weight
        share = other.weight / total if total > 0 else 0.0
        delta = other.mean - self.mean
        self.spread = self.spread + other.spread + self.weight * share * delta**2
        self.mean = self.mean + share * delta
        self.sums = self.sums + other.sums
        self.weight = total

    @property
    def rmse(self) -> float:
        """Root mean square error, the mean over outputs."""
        return float(np.sqrt(self.sums[0] / self.weight).mean())

    @property
    def mae(self) -> float:
        """Mean absolute error, the mean over outputs."""
        return float((self.sums[1] / self.weight).mean())

    @property
    def relative_rmse(self) -> float | None:
        """Error over the root mean square of y, all outputs as one; None where y is 0 everywhere."""
        norm = self.sums[2].sum()
        return float(np.sqrt(self.sums[0].sum() / norm)) if norm > 0 else None

    @property
    def r2(self) -> float:
        """R^2, the mean over outputs; a constant output counts 1 if it is predicted exactly, else 0."""
        return float(r2_of_sums(self.sums[0], self.spread, self.spread).mean())
