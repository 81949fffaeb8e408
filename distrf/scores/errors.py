"""Errors of predicted numbers, losses of predicted probabilities: weighted sums over rows, and their scores. Number code."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import InputError
from ..execution.passes import SizedState
from ..targets import checked_weights, float_columns
from .labels import as_labels, codes_of

#: Bins of equal width of what probabilities say.
_BINS = 10


@dataclass
class ErrorSums(SizedState):
    """Weighted sums over rows: weight, errors, and moments of y, each of shape (outputs,).

    Attributes
    ----------
    rows : int
    weight : float
    sums : shape (2, outputs)
        Squared errors and absolute errors.
    mean, spread : shape (outputs,)
        Of y, and its squared deviations from it.
    """

    rows: int = 0
    weight: float = 0.0
    sums: np.ndarray = field(default_factory=lambda: np.zeros((2, 1)))
    mean: np.ndarray = field(default_factory=lambda: np.zeros(1))
    spread: np.ndarray = field(default_factory=lambda: np.zeros(1))

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
        sums = np.stack([w @ missed**2, w @ np.abs(missed)])
        self.merge(ErrorSums(len(y), total, sums, mean, w @ (y - mean) ** 2))

    def merge(self, other: ErrorSums) -> None:
        """Count the rows of another state, which is left as it is."""
        self.rows += other.rows
        total = self.weight + other.weight
        share = other.weight / total if total > 0 else 0.0
        delta = other.mean - self.mean
        self.spread = self.spread + other.spread + self.weight * share * delta**2
        self.mean = self.mean + share * delta
        self.sums = self.sums + other.sums
        self.weight = total

    def scores(self) -> dict[str, float]:
        """R^2, root mean square error and mean absolute error; means over outputs.

        A constant output has an R^2 of 1 if it is predicted exactly, else 0.
        """
        squares, sizes = self.sums
        varies = self.spread > 0
        r2 = np.where(varies, 1.0 - squares / np.where(varies, self.spread, 1.0), squares <= 0)
        r2 = r2 if self.weight > 0 else np.full(len(r2), np.nan)
        return {
            "r2": float(r2.mean()),
            "rmse": float(np.sqrt(squares / self.weight).mean()),
            "mae": float((sizes / self.weight).mean()),
        }

    def report(self) -> dict[str, Any]:
        """All scores as plain JSON."""
        return {"score": "r2", "rows": self.rows, **self.scores(), "score_of_constant": 0.0}


@dataclass
class ProbabilitySums(SizedState):
    """Weighted sums over rows of losses of probabilities, and of what they say in bins of equal width.

    With two classes a bin takes the probability of the second class, and whether the row has it. With more it takes the
    largest probability, and whether its class is the row's.

    Parameters
    ----------
    classes : array of shape (c,)
        In ascending order: a column of probabilities for each.

    Attributes
    ----------
    sums : float64 array of shape (3,)
        Weight of the rows, log losses, Brier scores.
    bins : float64 array of shape (3, 10)
        Weight of the rows, sum of their probabilities, weight of those for which it came true.
    """

    classes: np.ndarray
    sums: np.ndarray = field(default_factory=lambda: np.zeros(3))
    bins: np.ndarray = field(default_factory=lambda: np.zeros((3, _BINS)))

    weight = property(lambda self: float(self.sums[0]))

    @property
    def nbytes(self) -> int:
        return 64 + self.bins.nbytes + self.classes.nbytes

    def add(self, y: np.ndarray, p: np.ndarray, weight: np.ndarray | None = None) -> None:
        """Count the rows of a block.

        Parameters
        ----------
        y : array of shape (rows,), labels
            The probability of one that is not among the classes is 0.
        p : array of shape (rows, c), floating-point
            Probabilities.
        weight : array of shape (rows,), optional
        """
        codes = codes_of(self.classes, as_labels(y))
        w = np.ones(len(p)) if weight is None else checked_weights(weight, codes)
        rows, eps, two = np.arange(len(p)), np.finfo(p.dtype).eps, p.shape[1] == 2
        own = np.where(codes >= 0, p[rows, codes], 0.0).astype(p.dtype)
        squares = (p.astype(np.float64) ** 2).sum(axis=1) + (1 - 2 * own.astype(np.float64))
        logs = np.log(np.clip(own, eps, 1 - eps), dtype=np.float64)
        self.sums += w.sum(), -(w @ logs), (w @ squares) * (0.5 if two else 1.0)
        best = np.ones(len(p), dtype=np.intp) if two else p.argmax(axis=1)
        told = p[rows, best]
        place = np.searchsorted(np.linspace(0.0, 1.0, _BINS + 1)[1:-1], told)
        for total, values in zip(self.bins, (w, w * told, w * (codes == best)), strict=True):
            total += np.bincount(place, values, _BINS)

    def merge(self, other: ProbabilitySums) -> None:
        """Count the rows of another state, which is left as it is."""
        self.sums += other.sums
        self.bins += other.bins

    def scores(self) -> dict[str, float]:
        """Means over the rows; NaN without any.

        The log loss is -log of the probability of the class of a row, cut off at the precision of the probabilities; the Brier
        score the squared error: for two classes of the probability of either, else summed over the classes.
        """
        means = self.sums[1:] / self.weight if self.weight > 0 else [np.nan, np.nan]
        return {"log_loss": float(means[0]), "brier": float(means[1])}

    @property
    def calibration(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of each bin that has rows: the share for which it came true, the mean probability, the weight of the rows."""
        weight, told, true = self.bins[:, self.bins[0] > 0]
        return true / weight, told / weight, weight
