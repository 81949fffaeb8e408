"""Errors of predicted numbers: weighted sums over rows, and the scores that follow from them. Number code."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

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

    def scores(self) -> dict[str, Any]:
        """R^2, root mean square error, that over the root mean square of y, and mean absolute error; means over outputs.

        A constant output has an R^2 of 1 if it is predicted exactly, else 0. "relative_rmse" takes all outputs as one, and is
        None where y is 0 everywhere.
        """
        squares, sizes, norms = self.sums
        return {
            "r2": float(r2_of_sums(squares, self.spread, self.spread).mean()),
            "rmse": float(np.sqrt(squares / self.weight).mean()),
            "relative_rmse": float(np.sqrt(squares.sum() / norms.sum())) if norms.sum() > 0 else None,
            "mae": float((sizes / self.weight).mean()),
        }
