"""Ridge regression on a stream of features: exact by one pass, or by conjugate gradients over passes."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.utils import Tags

from ..folds import given_folds
from ..parameters import CLASS_WEIGHT, Rule
from ..targets import class_targets
from ..typing import Alphas, ArrayLike, ClassWeight, RandomState
from .base import LinearClassifier, LinearRegressor
from .ridge_base import BaseRidge
from .ridge_rows import ClassifierRows, RegressorRows
from .validation import validate_fit


class StreamingRidge(LinearRegressor, RegressorRows):
    """Ridge regression by one pass that adds up the normal equations, or by conjugate gradients.

    Minimises (1 / 2W) sum_i w_i |y_i - b - z_i.u|^2 + (alpha / 2) |u|^2 over u and b, with W = sum_i w_i. The
    intercept b has no penalty. scikit-learn's `Ridge(alpha)` is ours with alpha / n.

    Parameters
    ----------
    alpha : float, sequence of float or {"auto"}, default="auto"
        Penalty alpha, or several of which cross-validation picks one. "auto" takes decades from 1e-8 to
        1e-1 times the energy of the features (their mean square about the mean, about 1 for Fourier
        features). It adds decades while the best one is at an edge, and the half decades beside the best.
        Each alpha costs one factorisation of a D x D matrix for each fold and no further pass. Where no row
        can be held out, "auto" is 1e-3. A warning says where rounding allows no alpha small enough.
    fit_intercept : bool, default=True
        Whether to fit the intercept b, which has no penalty.
    cv : int or {"auto", "holdout"}, default="auto"
        How alphas are compared: by so many folds, or by one held-out fifth ("holdout"). The pass keeps one
        Gram matrix for each fold, two for "holdout". "auto" is 5 folds up to 2,048 features where workers
        and client hold them, else "holdout". A row's fold is random, from a hash of its number, so the order of the
        rows does no harm. Copies of a row, whose folds then differ, make alpha too small: `fit(X, y, folds=)` keeps
        them together, and `train` gives it such folds.
    calibrate : bool, default=False
        Whether `fit` also learns probabilities, or intervals, from held-out rows; a model that is made by name does. For
        `predict_interval`, it keeps errors of solutions without the fold of each row. It reads at most 20,000 sampled rows
        once more and factors one more matrix for each fold. A single alpha needs folds too then; they take the memory
        that they take to compare several.
    solver : {"auto", "gram", "cg"}, default="auto"
        "gram" is exact, in one pass and D^2 numbers. "cg" takes conjugate gradients: a few passes and D *
        n_directions numbers. "auto" is "gram" where the plan says that workers and client hold it, and
        `solver_reason_` says why. With "cg", several alphas are compared on one held-out fifth whatever
        `cv` is, and only the best and its neighbours are iterated to convergence; the decades of its "auto"
        start at 1e-8, or below while the smallest is the best, and end at 100 times the energy.
    n_directions : int or {"auto"}, default="auto"
        Dominant directions of the features that "cg" starts from. More of them take more memory and fewer
        passes. "auto" is D / 8, but 64 to 512.
    tol : float, default=0.001
        "cg" stops when its residual guarantees that the relative error of the predictions is at most this.
    max_passes : int, default=50
        Most passes of "cg". A warning says if they were too few.
    keep_state : bool, default=False
        Whether `fit` keeps the sums of its pass in `state_`, so that `partial_fit` can add more rows. They are saved with
        the model: for each fold the lower tiles of a D x D float64 matrix, of 8 D^2 bytes up to 1,024 features, 6 D^2 with
        2,048, near 4 D^2 with many. The solver is "gram" then.
    checkpoint : str, PathLike or None, default=None
        Folder or URL in which "cg" keeps the result of each pass. If an interrupted fit is called again, it
        resumes from there.
    random_state : int, Generator, RandomState or None, default=0
        Seed of all draws. None draws one seed.

    Attributes
    ----------
    coef_ : array of shape (D,) or (C, D)
        Weights.
    intercept_ : float or array of shape (C,)
        Intercept.
    alpha_ : float
        The penalty in use.
    alphas_ : array of shape (a,)
        The penalties that were compared.
    cv_errors_ : array of shape (a,) or None
        Mean squared error of each of `alphas_` on held-out rows. Of several targets, the mean over them of error
        over variance (1 - R^2), times their mean variance, so that units do not matter; a target that does not vary
        counts nothing. None where there was but one.
    solver_ : str
        The solver in use, "gram" or "cg".
    solver_reason_ : str
        Why "auto" took it.
    n_iter_ : int
        Passes of "cg"; 0 for "gram".
    n_finder_passes_ : int
        Passes before those of "cg", for right-hand sides and directions; 0 for "gram".
    residual_ : float
        Largest relative residual of the normal equations over the targets; 0 for "gram".
    error_bound_ : float
        Bound on the relative error of predictions of the training rows, at which "cg" stopped; 0 for
        "gram".
    calibration_ : array of shape (k, C)
        Absolute errors of held-out rows, ascending for each target; with unequal weights, quantiles of them. Only with
        `calibrate`; `partial_fit` says how long it stays.
    state_ : KeptState
        The sums of all rows so far; only with `keep_state`, or after `partial_fit`.
    n_features_in_ : int
        Number of input columns, D.

    References
    ----------
    .. [1] A. E. Hoerl and R. W. Kennard, "Ridge Regression: Biased Estimation for Nonorthogonal Problems",
           Technometrics 12, 1970.
    .. [2] D. P. O'Leary, "The Block Conjugate Gradient Algorithm and Related Methods", Linear Algebra and its
           Applications 29, 1980 (solver="cg").

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

    def __init__(
        self,
        alpha: Alphas = "auto",
        *,
        fit_intercept: bool = True,
        cv: int | str = "auto",
        calibrate: bool = False,
        solver: str = "auto",
        n_directions: int | str = "auto",
        tol: float = 1e-3,
        max_passes: int = 50,
        keep_state: bool = False,
        checkpoint: str | None = None,
        random_state: RandomState = 0,
    ):
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.cv = cv
        self.calibrate = calibrate
        self.solver = solver
        self.n_directions = n_directions
        self.tol = tol
        self.max_passes = max_passes
        self.keep_state = keep_state
        self.checkpoint = checkpoint
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        folds: ArrayLike | None = None,
    ) -> StreamingRidge:
        """Fit to features and targets.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, D)
            Features. A Dask array is read block by block, out of core.
        y : array or Dask array of shape (n,) or (n, C)
            Targets: numbers, one or C for each row.
        sample_weight : array or Dask array of shape (n,), default=None
            Weight of each row. None weighs all alike.
        folds : array or Dask array of shape (n,) of int, default=None
            Fold of each row, from 0 on; -1 for rows that are never held out (as scikit-learn's PredefinedSplit). By these
            alphas are compared and calibration learns: each fold in turn, or fold 0 alone where one part is held out
            (`cv="holdout"`, "cg", many features). None cuts folds by `cv`.

        Returns
        -------
        StreamingRidge
            The fitted estimator itself.

        Raises
        ------
        InputError
            A parameter breaks a rule, or the data do: NaN or infinity, another length of y, text for
            numbers.
        MemoryPlanError
            The job cannot fit into memory.
        SpecMismatchError
            The checkpoint belongs to another fit.
        """
        self._fit_beside(X, None, y, sample_weight, folds)
        return self

    def _fit_beside(
        self, X: Any, columns: Any, y: Any, sample_weight: Any, folds: Any = None, keep: bool = False
    ) -> np.ndarray | None:
        X, y, sample_weight = validate_fit(self, X, y, sample_weight, numeric=True)
        targets = self._targets(y, sample_weight)
        given = given_folds(X, folds)
        errors = self._fit(X, y, sample_weight, given, targets, columns, keep or self.keep_state)
        self._flatten(y.ndim == 1)
        return errors

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class StreamingRidgeClassifier(LinearClassifier, ClassifierRows):
    """Ridge regression on targets -1 and 1, one against the rest; the largest score wins.

    The objective is that of StreamingRidge, and alphas are compared by squared errors.

    Parameters
    ----------
    alpha : float, sequence of float or {"auto"}, default="auto"
        Penalty alpha, or several of which cross-validation picks one. "auto" takes decades from 1e-8 to
        1e-1 times the energy of the features (their mean square about the mean, about 1 for Fourier
        features). It adds decades while the best one is at an edge, and the half decades beside the best.
        Each alpha costs one factorisation of a D x D matrix for each fold and no further pass. Where no row
        can be held out, "auto" is 1e-3. A warning says where rounding allows no alpha small enough.
    fit_intercept : bool, default=True
        Whether to fit the intercept b, which has no penalty.
    class_weight : {"balanced"}, dict or None, default=None
        Factor on the weight of the rows of each class: "balanced" is n / (classes * count), a dict is
        {label: factor}.
    cv : int or {"auto", "holdout"}, default="auto"
        How alphas are compared: by so many folds, or by one held-out fifth ("holdout"). The pass keeps one
        Gram matrix for each fold, two for "holdout". "auto" is 5 folds up to 2,048 features where workers
        and client hold them, else "holdout". A row's fold is random, from a hash of its number, so the order of the
        rows does no harm. Copies of a row, whose folds then differ, make alpha too small: `fit(X, y, folds=)` keeps
        them together, and `train` gives it such folds.
    calibrate : bool, default=False
        Whether `fit` also learns probabilities, or intervals, from held-out rows; a model that is made by name does. For
        `predict_proba`, it fits Platt's sigmoids to scores of solutions without the fold of each row. It reads at most
        20,000 sampled rows once more and factors one more matrix for each fold. A single alpha needs folds too then; they
        take the memory that they take to compare several.
    solver : {"auto", "gram", "cg"}, default="auto"
        "gram" is exact, in one pass and D^2 numbers. "cg" takes conjugate gradients: a few passes and D *
        n_directions numbers. "auto" is "gram" where the plan says that workers and client hold it, and
        `solver_reason_` says why. With "cg", several alphas are compared on one held-out fifth whatever
        `cv` is, and only the best and its neighbours are iterated to convergence; the decades of its "auto"
        start at 1e-8, or below while the smallest is the best, and end at 100 times the energy.
    n_directions : int or {"auto"}, default="auto"
        Dominant directions of the features that "cg" starts from. More of them take more memory and fewer
        passes. "auto" is D / 8, but 64 to 512.
    tol : float, default=0.001
        "cg" stops when its residual guarantees that the relative error of the predictions is at most this.
    max_passes : int, default=50
        Most passes of "cg". A warning says if they were too few.
    keep_state : bool, default=False
        Whether `fit` keeps the sums of its pass in `state_`, so that `partial_fit` can add more rows. They are saved with
        the model: for each fold the lower tiles of a D x D float64 matrix, of 8 D^2 bytes up to 1,024 features, 6 D^2 with
        2,048, near 4 D^2 with many. The solver is "gram" then.
    checkpoint : str, PathLike or None, default=None
        Folder or URL in which "cg" keeps the result of each pass. If an interrupted fit is called again, it
        resumes from there.
    random_state : int, Generator, RandomState or None, default=0
        Seed of all draws. None draws one seed.

    Attributes
    ----------
    classes_ : array of shape (c,)
        The labels, sorted.
    coef_ : array of shape (c, D) or (1, D)
        Weights; one row for two classes.
    intercept_ : array of shape (c,) or (1,)
        Intercepts.
    alpha_ : float
        The penalty in use.
    alphas_ : array of shape (a,)
        The penalties that were compared.
    cv_errors_ : array of shape (a,) or None
        Mean squared error of each of `alphas_` on held-out rows. None where there was but one.
    solver_ : str
        The solver in use, "gram" or "cg".
    solver_reason_ : str
        Why "auto" took it.
    n_iter_ : int
        Passes of "cg"; 0 for "gram".
    n_finder_passes_ : int
        Passes before those of "cg", for right-hand sides and directions; 0 for "gram".
    residual_ : float
        Largest relative residual of the normal equations over the targets; 0 for "gram".
    error_bound_ : float
        Bound on the relative error of predictions of the training rows, at which "cg" stopped; 0 for
        "gram".
    calibration_ : array of shape (c, 2)
        Slope a and offset b of each class: its probability is the sigmoid of a s + b, s being its score, over the sum of
        these. Two classes share the score, with either sign. Only with `calibrate`; `partial_fit` says how long it
        stays.
    state_ : KeptState
        The sums of all rows so far; only with `keep_state`, or after `partial_fit`.
    n_features_in_ : int
        Number of input columns, D.

    References
    ----------
    .. [1] A. E. Hoerl and R. W. Kennard, "Ridge Regression: Biased Estimation for Nonorthogonal Problems",
           Technometrics 12, 1970.
    .. [2] D. P. O'Leary, "The Block Conjugate Gradient Algorithm and Related Methods", Linear Algebra and its
           Applications 29, 1980 (solver="cg").
    .. [3] J. C. Platt, "Probabilistic Outputs for Support Vector Machines", Advances in Large Margin Classifiers, 1999
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

    parameter_rules: ClassVar[dict[str, Rule]] = BaseRidge.parameter_rules | {"class_weight": CLASS_WEIGHT}

    def __init__(
        self,
        alpha: Alphas = "auto",
        *,
        fit_intercept: bool = True,
        class_weight: ClassWeight = None,
        cv: int | str = "auto",
        calibrate: bool = False,
        solver: str = "auto",
        n_directions: int | str = "auto",
        tol: float = 1e-3,
        max_passes: int = 50,
        keep_state: bool = False,
        checkpoint: str | None = None,
        random_state: RandomState = 0,
    ):
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.cv = cv
        self.calibrate = calibrate
        self.solver = solver
        self.n_directions = n_directions
        self.tol = tol
        self.max_passes = max_passes
        self.keep_state = keep_state
        self.checkpoint = checkpoint
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        folds: ArrayLike | None = None,
    ) -> StreamingRidgeClassifier:
        """Fit to features and labels.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, D)
            Features. A Dask array is read block by block, out of core.
        y : array or Dask array of shape (n,)
            Labels: numbers or text.
        sample_weight : array or Dask array of shape (n,), default=None
            Weight of each row. None weighs all alike.
        folds : array or Dask array of shape (n,) of int, default=None
            Fold of each row, from 0 on; -1 for rows that are never held out (as scikit-learn's PredefinedSplit). By these
            alphas are compared and calibration learns: each fold in turn, or fold 0 alone where one part is held out
            (`cv="holdout"`, "cg", many features). None cuts folds by `cv`.

        Returns
        -------
        StreamingRidgeClassifier
            The fitted estimator itself.

        Raises
        ------
        InputError
            A parameter breaks a rule, or the data do: NaN or infinity, another length of y, text for
            numbers.
        MemoryPlanError
            The job cannot fit into memory.
        SpecMismatchError
            The checkpoint belongs to another fit.
        """
        self._fit_beside(X, None, y, sample_weight, folds)
        return self

    def _fit_beside(
        self, X: Any, columns: Any, y: Any, sample_weight: Any, folds: Any = None
    ) -> np.ndarray | None:
        X, y, sample_weight = validate_fit(self, X, y, sample_weight, numeric=False)
        targets = class_targets(y, sample_weight, self.class_weight)
        given = given_folds(X, folds)
        errors = self._fit(X, y, sample_weight, given, targets, columns, self.keep_state)
        self.classes_ = np.asarray(targets.classes)
        return errors


def fit_beside(
    model: StreamingRidge | StreamingRidgeClassifier,
    X: ArrayLike,
    columns: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    folds: ArrayLike | None = None,
) -> np.ndarray | None:
    """Fit `model` to features X, and a linear model to other columns of the same rows in the same pass.

    Parameters
    ----------
    X, columns : of shapes (n, D) and (n, d), both dense, in memory or both Dask arrays with the same row chunks
    y, sample_weight, folds : as for `fit`

    Returns
    -------
    The mean squared error of ridge on the columns for each penalty compared, on the same held-out rows as
    `model.cv_errors_`. None if nothing is held out (one penalty), or if conjugate gradients fit the model
    """
    return model._fit_beside(X, columns, y, sample_weight, folds)
