"""Fitted linear models: prediction and scores, NumPy or Dask in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from dask.base import is_dask_collection
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..errors import input_errors
from ..execution.labelled import plain_rows
from ..execution.planned import Costs, PlannedRows
from ..execution.row_blocks import map_rows
from ..losses import LOSSES, Logistic, Loss, get_loss
from ..maps.estimator import validate_rows
from ..parameters import check_parameters, number
from ..ridge.normal_equations import Solution
from ..scores.errors import ErrorSums
from ..scores.labels import LabelCounts
from ..scores.passes import check_targets, sum_pass
from ..targets import Targets, class_targets, regression_targets
from ..typing import ArrayLike, ClassWeight
from .calibration import error_bound, of_each_class
from .predictor import LinearPredictor

COVERAGE = number(above=0, below=1)


class LinearModel(BaseEstimator):
    """Base: `coef_` (C, D) or (D,), `intercept_`, `n_features_in_`; `calibration_` if it was learned."""

    fit_intercept: bool
    loss: str
    calibrate: bool
    coef_: np.ndarray
    intercept_: Any
    calibration_: np.ndarray
    n_features_in_: int

    @property
    def _calibrates(self) -> bool:
        """Whether `fit` holds rows out to learn probabilities or intervals from; a probabilistic loss has some without."""
        return bool(self.calibrate) and not LOSSES[self.loss].probabilistic

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

    def _encoded(self, y: Any, weight: Any, known: Any = None) -> Targets:
        """How targets are encoded; `known` is what rows before tell: all labels, or the centre of targets."""
        raise NotImplementedError

    def _set_solution(self, solution: Solution, targets: Targets, calibration: np.ndarray | None) -> None:
        """Set the penalty, the weights and what was calibrated."""
        self.alpha_ = solution.alpha
        self.coef_ = np.ascontiguousarray(solution.weights.T)
        self.intercept_ = solution.intercept + (targets.centre if self.fit_intercept else 0.0)
        self.__dict__.pop("calibration_", None)
        if calibration is not None:
            self.calibration_ = calibration

    def _finish(self, targets: Targets, flat: bool) -> None:
        """Set `classes_`, or, for targets of one dimension, give weights one dimension less."""
        if targets.classes is not None:
            self.classes_ = np.asarray(targets.classes)
        elif flat:
            self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])

    def _predictor(self, output: str) -> LinearPredictor:
        coef, intercept = np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)
        loss = LOSSES.get(getattr(self, "loss", ""))
        if output == "probability" and hasattr(self, "calibration_"):
            slopes, offsets = self.calibration_.T
            coef, intercept = (of_each_class(weights.T).T for weights in (coef, intercept[:, None]))
            coef, intercept, loss = slopes[:, None] * coef, slopes * intercept[:, 0] + offsets, Logistic
        return LinearPredictor(coef.shape[1], output, coef, intercept, getattr(self, "classes_", None), loss)

    def _features(self, X: Any) -> Any:
        """The features that the weights multiply: the rows as they are, or those of a learned map."""
        return X

    def _predict(self, X: Any, output: str, squeeze: bool) -> Any:
        """Values, scores, labels or probabilities of rows; `squeeze` makes a single column of scores one-dimensional."""
        check_is_fitted(self)
        Z = self._features(validate_rows(self, X, reset=False))
        predictor = self._predictor(output)
        if not is_dask_collection(Z):
            out = predictor(Z)
            return out[:, 0] if squeeze and out.ndim == 2 else out
        if output == "label":
            return map_rows(predictor, Z, None, self.classes_.dtype)  # type: ignore[attr-defined]
        return map_rows(predictor, Z, None if squeeze else predictor.columns, predictor.dtype(Z.dtype))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _gives_probabilities(model: Any) -> bool:
    """True for a classifier with probabilities. Others raise AttributeError, as scikit-learn expects."""
    loss = LOSSES.get(getattr(model, "loss", ""))
    if loss is not None and loss.probabilistic:
        return True
    able = " or ".join(repr(name) for name, known in LOSSES.items() if known.probabilistic)
    return _is_calibrated(model, "predict_proba", f"loss={able}" if loss is not None else "")


def _is_calibrated(model: Any, method: str, other: str = "") -> bool:
    """True for a model that `fit` calibrates, or has calibrated. Others raise AttributeError; `other` would do as well."""
    if hasattr(model, "calibration_") or (not hasattr(model, "coef_") and getattr(model, "calibrate", False)):
        return True
    ways = ["calibrate=True in `fit`"] if hasattr(model, "calibrate") else []
    ways += [other] if other else []
    raise AttributeError(
        f"{method} needs {' or '.join(ways) or 'ridge or SGD with calibrate=True'}, got {model!r}"
    )


class LinearClassifier(ClassifierMixin, LinearModel):
    """Largest score wins; two classes share one score."""

    classes_: np.ndarray
    class_weight: ClassWeight

    def _encoded(self, y: Any, weight: Any, known: Any = None) -> Targets:
        return class_targets(y, weight, self.class_weight, known)

    @available_if(_gives_probabilities)
    def predict_proba(self, X: ArrayLike) -> ArrayLike:
        """Compute class probabilities: of a calibrated model, or of the logistic or the multinomial loss.

        Those of a calibrated model are of rows as they were given, weighted by `sample_weight`, whatever `class_weight`
        is. The most probable class may differ from the label, which the largest score decides.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, D)
            Rows as `fit` took them.

        Returns
        -------
        array or Dask array of shape (n, c)
            Probabilities in the order of `classes_`; lazy for a Dask array.
        """
        check_is_fitted(self)
        return self._predict(X, "probability", False)

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
        X, y, weight = plain_rows(X), plain_rows(y, "y"), plain_rows(sample_weight, "sample_weight")
        if not is_dask_collection(X):
            with input_errors():
                return float(super().score(X, y, weight))
        return sum_pass(LabelCounts(), y=y, predicted=self.predict(X), weight=weight).scores()["accuracy"]


class LinearRegressor(RegressorMixin, LinearModel):
    """Linear scores as predictions."""

    def _encoded(self, y: Any, weight: Any, known: Any = None) -> Targets:
        targets = regression_targets(y, weight, known)
        return targets if self.fit_intercept else replace(targets, centre=np.zeros_like(targets.centre))

    @available_if(lambda self: _is_calibrated(self, "predict_interval"))
    def predict_interval(self, X: ArrayLike, coverage: float = 0.9) -> ArrayLike:
        """Predict intervals that hold the targets of a given share of new rows: split-conformal, of equal width.

        An interval is the prediction and, to both sides, the error that this share of the rows held out in `fit` did not
        exceed. Among rows of the same population the share of targets inside is the coverage, within about
        sqrt(coverage (1 - coverage) / m) for m held-out rows (20,000 at most), whatever the distribution. It is an
        average over rows: where the noise is larger than elsewhere, fewer targets are inside. SGD does not train on the
        held-out rows. Ridge trains on all rows, and takes errors of its solutions without a fold, as the jackknife and
        cross-conformal prediction do [2]_.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, D)
            Rows as `fit` took them.
        coverage : float, default=0.9
            Share of targets inside, above 0 and below 1. Of several targets, of each.

        Returns
        -------
        array or Dask array of shape (n, 2) or (n, C, 2)
            Lower and upper end; lazy for a Dask array.

        Raises
        ------
        InputError
            `coverage` is no such number, or too few rows were held out for it.

        References
        ----------
        .. [1] J. Lei, M. G'Sell, A. Rinaldo, R. J. Tibshirani and L. Wasserman, "Distribution-Free Predictive Inference
               for Regression", JASA 113, 2018.
        .. [2] R. F. Barber, E. J. Candes, A. Ramdas and R. J. Tibshirani, "Predictive Inference with the Jackknife+",
               Annals of Statistics 49, 2021.

        Examples
        --------
        >>> import numpy as np
        >>> from distrf import StreamingRidge
        >>> rng = np.random.default_rng(0)
        >>> Z = rng.normal(size=(2000, 3))
        >>> y = Z @ [1.0, 2.0, 3.0] + rng.normal(size=2000)
        >>> model = StreamingRidge(calibrate=True).fit(Z, y)
        >>> low, high = model.predict_interval(np.zeros((1, 3)), coverage=0.95)[0]
        >>> bool(1.9 < (high - low) / 2 < 2.1)  # 1.96 standard deviations
        True
        """
        check_is_fitted(self)
        COVERAGE.check("coverage", coverage)
        predicted = self.predict(X)
        ends = np.multiply.outer(error_bound(self.calibration_, float(coverage)), [-1.0, 1.0])
        return predicted[..., None] + (ends if predicted.ndim == 2 else ends[0])

    def predict(self, X: ArrayLike) -> ArrayLike:
        """Predict targets.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, D)
            Rows as `fit` took them.

        Returns
        -------
        array or Dask array of shape (n,) or (n, C)
            Values in float64, with as many columns as y had; lazy for a Dask array.
        """
        check_is_fitted(self)
        return self._predict(X, "value", np.ndim(self.coef_) == 1)

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
        check_targets(y, None)
        return sum_pass(ErrorSums(), y=y, predicted=self.predict(X), weight=sample_weight).scores()["r2"]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def loss_of(name: str, targets: Targets, epsilon: float | str = "auto") -> Loss:
    """The loss of that name for such targets; epsilon="auto", which the rows decide, is 0.1 until then."""
    classes = 0 if targets.classes is None else len(targets.classes)
    return get_loss(name, classes, 0.1 if epsilon == "auto" else float(epsilon))
