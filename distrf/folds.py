"""Folds that are given with the rows: a whole number for each row, which says when it is held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from dask.base import is_dask_collection

from .errors import InputError
from .execution.labelled import plain_rows
from .execution.passes import run_pass
from .execution.row_blocks import align_rows
from .execution.sampling import take_rows
from .randomness import mixed_words, raw_words

#: Most folds: a fold is a number of one byte.
MOST_FOLDS = 100
_RULE = f"folds are whole numbers, one for each row: from 0 to {MOST_FOLDS - 1}, or -1 for rows that are never held out"
#: Rows of a block of a column in memory.
_BLOCK_ROWS = 1 << 20


@dataclass(frozen=True)
class GivenFolds:
    """The fold of each row, and how many rows each has.

    The rows of a fold are judged by what was learned from the rows of all other folds, those of -1 among them. Where one fold
    is held out alone, it is fold 0.

    Attributes
    ----------
    values : array or Dask array of shape (n,), whole numbers from -1
    counts : tuple of int, the rows of each fold from 0 on
    never : int, rows that are never held out
    """

    values: Any
    counts: tuple[int, ...]
    never: int = 0

    @property
    def n_folds(self) -> int:
        """How many folds are held out, each in turn."""
        return len(self.counts)

    def take(self, rows: np.ndarray) -> np.ndarray:
        """The folds of some rows, by their ascending numbers."""
        return np.asarray(take_rows(self.values, rows))

    def trained(self, blocks: Sequence[int]) -> tuple[int, ...]:
        """The rows of each block that are not in fold 0; `blocks` has the rows of every block, see `Rows`."""
        ends = np.cumsum(blocks)[:-1]
        if is_dask_collection(self.values):
            counts = self.values.rechunk((tuple(blocks),)).map_blocks(
                _not_first, chunks=((1,) * len(blocks),), dtype=np.int64, meta=np.empty(0, np.int64)
            )
            return tuple(take_rows(counts, np.arange(len(blocks))).tolist())
        return tuple(int(_not_first(folds)[0]) for folds in np.split(self.values, ends))


def random_folds(numbers: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Folds of rows at random, shape (m,): a function of the number of a row and of the seed alone.

    Of every k rows 0 ... k - 1, k ... 2 k - 1, and so on, each is in another fold, in the order of the hashes of their numbers:
    folds are equal in size to one row, and the same in every chunking.

    Parameters
    ----------
    numbers : of the rows, ascending, shape (m,); equal ones share a fold
    k : how many folds
    seed : of the hash
    """
    cycles, place = np.divmod(numbers, k)
    first = np.diff(cycles, prepend=-1) > 0
    members = (cycles[first][:, None] * k + np.arange(k)).astype(np.uint64)
    orders = np.argsort(mixed_words(members ^ raw_words(seed, "folds", 0, 1)), axis=1)
    return orders[np.cumsum(first) - 1, place]


def given_folds(X: Any, folds: Any) -> GivenFolds | None:
    """Check the folds that `fit` was given, by one pass over them; None if there are none.

    Parameters
    ----------
    X : array, CSR matrix or Dask array of shape (n, d)
    folds : array or Dask array of shape (n,), or None

    Returns
    -------
    GivenFolds or None
        Lazy, with the row chunks of X, if X is.

    Raises
    ------
    InputError
        Folds are no such numbers, have another length, are not numbered from 0 on, or leave no row to train on.
    """
    if folds is None:
        return None
    folds = plain_rows(folds, "folds")
    if is_dask_collection(folds) and not is_dask_collection(X):
        raise InputError("X is in memory, but folds is a Dask array; compute() it first")
    folds = folds if is_dask_collection(folds) else np.asarray(folds)
    if folds.ndim != 1 or folds.dtype.kind not in "iu":
        raise InputError(f"{_RULE}; got shape {folds.shape} and dtype {folds.dtype}")
    if folds.shape[0] != X.shape[0]:
        raise InputError(f"folds must have as many rows as X, got {folds.shape[0]} and {X.shape[0]}")
    if is_dask_collection(X):
        folds = align_rows(X, folds, "folds")
    counts = run_pass(FoldCounts(), [folds], label="folds", block_rows=_BLOCK_ROWS)
    return counted(folds, counts)


def counted(values: Any, counts: np.ndarray) -> GivenFolds:
    """Folds with the rows of each, as `FoldCounts` counts them. Raises InputError where nothing can be held out."""
    there = np.flatnonzero(counts[:-1])
    k, never = len(there), int(counts[-1])
    if not k or there[-1] != k - 1:
        found = f"got {there[:10].tolist()}" if k else "all rows are -1"
        raise InputError(f"folds are numbered from 0 on, and each has a row; {found}; number them anew")
    if k == 1 and not never:
        raise InputError(
            "all rows are in fold 0, so that none are left to train on when it is held out; give a second fold, or -1 to "
            "rows that are never held out"
        )
    return GivenFolds(values, tuple(int(count) for count in counts[:k]), never)


def drawn_folds(X: Any, share: float, seed: int) -> GivenFolds:
    """A share of the rows of X, rounded to one of so many neighbours, in fold 0; the others are never held out.

    Raises InputError where X has a single row.
    """
    if (n := int(X.shape[0])) < 2:
        raise InputError(f"rows are held out of at least 2 rows, got n_samples = {n}")
    draw = partial(_drawn, k=max(2, min(n, round(1.0 / share))), seed=seed)
    if is_dask_collection(X):
        folds = da.arange(n, chunks=(X.chunks[0],)).map_blocks(draw, dtype=np.int8, meta=np.empty(0, np.int8))
    else:
        folds = draw(np.arange(n))
    return counted(folds, run_pass(FoldCounts(), [folds], label="folds", block_rows=_BLOCK_ROWS))


def _drawn(numbers: np.ndarray, k: int, seed: int) -> np.ndarray:
    return np.where(random_folds(numbers, k, seed) == 0, 0, -1).astype(np.int8)


@dataclass(frozen=True)
class FoldCounts:
    """The reduction that counts the rows of each fold, shape (MOST_FOLDS + 1,); those of -1 are last."""

    nbytes: int = 8 * (MOST_FOLDS + 1)
    flops_per_row: float = 2.0

    def initial(self) -> np.ndarray:
        return np.zeros(MOST_FOLDS + 1, dtype=np.int64)

    def update(self, state: np.ndarray, first_row: int, folds: np.ndarray) -> np.ndarray:
        bad = (folds < -1) | (folds >= MOST_FOLDS)
        if bad.any():
            row = int(bad.argmax())
            raise InputError(f"{_RULE}; got {folds[row]} in row {first_row + row}")
        places = np.where(folds < 0, MOST_FOLDS, folds).astype(np.intp)
        return state + np.bincount(places, minlength=MOST_FOLDS + 1)

    def combine(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return left + right


def _not_first(folds: np.ndarray) -> np.ndarray:
    return np.array([np.count_nonzero(folds)])
