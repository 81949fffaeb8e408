"""Frequent values of one column in one pass, with sums of the targets of their rows by fold.

The counters are those of Misra & Gries 1982, merged as in Agarwal et al. 2012, "Mergeable summaries": counts of equal codes are
added, and if more than k codes remain, the (k + 1)-th largest count is subtracted from all, and what is not positive goes.

The error. Such a step lowers a count by c, the (k + 1)-th largest, or to 0 from less; `lost` sums the c. So the rows of any code,
held or not, are between its count and its count + `lost`. And each step takes c from k + 1 counts at least, so
(k + 1) lost <= rows - the sum of the counts. With at most k codes nothing is lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..execution.passes import SizedState


@dataclass
class FrequentCodes(SizedState):
    """Counts of the most frequent values of a column, exact if there are at most k.

    The caller leaves missing values out: NaN, and whatever number marks them.

    Parameters
    ----------
    k : int
        Most codes that are held; at least 1.
    n_folds : int, default 0
        Folds of which weights and targets are summed apart; 0: nothing but counts.
    n_outputs : int, default 0
        Targets of a row.

    Attributes
    ----------
    rows, lost : int
        Rows, and how many of them at most any count leaves out; at most rows / (k + 1).
    codes : float64 array of shape (up to k,)
        In ascending order.
    counts : int64 array of shape (codes,)
    sums : float64 array of shape (codes, n_folds, 1 + n_outputs)
        The rows of a code in each fold, then the sums of their targets. Those of a code
        that was dropped and came back begin with its return: they are over at least `counts` rows, so their ratios are
        means of a part of the rows.
    """

    k: int
    n_folds: int = 0
    n_outputs: int = 0
    rows: int = 0
    lost: int = 0
    codes: np.ndarray = field(default_factory=lambda: np.empty(0))
    counts: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    sums: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.sums = np.zeros((0, self.n_folds, 1 + self.n_outputs))

    @property
    def nbytes(self) -> int:
        """Most bytes of the state, however many rows come."""
        return 8 * self.k * (2 + self.n_folds * (1 + self.n_outputs))

    def add(
        self, codes: np.ndarray, folds: np.ndarray | None = None, targets: np.ndarray | None = None
    ) -> None:
        """Count the rows of a block.

        Parameters
        ----------
        codes : array of shape (rows,)
        folds : int array of shape (rows,)
            From 0 to n_folds - 1; needed if there are folds.
        targets : array of shape (rows, n_outputs)
            Needed if there are outputs.
        """
        codes = np.asarray(codes, dtype=np.float64) + 0.0  # -0.0 becomes 0.0
        self.rows += len(codes)
        found, inverse, counts = np.unique(codes, return_inverse=True, return_counts=True)
        place = self._count(found, counts)[inverse]
        if folds is None:
            return
        held = place >= 0
        cell, sums = place[held] * self.n_folds + folds[held], self.sums.reshape(-1, 1 + self.n_outputs)
        sums[:, 0] += np.bincount(cell, minlength=len(sums))
        for c, target in enumerate(() if targets is None else targets[held].T, 1):
            sums[:, c] += np.bincount(cell, target, len(sums))

    def merge(self, other: FrequentCodes) -> None:
        """Count the rows of another state, which is left as it is."""
        self.rows += other.rows
        self.lost += other.lost
        place = self._count(other.codes, other.counts)
        self.sums[place[place >= 0]] += other.sums[place >= 0]

    def _count(self, codes: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Add counts of distinct codes and drop the rarest codes.

        Returns
        -------
        int array of shape (codes,)
            The place of each among the codes that are held now; -1 for those that are not.
        """
        both = np.concatenate([self.codes, codes])
        # With the index, NumPy sorts by merging: two sorted halves take a tenth of the time.
        union, _, inverse = np.unique(both, return_index=True, return_inverse=True)
        old, new = inverse[: len(self.codes)], inverse[len(self.codes) :]
        total = np.zeros(len(union), dtype=np.int64)
        total[old] += self.counts
        total[new] += counts
        if len(union) > self.k:
            least = np.partition(total, len(total) - self.k - 1)[len(total) - self.k - 1]
            total -= least
            self.lost += int(least)
        held = total > 0
        place = np.where(held, np.cumsum(held) - 1, -1)
        sums = np.zeros((int(held.sum()), *self.sums.shape[1:]))
        sums[place[old][held[old]]] = self.sums[held[old]]
        self.codes, self.counts, self.sums = union[held], total[held], sums
        return place[new]
