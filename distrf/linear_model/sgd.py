"""Linear classification by stochastic gradients in batches."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from sklearn.utils.metaestimators import available_if

from ..errors import InputError
from ..folds import given_folds
from ..losses import loss_rule
from ..parameters import CLASS_WEIGHT, Rule
from ..targets import Targets, check_labels, class_counts, class_targets
from ..typing import ArrayLike, ClassWeight, RandomState
from .base import LinearClassifier
from .lasso import takes_steps
from .sgd_base import BaseSGD
from .validation import validate_fit


class StreamingSGDClassifier(LinearClassifier, BaseSGD):
    """Linear classification by stochastic gradients in batches; the largest score wins.

    Minimises (1 / W) sum_i w_i loss(z_i.u + b, y_i) + penalty, with W = sum_i w_i. The intercept b has no
    penalty. Training keeps the best epoch, as StreamingSGDRegressor does.

    Parameters
    ----------
    loss : str, default="hinge"
        "hinge", "squared_hinge", "logistic", "multinomial", or "squared" (on targets -1 and 1). All but
        "multinomial" are one against the rest, all classes in one product.
    alpha : float or {"auto"}, default="auto"
        Strength of the penalty. "auto" takes the one of least loss on held-out rows of a sample, extrapolated
        to the number of all rows (see `distrf.sgd.alpha`). For "l1" folds of all rows choose it.
    penalty : {"l2", "l1"}, default="l2"
        "l2" is (alpha / 2) |u|^2. "l1" is alpha |u|_1, for the squared loss alone: scikit-learn's coordinate
        descent solves it from the Gram matrix of one pass (D^2 numbers), each output for itself, and warns where
        it has not converged. Then the parameters of steps, epochs and early stopping are not read, and float32
        rows of more than 1,024 features count to the rounding of float32 products.
    epsilon : float or {"auto"}, default="auto"
        Width of a loss of regression; the losses of classification do not read it.
    fit_intercept : bool, default=True
        Whether to fit the intercept b, which has no penalty.
    class_weight : {"balanced"}, dict or None, default=None
        Factor on the weight of the rows of each class: "balanced" is n / (classes * count), a dict is
        {label: factor}.
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
        `predict_proba`, it fits Platt's sigmoids to scores of at most 20,000 sampled rows that training leaves out. The
        logistic and the multinomial loss have probabilities without it.
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
    classes_ : array of shape (c,)
        The labels, sorted.
    coef_ : array of shape (c, D) or (1, D)
        Weights; one row for two classes.
    intercept_ : array of shape (c,) or (1,)
        Intercepts.
    alpha_ : float
        The strength of the penalty in use.
    epsilon_ : float
        The width of the loss in use.
    calibration_ : array of shape (c, 2)
        Slope a and offset b of each class: its probability is the sigmoid of a s + b, s being its score, over the sum of
        these. Two classes share the score, with either sign. Only with `calibrate`,
        and not after `partial_fit`.
    history_ : list of dict
        For each epoch "epoch", "loss" (with penalty, while training), "validation_score", "seconds", "rows"
        and "batches".
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
        As for StreamingSGDRegressor.

    References
    ----------
    .. [1] S. Ma and M. Belkin, "Diving into the Shallows: A Computational Perspective on Large-Scale Shallow
           Learning", NIPS 2017 (EigenPro).
    .. [2] S. Shalev-Shwartz, Y. Singer and N. Srebro, "Pegasos: Primal Estimated sub-GrAdient SOlver for SVM",
           ICML 2007 (learning_rate="pegasos").

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import StreamingSGDClassifier
    >>> Z = np.random.default_rng(0).normal(size=(500, 3))
    >>> y = np.where(Z[:, 0] > 0, "above", "below")
    >>> StreamingSGDClassifier(random_state=7).fit(Z, y).score(Z, y) > 0.9
    True
    """

    parameter_rules: ClassVar[dict[str, Rule]] = BaseSGD.parameter_rules | {
        "loss": loss_rule("classification"),
        "class_weight": CLASS_WEIGHT,
    }

    def __init__(
        self,
        loss: str = "hinge",
        *,
        alpha: float | str = "auto",
        penalty: str = "l2",
        epsilon: float | str = "auto",
        fit_intercept: bool = True,
        class_weight: ClassWeight = None,
        n_epochs: int | str = "auto",
        tol: float | None = 1e-4,
        n_iter_no_change: int = 3,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        calibrate: bool = False,
        learning_rate: str = "auto",
        eta0: float | None = None,
        power_t: float = 0.5,
        momentum: float | str = "auto",
        average: bool | str = "auto",
        preconditioner: str | None = "auto",
        n_directions: int | None = None,
        batch_size: int | str = "auto",
        shuffle: bool = True,
        warm_start: bool = False,
        checkpoint: str | None = None,
        checkpoint_every: int = 50,
        resume: bool = False,
        random_state: RandomState = 0,
    ):
        super().__init__(
            loss=loss, alpha=alpha, penalty=penalty, epsilon=epsilon,
            fit_intercept=fit_intercept, n_epochs=n_epochs, tol=tol, n_iter_no_change=n_iter_no_change,
            early_stopping=early_stopping, validation_fraction=validation_fraction, calibrate=calibrate,
            learning_rate=learning_rate, eta0=eta0, power_t=power_t, momentum=momentum, average=average,
            preconditioner=preconditioner, n_directions=n_directions, batch_size=batch_size, shuffle=shuffle,
            warm_start=warm_start, checkpoint=checkpoint,
            checkpoint_every=checkpoint_every, resume=resume, random_state=random_state,
        )  # fmt: skip
        self.class_weight = class_weight

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
    ) -> StreamingSGDClassifier:
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
            Fold of each row, from 0 on; -1 for rows that are never held out (as scikit-learn's PredefinedSplit). Where
            rows are held out, for `early_stopping` or `calibrate`, these are the rows of fold 0, whatever
            `validation_fraction` is; alpha="auto" is chosen by the folds of sampled rows. None draws rows of every block.
        X_val : {array, CSR matrix, Dask array} of shape (m, D), default=None
            Features by which epochs are scored, in place of held-out rows. With `early_stopping` they decide when training
            ends and which epoch is kept; without, `history_` notes their scores.
        y_val : array or Dask array of shape (m,), default=None
            Their targets.
        sample_weight_val : array or Dask array of shape (m,), default=None
            Their weights. None weighs all alike.

        Returns
        -------
        StreamingSGDClassifier
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
        X, y, sample_weight = validate_fit(self, X, y, sample_weight, numeric=False)
        targets = class_targets(y, sample_weight, self.class_weight)
        self.classes_ = np.asarray(targets.classes)
        self._fit(X, y, sample_weight, targets, (X_val, y_val, sample_weight_val), given_folds(X, folds))
        return self

    @available_if(takes_steps)
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> StreamingSGDClassifier:
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
            self.classes_ = np.unique(np.asarray(classes))
            if len(self.classes_) < 2:
                raise InputError(f"a classifier needs at least 2 classes, got {self.classes_.tolist()}")
        elif classes is not None and not np.array_equal(np.unique(np.asarray(classes)), self.classes_):
            raise InputError(
                f"classes={list(classes)} is not the same as on the last call to partial_fit, was {self.classes_}"
            )
        check_labels(class_counts(y, None), self.classes_)
        factors = None
        if self.class_weight is not None:
            factors = np.array([float(self.class_weight.get(c, 1.0)) for c in self.classes_.tolist()])
        width = 1 if len(self.classes_) == 2 else len(self.classes_)
        self._partial_fit(X, y, sample_weight, Targets(self.classes_, np.zeros(width), factors))
        return self
