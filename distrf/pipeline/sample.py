"""The rows that choices are judged on: a seeded sample over all rows, split into training and held-out ones."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from dask.base import is_dask_collection
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils.validation import check_array

from ..errors import InputError, first_not_finite, input_errors, warn
from ..execution.labelled import plain_rows
from ..execution.row_blocks import blocks_are_csr, check_dask_rows
from ..execution.sampling import sampled_rows, take_aligned, take_rows
from ..maps import working_dtype
from ..maps.estimator import row_errors
from ..maps.rules import refuse_huge
from ..randomness import permutation
from ..registry import named_model
from ..splits import Split
from ..tables.encoder import TableEncoder
from ..tables.kinds import ColumnWarning
from ..targets import as_columns, checked_weights, class_targets, read_numbers
from .target import Target, look_at, written_form

#: Rows of a sample; fewer of wide rows, whose n x n systems grow with the cube.
_ROWS, _WIDE_ROWS, _WIDE = 6000, 3000, 1000
_BYTES = 2**28
#: Up to so many rows each is held out once, in five or three folds; above, a quarter is, once.
_FIVE_FOLDS, _THREE_FOLDS = 500, 2000
_FEWEST = 10
#: Equal rows are copies where so many rows are unlike, and more than this share of equal ones have the same target.
_FEWEST_UNLIKE, _ALIKE = 50, 0.99


@dataclass(frozen=True)
class Sample:
    """X : dense or CSR, y : their targets; splits : (training rows, held-out rows), none where rows are too few.

    copies : share of the rows that are copies of another one, with its target
    weight : of the rows, positive, 1 on average; None if all weigh alike
    folds : of the rows where they are given, numbered from 0 on, -1 if never held out; else None
    groups : of the rows where they are in groups that are held out whole, as numbers; else None
    """

    X: Any
    y: np.ndarray
    splits: tuple[tuple[np.ndarray, np.ndarray], ...]
    copies: float = 0.0
    weight: np.ndarray | None = None
    folds: np.ndarray | None = None
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
        given = {} if self.folds is None or not isinstance(scaler, TableEncoder) else {"folds": self.folds}
        return clone(scaler).fit_transform(self.X, self.y, **given)


def all_equal(X: Any) -> bool:
    """Whether all rows are the same."""
    return X.nnz == 0 if sp.issparse(X) else bool((X[:1] == X).all())


def as_rows(X: Any) -> Any:
    """X as an array, CSR matrix or Dask array of two dimensions."""
    X = plain_rows(X)
    if is_dask_collection(X):
        return check_dask_rows(X)
    if sp.issparse(X):
        X = X.tocsr()
    elif hasattr(X, "columns"):  # a data frame; nullable columns become floats
        with row_errors(X):
            X = check_array(X, dtype="numeric", ensure_min_samples=0, ensure_min_features=0)
            working_dtype(X.dtype)  # categories of text stay objects
    else:
        X = np.asarray(X)
    if X.ndim != 2:
        raise InputError(f"Expected 2D array: X must have 2 dimensions (rows, columns), got shape {X.shape}")
    if X.shape[1] == 0:
        raise InputError(f"X must have at least one column, got shape {X.shape}")
    working_dtype(X.dtype)
    return X


def as_targets(X: Any, y: Any) -> Any:
    """y as an array or Dask array with as many rows as X."""
    if y is None:
        raise InputError("training needs a target, but y is None")
    y = as_columns(y)
    if not is_dask_collection(y) and y.dtype.kind == "O":
        y = np.asarray(y.tolist())  # numbers in an array of objects
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.shape[:1] != X.shape[:1]:
        raise InputError(f"y must have as many rows as X, got {y.shape[0] if y.ndim else 1} and {X.shape[0]}")
    if X.shape[0] == 0:
        raise InputError("Found array with 0 sample(s), at least 1 is required")
    if not is_dask_collection(y):
        _check_targets(y, range(len(y)))
    return y


def sample_targets(y: Any, seed: int, blocks: list[int] | None = None) -> np.ndarray:
    """10,000 seeded targets, in the order of the rows. Raises InputError for one that is not finite, and names its row.

    blocks : of a Dask array, those to look at; None is all of them
    """
    if blocks is None:
        rows = sampled_rows(y.shape[0], 10_000, seed, "target")
    else:
        sizes = np.array(y.chunks[0])
        starts, sizes = (np.cumsum(sizes) - sizes)[blocks], sizes[blocks]
        rows = sampled_rows(int(sizes.sum()), 10_000, seed, "target")
        at = np.searchsorted(np.cumsum(sizes), rows, side="right")
        rows = rows - (np.cumsum(sizes) - sizes)[at] + starts[at]
    drawn = take_rows(y, rows)
    _check_targets(drawn, rows)
    return drawn


def wants_labels(model: Any) -> bool | None:
    """Whether the model is a classifier; None for "auto". Raises InputError for an unknown name."""
    if isinstance(model, str):
        return None if model == "auto" else named_model(model).classifier
    if not isinstance(model, BaseEstimator):
        raise InputError(f"model is a name or an unfitted linear model, got {type(model).__name__}")
    return bool(is_classifier(model))


def look_at_target(y: Any, seed: int, blocks: list[int] | None = None) -> Target:
    """What the target is, by those that `sample_targets` takes. Raises InputError where there is none."""
    if not y.shape[0]:
        raise InputError("Found array with 0 sample(s), at least 1 is required")
    return look_at(sample_targets(y, seed, blocks))


def see_target(
    y: Any, seed: int, model: Any = "auto", seen: dict[Any, Any] | None = None
) -> tuple[Any, str, Target]:
    """The target, as numbers where it is text that writes them, in what form, else "", and what `look_at_target` says of it.

    model : of `make_model`; a classifier takes text for labels
    seen : keeps what was found, and it is not read again

    Warns
    -----
    ColumnWarning
        The target is text that writes numbers.
    """
    y, labels, form = as_columns(y), wants_labels(model), ""
    seen, key = {} if seen is None else seen, (seed, labels if y.dtype.kind == "U" else None)
    if key not in seen:
        if y.ndim == 1 and y.dtype.kind == "U" and not labels and y.shape[0]:
            found = written_form(sample_targets(y, seed), None if labels is None else True)
            if found is not None:
                said = f"the target is {found.words}, and is learned as such; model='ridge-classifier' takes it for labels"
                warn(said, ColumnWarning)
                y, form = read_numbers(y, found.form), found.form
        seen[key] = y, form, look_at_target(y, seed)
    target: tuple[Any, str, Target] = seen[key]
    return target


def _check_targets(y: np.ndarray, rows: Sequence[int] | np.ndarray) -> None:
    if bad := first_not_finite(y):
        raise InputError(f"y must be finite, but row {rows[bad[0]]} is {y[bad[0]]}; drop such rows")


def read_sample(
    X: Any,
    y: Any,
    seed: int,
    weight: Any = None,
    coded: bool = False,
    split: Split | None = None,
    most: int = _ROWS,
) -> Sample:
    """At most so many seeded rows. Raises InputError for a sampled row that is not finite, and names it, and for
    weights in memory that no fit would take.

    weight : of the rows, shape (n,), by which they are judged: those of weight 0 are left out
    coded : whether X are coded rows of a table
    split : by which rows are held out; None is at random
    """
    n, d = X.shape
    lazy, counted = is_dask_collection(weight), None
    if weight is not None and not lazy:
        with input_errors():
            weight = checked_weights(weight, y)
        counted = np.flatnonzero(weight)
        if not len(counted):
            raise InputError("sample_weight must not be zero everywhere; give rows that count a positive one")
    n = n if counted is None else len(counted)
    size = min(n, most if d <= _WIDE else min(most, _WIDE_ROWS))
    sparse = blocks_are_csr(X)
    if not sparse:
        size = max(min(n, 100), min(size, _BYTES // (8 * d)))
    rows = sampled_rows(n, size, seed, "choices")
    rows = rows if counted is None else counted[rows]
    marks = [] if split is None else [split.folds.values, *([] if split.groups is None else [split.groups])]
    drawn, targets, *marks = take_aligned([X, y, *marks], rows, sparse=sparse)
    own = weight if weight is None or lazy else weight[rows]
    if lazy:
        with input_errors():
            own = checked_weights(take_rows(weight, rows), targets)
        if (good := own > 0).any():
            rows, drawn, targets, own, *marks = (part[good] for part in (rows, drawn, targets, own, *marks))
    if bad := first_not_finite(drawn):
        where = f"row {rows[bad[0]]}, column {bad[1]}"
        raise InputError(f"X must be finite, but {where} is {bad[2]}; impute or drop such rows")
    if not coded:
        refuse_huge(drawn)
    _check_targets(targets, rows)
    first = first_copies(drawn, targets)
    if split is not None and not split.keeps_copies:
        first = np.arange(len(first))
    copies = float(np.mean(first != np.arange(len(first))))
    given = None if split is None else _numbered(marks[0][first])
    splits = _splits(_random_folds(first, seed) if split is None else given)
    own = None if own is None or not own.any() or (own == own[0]).all() else own / own.mean()
    return Sample(drawn.astype(working_dtype(drawn.dtype)), targets, splits, copies, own, given, *marks[1:])


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
    n = X.shape[0]
    alone = np.arange(n)
    seen: dict[bytes, int] = {}
    if sp.issparse(X):
        X = X.copy()
        X.sum_duplicates()
        ends = zip(X.indptr[:-1], X.indptr[1:], strict=True)
        keys = (X.indices[a:b].tobytes() + X.data[a:b].tobytes() for a, b in ends)
    else:
        keys = (row.tobytes() for row in np.ascontiguousarray(X))
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
    n, folds = len(order), np.zeros(len(first), dtype=int)
    if n < _FEWEST:
        return None
    parts = (
        [order[: n // 4], order[n // 4 :]]
        if n > _THREE_FOLDS
        else np.array_split(order, 5 if n <= _FIVE_FOLDS else 3)
    )
    for k, part in enumerate(parts):
        folds[part] = k
    return folds[first]


def _numbered(folds: np.ndarray) -> np.ndarray | None:
    """The folds of a sample, numbered anew in their order; None where all rows are in one."""
    there, places = np.unique(folds, return_inverse=True)
    return None if len(there) < 2 else places - int(there[0] < 0)


def _splits(folds: np.ndarray | None) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Each fold is held out once; of many rows the first alone."""
    if folds is None or len(folds) < _FEWEST:
        return ()
    judged = [0] if len(folds) > _THREE_FOLDS else range(int(folds.max()) + 1)
    return tuple((np.flatnonzero(folds != f), np.flatnonzero(folds == f)) for f in judged)
