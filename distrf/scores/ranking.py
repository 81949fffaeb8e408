"""ROC AUC and average precision in one pass: a state of bounded size. Number code.

The state counts the weight of the rows of a class, and that of the others, in bins of the score. Each distinct score has
a bin of its own as long as there are at most m of them. Then all is exact: rows with the same score count as tied.

Beyond m the bins are wider. A floating-point number becomes an integer that keeps the order (its bits; those of a negative
number but the sign are flipped). Bins of level h are the integers without their last h bits, so a bin of level h + 1 is
two of level h. The level is the least one at which at most m bins hold rows. Hence the state is a function of the rows
alone, in whatever order they come and are added up, but for rounding of the sums of weights. Bins of one octave have equal
width. Only bins that hold rows count: scores far from 0 and close to each other, or few far ones, do not make them wide.

A bin also knows its least and its greatest score. If they are the same, its rows are tied, and it is exact at any level.
The rows of another bin count as if those of both classes were evenly mixed, which for the AUC is as if they were tied. What
that is off by is of second order in the width of the bins.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..errors import InputError, first_not_finite
from ..execution.passes import SizedState
from ..targets import checked_weights

#: Bins of one ranking: 2 MiB.
BINS = 2**16
#: Bins of all rankings of a pass together, 8 MiB, and of each at least.
_ALL_BINS, _FEWEST = 2**18, 2**9


def bins_of_each(rankings: int) -> int:
    """Bins of each of several rankings, whose states travel together; 0 if there are too many of them."""
    each = min(BINS, _ALL_BINS // max(rankings, 1))
    return each if each >= _FEWEST else 0


@dataclass
class Ranking(SizedState):
    """Weight of the rows of a class and of the others by score, exact up to m distinct scores.

    Parameters
    ----------
    m : int, default 65536
        Most bins; at least 2.

    Attributes
    ----------
    level : int
        Last bits of a score that do not count.
    rows : int
        Rows, of positive weight.
    keys : int64 array of shape (2, bins)
        The least and the greatest score of each bin (`first`, `last`), as ordered integers, in ascending order.
    weights : float64 array of shape (2, bins)
        Weight of the rows of the class, and of the others (`positive`, `negative`).
    """

    m: int = BINS
    level: int = 0
    rows: int = 0
    keys: np.ndarray = field(default_factory=lambda: np.empty((2, 0), dtype=np.int64))
    weights: np.ndarray = field(default_factory=lambda: np.empty((2, 0)))

    first, last = property(lambda self: self.keys[0]), property(lambda self: self.keys[1])
    positive, negative = property(lambda self: self.weights[0]), property(lambda self: self.weights[1])

    @property
    def nbytes(self) -> int:
        """Most bytes of the state, however many rows come."""
        return 32 * self.m

    def add(self, scores: np.ndarray, positive: np.ndarray, weight: np.ndarray | None = None) -> None:
        """Count the rows of a block.

        Parameters
        ----------
        scores : array of shape (rows,)
        positive : array of bool of shape (rows,), which rows have the class
        weight : array of shape (rows,), optional
            Rows of weight 0 do not count.

        Raises
        ------
        InputError
            A score is not finite, or a weight is negative or not finite.
        """
        if bad := first_not_finite(scores):
            raise InputError(f"scores must be finite, but row {bad[0]} of the block is {bad[2]}")
        keys, positive = _ordered(scores), np.asarray(positive, dtype=bool)
        w = np.ones(len(keys)) if weight is None else checked_weights(weight, keys)
        order = np.argsort(keys, kind="stable")
        order = order if weight is None else order[w[order] > 0]
        self.rows += len(order)
        keys, w, positive = keys[order], w[order], positive[order]
        self._join(np.stack([keys, keys]), np.stack([w * positive, w * ~positive]))

    def merge(self, other: Ranking) -> None:
        """Count the rows of another state, which is left as it is."""
        self.level, self.rows = max(self.level, other.level), self.rows + other.rows
        self._join(other.keys, other.weights)

    def _join(self, keys: np.ndarray, weights: np.ndarray) -> None:
        """Add bins in ascending order, and widen all until there are at most m."""
        keys, weights = _grouped(keys, weights, self.level)
        if self.keys.size:
            keys, weights = np.hstack([self.keys, keys]), np.hstack([self.weights, weights])
            order = np.argsort(keys[0], kind="stable")  # two runs in order: they are merged
            keys, weights = _grouped(keys[:, order], weights[:, order], self.level)
        if (bins := keys.shape[1]) > self.m:
            # At a level, bins are apart whose scores differ in a bit above it: as many as may be are.
            bits = (keys[0, 1:] ^ keys[0, :-1]).view(np.uint64)
            highest = np.frexp((bits & ~(bits >> np.uint64(1))).astype(np.float64))[1]
            self.level = int(np.partition(highest, bins - 1 - self.m)[bins - 1 - self.m])
            keys, weights = _grouped(keys, weights, self.level)
        self.keys, self.weights = keys, weights

    # --- scores ----------------------------------------------------------------------------------------------

    @property
    def defined(self) -> bool:
        """Whether there are rows of the class, and others."""
        return bool(self.positive.sum() > 0 and self.negative.sum() > 0)

    def roc_auc(self) -> float:
        """The area under the ROC curve: how often a row of the class scores above another, ties counting one half; or NaN."""
        if not self.defined:
            return np.nan
        below = np.cumsum(self.negative) - self.negative / 2
        return float((self.positive * below).sum() / (self.positive.sum() * self.negative.sum()))

    def average_precision(self, of_others: bool = False) -> float:
        """The mean over the rows of the class of the precision at their score; NaN where the class has no rows.

        of_others : whether the other rows are taken for the class, and low scores for high ones
        """
        p, n = (self.negative, self.positive) if of_others else (self.positive[::-1], self.negative[::-1])
        if not p.sum() > 0:
            return np.nan
        found, false = np.cumsum(p), np.cumsum(n)
        # In the middle of a bin of several scores, with one row of the class at least: a rare class stands alone in its bins.
        loose = (self.first < self.last) if of_others else (self.first < self.last)[::-1]
        row = np.minimum(self.weights.sum() / max(self.rows, 1), p)
        found, false = found - loose * (p - row) / 2, false - loose * n / 2
        return float((p * found / np.maximum(found + false, np.finfo(float).tiny)).sum() / p.sum())

    @property
    def weighted_labels(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The bins as rows: whether they have the class, scores in the order of the bins, and weights; each of shape (2 bins,)."""
        bins = np.arange(len(self.first))
        return np.repeat([True, False], len(bins)), np.tile(bins, 2), self.weights.ravel()


def _ordered(scores: np.ndarray) -> np.ndarray:
    """Integers in the order of the scores, of which -0 and 0 are one."""
    bits = (np.asarray(scores, dtype=np.float64) + 0.0).view(np.int64)
    return bits ^ ((bits >> 63) & np.int64(2**63 - 1))


def _grouped(keys: np.ndarray, weights: np.ndarray, level: int) -> tuple[np.ndarray, np.ndarray]:
    """Add up bins, in ascending order, that are one at a level."""
    new = np.flatnonzero(np.diff(keys[0] >> level)) + 1
    if len(new) + 1 >= keys.shape[1]:
        return keys, weights
    starts = np.concatenate([[0], new])
    last = np.maximum.reduceat(keys[1], starts)
    return np.stack([keys[0, starts], last]), np.add.reduceat(weights, starts, axis=1)
