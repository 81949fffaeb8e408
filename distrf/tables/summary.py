"""What one pass learns of the columns of coded rows: quantiles, moments, levels, and the targets of levels."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
from dask.base import is_dask_collection

from ..execution.passes import run_pass
from ..maps.table_columns import FOLDS, given_cells, row_folds
from ..maps.table_missing import UNREAD, is_missing, with_missing
from ..randomness import mixed_words
from ..targets import Targets
from .frequent import FrequentCodes

#: Rows of the sample from which quantiles are taken, at most and, of wide rows, at least; and its bytes.
_MOST_ROWS, _FEWEST_ROWS, _SAMPLE_BYTES = 100_000, 1024, 2**25
#: Bytes of the levels of all columns, and the levels of a column at least and at most.
_BYTES, _FEWEST, _MOST = 2**25, 32, 2**16
_DAY = 86_400.0
#: Rows of a block of rows in memory.
_BLOCK_ROWS = 2**17


@dataclass
class NumberSummary:
    """The numbers of a column: mean, spread and range of all rows, and those of a sample, from which quantiles are taken.

    Attributes
    ----------
    rows, missing : int
        Rows with a value and without.
    unread : int
        Of those without: that have something that is no number.
    mean, squares : float
        Mean, and sum of squared distances from it.
    low, high : float
    timed : bool
        Whether a number is no whole multiple of a day.
    values : float64 array, ascending
        Those of the sample; set after the pass.
    """

    rows: int = 0
    missing: int = 0
    mean: float = 0.0
    squares: float = 0.0
    low: float = np.inf
    high: float = -np.inf
    timed: bool = False
    values: np.ndarray = field(default_factory=lambda: np.empty(0))
    unread: int = 0

    @property
    def variance(self) -> float:
        """Of the numbers; 0 if there are none, inf where it overflows."""
        return self.squares / self.rows if self.rows else 0.0

    def quantiles(self, shares: npt.ArrayLike) -> np.ndarray:
        """Values below which the given shares of the rows lie: to 0.16 % of them, beyond 100,000 rows."""
        shares = np.asarray(shares, dtype=np.float64)
        held = self.values if len(self.values) else np.array([self.low, self.mean, self.high])
        found = np.quantile(held, np.clip(shares, 0.0, 1.0), method="inverted_cdf")
        return np.where(shares <= 0, self.low, np.where(shares >= 1, self.high, found))

    def add(self, x: np.ndarray) -> None:
        """Add the rows of a block."""
        absent = is_missing(x)
        self.missing += int(absent.sum())
        self.unread += int((x == UNREAD).sum())
        x = x[~absent]
        if len(x):
            with np.errstate(over="ignore", invalid="ignore"):
                mean = float(x.mean())
                squares = float(((x - mean) ** 2).sum())
            timed = bool((np.fmod(x, _DAY) != 0).any())
            self.merge(NumberSummary(len(x), 0, mean, squares, float(x.min()), float(x.max()), timed))

    def merge(self, other: NumberSummary) -> None:
        """Add the rows of another state: the pairwise update of Chan, Golub & LeVeque 1983."""
        self.missing += other.missing
        self.unread += other.unread
        if other.rows:
            with np.errstate(over="ignore", invalid="ignore"):
                apart, share = np.float64(other.mean) - self.mean, other.rows / (self.rows + other.rows)
                self.squares = float(self.squares + other.squares + apart * apart * self.rows * share)
                self.mean = float(self.mean + apart * share)
            self.rows += other.rows
            self.low, self.high = min(self.low, other.low), max(self.high, other.high)
            self.timed = self.timed or other.timed


@dataclass
class TableSummary:
    """The state of the pass.

    Attributes
    ----------
    rows : int
    columns : dict of int to NumberSummary
        By the number of the column.
    levels : dict of int to FrequentCodes
        Of the columns whose levels are counted; among their codes is MISSING.
    totals : float64 array of shape (FOLDS, 1 + C)
        The rows of each fold, and the sums of their encoded targets.
    squares : float64 array of shape (C,)
        Sums of their squares over all rows.
    sample : float64 array of shape (rows, columns of numbers)
        Of the rows whose numbers have small hashes: a function of the rows alone, in whatever blocks they come.
    """

    rows: int
    columns: dict[int, NumberSummary]
    levels: dict[int, FrequentCodes]
    totals: np.ndarray
    squares: np.ndarray
    sample: np.ndarray

    def __sizeof__(self) -> int:
        held = [*self.columns.values(), *self.levels.values(), self.totals, self.squares, self.sample]
        return object.__sizeof__(self) + sum(map(sys.getsizeof, held))


@dataclass(frozen=True)
class SummaryReduction:
    """Sketches every column of coded rows by its kind.

    Parameters
    ----------
    numbers, levels : tuples of int
        The columns of numbers, dates and the like, and those of categories; codes are both.
    n_rows : int
        Of all blocks.
    targets : Targets, optional
        The encoding of the targets, which are summed by level and fold; None where there are none.
    """

    numbers: tuple[int, ...]
    levels: tuple[int, ...]
    n_rows: int
    targets: Targets | None = None

    @property
    def width(self) -> int:
        """Columns of the encoded targets."""
        return 0 if self.targets is None else self.targets.width

    @property
    def most_levels(self) -> int:
        """How many levels of a column are held."""
        each = 8 * (2 + FOLDS * (1 + self.width) * (self.targets is not None)) * max(1, len(self.levels))
        return int(min(max(_BYTES // each, _FEWEST), _MOST))

    @property
    def sampled_rows(self) -> int:
        """About how many rows the sample holds."""
        fit = max(_SAMPLE_BYTES // (8 * (1 + len(self.numbers))), _FEWEST_ROWS)
        return min(fit, _MOST_ROWS, max(self.n_rows, 1)) if self.numbers else 1

    def _levels(self) -> FrequentCodes:
        return FrequentCodes(self.most_levels, FOLDS if self.targets is not None else 0, self.width)

    @property
    def nbytes(self) -> int:
        sample = 8 * self.sampled_rows * (1 + len(self.numbers))
        return 2 * sample + 256 * len(self.numbers) + len(self.levels) * self._levels().nbytes

    @property
    def flops_per_row(self) -> float:
        return 500.0 * (len(self.numbers) + len(self.levels))  # sorting

    def initial(self) -> TableSummary:
        C = self.width
        columns = {j: NumberSummary() for j in self.numbers}
        levels = {j: self._levels() for j in self.levels}
        sample = np.empty((0, len(self.numbers)))
        return TableSummary(0, columns, levels, np.zeros((FOLDS, 1 + C)), np.zeros(C), sample)

    def update(
        self,
        state: TableSummary,
        first_row: int,
        X: np.ndarray,
        y: np.ndarray | None = None,
        given: np.ndarray | None = None,
    ) -> TableSummary:
        X = np.asarray(X, dtype=np.float64)
        Y = folds = None
        state.rows += len(X)
        if self.targets is not None:
            assert y is not None
            Y, folds = self.targets.encode(y, None)[0], _cells(first_row, len(X), given)
            state.totals[:, 0] += np.bincount(folds, minlength=FOLDS)
            for c in range(self.width):
                state.totals[:, 1 + c] += np.bincount(folds, Y[:, c], FOLDS)
            state.squares += (Y * Y).sum(axis=0)
        if self.numbers:
            words = mixed_words(np.arange(first_row, first_row + len(X), dtype=np.uint64))
            taken = words <= np.uint64((2**64 - 1) * self.sampled_rows // max(self.n_rows, 1))
            state.sample = np.concatenate([state.sample, X[taken][:, list(self.numbers)]])
        for j, column in state.columns.items():
            column.add(X[:, j])
        for j, levels in state.levels.items():
            levels.add(with_missing(X[:, j]), folds, Y)
        return state

    def combine(self, left: TableSummary, right: TableSummary) -> TableSummary:
        for j, column in left.columns.items():
            column.merge(right.columns[j])
        for j, levels in left.levels.items():
            levels.merge(right.levels[j])
        left.rows += right.rows
        left.totals += right.totals
        left.squares += right.squares
        left.sample = np.concatenate([left.sample, right.sample])
        return left


def summarise(X: Any, reduction: SummaryReduction, y: Any = None, folds: Any = None) -> TableSummary:
    """The summary of coded rows, in one pass.

    Parameters
    ----------
    X : array or Dask array of shape (n, d)
        Coded rows.
    reduction : SummaryReduction
    y : array or Dask array of shape (n,) or (n, C), optional
        If the reduction encodes targets.
    folds : array or Dask array of shape (n,), optional
        Folds that are given.

    Returns
    -------
    TableSummary
    """
    more = [] if reduction.targets is None else [y] if folds is None else [y, folds]
    summary = run_pass(reduction, [X, *more], label="columns", block_rows=_BLOCK_ROWS)
    for j, values in zip(reduction.numbers, summary.sample.T, strict=True):
        summary.columns[j].values = np.sort(values[~is_missing(values)])
    return summary


def with_folds(X: Any, folds: Any = None) -> Any:
    """Coded rows with the folds of their target means as one more column.

    Parameters
    ----------
    X : array or Dask array of shape (n, d)
    folds : array or Dask array of shape (n,), optional
        Folds that are given.

    Returns
    -------
    array or Dask array of shape (n, d + 1)
    """
    given = [] if folds is None else [folds[:, None]]
    if not is_dask_collection(X):
        return _append_folds(X, *given)
    chunks = (X.chunks[0], (X.shape[1] + 1,))
    return da.map_blocks(_append_folds, X, *given, chunks=chunks, dtype=np.float64, meta=np.empty((0, 0)))


def _append_folds(X: np.ndarray, given: np.ndarray | None = None, block_info: Any = None) -> np.ndarray:
    first = block_info[0]["array-location"][0][0] if block_info else 0
    return np.column_stack([X, _cells(first, len(X), given)])


def _cells(first: int, rows: int, given: np.ndarray | None) -> np.ndarray:
    return row_folds(first, rows) if given is None else given_cells(first, np.ravel(given))
