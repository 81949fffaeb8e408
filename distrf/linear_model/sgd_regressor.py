"""Linear regression by stochastic gradients in batches."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import Tags

from ..targets import Targets, regression_targets
from ..typing import ArrayLike
from .base import LinearRegressor
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
        Strength of the penalty. "auto" takes what held-out rows of a sample ask for, measured with the
        squared loss and carried over to the number of all rows (see `distrf.sgd.alpha`). For "l1" it takes
        half of what hides noise of the size of the targets in the smallest column, and for "elasticnet"
        each of the two parts gets its own.
    penalty : {"l2", "l1", "elasticnet"}, default="l2"
        "l2" is (alpha / 2) |u|^2, "l1" is alpha |u|_1, "elasticnet" mixes both by `l1_ratio`.
    l1_ratio : float, default=0.15
        Share of the l1 penalty in "elasticnet".
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
        Share of the rows of every block that early stopping holds out.
    learning_rate : str, default="auto"
        "auto" takes steps from the spectrum of a row sample: constant for smooth losses, falling as 1 /
        sqrt(t) for others. "constant" is eta0, "inverse_scaling" eta0 / t^power_t, "adaptive" eta0, divided
        by 5 whenever progress stops. "pegasos" is 1 / (alpha t) with projection, for the hinge loss.
    eta0 : float or None, default=None
        First step. None takes it from the spectrum.
    power_t : float, default=0.5
        Exponent of "inverse_scaling".
    momentum : float or {"auto"}, default="auto"
        Nesterov's factor. "auto" acts in `fit` with learning_rate="auto": 1 minus the curvature that the
        rows of the last batches had, as a share of the largest of the loss, and at most 0.8. That is 0 for
        the squared loss, which is curved everywhere, and most for hinges once few rows are within the
        margin.
    average : bool or {"auto"}, default="auto"
        Whether to average the weights over about the last tenth of the batches. "auto" does where steps do
        not vanish. Zeros of an l1 penalty are those of a last step from the average along the average
        gradient.
    preconditioner : {"auto", "subspace"} or None, default="auto"
        "subspace" slows down the top directions of the features so that the others can be fast (EigenPro).
        The directions come from two thirds of a seeded sample of 9,000 rows. The other third, which they
        have not seen, says how long steps may be; the first epoch corrects this for rows longer than those.
        "auto" applies it wherever it can: penalty "l2", not Pegasos.
    n_directions : int or None, default=None
        Directions of the preconditioner. None takes as many as the sample can tell, 512 at most where D >
        1,536.
    batch_size : int or {"auto"}, default="auto"
        Rows of one step. "auto" comes from the spectrum. It never depends on the workers.
    shuffle : bool, default=True
        Permute the blocks, and the rows within them, anew in each epoch.
    distribution : {"synchronous", "local_sgd"}, default="synchronous"
        With "synchronous" a batch is one step, from the gradient of all its rows. With "local_sgd" a batch
        is eight blocks: each block takes many small steps of its own, and the weights at which they end are
        averaged. That takes fewer messages and is less accurate.
    warm_start : bool, default=False
        Whether `fit` starts from the present weights.
    checkpoint : str, PathLike or None, default=None
        Folder or URL that keeps the state of training.
    checkpoint_every : int, default=50
        Batches from one saved state to the next; the end of an epoch is saved too.
    resume : bool, default=False
        Whether `fit` goes on from `checkpoint`, to the bits that it would have reached without the
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
        The strength of the penalty in use; of "elasticnet" with alpha="auto", that of the l1 part. Of targets of unlike
        spreads, that of the target of the largest.
    epsilon_ : float or array of shape (C,)
        The width of the loss in use: one for each target where epsilon="auto" and their spreads are unlike.
    history_ : list of dict
        For each epoch "epoch", "loss" (with penalty, while training), "validation_score", "seconds", "rows"
        and "batches". The loss of targets of unlike spreads is in the units in which they are fitted.
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
        The loss still falls after the last epoch, the score on held-out rows fell from the first epoch on,
        no epoch was better than a constant, which is then what is kept, or steps of the given eta0 are too short
        to get anywhere or so long that the loss goes up again. The warning has the numbers.

    Notes
    -----
    Training starts from the best constant prediction and never ends worse. Where batches or epochs rise above
    it, steps are halved. The best epoch is kept (by the score on held-out rows, or by the training objective),
    or the constant where no epoch beats it. Columns whose mean is ten standard deviations from zero are shifted
    inside, and columns whose sizes are more than a hundred times apart are brought to like sizes. So are targets whose
    spreads are more than four times apart, for steps, an automatic epsilon or alpha, and the sum of losses; a number for
    alpha or epsilon stays in the units of the targets, and coefficients are given back in them. The penalty is
    of the weights in the units of the rows all the same, so an alpha that suits large columns suppresses small ones;
    scale the columns where that is not meant.

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

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> StreamingSGDRegressor:
        """Fit to features and targets.

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
        MemoryPlanError
            The job cannot fit into memory.
        SpecMismatchError
            The checkpoint belongs to another fit.
        """
        X, y, sample_weight = validate_fit(self, X, y, sample_weight, numeric=True)
        self._fit(X, y, sample_weight, self._targets(y, sample_weight))
        return self._flat(y)

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> StreamingSGDRegressor:
        """Take the batches of one epoch over these rows, from where the last call ended.

        The first call measures steps, the width of a robust loss and alpha on its rows. Few rows are measured again
        as others come, and so are rows that the weights predict far worse than a constant. An automatic alpha
        falls as one over the rows seen. Later rows whose weights are all zero change nothing. Rows that come in an
        order are forgotten as others come: a ConvergenceWarning says so once, where a few rows of all calls are
        predicted worse than by a constant.

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
        return targets if self.fit_intercept else Targets(None, np.zeros_like(targets.centre))

    def _flat(self, y: Any) -> StreamingSGDRegressor:
        if y.ndim == 1 and self.coef_.ndim == 2:
            self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
