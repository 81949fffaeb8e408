"""Fitted linear models: prediction and scores, NumPy or Dask in."""

from __future__ import annotations

from typing import Any

import numpy as np
from dask.base import is_dask_collection
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from ..errors import input_errors
from ..execution.labelled import plain_rows
from ..execution.planned import Costs, PlannedRows
from ..execution.row_blocks import map_rows
from ..features.base import validate_rows
from ..losses import LOSSES
from ..maps import working_dtype
from ..parameters import check_parameters
from ..scores.passes import error_pass, label_pass
from ..typing import ArrayLike
from .predictor import LinearPredictor


class LinearModel(BaseEstimator):
    """Base: `coef_` (C, D) or (D,), `intercept_`, `n_features_in_`."""

    coef_: np.ndarray
    intercept_: Any
    n_features_in_: int

    def facts(self) -> dict[str, Any]:
        """Facts about the fit, for reports.

        Returns
        -------
        dict
            Plain JSON by name: penalty, solver or epochs, errors.
        """
        return {}

    def check(self) -> None:
        """Check the parameters, each alone and together, as `fit` does.

        Raises
        ------
        InputError
            A parameter breaks its rule, or parameters do not go together.
        """
        check_parameters(self)

    def planned_costs(self, rows: PlannedRows) -> Costs:
        """Estimate the costs of `fit` on such features, before anything runs.

        Parameters
        ----------
        rows : PlannedRows
            Number and width of the features, their blocks, the outputs, and the workers.

        Returns
        -------
        Costs
            Passes, tasks, operations, and bytes that are read, written and held.

        Raises
        ------
        InputError
            A parameter breaks its rule, or parameters do not go together.
        """
        raise NotImplementedError

    def _predictor(self, output: str) -> LinearPredictor:
        coef = np.atleast_2d(self.coef_)
        return LinearPredictor(
            coef.shape[1],
            output,
            coef,
            np.atleast_1d(self.intercept_),
            getattr(self, "classes_", None),
            LOSSES.get(getattr(self, "loss", "")),
        )

    def _features(self, X: Any) -> Any:
        """The features that the weights multiply: the rows as they are, or those of a learned map."""
        return X

    def _predict(self, X: Any, output: str, squeeze: bool) -> Any:
        """Scores, labels or probabilities of rows; `squeeze` makes a single column of scores one-dimensional."""
        check_is_fitted(self)
        Z = self._features(validate_rows(self, X, reset=False))
        predictor = self._predictor(output)
        if not is_dask_collection(Z):
            out = predictor(Z)
            return out[:, 0] if squeeze and out.ndim == 2 else out
        if output == "label":
            return map_rows(predictor, Z, None, self.classes_.dtype)  # type: ignore[attr-defined]
        return map_rows(predictor, Z, None if squeeze else predictor.columns, working_dtype(Z.dtype))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class LinearClassifier(ClassifierMixin, LinearModel):
    """Largest score wins; two classes share one score."""

    classes_: np.ndarray

    def decision_function(self, X: ArrayLike) -> ArrayLike:
        """Compute the score of each class.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, D)
            Rows as `fit` took them.

        Returns
        -------
        array or Dask array of shape (n,) or (n, c)
            Scores, one column for two classes; lazy for a Dask array.
        """
        check_is_fitted(self)
        return self._predict(X, "score", len(self.classes_) == 2)

    def predict(self, X: ArrayLike) -> ArrayLike:
        """Predict labels.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, D)
            Rows as `fit` took them.

        Returns
        -------
        array or Dask array of shape (n,)
            Labels; lazy for a Dask array.
        """
        return self._predict(X, "label", True)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Compute the accuracy; one pass for a Dask array.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, D)
            Rows as `fit` took them.
        y : array or Dask array of shape (n,)
            Labels: numbers or text.
        sample_weight : array or Dask array of shape (n,), default=None
            Weight of each row. None weighs all alike.

        Returns
        -------
        float
            Weighted share of rows whose label is predicted.
        """
        X, y, sample_weight = plain_rows(X), plain_rows(y, "y"), plain_rows(sample_weight, "sample_weight")
        if not is_dask_collection(X):
            with input_errors():
                return float(super().score(X, y, sample_weight))
        return label_pass(y, self.predict(X), sample_weight, classes=self.classes_).accuracy


class LinearRegressor(RegressorMixin, LinearModel):
    """Linear scores as predictions."""

    def predict(self, X: ArrayLike) -> ArrayLike:
        """Predict targets.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, D)
            Rows as `fit` took them.

        Returns
        -------
        array or Dask array of shape (n,) or (n, C)
            Values, with as many columns as y had; lazy for a Dask array.
        """
        check_is_fitted(self)
        return self._predict(X, "score", np.ndim(self.coef_) == 1)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Compute the coefficient of determination; one pass for a Dask array.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, D)
            Rows as `fit` took them.
        y : array or Dask array of shape (n,) or (n, C)
            Targets: numbers, one or C for each row.
        sample_weight : array or Dask array of shape (n,), default=None
            Weight of each row. None weighs all alike.

        Returns
        -------
        float
            R^2, the mean over outputs.
        """
        X, y, sample_weight = plain_rows(X), plain_rows(y, "y"), plain_rows(sample_weight, "sample_weight")
        if not is_dask_collection(X):
            with input_errors():
                return float(super().score(X, y, sample_weight))
        return error_pass(y, self.predict(X), sample_weight).r2
