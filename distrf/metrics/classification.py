"""Scores of predicted labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InputError
from ..parameters import NONE, one_of, ruled
from ..scores.labels import LabelCounts
from ..scores.passes import as_array, check_kinds
from ..typing import ArrayLike
from .arguments import ArrayOrNone, aligned, positive_label, summed

#: Labels of a confusion matrix.
_MATRIX = 1000


def accuracy_score(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayOrNone = None) -> float:
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
    return _counts(y_true, y_pred, sample_weight).accuracy


def balanced_accuracy_score(
    y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayOrNone = None
) -> float:
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
    return _counts(y_true, y_pred, sample_weight).balanced_accuracy


def confusion_matrix(
    y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayOrNone = None, labels: ArrayOrNone = None
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
    if labels is not None:
        wanted = as_array(labels)
        found.add(wanted, wanted, np.zeros(len(wanted)))  # labels that no row has
    if found.matrix is None:
        raise InputError(f"a confusion matrix is of at most {_MATRIX:,} labels, got {len(found.labels):,}")
    place = slice(None) if labels is None else np.searchsorted(found.labels, wanted)
    matrix = found.matrix[place][:, place]
    return matrix if sample_weight is not None else matrix.astype(np.int64)


@ruled(average=one_of("binary", "macro", "weighted") | NONE)
def precision_recall_fscore_support(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    pos_label: Any = 1,
    average: str | None = None,
    sample_weight: ArrayOrNone = None,
) -> tuple[Any, Any, Any, np.ndarray | None]:
    """Compute precision, recall, F1 and the rows of each label, or their means.

    Parameters
    ----------
    y_true : array or Dask array of shape (n,)
        True labels. Dask arrays take one pass.
    y_pred : array or Dask array of shape (n,)
        Predicted labels.
    pos_label : int, str or bool, default=1
        The class, if `average` is "binary".
    average : {"binary", "macro", "weighted"} or None, default=None
        "binary" is that of `pos_label`, one of two labels. "macro" is the mean over the classes, "weighted" that by their
        rows. None are arrays of shape (c,), for the labels in ascending order.
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
        There are more than two labels and `average` is "binary", or `pos_label` is none of them; or shapes differ, there
        are no rows, or labels have several columns.

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
    if average != "binary":
        precision, recall, f1 = (found.mean_of(each, average == "weighted") for each in scores)
        return precision, recall, f1, None
    if len(found.labels) > 2:
        raise InputError(
            f"average='binary' is of two labels, got {len(found.labels)}; give average='macro', 'weighted' or None"
        )
    at = found.labels == positive_label(found.labels, pos_label)
    precision, recall, f1 = (float(each[at].sum()) for each in scores)
    return precision, recall, f1, None


def _counts(y_true: Any, y_pred: Any, sample_weight: Any, most: int = 0) -> LabelCounts:
    y_true, y_pred = aligned(y_true, y_pred)
    if y_true.ndim != 1:
        raise InputError(f"labels are compared one column at a time, got y of shape {y_true.shape}")
    check_kinds(y_true, y_pred)
    return summed(LabelCounts(most=most), y_true, y_pred, sample_weight)
