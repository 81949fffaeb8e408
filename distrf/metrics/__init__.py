"""Scores of predictions in one pass, named as in scikit-learn, in memory or lazy; and the error of a kernel approximation."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ..errors import InputError
from ..parameters import NONE, one_of, ruled
from ..scores.errors import ErrorSums, ProbabilitySums
from ..scores.labels import LabelCounts
from ..scores.passes import as_array, sum_pass
from ..scores.ranking import ClassRankings, bins_of_each
from ..targets import as_columns, class_counts
from ..typing import ArrayLike
from .approximation import kernel_error

__all__ = [
    "accuracy_score", "average_precision_score", "balanced_accuracy_score", "brier_score_loss", "confusion_matrix",
    "kernel_error", "log_loss", "mean_absolute_error", "precision_recall_fscore_support", "r2_score", "roc_auc_score",
    "root_mean_squared_error",
]  # fmt: skip

Given: TypeAlias = "ArrayLike | None"
#: Labels of a confusion matrix.
_MATRIX = 1000


def _counts(y_true: Any, y_pred: Any, weight: Any, most: int = 0) -> LabelCounts:
    """Counts of labels and predicted labels; pairs of up to `most` labels."""
    return _summed(LabelCounts(most=most), *_aligned(y_true, y_pred), weight)


def _errors(y_true: Any, y_pred: Any, weight: Any) -> dict[str, Any]:
    y_true, y_pred = _aligned(y_true, y_pred)
    _check_numeric(y_true=y_true, y_pred=y_pred)
    found = _summed(ErrorSums(), y_true, y_pred, weight)
    if not np.isfinite(found.sums).all():
        raise InputError("y_true and y_pred must be finite; drop rows with NaN or infinity")
    return found.scores()


def _losses(y_true: Any, y_proba: Any, weight: Any, labels: Any) -> dict[str, float]:
    """Scores of probabilities; a single column is of the second of two labels."""
    y_true, y_proba, classes, _ = _by_class(y_true, y_proba, labels)
    return _summed(ProbabilitySums(classes), y_true, y_proba, weight).scores()


def _ranked(y_true: Any, y_score: Any, weight: Any, labels: Any, *pos_label: Any) -> dict[str, float]:
    """Scores of rankings, in means over the labels, or of one label, by one pass."""
    y_true, y_score, _, classes = _by_class(y_true, y_score, labels, *pos_label)
    if not (bins := bins_of_each(len(classes))):
        raise InputError(f"at most 512 labels are ranked in one pass, got {len(classes):,}")
    rankings = ClassRankings(classes, min(bins, max(2, y_true.shape[0])))
    found = sum_pass(rankings, [y_true, y_score, weight])
    if lacking := [label for label, one in zip(classes, found.states, strict=True) if not one.defined]:
        raise InputError(
            f"each label needs rows of positive weight, and others; {lacking[0].item()!r} lacks them"
        )
    return found.scores()


def _by_class(
    y_true: Any, scores: Any, labels: Any, *pos_label: Any
) -> tuple[Any, Any, np.ndarray, np.ndarray]:
    """Labels and scores, all classes in ascending order, and those that have a column: of one column the second, or `pos_label`."""
    y_true, scores = _aligned(as_columns(y_true), scores, columns=True)
    _check_numeric(scores=scores)
    known = sorted(class_counts(y_true, None) if labels is None else {*as_columns(labels).tolist()})
    if scores.ndim > 1:
        return y_true, scores, as_columns(known), as_columns(known)
    if len(known) > 2 or not (pos_label or len(known) == 2):
        raise InputError(f"a score of one class is of two labels, got {len(known)}: {known[:10]}")
    if pos_label and len(known) == 2 and pos_label[0] not in known:
        raise InputError(f"pos_label must be one of the labels {known}, got {pos_label[0]!r}")
    return y_true, scores, as_columns(known), as_columns([*(pos_label or known[1:])])


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
    return _counts(y_true, y_pred, sample_weight).scores()["accuracy"]


def balanced_accuracy_score(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: Given = None) -> float:
    """Compute the mean recall of the classes, in which each counts alike, however rare it is.

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
        The mean over the classes in `y_true`, between 0 and 1.

    Raises
    ------
    InputError
        Shapes differ, there are no rows, labels have several columns, or weights sum to 0.

    Examples
    --------
    >>> from distrf.metrics import balanced_accuracy_score
    >>> balanced_accuracy_score(["a", "b", "b", "b"], ["b", "b", "b", "b"])
    0.5
    """
    return _counts(y_true, y_pred, sample_weight).scores()["balanced_accuracy"]


def confusion_matrix(
    y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: Given = None, labels: Given = None
) -> np.ndarray:
    """Count the rows of each label for which each label was predicted.

    Parameters
    ----------
    y_true : array or Dask array of shape (n,)
        True labels. Dask arrays take one pass.
    y_pred : array or Dask array of shape (n,)
        Predicted labels.
    sample_weight : array or Dask array of shape (n,), default=None
        Weight of each row. None weighs all alike.
    labels : array of shape (c,), default=None
        Which labels, in this order; rows with others are left out. None takes all, in ascending order.

    Returns
    -------
    array of shape (c, c)
        Rows, or their weight, by true label (down) and predicted label (across).

    Raises
    ------
    InputError
        There are more than 1,000 labels; or shapes differ, there are no rows, or labels have several columns.

    Examples
    --------
    >>> from distrf.metrics import confusion_matrix
    >>> confusion_matrix(["a", "b", "b", "b"], ["a", "b", "b", "a"])
    array([[1, 0],
           [1, 2]])
    """
    found = _counts(y_true, y_pred, sample_weight, _MATRIX)
    wanted = found.labels if labels is None else as_array(labels)
    found.add(wanted, wanted, np.zeros(len(wanted)))  # labels that no row has
    if found.matrix is None:
        raise InputError(f"a confusion matrix is of at most {_MATRIX:,} labels, got {len(found.labels):,}")
    place = np.searchsorted(found.labels, wanted)
    matrix = found.matrix[np.ix_(place, place)]
    return matrix if sample_weight is not None else matrix.astype(np.int64)


@ruled(average=one_of("macro", "weighted") | NONE)
def precision_recall_fscore_support(
    y_true: ArrayLike, y_pred: ArrayLike, *, average: str | None = None, sample_weight: Given = None
) -> tuple[Any, Any, Any, np.ndarray | None]:
    """Compute precision, recall, F1 and the rows of each label, or their means.

    Parameters
    ----------
    y_true : array or Dask array of shape (n,)
        True labels. Dask arrays take one pass.
    y_pred : array or Dask array of shape (n,)
        Predicted labels.
    average : {"macro", "weighted"} or None, default=None
        "macro" is the mean over the classes, "weighted" that by their rows. None are arrays of shape (c,), for the labels in
        ascending order.
    sample_weight : array or Dask array of shape (n,), default=None
        Weight of each row. None weighs all alike.

    Returns
    -------
    precision, recall, f1 : floats or arrays of shape (c,)
        The share of the rows for which a class is predicted that have it; of those that have it the share for which it is
        predicted; their harmonic mean. 0 where a share is of no rows, as in scikit-learn.
    support : None or array of shape (c,)
        Rows of each label, or their weight; None of a mean, as in scikit-learn.

    Raises
    ------
    InputError
        Shapes differ, there are no rows, or labels have several columns.

    Examples
    --------
    >>> from distrf.metrics import precision_recall_fscore_support
    >>> precision, recall, f1, rows = precision_recall_fscore_support([0, 1, 1, 0], [0, 1, 1, 1])
    >>> precision
    array([1.        , 0.66666667])
    """
    found = _counts(y_true, y_pred, sample_weight)
    scores = [np.nan_to_num(each) for each in (found.precisions, found.recalls, found.f1s)]
    if average is None:
        return *scores, found.truth if sample_weight is not None else found.truth.astype(np.int64)
    precision, recall, f1 = (found.mean_of(each, average == "weighted") for each in scores)
    return precision, recall, f1, None


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
    return _ranked(y_true, y_score, sample_weight, labels)["roc_auc"]


def average_precision_score(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sample_weight: Given = None,
    pos_label: Any = 1,
    labels: Given = None,
) -> float:
    """Compute the mean over the rows of a class of the precision at their score.

    Scores that tell nothing have the share of the class. Exact up to 65,536 distinct scores; beyond, scores are counted
    in so many bins, with an error of second order in their width.

    Parameters
    ----------
    y_true : array or Dask array of shape (n,)
        True labels.
    y_score : array or Dask array of shape (n,) or (n, c)
        Decision values or probabilities of `pos_label`. Or one column for each of c labels, in ascending order: then it
        is the mean over the labels, each against the rest.
    sample_weight : array or Dask array of shape (n,), default=None
        Weight of each row. None weighs all alike.
    pos_label : int, str or bool, default=1
        The class, of two labels.
    labels : array of shape (c,), default=None
        The labels. None finds them in a pass over `y_true`.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    InputError
        Scores are not finite, or there is not one column for each label; a label has no rows; `pos_label` is none of two
        labels; or lengths differ.

    Examples
    --------
    >>> from distrf.metrics import average_precision_score
    >>> round(average_precision_score([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]), 4)
    0.8333
    """
    return _ranked(y_true, y_score, sample_weight, labels, pos_label)["average_precision"]


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
    return _losses(y_true, y_pred, sample_weight, labels)["log_loss"]


def brier_score_loss(
    y_true: ArrayLike, y_proba: ArrayLike, *, sample_weight: Given = None, labels: Given = None
) -> float:
    """Compute the Brier score: the (weighted) mean squared error of probabilities.

    Parameters
    ----------
    y_true : array or Dask array of shape (n,)
        True labels.
    y_proba : array or Dask array of shape (n,) or (n, c)
        Probabilities of the second of two labels. Or one column for each of c labels, in ascending order.
    sample_weight : array or Dask array of shape (n,), default=None
        Weight of each row. None weighs all alike.
    labels : array of shape (c,), default=None
        The labels. None finds them in a pass over `y_true`.

    Returns
    -------
    float
        Between 0 and 1 for two labels. For more, squared errors are summed over the labels: up to 2.

    Raises
    ------
    InputError
        Values are no probabilities, there is not one column for each label, lengths differ, or weights sum to 0.

    Examples
    --------
    >>> from distrf.metrics import brier_score_loss
    >>> brier_score_loss([0, 1], [0.5, 1.0])
    0.125
    """
    return _losses(y_true, y_proba, sample_weight, labels)["brier"]


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
