"""Sums over rows of targets and predictions that are given as arrays, in memory or lazy, of one length."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InputError
from ..scores.errors import ErrorSums
from ..scores.labels import LabelCounts
from ..scores.passes import as_array, sum_pass
from ..scores.probabilities import ProbabilitySums
from ..scores.ranking import ClassRankings, bins_of_each
from ..targets import as_columns, class_counts


def counts(y_true: Any, y_pred: Any, sample_weight: Any, most: int = 0) -> LabelCounts:
    """Counts of labels and predicted labels; pairs of up to `most` labels."""
    y_true, y_pred = _aligned(as_array(y_true), y_pred)
    if y_true.ndim != 1:
        raise InputError(f"labels are compared one column at a time, got y of shape {y_true.shape}")
    return _summed(LabelCounts(most=most), y_true, y_pred, sample_weight)


def errors(y_true: Any, y_pred: Any, sample_weight: Any) -> ErrorSums:
    y_true, y_pred = _aligned(as_array(y_true), y_pred)
    _check_numeric(y_true=y_true, y_pred=y_pred)
    found = _summed(ErrorSums(), y_true, y_pred, sample_weight)
    if not np.isfinite(found.sums).all():
        raise InputError("y_true and y_pred must be finite; drop rows with NaN or infinity")
    return found


def probabilities(y_true: Any, y_proba: Any, weight: Any, labels: Any) -> ProbabilitySums:
    """Sums of losses of probabilities; a single column is of the second of two labels."""
    y_true, y_proba, classes = _by_class(y_true, y_proba, labels)
    if y_proba.ndim == 1:
        class_of_one(classes)
    return _summed(ProbabilitySums(classes), y_true, y_proba, weight)


def ranked(score: str, y_true: Any, y_score: Any, weight: Any, labels: Any, *pos_label: Any) -> float:
    """The mean of a score of `Ranking` over the labels, or that of one label, by one pass."""
    y_true, y_score, classes = _by_class(y_true, y_score, labels)
    if y_score.ndim == 1:
        classes = np.asarray([class_of_one(classes, *pos_label)])
    if not (bins := bins_of_each(len(classes))):
        raise InputError(f"at most 512 labels are ranked in one pass, got {len(classes):,}")
    rankings = ClassRankings(classes, min(bins, max(2, y_true.shape[0])))
    values = [getattr(one, score)()[0] for one in sum_pass(rankings, [y_true, y_score, weight]).states]
    if lacking := classes[np.isnan(values)].tolist():
        raise InputError(f"each label needs rows of positive weight, and others; {lacking[0]!r} lacks them")
    return float(np.mean(values))


def class_of_one(classes: np.ndarray, *pos_label: Any) -> Any:
    """The class that a single column of scores is of: the one that is given, or the second of two."""
    known = classes.tolist()
    if len(known) > 2 or not (pos_label or len(known) == 2):
        raise InputError(f"a score of one class is of two labels, got {len(known)}: {known[:10]}")
    if pos_label and len(known) == 2 and pos_label[0] not in known:
        raise InputError(f"pos_label must be one of the labels {known}, got {pos_label[0]!r}")
    return pos_label[0] if pos_label else known[1]


def _by_class(y_true: Any, scores: Any, labels: Any) -> tuple[Any, Any, np.ndarray]:
    """Labels and scores, and all classes in ascending order."""
    y_true, scores = _aligned(as_columns(y_true), scores, "scores")
    _check_numeric(scores=scores)
    known = class_counts(y_true, None) if labels is None else {*as_columns(labels).tolist()}
    return y_true, scores, as_columns(sorted(known))


def _aligned(y_true: Any, y_pred: Any, name: str = "") -> tuple[Any, Any]:
    """Targets and predictions of one shape; or, with a name for these, labels and a score or several for each."""
    y_pred = as_array(y_pred)
    shape = y_pred.shape[:1] if name and y_pred.ndim < 3 else y_pred.shape
    if y_true.shape != shape or not shape:
        rule = (
            f"{name} are of shape (n,) or (n, c) for y_true (n,)"
            if name
            else "y_true and y_pred have one shape"
        )
        raise InputError(f"{rule}, got {y_true.shape} and {y_pred.shape}")
    if not shape[0]:
        raise InputError("a score needs at least one row, got none")
    return y_true, y_pred


def _check_numeric(**arrays: Any) -> None:
    for name, array in arrays.items():
        if array.dtype.kind not in "fiub":
            raise InputError(f"{name} must be numeric, got dtype {array.dtype}; use accuracy_score for labels")


def _summed(empty: Any, y_true: Any, y_pred: Any, sample_weight: Any) -> Any:
    found = sum_pass(empty, [y_true, y_pred, sample_weight])
    if not found.weight > 0:
        raise InputError(f"sample_weight must have a positive sum, got {found.weight}")
    return found
