"""What scores are given: arrays in memory or lazy, of one length."""

from __future__ import annotations

from typing import Any, TypeAlias

from ..errors import InputError
from ..scores.passes import as_array, sum_pass
from ..targets import as_columns, class_counts
from ..typing import ArrayLike

ArrayOrNone: TypeAlias = "ArrayLike | None"


def aligned(y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """Targets and predictions of one shape. Raises InputError for other ones, and where there are no rows."""
    y_true, y_pred = as_array(y_true), as_array(y_pred)
    if y_true.shape != y_pred.shape or y_true.ndim == 0:
        raise InputError(f"y_true and y_pred must have one shape, got {y_true.shape} and {y_pred.shape}")
    if y_true.shape[0] == 0:
        raise InputError("a score needs at least one row, got none")
    return y_true, y_pred


def labelled(y_true: Any, scores: Any) -> tuple[Any, Any]:
    """Labels of shape (n,), and scores of shape (n,) or (n, c). Raises InputError for other ones."""
    y_true, scores = as_columns(y_true), as_array(scores)
    if y_true.ndim != 1 or scores.ndim not in (1, 2) or y_true.shape[0] != scores.shape[0]:
        raise InputError(
            f"y_true has shape (n,) and scores (n,) or (n, c), got {y_true.shape} and {scores.shape}"
        )
    if y_true.shape[0] == 0:
        raise InputError("a score needs at least one row, got none")
    if scores.dtype.kind not in "fiub":
        raise InputError(f"scores must be numeric, got dtype {scores.dtype}; use accuracy_score for labels")
    return y_true, scores


def classes_of(y_true: Any, labels: Any) -> Any:
    """The labels in ascending order, as an array: those that are given, or those of y_true, by a pass over it."""
    if labels is not None:
        return as_columns(sorted(set(as_columns(labels).tolist())))
    return as_columns(sorted(class_counts(y_true, None)))


def positive_label(classes: Any, pos_label: Any) -> Any:
    """The label of the positive class. Raises InputError for more than two classes, and for one that is not there."""
    known = classes.tolist()
    if len(known) > 2:
        raise InputError(f"a score of one class is of two labels, got {len(known)}: {known[:10]}")
    if len(known) == 2 and pos_label not in known:
        raise InputError(f"pos_label must be one of the labels {known}, got {pos_label!r}")
    return pos_label


def summed(empty: Any, y_true: Any, y_pred: Any, sample_weight: Any) -> Any:
    """The sums of all rows. Raises InputError for weights that sum to 0."""
    found = sum_pass(empty, [y_true, y_pred, sample_weight])
    if not found.weight > 0:
        raise InputError(f"sample_weight must have a positive sum, got {found.weight}")
    return found
