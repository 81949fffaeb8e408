"""Scores of predictions in one pass, named as in scikit-learn, in memory or lazy; and the error of a kernel approximation."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ..errors import InputError
from ..scores.errors import ErrorSums, ProbabilitySums
from ..scores.labels import LabelCounts
from ..scores.passes import as_array, sum_pass
from ..scores.ranking import ClassRankings, bins_of_each
from ..targets import as_columns, class_counts
from ..typing import ArrayLike
from .approximation import kernel_error

__all__ = [
    "accuracy_score", "kernel_error", "log_loss", "mean_absolute_error", "r2_score", "roc_auc_score", "root_mean_squared_error",
]  # fmt: skip

Given: TypeAlias = "ArrayLike | None"


def _errors(y_true: Any, y_pred: Any, weight: Any) -> dict[str, Any]:
    y_true, y_pred = _aligned(y_true, y_pred)
    _check_numeric(y_true=y_true, y_pred=y_pred)
    found = _summed(ErrorSums(), y_true, y_pred, weight)
    if not np.isfinite(found.sums).all():
        raise InputError("y_true and y_pred must be finite; drop rows with NaN or infinity")
    return found.scores()


def _by_class(y_true: Any, scores: Any, labels: Any) -> tuple[Any, Any, np.ndarray]:
    """Labels, scores and all classes in ascending order. A single column is of the second of two."""
    y_true, scores = _aligned(as_columns(y_true), scores, columns=True)
    _check_numeric(scores=scores)
    known = sorted(class_counts(y_true, None) if labels is None else {*as_columns(labels).tolist()})
    if scores.ndim == 1 and len(known) != 2:
        raise InputError(f"a score of one class is of two labels, got {len(known)}: {known[:10]}")
    return y_true, scores, as_columns(known)


def _aligned(y_true: Any, y_pred: Any, columns: bool = False) -> tuple[Any, Any]:
    """Targets and predictions of one shape; or, with `columns`, labels and a score or several for each."""
    y_true, y_pred = as_array(y_true), as_array(y_pred)
    shape = y_pred.shape[:1] if columns and y_pred.ndim < 3 else y_pred.shape
    if y_true.shape != shape or not shape or not shape[0]:
        raise InputError(
            "y_true and y_pred have one shape, scores are of shape (n,) or (n, c) for y_true (n,), and there is at least one "
            f"row, got {y_true.shape} and {y_pred.shape}"
        )
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


def accuracy_score(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: Given = None) -> float:
    """Compute the (weighted) share of equal labels.

    Parameters
    ----------
    y_true : array or Dask array of shape (n,)
        True labels. Dask arrays take one pass.
    y_pred : array or Dask array of shape (n,)
        Predicted labels.
    sample_weight : array or Dask array of shape (n,), default=None
        Weight of each row. None weighs all alike.

    Returns
    -------
    float
        Share of equal labels, between 0 and 1.

    Raises
    ------
    InputError
        Shapes differ, there are no rows, labels have several columns, or weights sum to 0.

    Examples
    --------
    >>> from distrf.metrics import accuracy_score
    >>> accuracy_score(["a", "b", "b", "b"], ["a", "b", "b", "a"])
    0.75
    """
    return float(_summed(LabelCounts(most=0), *_aligned(y_true, y_pred), sample_weight).scores()["accuracy"])


def roc_auc_score(
    y_true: ArrayLike, y_score: ArrayLike, *, sample_weight: Given = None, labels: Given = None
) -> float:
    """Compute the area under the ROC curve: how often a row of a class scores above another one.

    Exact up to 65,536 distinct scores; beyond, scores are counted in so many bins, with an error of second order in
    their width.

    Parameters
    ----------
    y_true : array or Dask array of shape (n,)
        True labels.
    y_score : array or Dask array of shape (n,) or (n, c)
        Decision values or probabilities of the second of two labels. Or one column for each of c labels, in ascending
        order: then the area is the mean over the labels, each against the rest.
    sample_weight : array or Dask array of shape (n,), default=None
        Weight of each row. None weighs all alike.
    labels : array of shape (c,), default=None
        The labels. None finds them in a pass over `y_true`.

    Returns
    -------
    float
        Between 0 and 1; 1/2 for scores that tell nothing.

    Raises
    ------
    InputError
        Scores are not finite, or there is not one column for each label; a label has no rows; or lengths differ.

    Examples
    --------
    >>> from distrf.metrics import roc_auc_score
    >>> roc_auc_score([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    y_true, y_score, classes = _by_class(y_true, y_score, labels)
    ranked = classes if y_score.ndim > 1 else classes[1:]
    if not (bins := bins_of_each(len(ranked))):
        raise InputError(f"at most 512 labels are ranked in one pass, got {len(ranked):,}")
    rankings = ClassRankings(ranked, min(bins, max(2, y_true.shape[0])))
    found = sum_pass(rankings, [y_true, y_score, sample_weight])
    if lacking := [label for label, one in zip(ranked, found.states, strict=True) if not one.defined]:
        raise InputError(
            f"each label needs rows of positive weight, and others; {lacking[0].item()!r} lacks them"
        )
    return found.scores()["roc_auc"]


def log_loss(
    y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: Given = None, labels: Given = None
) -> float:
    """Compute the (weighted) mean of -log of the probability that was predicted for the label of each row.

    Probabilities are cut off at the precision of their dtype, and at 1 less it, as in scikit-learn.

    Parameters
    ----------
    y_true : array or Dask array of shape (n,)
        True labels.
    y_pred : array or Dask array of shape (n,) or (n, c)
        Probabilities of the second of two labels. Or one column for each of c labels, in ascending order.
    sample_weight : array or Dask array of shape (n,), default=None
        Weight of each row. None weighs all alike.
    labels : array of shape (c,), default=None
        The labels. None finds them in a pass over `y_true`.

    Returns
    -------
    float
        Log loss in natural units; 0 for perfect predictions.

    Raises
    ------
    InputError
        Values are no probabilities, there is not one column for each label, lengths differ, or weights sum to 0.

    Examples
    --------
    >>> from distrf.metrics import log_loss
    >>> round(log_loss(["no", "yes"], [0.2, 0.9]), 4)
    0.1643
    """
    y_true, y_pred, classes = _by_class(y_true, y_pred, labels)
    return _summed(ProbabilitySums(classes), y_true, y_pred, sample_weight).scores()["log_loss"]


def root_mean_squared_error(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: Given = None) -> float:
    """Compute the root of the (weighted) mean squared error.

    Parameters
    ----------
    y_true : array or Dask array of shape (n,) or (n, C)
        True values. Dask arrays take one pass.
    y_pred : array or Dask array of the shape of `y_true`
        Predicted values.
    sample_weight : array or Dask array of shape (n,), default=None
        Weight of each row. None weighs all alike.

    Returns
    -------
    float
        Root mean squared error in units of y, the mean over outputs.

    Raises
    ------
    InputError
        Shapes differ, there are no rows, values are no finite numbers, or weights sum to 0.
    """
    return _errors(y_true, y_pred, sample_weight)["rmse"]


def mean_absolute_error(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: Given = None) -> float:
    """Compute the (weighted) mean absolute error.

    Parameters
    ----------
    y_true : array or Dask array of shape (n,) or (n, C)
        True values. Dask arrays take one pass.
    y_pred : array or Dask array of the shape of `y_true`
        Predicted values.
    sample_weight : array or Dask array of shape (n,), default=None
        Weight of each row. None weighs all alike.

    Returns
    -------
    float
        Mean absolute error in units of y, the mean over outputs.

    Raises
    ------
    InputError
        Shapes differ, there are no rows, values are no finite numbers, or weights sum to 0.
    """
    return _errors(y_true, y_pred, sample_weight)["mae"]


def r2_score(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: Given = None) -> float:
    """Compute the coefficient of determination.

    An output without spread counts 1 if it is predicted exactly, else 0, as in scikit-learn.

    Parameters
    ----------
    y_true : array or Dask array of shape (n,) or (n, C)
        True values. Dask arrays take one pass.
    y_pred : array or Dask array of the shape of `y_true`
        Predicted values.
    sample_weight : array or Dask array of shape (n,), default=None
        Weight of each row. None weighs all alike.

    Returns
    -------
    float
        R^2, the mean over outputs.

    Raises
    ------
    InputError
        Shapes differ, there are no rows, values are no finite numbers, or weights sum to 0.
    """
    return _errors(y_true, y_pred, sample_weight)["r2"]
