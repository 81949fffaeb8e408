"""The rows that choices are judged on, a seeded sample split into training and held-out ones; and what a target is, labels or numbers."""

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

from ..errors import InputError, first_not_finite, input_errors
from ..execution.labelled import plain_rows
from ..execution.row_blocks import blocks_are_csr, check_dask_rows
from ..execution.sampling import sampled_rows, take_aligned, take_rows
from ..maps import working_dtype
from ..maps.estimator import row_errors
from ..maps.rules import refuse_huge
from ..randomness import permutation
from ..registry import named_model
from ..splits import Split
from ..store.text_forms import CODES, find_form
from ..tables.encoder import TableEncoder
from ..targets import as_columns, checked_weights, class_targets

#: Whole numbers of so few values are labels unless held-out rows say otherwise; more where they look like codes, 0 ... c - 1 or
#: 1 ... c, each for so many rows on average.
_FEW, _CODE_ROWS, _CODES_SEEN = 20, 10, 0.9
#: Values from which on held-out rows decide: an order of two or three says little.
_FEWEST_EITHER = 4
#: By how much labels must do better, in nats a row: numbers take one model in place of one for each value.
_LEAD = 0.1
#: Text is no label where so many values, and this share of them, are distinct.
_FEWEST_APART, _APART = 50, 0.9
#: Classes up to which a classifier that is asked for takes whole numbers of ten rows or more each.
_MOST_CLASSES = 1000
#: The largest number and the smallest spread of which predictions in float32 still tell something.
_LARGEST, _SMALLEST = 1e37, 1e-35
#: Beyond it, floating-point numbers have no units.
_EXACT = 2**53
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


def wants_labels(model: Any) -> bool | None:
    """Whether the model is a classifier; None for "auto". Raises InputError for an unknown name."""
    if isinstance(model, str):
        return None if model == "auto" else named_model(model).classifier
    if not isinstance(model, BaseEstimator):
        raise InputError(f"model is a name or an unfitted linear model, got {type(model).__name__}")
    return bool(is_classifier(model))


