"""Linear regression by stochastic gradients in batches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if

from ..folds import given_folds
from ..targets import Targets, regression_targets
from ..typing import ArrayLike
from .base import LinearRegressor
from .lasso import takes_steps
from .sgd_base import BaseSGD
from .validation import validate_fit


class StreamingSGDRegressor(LinearRegressor, BaseSGD):
    """Linear regression by stochastic gradients in batches.

    Minimises (1 / W) sum_i w_i loss(z_i.u + b, y_i) + penalty, with W = sum_i w_i. The intercept b has no
    penalty.

    Parameters
    ----------
    loss : {"squared", "huber", "epsilon_insensitive"}, default="squared"
        Loss of a row. "squared" is residual^2 / 2.
    alpha : float or {"auto"}, default="auto"
        Strength of the penalty. "auto" takes the one of least loss on held-out rows of a sample, extrapolated
        to the number of all rows (see `distrf.sgd.alpha`). For "l1" folds of all rows choose it.
    penalty : {"l2", "l1"}, default="l2"
        "l2" is (alpha / 2) |u|^2. "l1" is alpha |u|_1, for the squared loss alone: scikit-learn's coordinate
        descent solves it from the Gram matrix of one pass (D^2 numbers), each output for itself, and warns where
        it has not converged. Then the parameters of steps, epochs and early stopping are not read, and float32
        rows of more than 1,024 features count to the rounding of float32 products.
    epsilon : float or {"auto"}, default="auto"
        Width of the Huber and of the epsilon-insensitive loss, in units of the targets. "auto" is a robust
        standard deviation of the targets for the first, a tenth of it for the second.
    fit_intercept : bool, default=True
        Whether to fit the intercept b, which has no penalty.
    n_epochs : int or {"auto"}, default="auto"
        Most passes over the rows. "auto" is 40, or as many as make 600 batches.
    tol : float or None, default=0.0001
        Training stops when `n_iter_no_change` epochs in a row lower the loss (with early stopping, the
        error on held-out rows) by less than this share. None never stops early.
    n_iter_no_change : int, default=3
        See `tol`. With n_epochs="auto" it is more where an epoch has few batches.
    early_stopping : bool, default=False
        Hold out rows and judge each epoch by them. Each epoch then reads all blocks once more.
    validation_fraction : float, default=0.1
        Share of the rows of every block that early stopping and `calibrate` hold out.
    calibrate : bool, default=False
        Whether `fit` also learns probabilities, or intervals, from held-out rows; a model that is made by name does. For
        `predict_interval`, it keeps errors of at most 20,000 sampled rows that training leaves out.
    learning_rate : str, default="auto"
        "auto" takes steps from the spectrum of a row sample: constant for smooth losses, falling as 1 /
        sqrt(t) for others. "constant" is eta0, "inverse_scaling" eta0 / t^power_t, "adaptive" eta0, divided
        by 5 whenever progress stops. "pegasos" is 1 / (alpha t) with projection, for the hinge loss.
    eta0 : float or None, default=None
        First step. None takes it from the spectrum.
    power_t : float, default=0.5
        Exponent of "inverse_scaling".
    momentum : float or {"auto"}, default="auto"
        Nesterov's momentum. "auto" acts in `fit` with learning_rate="auto": it is 1 minus the mean curvature
        of the loss over the rows of the last batches, as a share of its largest curvature, and at most 0.8.
        For hinges it grows once few rows are within the margin. If the curvature of the features was
        measured on a sample, it is at least 0.5; else it is 0 for the squared loss.
    average : bool or {"auto"}, default="auto"
        Whether to average the weights over about the last tenth of the batches. "auto" does so where steps
        do not vanish.
    preconditioner : {"auto", "subspace"} or None, default="auto"
        "subspace" slows down the top directions of the features so that the others can be fast (EigenPro).
        The directions come from two thirds of a seeded sample of 9,000 rows. The other third, which was not
        used for them, sets the length of steps; the first epoch shortens it for rows of larger norm.
        "auto" applies it wherever it can: not with Pegasos.
    n_directions : int or None, default=None
        Directions of the preconditioner. None takes as many as the sample supports, at most 512 where D >
        1,536.
    batch_size : int or {"auto"}, default="auto"
        Rows of one step. "auto" comes from the spectrum. It never depends on the workers.
    shuffle : bool, default=True
        Permute the blocks, and the rows within them, anew in each epoch.
    warm_start : bool, default=False
        Whether `fit` starts from the present weights.
    checkpoint : str, PathLike or None, default=None
        Folder or URL that keeps the state of training.
    checkpoint_every : int, default=50
        Batches from one saved state to the next; the end of an epoch is saved too.
    resume : bool, default=False
        Whether `fit` continues from `checkpoint`. It then ends with the same bits as without the
        interruption.
    random_state : int, Generator, RandomState or None, default=0
        Seed of all draws. None draws one seed.

    Attributes
    ----------
    coef_ : array of shape (D,) or (C, D)
        Weights.
    intercept_ : float or array of shape (C,)
        Intercept.
    alpha_ : float
        The strength of the penalty in use. If the spreads of
        the targets differ by more than a factor of four, that of the target with the largest spread.
    epsilon_ : float or array of shape (C,)
        The width of the loss in use; one for each target if epsilon="auto" and their spreads differ as much.
    calibration_ : array of shape (k, C)
        Absolute errors of held-out rows, ascending for each target; with unequal weights, quantiles of them. Only with
        `calibrate`, and not after `partial_fit`.
    history_ : list of dict
        For each epoch "epoch", "loss" (with penalty, while training), "validation_score", "seconds", "rows"
        and "batches". If targets were scaled to like spreads (see Notes), the loss is that of the scaled targets.
    n_iter_ : int
        Epochs.
    best_epoch_ : int
        The epoch that was kept, counted from 1; 0 for the constant prediction.
    t_ : int
        Batches.
    batch_size_ : int
        Rows of a batch.
    n_features_in_ : int
        Number of input columns, D.

    Warns
    -----
    ConvergenceWarning
        The loss still falls after the last epoch; the score on held-out rows fell from the first epoch on; no epoch
        was better than the constant, which is then kept; the given eta0 is too short to converge, or so long that
        the loss rises again. The warning states the numbers.

    Notes
    -----
    Training starts from the best constant prediction and never ends worse. If the loss of a batch or an epoch rises
    too far, steps are halved. The best epoch is kept (by the score on held-out rows, or by the training objective), or
    the constant if no epoch beats it. Training shifts columns whose mean is ten standard deviations from zero, and
    scales columns whose sizes differ by more than a factor of 100. It also scales targets whose spreads differ by more
    than a factor of four; steps, an automatic epsilon or alpha and the sum of losses then refer to the scaled targets.
    A number for alpha or epsilon always means the original units, and so do the coefficients. The penalty too applies
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

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        folds: ArrayLike | None = None,
        *,
        X_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
        sample_weight_val: ArrayLike | None = None,
    ) -> StreamingSGDRegressor:
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
            Fold of each row, from 0 on; -1 for rows that are never held out (as scikit-learn's PredefinedSplit). Where
            rows are held out, for `early_stopping` or `calibrate`, these are the rows of fold 0, whatever
            `validation_fraction` is; alpha="auto" is chosen by the folds of sampled rows. None draws rows of every block.
        X_val : {array, CSR matrix, Dask array} of shape (m, D), default=None
            Features by which epochs are scored, in place of held-out rows. With `early_stopping` they decide when training
            ends and which epoch is kept; without, `history_` notes their scores.
        y_val : array or Dask array of shape (m,) or (m, C), default=None
            Their targets.
        sample_weight_val : array or Dask array of shape (m,), default=None
            Their weights. None weighs all alike.

        Returns
        -------
        StreamingSGDRegressor
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
        X, y, sample_weight = validate_fit(self, X, y, sample_weight, numeric=True)
        self._fit(
            X,
            y,
            sample_weight,
            self._targets(y, sample_weight),
            (X_val, y_val, sample_weight_val),
            given_folds(X, folds),
        )
        return self._flat(y)

    @available_if(takes_steps)
    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> StreamingSGDRegressor:
        """Train for one epoch on these rows, starting from the weights of the last call.

        The first call measures steps, the width of a robust loss and alpha on its rows. A later call measures them
        again if they came from few rows, or if the weights predict its rows far worse than a constant does. An
        automatic alpha falls as one over the rows seen. Later rows whose weights are all zero change nothing. If
        calls come in some order, the model forgets the rows of earlier ones: a ConvergenceWarning says so once, when
        the weights predict a few rows kept from all calls worse than a constant.

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
        if first or not hasattr(self, "_centre"):
            self._centre = self._targets(y, sample_weight).centre
        self._centre = self._partial_fit(X, y, sample_weight, Targets(None, self._centre)).centre
        return self._flat(y)

    def _targets(self, y: Any, sample_weight: Any) -> Targets:
        targets = regression_targets(y, sample_weight)
        return targets if self.fit_intercept else replace(targets, centre=np.zeros_like(targets.centre))

    def _flat(self, y: Any) -> StreamingSGDRegressor:
        if y.ndim == 1 and self.coef_.ndim == 2:
            self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
