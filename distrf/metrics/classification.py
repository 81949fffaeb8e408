"""Scores of predicted labels and of decision values."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InputError
from ..parameters import NONE, one_of, ruled
from ..scores.labels import LabelCounts
from ..scores.passes import as_array, label_pass, sum_pass
from ..scores.ranking import ClassRankings, bins_of_each
from ..typing import ArrayLike
from .arguments import aligned, classes_of, labelled, positive_label

_AVERAGE = one_of("binary", "macro", "weighted") | NONE
#: Labels of a confusion matrix.
_MATRIX = 1000


def accuracy(y_true: ArrayLike, y_pred: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
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
    >>> from distrf.metrics import accuracy
    >>> accuracy(["a", "b", "b", "b"], ["a", "b", "b", "a"])
    0.75
    """
    return _counts(y_true, y_pred, sample_weight).accuracy


def balanced_accuracy(y_true: ArrayLike, y_pred: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
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
    >>> from distrf.metrics import balanced_accuracy
    >>> balanced_accuracy(["a", "b", "b", "b"], ["b", "b", "b", "b"])
    0.5
    """
    return _counts(y_true, y_pred, sample_weight).balanced_accuracy


def confusion_matrix(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    labels: ArrayLike | None = None,
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
    found = _counts(y_true, y_pred, sample_weight, LabelCounts(most=_MATRIX))
    if found.matrix is None:
        raise InputError(f"a confusion matrix is of at most {_MATRIX:,} labels, got {len(found.labels):,}")
    matrix = found.matrix
    if labels is not None:
        wanted = as_array(labels)
        whole = LabelCounts(most=_MATRIX)
        whole.merge(found)
        whole.add(wanted, wanted, np.zeros(len(wanted)))  # labels that no row has
        place = np.searchsorted(whole.labels, wanted)
        assert whole.matrix is not None
        matrix = whole.matrix[np.ix_(place, place)]
    return matrix if sample_weight is not None else matrix.astype(np.int64)


@ruled(average=_AVERAGE)
def precision(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    pos_label: Any = 1,
    average: str | None = "binary",
) -> float | np.ndarray:
    """Compute the share of the rows for which a class is predicted that have it.

    Parameters
    ----------
    y_true : array or Dask array of shape (n,)
        True labels. Dask arrays take one pass.
    y_pred : array or Dask array of shape (n,)
        Predicted labels.
    sample_weight : array or Dask array of shape (n,), default=None
        Weight of each row. None weighs all alike.
    pos_label : int, str or bool, default=1
        The class, if `average` is "binary".
    average : {"binary", "macro", "weighted"} or None, default="binary"
        "binary" is that of `pos_label`, one of two labels. "macro" is the mean over the classes, "weighted" that by their
        rows. None is an array of shape (c,), for the labels in ascending order.

    Returns
    -------
    float or array of shape (c,)
        Between 0 and 1; of a class that is never predicted 0, as in scikit-learn.

    Raises
    ------
    InputError
        There are more than two labels and `average` is "binary", or `pos_label` is none of them; or shapes differ, there
        are no rows, or labels have several columns.

    Examples
    --------
    >>> from distrf.metrics import precision
    >>> precision([0, 1, 1, 0], [0, 1, 1, 1], average=None)
    array([1.        , 0.66666667])
    """
    found = _counts(y_true, y_pred, sample_weight)
    return _averaged(found, found.precisions, pos_label, average)


@ruled(average=_AVERAGE)
def recall(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    pos_label: Any = 1,
    average: str | None = "binary",
) -> float | np.ndarray:
    """Compute the share of the rows of a class for which it is predicted.

    Parameters
    ----------
    y_true : array or Dask array of shape (n,)
        True labels. Dask arrays take one pass.
    y_pred : array or Dask array of shape (n,)
        Predicted labels.
    sample_weight : array or Dask array of shape (n,), default=None
        Weight of each row. None weighs all alike.
    pos_label : int, str or bool, default=1
        The class, if `average` is "binary".
    average : {"binary", "macro", "weighted"} or None, default="binary"
        As of `precision`.

    Returns
    -------
    float or array of shape (c,)
        Between 0 and 1; of a class without rows 0, as in scikit-learn.

    Raises
    ------
    InputError
        As `precision` does.
    """
    found = _counts(y_true, y_pred, sample_weight)
    return _averaged(found, found.recalls, pos_label, average)


@ruled(average=_AVERAGE)
def f1(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    pos_label: Any = 1,
    average: str | None = "binary",
) -> float | np.ndarray:
    """Compute F1, the harmonic mean of precision and recall.

    Parameters
    ----------
    y_true : array or Dask array of shape (n,)
        True labels. Dask arrays take one pass.
    y_pred : array or Dask array of shape (n,)
        Predicted labels.
    sample_weight : array or Dask array of shape (n,), default=None
        Weight of each row. None weighs all alike.
    pos_label : int, str or bool, default=1
        The class, if `average` is "binary".
    average : {"binary", "macro", "weighted"} or None, default="binary"
        As of `precision`.

    Returns
    -------
    float or array of shape (c,)
        Between 0 and 1.

    Raises
    ------
    InputError
        As `precision` does.
    """
    found = _counts(y_true, y_pred, sample_weight)
    return _averaged(found, found.f1s, pos_label, average)


def roc_auc(
    y_true: ArrayLike,
    y_score: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    labels: ArrayLike | None = None,
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
    >>> from distrf.metrics import roc_auc
    >>> roc_auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    y_true, y_score = labelled(y_true, y_score)
    classes = classes_of(y_true, labels)
    if y_score.ndim == 1:
        if len(classes) != 2:
            raise InputError(f"one score a row is of two labels, got {len(classes)}: {classes.tolist()[:10]}")
        classes = classes[1:]
    found = rankings_of(y_true, y_score, sample_weight, classes)
    areas = [ranking.roc_auc()[0] for ranking in found.each]
    if np.isnan(areas).any():
        raise InputError(
            f"the area under the ROC curve needs rows of positive weight of each label and others; "
            f"{classes[int(np.isnan(areas).argmax())].item()!r} lacks them"
        )
    return float(np.mean(areas))


def average_precision(
    y_true: ArrayLike,
    y_score: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    pos_label: Any = 1,
    labels: ArrayLike | None = None,
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
    >>> from distrf.metrics import average_precision
    >>> round(average_precision([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]), 4)
    0.8333
    """
    y_true, y_score = labelled(y_true, y_score)
    classes = classes_of(y_true, labels)
    if y_score.ndim == 1:
        classes = np.asarray([positive_label(classes, pos_label)])
    found = rankings_of(y_true, y_score, sample_weight, classes)
    means = [ranking.average_precision()[0] for ranking in found.each]
    if np.isnan(means).any():
        raise InputError(
            "average precision needs rows of positive weight of each label; "
            f"{classes[int(np.isnan(means).argmax())].item()!r} has none"
        )
    return float(np.mean(means))


def _counts(y_true: Any, y_pred: Any, sample_weight: Any, empty: LabelCounts | None = None) -> LabelCounts:
    y_true, y_pred = aligned(y_true, y_pred)
    if y_true.ndim != 1:
        raise InputError(f"labels are compared one column at a time, got y of shape {y_true.shape}")
    if empty is None:
        found = label_pass(y_true, y_pred, sample_weight)
    else:
        found = sum_pass(empty, [y_true, y_pred, sample_weight])
    if not found.weight > 0:
        raise InputError(f"sample_weight must have a positive sum, got {found.weight}")
    return found


def _averaged(found: LabelCounts, scores: np.ndarray, pos_label: Any, average: str | None) -> Any:
    if average is None:
        return np.nan_to_num(scores)
    if average != "binary":
        return found.mean_of(scores, average == "weighted")
    if len(found.labels) > 2:
        raise InputError(
            f"average='binary' is of two labels, got {len(found.labels)}; give average='macro', 'weighted' or None"
        )
    label = positive_label(found.labels, pos_label)
    at = [k for k, known in enumerate(found.labels.tolist()) if known == label]
    return float(np.nan_to_num(scores[at[0]])) if at else 0.0


def rankings_of(y_true: Any, y_score: Any, sample_weight: Any, classes: np.ndarray) -> ClassRankings:
    """The rankings of classes, in one pass. Raises InputError for more than 512."""
    bins = bins_of_each(len(classes))
    if not bins:
        raise InputError(f"at most 512 labels are ranked in one pass, got {len(classes):,}")
    return sum_pass(
        ClassRankings(classes, min(bins, max(2, y_true.shape[0]))), [y_true, y_score, sample_weight]
    )
