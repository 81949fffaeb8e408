"""Linear models on Fourier features that are learned together with them."""

from __future__ import annotations

from ..linear_model.base import LinearClassifier, LinearRegressor
from ..losses import loss_rule
from ..parameters import CLASS_WEIGHT, estimator, number, one_of, param
from ..typing import ArrayLike, ClassWeight
from .base import CompactModel


@estimator
class CompactNonlinearClassifier(LinearClassifier, CompactModel):
    """Classification on Fourier features whose frequencies are learned with the linear model.

    Minimises over Theta, b, w and c

        (1 / W) sum_i w_i loss(w.z(x_i) + c, y_i) + (alpha/2) |w|^2 + (theta_l2/2) |Theta|^2,

    z(x) = sqrt(2/D) cos(Theta x + b), by stochastic gradients in batches. Any number of workers gives the same
    bits.

    Parameters
    ----------
    loss : str, default="multinomial"
        "multinomial" (softmax over all classes), "hinge", "squared_hinge", "logistic" or "squared" (on
        targets -1 and 1). All but the first are one against the rest, on shared features.
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

    References
    ----------
    .. [1] F. X. Yu, S. Kumar, H. Rowley and S.-F. Chang, "Compact Nonlinear Maps and Circulant Extensions",
           2015, arXiv:1503.03893.

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import CompactNonlinearClassifier
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> y = X[:, 0] ** 2 + X[:, 1] ** 2 > 1
    >>> CompactNonlinearClassifier(4, n_epochs=50, random_state=7).fit(X, y).score(X, y) > 0.9
    True
    """

    loss: str = param(default="multinomial", rule=loss_rule("classification"), kw_only=False)
    class_weight: ClassWeight = param(default=None, rule=CLASS_WEIGHT)

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        folds: ArrayLike | None = None,
    ) -> CompactNonlinearClassifier:
        """Learn the map and the linear model from rows and labels.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, d)
            Input rows. A Dask array is read block by block.
        y : array or Dask array of shape (n,)
            Labels: numbers or text.
        sample_weight : array or Dask array of shape (n,), default=None
            Weight of each row. None weighs all alike.
        folds : array or Dask array of shape (n,) of int, default=None
            Fold of each row, from 0 on; -1 for rows that are never held out (as scikit-learn's PredefinedSplit). With
            `early_stopping` the rows of fold 0 are held out, whatever `validation_fraction` is. None draws rows of every
            block.

        Returns
        -------
        CompactNonlinearClassifier
            The fitted estimator itself.

        Raises
        ------
        InputError
            A parameter breaks a rule, or the data do: NaN or infinity, another length of y, text for
            numbers.
        SpecMismatchError
            The checkpoint belongs to another fit.
        """
        return self._fit(X, y, sample_weight, folds)


@estimator
class CompactNonlinearRegressor(LinearRegressor, CompactModel):
    """Regression on Fourier features whose frequencies are learned with the linear model.

    The objective is that of CompactNonlinearClassifier, with a loss of regression.

    Parameters
    ----------
    loss : {"squared", "huber", "epsilon_insensitive"}, default="squared"
        Loss of a row. "squared" is residual^2 / 2.
    epsilon : float or {"auto"}, default="auto"
        Width of the Huber and of the epsilon-insensitive loss, in units of the targets. "auto" is a robust
        standard deviation of the targets for the first, a tenth of it for the second.

    Attributes
    ----------
    coef_ : array of shape (D,) or (C, D)
        Weights.
    intercept_ : float or array of shape (C,)
        Intercept.

    References
    ----------
    .. [1] F. X. Yu, S. Kumar, H. Rowley and S.-F. Chang, "Compact Nonlinear Maps and Circulant Extensions",
           2015, arXiv:1503.03893.

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import CompactNonlinearRegressor
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> y = np.sin(X[:, 0] + X[:, 1])
    >>> CompactNonlinearRegressor(4, n_epochs=50, random_state=7).fit(X, y).score(X, y) > 0.9
    True
    """

    loss: str = param(default="squared", rule=loss_rule("regression"), kw_only=False)
    epsilon: float | str = param(default="auto", rule=number(0) | one_of("auto"))

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        folds: ArrayLike | None = None,
    ) -> CompactNonlinearRegressor:
        """Learn the map and the linear model from rows and targets.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, d)
            Input rows. A Dask array is read block by block.
        y : array or Dask array of shape (n,) or (n, C)
            Targets: numbers, one or C for each row.
        sample_weight : array or Dask array of shape (n,), default=None
            Weight of each row. None weighs all alike.
        folds : array or Dask array of shape (n,) of int, default=None
            Fold of each row, from 0 on; -1 for rows that are never held out (as scikit-learn's PredefinedSplit). With
            `early_stopping` the rows of fold 0 are held out, whatever `validation_fraction` is. None draws rows of every
            block.

        Returns
        -------
        CompactNonlinearRegressor
            The fitted estimator itself.

        Raises
        ------
        InputError
            A parameter breaks a rule, or the data do: NaN or infinity, another length of y, text for
            numbers.
        SpecMismatchError
            The checkpoint belongs to another fit.
        """
        return self._fit(X, y, sample_weight, folds)