def look_at_target(y: Any, seed: int, blocks: list[int] | None = None) -> Target:
    """What the target is, by 10,000 seeded rows. Raises InputError for one that is not finite, and names its row.

    blocks : of a Dask array, those to look at; None is all of them
    """
    if not y.shape[0]:
        raise InputError("Found array with 0 sample(s), at least 1 is required")
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
    return look_at(drawn)


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
) -> Sample:
    """A seeded sample of the rows. Raises InputError for a sampled row that is not finite, and names it, and for
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
    size = min(n, _ROWS if d <= _WIDE else _WIDE_ROWS)
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
    if split is not None and split.kind != "stratified":  # a group or a time says where copies belong
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


# --- labels or numbers


@dataclass(frozen=True)
class Target:
    """What a sample of the target says about it.

    Attributes
    ----------
    labels : bool, whether they are classes rather than numbers
    distinct, rows : int, distinct values, and rows of the sample
    why : str, a sentence for messages
    whole : bool, whether classes can be made of them; only numbers that are not whole, or several columns, cannot
    apart : bool, whether nearly all of this text is distinct: no label is there twice
    written : str, how this text writes numbers, of many values; empty where it does not
    either : bool, whether these labels are whole numbers, which may tell more as numbers: held-out rows decide
    """

    labels: bool
    distinct: int
    rows: int
    why: str
    whole: bool = True
    apart: bool = False
    written: str = ""
    either: bool = False


def look_at(y: np.ndarray) -> Target:
    """What a sample of the target is. Strings and booleans are labels, and so are few or code-like whole numbers."""
    if y.ndim > 1 and y.shape[1] > 1:
        return Target(False, len(y), len(y), f"{y.shape[1]} columns of numbers", False)
    y, rows = y.ravel(), len(y)
    sampled = f"{rows:,} row{'s' * (rows != 1)} looked at"
    if y.dtype.kind in "USOb":
        distinct, kind = len(set(y.tolist())), "booleans" if y.dtype.kind == "b" else "strings"
        why = f"labels are {kind}, {distinct:,} of them in {sampled}"
        found = find_form(y) if kind == "strings" and distinct > _FEW else None
        apart = distinct >= max(_APART * rows, _FEWEST_APART)
        numbers = found is not None and found.kind == "number" and (apart or found.doubt != CODES)
        written = (
            f"{found.words}{f', but not {found.stray!r}' * bool(found.stray)}" if found and numbers else ""
        )
        return Target(True, distinct, rows, why, apart=apart, written=written)
    if y.dtype.kind not in "fiu":
        raise InputError(f"y must be numbers, strings or booleans, got dtype {y.dtype}")
    _refuse_extremes(y.astype(np.float64))
    values = np.unique(y)
    distinct, first, last = len(values), values[0], values[-1]
    whole = bool((values == np.floor(values)).all() and max(abs(first), abs(last)) <= _EXACT)
    if distinct == 1:
        return Target(False, 1, rows, f"the target is one number in {sampled}", whole)
    seen = f"{distinct:,} distinct values in {sampled}"
    if not whole:
        return Target(False, distinct, rows, f"the target is not whole numbers: {seen}", False)
    few = distinct == 2 or 2 * distinct <= min(rows, 2 * _FEW)
    codes = (
        rows >= _CODE_ROWS * distinct
        and first in (0, 1)
        and distinct >= _CODES_SEEN * (float(last) - float(first) + 1)
    )
    taken, remedy = "quantities", "if they are labels, write them as text, such as 'class 7'"
    if few or codes:
        taken, remedy = "labels", "model='ridge' takes them for numbers"
    either = (few or codes) and distinct >= _FEWEST_EITHER
    why = f"whole numbers with {seen} are taken for {taken}; {remedy}"
    return Target(few or codes, distinct, rows, why, either=either)


def told(target: Target, labels_loss: float, numbers_loss: float, judged: int) -> Target:
    """Whole numbers as what tells more of so many held-out rows, by its log loss: as labels if these lead, else as numbers."""
    labels = labels_loss < numbers_loss - _LEAD
    words = [("labels", "ridge-classifier"), ("numbers", "ridge")]
    (chosen, _), (other, option) = words if labels else reversed(words)
    why = (
        f"whole numbers with {target.distinct:,} distinct values in {target.rows:,} rows looked at are taken for {chosen}: log "
        f"loss {labels_loss:.2f} as labels and {numbers_loss:.2f} as numbers, on {judged:,} held-out rows; model={option!r} takes "
        f"them for {other}"
    )
    return replace(target, labels=labels, why=why, either=False)


def _refuse_extremes(y: np.ndarray) -> None:
    """Raise InputError for numbers that float32 does not hold, or whose differences it does not."""
    largest, spread = float(np.abs(y).max()), float(np.ptp(y))
    size, most = ("large", largest) if largest > _LARGEST else ("small", spread)
    if largest > _LARGEST or 0 < spread < _SMALLEST:
        raise InputError(f"y is too {size}, predictions are float32: up to {most:g}; give it in other units")


def check_target(name: str, classifier: bool, target: Target) -> None:
    """Refuse a model that does not go with the target, before anything runs. Raises InputError with the remedy."""
    if target.apart and classifier:
        raise InputError(
            f"the target is text of nearly all distinct values, {target.distinct:,} in {target.rows:,} rows looked at: no label "
            "can be learned from its rows; make numbers of it for a regressor, or give another target"
        )
    few = target.distinct <= max(_FEW, min(target.rows // _CODE_ROWS, _MOST_CLASSES))
    if classifier and not (target.whole and (target.labels or few)):
        text = (
            "write them as text, such as 'class 7', if they are labels" if target.whole else "make labels of y"
        )
        raise InputError(
            f"model {name!r} is a classifier, but {target.why}; take model='ridge' (regression), or {text}"
        )
    if not classifier and target.labels and target.why.startswith("labels are"):
        raise InputError(
            f"model {name!r} is a regressor, but {target.why}; take model='ridge-classifier', or numbers as y"
        )
    if classifier and target.distinct < 2:
        raise InputError(
            f"a classifier needs at least 2 classes, but {target.why}: 1 class; give rows of another class too"
        )
