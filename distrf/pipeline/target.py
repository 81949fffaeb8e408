"""What a target is: labels or numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from dask.base import is_dask_collection
from sklearn.base import BaseEstimator, is_classifier

from ..errors import InputError, first_not_finite
from ..execution.sampling import sampled_rows, take_rows
from ..registry import named_model
from ..store.text_forms import CODES, find_form
from ..targets import as_columns

#: Whole numbers of so few values are labels unless held-out rows say otherwise; more where they look like codes, 0 ... c - 1 or
#: 1 ... c, each for so many rows on average.
_FEW, _CODE_ROWS, _CODES_SEEN = 20, 10, 0.9
#: Values from which on held-out rows decide: an order of two or three says little.
_FEWEST_EITHER = 4
#: By how much labels must do better, in nats a row: numbers take one model in place of one for each value.
_LEAD = 0.1
#: Text is no label where so many values, and this share of them, are distinct.
_FEWEST_APART, _APART = 50, 0.9
#: The largest number and the smallest spread of which predictions in float32 still tell something.
_LARGEST, _SMALLEST = 1e37, 1e-35
#: Beyond it, floating-point numbers have no units.
_EXACT = 2**53
_ROWS = 10_000


@dataclass(frozen=True)
class Target:
    """What a sample of the target says about it.

    Attributes
    ----------
    labels : bool, whether they are classes rather than numbers
    distinct, rows : int, distinct values, and rows of the sample
    why : str, a sentence for messages
    classes, numbers : bool, whether a classifier, and a regressor, takes them
    either : bool, whether these labels are whole numbers, which may tell more as numbers: held-out rows decide
    """

    labels: bool
    distinct: int
    rows: int
    why: str
    classes: bool = True
    numbers: bool = True
    either: bool = False

    def check(self, model: Any, classifier: bool) -> None:
        """Refuse a model that does not go with the target, before anything runs. Raises InputError with the remedy."""
        name = model if isinstance(model, str) else type(model).__name__
        if classifier and not self.classes:
            raise InputError(
                f"model {name!r} is a classifier, but {self.why}; take model='ridge' and numbers as y, or, if they are labels, "
                "text such as 'class 7'"
            )
        if not classifier and not self.numbers:
            raise InputError(
                f"model {name!r} is a regressor, but {self.why}; take model='ridge-classifier', or numbers as y"
            )

    def told(self, labels_loss: float, numbers_loss: float, judged: int) -> Target:
        """Whole numbers as what tells more of so many held-out rows, by its log loss: as labels if these lead, else as numbers."""
        labels = labels_loss < numbers_loss - _LEAD
        because = f": log loss {labels_loss:.2f} as labels and {numbers_loss:.2f} as numbers, on {judged:,} held-out rows"
        why = _taken(labels, self.distinct, f"{self.rows:,} rows looked at", because)
        return replace(self, labels=labels, why=why, either=False)


def _taken(labels: bool, distinct: int, rows: str, because: str = "") -> str:
    kinds = [("labels", "ridge-classifier"), ("numbers", "ridge")]
    (taken, _), (other, model) = kinds if labels else reversed(kinds)
    return (
        f"whole numbers with {distinct:,} distinct values in {rows} are taken for {taken}{because}; model={model!r} takes them "
        f"for {other}"
    )


def wants_labels(model: Any) -> bool | None:
    """Whether the model is a classifier; None for "auto". Raises InputError for an unknown name."""
    if isinstance(model, str):
        return None if model == "auto" else named_model(model).classifier
    if not isinstance(model, BaseEstimator):
        raise InputError(f"model is a name or an unfitted linear model, got {type(model).__name__}")
    return bool(is_classifier(model))


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
    if not is_dask_collection(y):
        check_targets(y, range(len(y)))
    return y


def check_targets(y: np.ndarray, rows: Sequence[int] | np.ndarray) -> None:
    """Raise InputError for a target that is not finite, and name its row, one of `rows`."""
    if bad := first_not_finite(y):
        raise InputError(f"y must be finite, but row {rows[bad[0]]} is {y[bad[0]]}; drop such rows")


def look_at_target(y: Any, seed: int) -> Target:
    """What the target is, by 10,000 seeded rows. Raises InputError for one that is not finite, and names its row."""
    if not y.shape[0]:
        raise InputError("Found array with 0 sample(s), at least 1 is required")
    rows = sampled_rows(y.shape[0], _ROWS, seed, "target")
    drawn = take_rows(y, rows)
    check_targets(drawn, rows)
    return look_at(drawn)


def look_at(y: np.ndarray) -> Target:
    """What a sample of the target is. Strings and booleans are labels, and so are few or code-like whole numbers."""
    if y.ndim > 1 and y.shape[1] > 1:
        return Target(False, len(y), len(y), f"{y.shape[1]} columns of numbers", classes=False)
    y, rows = y.ravel(), len(y)
    looked = f"{rows:,} row{'s' * (rows != 1)} looked at"
    if y.dtype.kind in "USOb":
        return _text(y, looked)
    if y.dtype.kind not in "fiu":
        raise InputError(f"y must be numbers, strings or booleans, got dtype {y.dtype}")
    values = np.unique(y.astype(np.float64))
    distinct, first, last = len(values), values[0], values[-1]
    largest, spread = max(abs(first), abs(last)), last - first
    if largest > _LARGEST or 0 < spread < _SMALLEST:
        raise InputError(
            f"y is too large or too alike for predictions in float32: up to {largest:g}, {spread:g} apart; give other units"
        )
    whole = bool((values == np.floor(values)).all() and largest <= _EXACT)
    if distinct == 1:
        return Target(False, 1, rows, f"the target is one number in {looked}", whole)
    if not whole:
        why = f"the target is not whole numbers: {distinct:,} distinct values in {looked}"
        return Target(False, distinct, rows, why, classes=False)
    few = distinct == 2 or 2 * distinct <= min(rows, 2 * _FEW)
    many = rows >= _CODE_ROWS * distinct
    labels = bool(few or (many and first in (0, 1) and distinct >= _CODES_SEEN * (spread + 1)))
    either = labels and distinct >= _FEWEST_EITHER
    return Target(
        labels, distinct, rows, _taken(labels, distinct, looked), distinct <= _FEW or many, either=either
    )


def _text(y: np.ndarray, looked: str) -> Target:
    """Labels, if many are not all distinct, and do not write numbers."""
    distinct, strings = len(set(y.tolist())), y.dtype.kind != "b"
    why = f"labels are {'strings' if strings else 'booleans'}, {distinct:,} of them in {looked}"
    apart = distinct >= max(_APART * len(y), _FEWEST_APART)
    form = find_form(y) if strings and distinct > _FEW else None
    if form is not None and form.kind == "number" and (apart or form.doubt != CODES):
        stray = f", but not {form.stray!r}" * bool(form.stray)
        why = f"the target is {form.words}{stray}: make numbers of it (decimal=',' reads those of CSV)"
        return Target(True, distinct, len(y), why, classes=False, numbers=False)
    if apart:
        why = f"the target is text of nearly all distinct values, {distinct:,} in {looked}: no label is there twice"
    return Target(True, distinct, len(y), why, classes=not apart, numbers=False)
