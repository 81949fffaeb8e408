"""Linear models by stochastic gradients in batches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..errors import InputError
from ..losses import loss_rule
from ..parameters import CLASS_WEIGHT, estimator, number, one_of, param
from ..targets import check_labels
from ..typing import ArrayLike, ClassWeight
from .base import LinearClassifier, LinearRegressor
from .sgd_base import BaseSGD
from .validation import validate_fit


@estimator
class StreamingSGDClassifier(LinearClassifier, BaseSGD):
    """Linear classification by stochastic gradients in batches; the largest score wins.

    Minimises (1 / W) sum_i w_i loss(z_i.u + b, y_i) + (alpha / 2) |u|^2, with W = sum_i w_i. The intercept b has no
    penalty. Training keeps the best epoch, as StreamingSGDRegressor does.

    Parameters
    ----------
    loss : str, default="hinge"
        "hinge", "squared_hinge", "logistic", "multinomial", or "squared" (on targets -1 and 1). All but
        "multinomial" are one against the rest, all classes in one product.
    class_weight : {"balanced"}, dict or None, default=None
        Factor on the weight of the rows of each class: "balanced" is n / (classes * count), a dict is
        {label: factor}.
    calibrate : bool, default=False
        Whether `fit` also learns probabilities, or intervals, from held-out rows; a model that is made by name does. For
        `predict_proba`, it fits Platt's sigmoids to scores of at most 20,000 sampled rows that training leaves out. The
        logistic and the multinomial loss have probabilities without it.

    Attributes
    ----------
    classes_ : array of shape (c,)
        The labels, sorted.
    coef_ : array of shape (c, D) or (1, D)
        Weights; one row for two classes.
    intercept_ : array of shape (c,) or (1,)
        Intercepts.
    epsilon_ : float
        Not read by losses of classification.
    calibration_ : array of shape (c, 2)
        Slope a and offset b of each class: its probability is the sigmoid of a s + b, s being its score, over the sum of
        these. Two classes share the score, with either sign. Only with `calibrate`,
        and not after `partial_fit`.

    Warns
    -----
    ConvergenceWarning
        As for StreamingSGDRegressor.

    References
    ----------
    .. [1] S. Ma and M. Belkin, "Diving into the Shallows: A Computational Perspective on Large-Scale Shallow
           Learning", NIPS 2017 (EigenPro).

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import StreamingSGDClassifier
    >>> Z = np.random.default_rng(0).normal(size=(500, 3))
    >>> y = np.where(Z[:, 0] > 0, "above", "below")
    >>> StreamingSGDClassifier(random_state=7).fit(Z, y).score(Z, y) > 0.9
    True
    """

    loss: str = param(default="hinge", rule=loss_rule("classification"), kw_only=False)
    class_weight: ClassWeight = param(default=None, rule=CLASS_WEIGHT)

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> StreamingSGDClassifier:
        """Train for one epoch on these rows, starting from the weights of the last call.

        The first call measures steps, the width of a robust loss and alpha on its rows, so give it some hundred, in the
        units of all and shuffled: from rows in some order the model learns the last. An automatic alpha falls as one
        over the rows seen. Later rows whose weights are all zero change nothing.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, D)
            Features. A Dask array is read block by block, out of core.
        y : array or Dask array of shape (n,)
            Labels: numbers or text.
        classes : array of shape (c,), default=None
            All labels there will be. Needed at the first call.
        sample_weight : array or Dask array of shape (n,), default=None
            Weight of each row. None weighs all alike.

        Returns
        -------
        StreamingSGDClassifier
            The fitted estimator itself.

        Raises
        ------
        InputError
            A parameter breaks a rule, or the data do: NaN or infinity, another length of y, text for
            numbers.
        """
        first = not hasattr(self, "classes_")
        if first and classes is None:
            raise InputError(
                "classes must be passed on the first call to partial_fit: all labels there will be"
            )
        if isinstance(self.class_weight, str):
            raise InputError("class_weight='balanced' needs all rows; give a dictionary to partial_fit")
        X, y, sample_weight = validate_fit(self, X, y, sample_weight, numeric=False, reset=first)
        if first:
            self.classes_ = np.unique(np.asarray(list(classes)))  # type: ignore[arg-type]
        elif classes is not None:
            check_labels(list(classes), self.classes_)
        # Training starts from 0: the shares of classes among the first rows may be far from those of all.
        targets = replace(self._encoded(y, sample_weight, self.classes_), shares=None)
        self._partial_fit(X, y, sample_weight, targets)
        return self


@estimator
class StreamingSGDRegressor(LinearRegressor, BaseSGD):
    """Linear regression by stochastic gradients in batches.

    Minimises (1 / W) sum_i w_i loss(z_i.u + b, y_i) + (alpha / 2) |u|^2, with W = sum_i w_i. The intercept b has no
    penalty.

    Parameters
    ----------
    loss : {"squared", "huber", "epsilon_insensitive"}, default="squared"
        Loss of a row. "squared" is residual^2 / 2.
    epsilon : float or {"auto"}, default="auto"
        Width of the Huber and of the epsilon-insensitive loss, in units of the targets. "auto" is a robust
        standard deviation of the targets for the first, a tenth of it for the second.
    calibrate : bool, default=False
        Whether `fit` also learns probabilities, or intervals, from held-out rows; a model that is made by name does. For
        `predict_interval`, it keeps errors of at most 20,000 sampled rows that training leaves out.

    Attributes
    ----------
    coef_ : array of shape (D,) or (C, D)
        Weights.
    intercept_ : float or array of shape (C,)
        Intercept.
    epsilon_ : float or array of shape (C,)
        The width of the loss in use; one for each target if epsilon="auto" and their spreads differ as much.
    calibration_ : array of shape (k, C)
        Absolute errors of held-out rows, ascending for each target; with unequal weights, quantiles of them. Only with
        `calibrate`, and not after `partial_fit`.

    Warns
    -----
    ConvergenceWarning
        The loss still falls after the last epoch; no epoch was better than the constant, which is then kept. The warning
        states the numbers.

    Notes
    -----
    Training starts from the best constant prediction and never ends worse. If the loss of a batch or an epoch rises
    too far, steps are halved. The best epoch is kept (by the loss of held-out rows, or by the training objective), or
    the constant if no epoch beats it. Steps are as long as the spectrum of the features
    allows, and fall as 1 / sqrt(t) for losses with a kink. Training shifts columns whose mean is ten standard deviations
    from zero, and scales several targets to about the spread of the widest; steps, an automatic epsilon and the sum of losses then
    refer to the scaled targets, and so does alpha of the epsilon-insensitive loss. A number for epsilon always means the
    original units, and so do the coefficients. The penalty too applies
    to the weights in the units of the rows, so an alpha that suits large columns suppresses small ones; if that is not
    meant, scale the columns.

    References
    ----------
    .. [1] S. Ma and M. Belkin, "Diving into the Shallows: A Computational Perspective on Large-Scale Shallow
           Learning", NIPS 2017 (EigenPro).

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import StreamingSGDRegressor
    >>> Z = np.random.default_rng(0).normal(size=(500, 3))
    >>> y = Z @ [1.0, 2.0, 3.0] + 4.0
    >>> StreamingSGDRegressor(random_state=7).fit(Z, y).score(Z, y) > 0.99
    True
    """

    loss: str = param(default="squared", rule=loss_rule("regression"), kw_only=False)
    epsilon: float | str = param(default="auto", rule=number(0) | one_of("auto"))

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> StreamingSGDRegressor:
        """Train for one epoch on these rows, starting from the weights of the last call.

        The first call measures steps, the width of a robust loss and alpha on its rows, so give it some hundred, in the
        units of all and shuffled: from rows in some order the model learns the last. An automatic alpha falls as one
        over the rows seen. Later rows whose weights are all zero change nothing.

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
        StreamingSGDRegressor
            The fitted estimator itself.

        Raises
        ------
        InputError
            A parameter breaks a rule, or the data do: NaN or infinity, another length of y, text for
            numbers.
        """
        first = not hasattr(self, "coef_")
        X, y, sample_weight = validate_fit(self, X, y, sample_weight, numeric=True, reset=first)
        columns = 1 if y.ndim == 1 else y.shape[1]
        if not first and columns != len(np.atleast_2d(self.coef_)):
            raise InputError(
                f"y has {columns} columns, and had {len(np.atleast_2d(self.coef_))} in the last call"
            )
        targets = self._encoded(y, sample_weight, getattr(self, "_centre", None))
        if first or not hasattr(self, "_centre"):
            self._centre = targets.centre
        targets = replace(targets, centre=self._centre)
        self._partial_fit(X, y, sample_weight, targets)
        self._finish(targets, y.ndim == 1 and self.coef_.ndim == 2)
        return self
