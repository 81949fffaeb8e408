"""Checks of the arguments of `fit` of a linear model."""

from __future__ import annotations

from typing import Any

import numpy as np
from dask.base import is_dask_collection
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, column_or_1d, validate_data

from ..errors import InputError
from ..execution.labelled import plain_rows, reading_of
from ..execution.row_blocks import align_rows
from ..maps import working_dtype
from ..maps.estimator import row_errors, validate_rows
from ..parameters import check_parameters
from ..targets import as_columns, checked_weights, refuse_unlike_targets
from ..typing import ArrayLike
from .base import LinearModel


def validate_fit(
    estimator: LinearModel,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    *,
    numeric: bool,
    reset: bool = True,
) -> tuple[Any, Any, Any]:
    """Check parameters and arguments of `fit`; returns (X, y, sample_weight). Dask arrays stay lazy and get equal chunks.

    numeric : whether y must be numbers; reset : whether this is the first call, which sets the number of columns
    """
    check_parameters(estimator)
    if y is None:
        raise InputError(f"{type(estimator).__name__} requires y to be passed, but the target y is None")
    X, y, sample_weight = plain_rows(X), plain_rows(y, "y"), plain_rows(sample_weight, "sample_weight")
    if reset:
        estimator.__dict__.pop("target_", None)
        if target := reading_of(y).get("target"):
            estimator.target_ = target
    if numeric and getattr(getattr(y, "dtype", None), "kind", "") in ("U", "S"):
        remedy = "say labels=True" if hasattr(estimator, "labels") else "take a classifier"
        raise InputError(f"{type(estimator).__name__} needs numbers as y, got text; {remedy}")
    if is_dask_collection(X):
        X = validate_rows(estimator, X, reset=reset)
        y = align_rows(X, as_columns(y), "y")
        if sample_weight is not None:
            sample_weight = align_rows(X, sample_weight, "sample_weight")
        return X, y, sample_weight
    if is_dask_collection(y) or is_dask_collection(sample_weight):
        raise InputError("X is in memory, but y or sample_weight is a Dask array; compute() it first")
    refuse_unlike_targets(y)
    with row_errors(X):
        X, y = validate_data(
            estimator,
            X,
            y,
            accept_sparse="csr",
            dtype="numeric",
            multi_output=True,
            y_numeric=numeric,
            reset=reset,
        )
        X = X.astype(working_dtype(X.dtype), copy=False)
        if not numeric:
            y = as_columns(column_or_1d(y, warn=True))
            check_classification_targets(y)
        if sample_weight is not None and (reset or np.any(sample_weight)):
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        elif sample_weight is not None:  # a later batch of a stream may have no weight
            sample_weight = checked_weights(np.asarray(sample_weight), np.asarray(y))
    return X, y, sample_weight
