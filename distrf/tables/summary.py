"""What one pass learns of the columns of coded rows: quantiles, moments, levels, and the targets of levels."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
from dask.base import is_dask_collection

from ..execution.passes import run_pass
from ..maps.table_columns import FOLDS, given_cells, row_folds
from ..maps.table_missing import is_missing
from ..targets import Targets
from .frequent import FrequentCodes
from .quantiles import QuantileSketch, levels_for

#: Values of a level of a quantile sketch.
_SKETCH = 1024
#: Bytes of the levels of all columns, and the levels of a column at least and at most.
_BYTES, _FEWEST, _MOST = 2**25, 256, 2**16
_DAY = 86_400.0
#: Rows of a block of rows in memory.
_BLOCK_ROWS = 2**17


@dataclass
class NumberSummary:
    """The numbers of a column: their quantiles, mean and spread.

    Attributes
    ----------
    sketch : QuantileSketch
    missing : int
        Rows without a value.
    mean, squares : float
        Mean, and sum of squared distances from it.
    timed : bool
        Whether a number is no whole multiple of a day.
    """

    sketch: QuantileSketch
    missing: int = 0
    mean: float = 0.0
    squares: float = 0.0
    timed: bool = False

    @property
    def variance(self) -> float:
        """Of the numbers; 0 if there are none, inf where it overflows."""
        return self.squares / self.sketch.weight if self.sketch.weight > 0 else 0.0

    def add(self, x: np.ndarray) -> None:
        """Add the rows of a block."""
        absent = is_missing(x)
        self.missing += int(absent.sum())
        values = x[~absent]
        if not len(values):
            return
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(values.mean())
            squares = float(((values - mean) ** 2).sum())
        self._join(float(len(values)), mean, squares)
        self.timed = self.timed or bool((np.fmod(values, _DAY) != 0).any())
        self.sketch.add(values)

    def merge(self, other: NumberSummary) -> None:
        """Add the rows of another state."""
        self.missing += other.missing
        self._join(other.sketch.weight, other.mean, other.squares)
        self.timed = self.timed or other.timed
        self.sketch.merge(other.sketch)

    def _join(self, weight: float, mean: float, squares: float) -> None:
        """The pairwise update of Chan, Golub & LeVeque 1983; called before the sketch gets the rows."""
        before = self.sketch.weight
        if weight > 0:
            with np.errstate(over="ignore", invalid="ignore"):
                apart = np.float64(mean) - self.mean
                share = weight / (before + weight)
                self.squares = float(self.squares + squares + apart * apart * before * share)
                self.mean = float(self.mean + apart * share)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + sys.getsizeof(self.sketch)


@dataclass
class TableSummary:
    """The state of the pass.

    Attributes
    ----------
    rows : int
    columns : dict of int to NumberSummary or FrequentCodes
        By the number of the column. Among the codes of the latter is MISSING.
    totals : float64 array of shape (FOLDS, 1 + C)
        The rows of each fold, and the sums of their encoded targets.
    squares : float64 array of shape (C,)
        Sums of their squares over all rows.
    """

    rows: int
    columns: dict[int, NumberSummary | FrequentCodes]
    totals: np.ndarray
    squares: np.ndarray

    def __sizeof__(self) -> int:
        held = [*self.columns.values(), self.totals, self.squares]
        return object.__sizeof__(self) + sum(map(sys.getsizeof, held))


@dataclass(frozen=True)
class SummaryReduction:
    """Sketches every column of coded rows by its kind.

    Parameters
    ----------
    numbers, levels : tuples of int
        The columns of numbers, dates and the like, and those of categories.
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

    def _empty(self, j: int) -> NumberSummary | FrequentCodes:
        if j in self.numbers:
            return NumberSummary(QuantileSketch(_SKETCH, levels_for(self.n_rows, _SKETCH) + 4))
        return FrequentCodes(self.most_levels, FOLDS if self.targets is not None else 0, self.width)

    @property
    def columns(self) -> list[int]:
        """All columns that are sketched."""
        return sorted([*self.numbers, *self.levels])

    @property
    def nbytes(self) -> int:
        each = [self._empty(j) for j in self.columns]
        return sum(c.sketch.nbytes if isinstance(c, NumberSummary) else c.nbytes for c in each)

    @property
    def flops_per_row(self) -> float:
        return 500.0 * len(self.columns)  # sorting

    def initial(self) -> TableSummary:
        C = self.width
        empty = {j: self._empty(j) for j in self.columns}
        return TableSummary(0, empty, np.zeros((FOLDS, 1 + C)), np.zeros(C))

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
        for j, column in state.columns.items():
            if isinstance(column, NumberSummary):
                column.add(X[:, j])
            elif column.n_folds:
                column.add(X[:, j], folds, Y)
            else:
                column.add(X[:, j])
        return state

    def combine(self, left: TableSummary, right: TableSummary) -> TableSummary:
        for j, column in left.columns.items():
            column.merge(right.columns[j])  # type: ignore[arg-type]
        left.rows += right.rows
        left.totals += right.totals
        left.squares += right.squares
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
    return run_pass(reduction, [X, *more], label="columns", block_rows=_BLOCK_ROWS)


__all__ = ["NumberSummary", "SummaryReduction", "TableSummary", "summarise"]


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
        return _append_folds(X, np.zeros(1, dtype=np.int64), *given)
    firsts = np.concatenate([[0], np.cumsum(X.chunks[0])[:-1]])[:, None]
    chunks = (X.chunks[0], (X.shape[1] + 1,))
    return da.map_blocks(
        _append_folds,
        X,
        da.from_array(firsts, chunks=(1, 1)),
        *given,
        chunks=chunks,
        dtype=np.float64,
        meta=np.empty((0, 0)),
    )


def _append_folds(X: np.ndarray, first: np.ndarray, given: np.ndarray | None = None) -> np.ndarray:
    return np.column_stack([X, _cells(int(np.ravel(first)[0]), len(X), given)])


def _cells(first: int, rows: int, given: np.ndarray | None) -> np.ndarray:
    return row_folds(first, rows) if given is None else given_cells(first, np.ravel(given))
