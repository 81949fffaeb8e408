"""Ridge regression on a stream of features: exact by one pass, or by passes of gradients."""

from __future__ import annotations

from typing import Self

from sklearn.utils.metaestimators import available_if

from ..parameters import CLASS_WEIGHT, estimator, param
from ..typing import ArrayLike, ClassWeight
from .base import LinearClassifier, LinearRegressor
from .ridge_base import BaseRidge, takes_rows


@estimator
class StreamingRidge(LinearRegressor, BaseRidge):
    """Ridge regression by one pass that adds up the normal equations, or beyond memory by passes.

    Minimises (1 / 2W) sum_i w_i |y_i - b - z_i.u|^2 + (alpha / 2) |u|^2 over u and b, with W = sum_i w_i. The
    intercept b has no penalty. scikit-learn's `Ridge(alpha)` is ours with alpha / n.

    Parameters
    ----------
    calibrate : bool, default=False
        Whether `fit` also learns probabilities, or intervals, from held-out rows; a model that is made by name does. For
        `predict_interval`, it keeps errors of solutions without the fold of each row. It reads at most 20,000 sampled rows
        once more and factors one more matrix for each fold. A single alpha needs folds too then; they take the memory
        that they take to compare several.

    Attributes
    ----------
    coef_ : array of shape (D,) or (C, D)
        Weights.
    intercept_ : float or array of shape (C,)
        Intercept.
    cv_errors_ : array of shape (a,) or None
        Mean squared error of each of `alphas_` on held-out rows. Of several targets, the mean over them of error
        over variance (1 - R^2), times their mean variance, so that units do not matter; a target that does not vary
        counts nothing. None where there was but one.
    calibration_ : array of shape (k, C)
        Absolute errors of held-out rows, ascending for each target; with unequal weights, quantiles of them. Only with
        `calibrate`; `partial_fit` says how long it stays.

    References
    ----------
    .. [1] A. E. Hoerl and R. W. Kennard, "Ridge Regression: Biased Estimation for Nonorthogonal Problems",
           Technometrics 12, 1970.

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import StreamingRidge
    >>> Z = np.random.default_rng(0).normal(size=(200, 3))
    >>> y = Z @ [1.0, 2.0, 3.0] + 4.0
    >>> model = StreamingRidge(alpha=1e-9).fit(Z, y)
    >>> model.coef_.round(3), round(model.intercept_, 3)
    (array([1., 2., 3.]), 4.0)
    """

    @available_if(takes_rows)
    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Add rows to those of all calls so far, and solve anew.

        The sums are those of all rows together, so the result is that of one `fit` up to rounding, in whatever pieces the
        rows come; `alpha` and `fit_intercept` may change between calls. With several alphas, the fold of a row follows from
        its number among all rows.

        With `calibrate`, intervals are learned anew from errors of rows of this call, by solutions without their folds, if there
        are 1,000 of them, or as many as those before were learned from: they hold for rows like these. Else they stay.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, D)
            Features. A Dask array is read block by block, out of core.
        y : array or Dask array of shape (n,) or (n, C)
            Targets: numbers, one or C for each row.
        sample_weight : array or Dask array of shape (n,), default=None
            Weight of each row. None weighs all alike.

        Returns
        -------
        StreamingRidge
            The fitted estimator itself.

        Raises
        ------
        InputError
            The model was fitted without `keep_state`, or by passes; a parameter breaks a rule, or the data
            do: NaN or infinity, other columns. The model is as it was then.
        MemoryPlanError
            The job cannot fit into memory.

        Examples
        --------
        >>> import numpy as np
        >>> from distrf import StreamingRidge
        >>> Z = np.random.default_rng(0).normal(size=(200, 3))
        >>> y = Z @ [1.0, 2.0, 3.0] + 4.0
        >>> model = StreamingRidge(alpha=1e-9, keep_state=True).fit(Z[:150], y[:150])
        >>> model.partial_fit(Z[150:], y[150:]).coef_.round(3)
        array([1., 2., 3.])
        """
        return self._more_rows(X, y, sample_weight)


@estimator
class StreamingRidgeClassifier(LinearClassifier, BaseRidge):
    """Ridge regression on targets -1 and 1, one against the rest; the largest score wins.

    The objective is that of StreamingRidge, and alphas are compared by squared errors.

    Parameters
    ----------
    calibrate : bool, default=False
        Whether `fit` also learns probabilities, or intervals, from held-out rows; a model that is made by name does. For
        `predict_proba`, it fits Platt's sigmoids to scores of solutions without the fold of each row. It reads at most
        20,000 sampled rows once more and factors one more matrix for each fold. A single alpha needs folds too then; they
        take the memory that they take to compare several.
    class_weight : {"balanced"}, dict or None, default=None
        Factor on the weight of the rows of each class: "balanced" is n / (classes * count), a dict is
        {label: factor}.

    Attributes
    ----------
    classes_ : array of shape (c,)
        The labels, sorted.
    coef_ : array of shape (c, D) or (1, D)
        Weights; one row for two classes.
    intercept_ : array of shape (c,) or (1,)
        Intercepts.
    cv_errors_ : array of shape (a,) or None
        Mean squared error of each of `alphas_` on held-out rows. None where there was but one.
    calibration_ : array of shape (c, 2)
        Slope a and offset b of each class: its probability is the sigmoid of a s + b, s being its score, over the sum of
        these. Two classes share the score, with either sign. Only with `calibrate`; `partial_fit` says how long it
        stays.

    References
    ----------
    .. [1] A. E. Hoerl and R. W. Kennard, "Ridge Regression: Biased Estimation for Nonorthogonal Problems",
           Technometrics 12, 1970.
    .. [2] J. C. Platt, "Probabilistic Outputs for Support Vector Machines", Advances in Large Margin Classifiers, 1999
           (calibrate).

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import StreamingRidgeClassifier
    >>> Z = np.random.default_rng(0).normal(size=(200, 3))
    >>> y = np.where(Z[:, 0] > 0, "above", "below")
    >>> model = StreamingRidgeClassifier(alpha=1e-3, calibrate=True).fit(Z, y)
    >>> model.score(Z, y) > 0.9
    True
    >>> model.predict_proba([[2.0, 0.0, 0.0], [0.0, 0.0, 0.0]]).shape  # of "above" and "below"
    (2, 2)
    """

    class_weight: ClassWeight = param(default=None, rule=CLASS_WEIGHT)

    @available_if(takes_rows)
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Add rows to those of all calls so far, and solve anew.

        The sums are those of all rows together, so the result is that of one `fit` up to rounding, in whatever pieces the
        rows come; `alpha` and `fit_intercept` may change between calls. With several alphas, the fold of a row follows from
        its number among all rows.

        With `calibrate`, probabilities are learned anew from scores of rows of this call, by solutions without their folds, if
        there are 100 of each class: they hold for rows like these. Else they stay.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, D)
            Features. A Dask array is read block by block, out of core.
        y : array or Dask array of shape (n,)
            Labels: numbers or text.
        classes : array of shape (c,), default=None
            All labels there will be, at the first call; None takes those of its rows. Others are refused later.
        sample_weight : array or Dask array of shape (n,), default=None
            Weight of each row. None weighs all alike.

        Returns
        -------
        StreamingRidgeClassifier
            The fitted estimator itself.

        Raises
        ------
        InputError
            The model was fitted without `keep_state`, or by passes; labels are not known;
            `class_weight` is "balanced", or not what it was; a parameter breaks a rule, or the data do: NaN or infinity,
            other columns. The model is as it was then.
        MemoryPlanError
            The job cannot fit into memory.
        """
        return self._more_rows(X, y, sample_weight, classes)
