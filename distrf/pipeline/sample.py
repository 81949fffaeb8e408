"""The rows that choices are judged on: a seeded sample, split into training and held-out ones."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from dask.base import is_dask_collection
from sklearn.base import clone
from sklearn.utils.validation import check_array

from ..errors import InputError, first_not_finite, input_errors
from ..execution.labelled import is_frame, plain_rows
from ..execution.row_blocks import blocks_are_csr, check_dask_rows
from ..execution.sampling import sampled_rows, take_aligned, take_rows
from ..maps import working_dtype
from ..maps.estimator import row_errors
from ..maps.rules import refuse_huge
from ..randomness import permutation
from ..splits import Split
from ..tables.encoder import TableEncoder
from ..targets import checked_weights, class_targets
from .target import check_targets

#: Rows of a sample; fewer of wide rows, whose n x n systems grow with the cube.
_ROWS, _WIDE_ROWS, _WIDE = 6000, 3000, 1000
_BYTES = 2**28
#: Up to so many rows each is held out once, in five or three folds; above, a quarter is, once: it tells enough unless one of two
#: classes has fewer rows than the last of these in it.
_FIVE_FOLDS, _THREE_FOLDS, _TELLING = 500, 2000, 100
_FEWEST = 10
#: Equal rows are copies where so many rows are unlike, and more than this share of equal ones have the same target.
_FEWEST_UNLIKE, _ALIKE = 50, 0.99


@dataclass(frozen=True)
class Sample:
    """X : dense or CSR, y : their targets; splits : (training rows, held-out rows), none where rows are too few.

    copies : share of the rows that are copies of another one, with its target
    weight : of the rows, positive, 1 on average; None if all weigh alike
    folds : of the rows where they are given, numbered from 0 on, -1 if never held out; else None
    crossing : of the rows, by which an encoder crosses the means of levels, so that no copy of a row tells its target; None is by
        their numbers
    groups : of the rows where they are in groups that are held out whole, as numbers; else None
    """

    X: Any
    y: np.ndarray
    splits: tuple[tuple[np.ndarray, np.ndarray], ...]
    copies: float = 0.0
    weight: np.ndarray | None = None
    folds: np.ndarray | None = None
    crossing: np.ndarray | None = None
    groups: np.ndarray | None = None

    @property
    def judged(self) -> int:
        return sum(len(held) for _, held in self.splits)

    def weights_of(self, rows: np.ndarray) -> np.ndarray | None:
        """The weights of some rows; None if all weigh alike."""
        return None if self.weight is None else self.weight[rows]

    def held(self, splits: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """The rows that some splits hold out, in the order in which they are judged; their weights, 1 on average, and groups."""
        rows = np.concatenate([held for _, held in self.splits[:splits]])
        weight = np.ones(len(rows)) if self.weight is None else self.weight[rows]
        return rows, weight / weight.mean(), None if self.groups is None else self.groups[rows]

    def scaled(self, scaler: Any) -> Any:
        """The rows after a scaler that is fitted to them."""
        crossed = self.crossing is not None and isinstance(scaler, TableEncoder)
        given = {"folds": self.crossing} if crossed else {}
        return clone(scaler).fit_transform(self.X, self.y, **given)


def all_equal(X: Any) -> bool:
    """Whether all rows are the same."""
    return X.nnz == 0 if sp.issparse(X) else bool((X[:1] == X).all())


def as_rows(X: Any) -> Any:
    """X as an array, CSR matrix or Dask array of two dimensions."""
    X = plain_rows(X)
    if is_dask_collection(X):
        return check_dask_rows(X)
    frame = is_frame(X)  # whose nullable columns become floats
    with row_errors(X):
        X = check_array(
            X,
            accept_sparse="csr",
            dtype="numeric" if frame else None,
            ensure_all_finite=frame,
            ensure_min_samples=0,
        )
    working_dtype(X.dtype)
    return X


def read_sample(
    X: Any,
    y: Any,
    seed: int,
    weight: Any = None,
    coded: bool = False,
    split: Split | None = None,
) -> Sample:
    """A seeded sample of the rows. Raises InputError for a sampled row that is not finite, and names it, and for
    weights in memory that no fit would take.

    weight : of the rows, shape (n,), by which they are judged: those of weight 0 are left out
    coded : whether X are coded rows of a table
    split : by which rows are held out; None is at random
    """
    n, d = X.shape
    if weight is not None and not is_dask_collection(weight):
        with input_errors():
            weight = checked_weights(weight, y)
    size = min(n, _ROWS if d <= _WIDE else _WIDE_ROWS)
    sparse = blocks_are_csr(X)
    if not sparse:
        size = max(min(n, 100), min(size, _BYTES // (8 * d)))
    rows = sampled_rows(n, size, seed, "choices")
    marks = [] if split is None else [split.folds.values, *([] if split.groups is None else [split.groups])]
    drawn, targets, *marks = take_aligned([X, y, *marks], rows, sparse=sparse)
    own = None
    if weight is not None:
        with input_errors():
            own = checked_weights(take_rows(weight, rows), targets)
        if (counts := own > 0).any():
            rows, drawn, targets, own, *marks = (part[counts] for part in (rows, drawn, targets, own, *marks))
    if bad := first_not_finite(drawn):
        where = f"row {rows[bad[0]]}, column {bad[1]}"
        raise InputError(f"X must be finite, but {where} is {bad[2]}; impute or drop such rows")
    if not coded:
        refuse_huge(drawn)
    check_targets(targets, rows)
    first = np.arange(len(rows))
    if split is None or split.kind == "stratified":  # else a group or a time says where copies belong
        first = first_copies(drawn, targets)
    copies = float(np.mean(first != np.arange(len(first))))
    given, drawn_folds = None if split is None else _numbered(marks[0][first]), _random_folds(first, seed)
    splits = _splits(drawn_folds if split is None else given, targets)
    own = None if own is None or (own == own[0]).all() else own / own.mean()
    crossing = drawn_folds if copies else given
    X = drawn.astype(working_dtype(drawn.dtype))
    return Sample(X, targets, splits, copies, own, given, crossing, *marks[1:])


def weigh_classes(sample: Sample, class_weight: Any) -> Sample:
    """The sample with the weights that the fit gives to classes: candidates are judged by what it optimises."""
    there = set(sample.y.tolist()) if class_weight is not None else set()
    if len(there) < 2:
        return sample
    if isinstance(class_weight, dict):  # it may name labels that no sampled row has
        class_weight = {label: class_weight[label] for label in there & set(class_weight)}
    weight = class_targets(sample.y, sample.weight, class_weight).encode(sample.y, sample.weight)[1]
    return sample if weight is None or not weight.any() else replace(sample, weight=weight / weight.mean())


def first_copies(X: Any, y: np.ndarray) -> np.ndarray:
    """The first row that each row is a copy of, shape (n,); the row itself where copies are of values, not of records.

    Rows of few values coincide by chance. They are independent, and then equal rows differ in their targets sooner or
    later, or there are few of them: one in a hundred that differs, or fewer than 50 rows that are unlike, say so.
    """
    alone = np.arange(X.shape[0])
    seen: dict[bytes, int] = {}
    rows = sp.csr_array(X, copy=True)
    rows.sum_duplicates()
    keys = (rows.indices[a:b].tobytes() + rows.data[a:b].tobytes() for a, b in pairwise(rows.indptr))
    first = np.array([seen.setdefault(hashlib.sha1(key).digest(), i) for i, key in enumerate(keys)])
    again = np.flatnonzero(first != alone)
    if not len(again) or len(seen) < _FEWEST_UNLIKE:
        return alone
    alike = y[again] == y[first[again]]
    alike = alike if alike.ndim == 1 else alike.all(axis=1)
    return first if alike.mean() > _ALIKE else alone


def _random_folds(first: np.ndarray, seed: int) -> np.ndarray | None:
    """Folds at random; the copies of a row are in one. `first` : the row that each one is a copy of, or itself."""
    order = permutation(seed, "choices order", 0, len(first))
    order = order[first[order] == order]
    n = len(order)
    if n < _FEWEST:
        return None
    count = 4 if n > _THREE_FOLDS else 3 if n > _FIVE_FOLDS else 5
    folds = np.zeros(len(first), dtype=int)
    folds[order] = np.arange(n) * count // n
    return folds[first]


def _numbered(folds: np.ndarray) -> np.ndarray | None:
    """The folds of a sample, numbered anew in their order; None where all rows are in one."""
    there, places = np.unique(folds, return_inverse=True)
    return None if len(there) < 2 else places - int(there[0] < 0)


def _splits(folds: np.ndarray | None, y: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Each fold is held out once; of many rows the first alone, unless a class of two is rare."""
    if folds is None or len(folds) < _FEWEST:
        return ()
    values, codes = np.unique(y, return_inverse=True)
    rare = y.ndim == 1 and len(values) == 2 and np.bincount(codes[folds == 0], minlength=2).min() < _TELLING
    judged = range(int(folds.max()) + 1) if rare or len(folds) <= _THREE_FOLDS else [0]
    return tuple((np.flatnonzero(folds != f), np.flatnonzero(folds == f)) for f in judged)
