"""Scores of predicted probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InputError
from ..parameters import ruled, whole
from ..scores.passes import sum_pass
from ..scores.probabilities import ProbabilitySums
from ..typing import ArrayLike
from .arguments import classes_of, labelled, positive_label


def log_loss(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    labels: ArrayLike | None = None,
) -> float:
    """Compute the (weighted) mean of -log of the probability that was predicted for the label of each row.

    Probabilities are cut off at the precision of their dtype, and at 1 less it, as in scikit-learn.

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
    return _probabilities(y_true, y_proba, sample_weight, labels).log_loss


def brier(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    labels: ArrayLike | None = None,
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
    >>> from distrf.metrics import brier
    >>> brier([0, 1], [0.5, 1.0])
    0.125
    """
    return _probabilities(y_true, y_proba, sample_weight, labels).brier


@ruled(n_bins=whole(1))
def calibration_curve(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    pos_label: Any = 1,
    n_bins: int = 5,
) -> tuple[np.ndarray, np.ndarray]:
    """Compare probabilities with how often they came true, in bins of equal width.

    Parameters
    ----------
    y_true : array or Dask array of shape (n,)
        True labels, of two kinds.
    y_proba : array or Dask array of shape (n,)
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
    y_true, y_proba = labelled(y_true, y_proba)
    if y_proba.ndim != 1:
        raise InputError(f"a calibration curve is of one column of probabilities, got {y_proba.shape}")
    classes = np.asarray([positive_label(classes_of(y_true, None), pos_label)])
    found = _sums(y_true, y_proba, sample_weight, classes, n_bins)
    true, said, _ = found.calibration
    return true, said


def _probabilities(y_true: Any, y_proba: Any, sample_weight: Any, labels: Any) -> ProbabilitySums:
    y_true, y_proba = labelled(y_true, y_proba)
    classes = classes_of(y_true, labels)
    if y_proba.ndim == 1:
        if len(classes) != 2:
            raise InputError(
                f"one probability a row is of two labels, got {len(classes)}: {classes.tolist()[:10]}; give labels="
            )
        classes = classes[1:]
    return _sums(y_true, y_proba, sample_weight, classes)


def _sums(
    y_true: Any, y_proba: Any, sample_weight: Any, classes: np.ndarray, n_bins: int = 10
) -> ProbabilitySums:
    found = sum_pass(ProbabilitySums(classes, n_bins), [y_true, y_proba, sample_weight])
    if not found.weight > 0:
        raise InputError(f"sample_weight must have a positive sum, got {found.weight}")
    return found
