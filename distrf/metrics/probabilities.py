"""Scores of decision values and of predicted probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import InputError
from ..parameters import ruled, whole
from ..scores.passes import sum_pass
from ..scores.probabilities import ProbabilitySums
from ..scores.ranking import ClassRankings, Ranking, bins_of_each
from ..typing import ArrayLike
from .arguments import ArrayOrNone, classes_of, labelled, positive_label, summed


def roc_auc_score(
    y_true: ArrayLike, y_score: ArrayLike, *, sample_weight: ArrayOrNone = None, labels: ArrayOrNone = None
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
    return _mean_of_rankings((y_true, y_score, sample_weight), labels, _second, Ranking.roc_auc)


def average_precision_score(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sample_weight: ArrayOrNone = None,
    pos_label: Any = 1,
    labels: ArrayOrNone = None,
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

    def positive(classes: Any) -> Any:
        return positive_label(classes, pos_label)

    return _mean_of_rankings((y_true, y_score, sample_weight), labels, positive, Ranking.average_precision)


def log_loss(
    y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayOrNone = None, labels: ArrayOrNone = None
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
    return _probabilities(y_true, y_pred, sample_weight, labels).log_loss


def brier_score_loss(
    y_true: ArrayLike, y_proba: ArrayLike, *, sample_weight: ArrayOrNone = None, labels: ArrayOrNone = None
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
    return _probabilities(y_true, y_proba, sample_weight, labels).brier


@ruled(n_bins=whole(1))
def calibration_curve(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayOrNone = None,
    pos_label: Any = 1,
    n_bins: int = 5,
) -> tuple[np.ndarray, np.ndarray]:
    """Compare probabilities with how often they came true, in bins of equal width.

    Parameters
    ----------
    y_true : array or Dask array of shape (n,)
        True labels, of two kinds.
    y_prob : array or Dask array of shape (n,)
        Probabilities of `pos_label`.
    sample_weight : array or Dask array of shape (n,), default=None
        Weight of each row. None weighs all alike.
    pos_label : int, str or bool, default=1
        The label whose probabilities they are.
    n_bins : int, default=5
        Bins of [0, 1].

    Returns
    -------
    prob_true : array of shape (up to n_bins,)
        Share of the rows of each bin that have the label. Bins without rows are left out.
    prob_pred : array of the same shape
        Mean probability of each bin.

    Raises
    ------
    InputError
        Values are no probabilities, there are more than two labels, lengths differ, or weights sum to 0.

    Examples
    --------
    >>> from distrf.metrics import calibration_curve
    >>> calibration_curve([0, 0, 1, 1], [0.1, 0.2, 0.6, 0.8], n_bins=2)
    (array([0., 1.]), array([0.15, 0.7 ]))
    """
    y_true, y_prob = labelled(y_true, y_prob)
    if y_prob.ndim != 1:
        raise InputError(f"a calibration curve is of one column of probabilities, got {y_prob.shape}")
    classes = np.asarray([positive_label(classes_of(y_true, None), pos_label)])
    return summed(ProbabilitySums(classes, n_bins), y_true, y_prob, sample_weight).calibration[:2]


def _second(classes: Any) -> Any:
    """The second of two labels, of which one column of scores or probabilities is."""
    if len(classes) != 2:
        raise InputError(
            f"one score or probability a row is of two labels, got {len(classes)}: {classes.tolist()[:10]}; give labels="
        )
    return classes[1]


def _by_class(y_true: Any, scores: Any, labels: Any, one: Callable[[Any], Any]) -> tuple[Any, Any, np.ndarray]:
    """Labels and scores, and the classes that the columns of scores are of: a single column is of `one(classes)`."""
    y_true, scores = labelled(y_true, scores)
    classes = classes_of(y_true, labels)
    return y_true, scores, np.asarray([one(classes)]) if scores.ndim == 1 else classes


def _probabilities(y_true: Any, y_proba: Any, sample_weight: Any, labels: Any) -> ProbabilitySums:
    y_true, y_proba, classes = _by_class(y_true, y_proba, labels, _second)
    return summed(ProbabilitySums(classes), y_true, y_proba, sample_weight)


def _mean_of_rankings(given: tuple[Any, Any, Any], labels: Any, one: Any, score: Callable[..., Any]) -> float:
    """The mean of a score of rankings over the labels, or that of the label `one(labels)`, in one pass.

    given : labels, scores and weights
    """
    y_true, y_score, classes = _by_class(*given[:2], labels, one)
    bins = bins_of_each(len(classes))
    if not bins:
        raise InputError(f"at most 512 labels are ranked in one pass, got {len(classes):,}")
    rankings = ClassRankings(classes, min(bins, max(2, y_true.shape[0])))
    values = [score(ranking)[0] for ranking in sum_pass(rankings, [y_true, y_score, given[2]]).each]
    if np.isnan(values).any():
        lacking = classes[int(np.isnan(values).argmax())].item()
        raise InputError(
            f"rankings need rows of positive weight of each label, and others; {lacking!r} lacks them"
        )
    return float(np.mean(values))
