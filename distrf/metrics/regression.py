"""Scores of predicted numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InputError
from ..parameters import number, ruled
from ..scores.errors import ErrorSums
from ..typing import ArrayLike
from .arguments import ArrayOrNone, aligned, summed


def root_mean_squared_error(
    y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayOrNone = None
) -> float:
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
    return _errors(y_true, y_pred, sample_weight).rmse


def mean_absolute_error(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayOrNone = None) -> float:
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
    return _errors(y_true, y_pred, sample_weight).mae


def r2_score(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayOrNone = None) -> float:
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
    return _errors(y_true, y_pred, sample_weight).r2


@ruled(alpha=number(above=0.0, below=1.0))
def mean_pinball_loss(
    y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayOrNone = None, alpha: float = 0.5
) -> float:
    """Compute the (weighted) mean pinball loss, which a quantile of y minimises.

    Parameters
    ----------
    y_true : array or Dask array of shape (n,) or (n, C)
        True values. Dask arrays take one pass.
    y_pred : array or Dask array of the shape of `y_true`
        Predicted values.
    sample_weight : array or Dask array of shape (n,), default=None
        Weight of each row. None weighs all alike.
    alpha : float, default=0.5
        The quantile, above 0 and below 1. An error y_true - y_pred = e costs alpha e, or (alpha - 1) e if it is negative.

    Returns
    -------
    float
        Mean loss in units of y, the mean over outputs; for alpha = 0.5 half of `mean_absolute_error`.

    Raises
    ------
    InputError
        Shapes differ, there are no rows, values are no finite numbers, weights sum to 0, or alpha is no such number.

    Examples
    --------
    >>> from distrf.metrics import mean_pinball_loss
    >>> mean_pinball_loss([1.0, 2.0], [0.0, 3.0], alpha=0.75)
    0.5
    """
    return _errors(y_true, y_pred, sample_weight, float(alpha)).pinballs[0]


def _errors(y_true: Any, y_pred: Any, sample_weight: Any, *quantiles: float) -> ErrorSums:
    y_true, y_pred = aligned(y_true, y_pred)
    for name, y in (("y_true", y_true), ("y_pred", y_pred)):
        if y.dtype.kind not in "fiub":
            raise InputError(f"{name} must be numeric, got dtype {y.dtype}; use accuracy_score for labels")
    errors = summed(ErrorSums(quantiles), y_true, y_pred, sample_weight)
    if not np.isfinite(errors.sums).all():
        raise InputError("y_true and y_pred must be finite; drop rows with NaN or infinity")
    return errors
