"""Linear models by stochastic gradients in batches: any loss, any number of rows, the same bits on any cluster."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from dask.base import is_dask_collection
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..errors import InputError
from ..execution.row_blocks import map_rows
from ..losses import is_probabilistic, loss_rule
from ..maps import working_dtype
from ..parameters import CLASS_WEIGHT, Rule
from ..targets import Targets, class_counts, class_targets, regression_targets
from .base import LinearClassifier, LinearRegressor
from .ridge import validate_fit
from .sgd_base import BaseSGD


class StreamingSGDRegressor(LinearRegressor, BaseSGD):
    """Linear regression by stochastic gradients in batches.

    Minimises (1 / W) sum_i w_i loss(z_i.u + b, y_i) + penalty, W = sum_i w_i, b not penalised.

    Parameters
    ----------
    loss : "squared" (residual^2 / 2) | "huber" | "epsilon_insensitive"
    alpha : penalty alpha / 2 |u|^2 ("l2"), alpha |u|_1 ("l1"), or the mixture by l1_ratio ("elasticnet"). "auto" takes
        what held-out rows of a sample ask for, of the squared loss, for the number of all rows (see `sgd.penalty`); for
        l1 half of what hides noise of the size of the targets
    penalty, l1_ratio : see alpha
    epsilon : of the Huber and the epsilon-insensitive loss, in units of the targets; "auto" is a robust standard
        deviation of the targets for the first and a tenth of it for the second
    fit_intercept : whether to fit b
    n_epochs : passes over the rows, at most; "auto" is 40, or as many as make 600 batches
    tol, n_iter_no_change : stop when so many epochs in a row (with n_epochs="auto" more of them where an epoch has few
        batches) lower the loss, or with early stopping the error on held-out rows, by less than a share `tol`; None
        never stops early
    early_stopping, validation_fraction : hold out that share of the rows of every block. Each epoch then reads all
        blocks once more
    learning_rate : "auto": steps from the spectrum of a row sample, constant for smooth losses, falling as
        1 / sqrt(t) for others | "constant" eta0 | "inverse_scaling" eta0 / t^power_t | "adaptive": eta0,
        divided by 5 whenever the loss stops falling | "pegasos": 1 / (alpha t) with projection (classifier, hinge)
    eta0 : first step; None takes it from the spectrum
    momentum : Nesterov's factor; "auto", in `fit` with learning_rate="auto": 1 minus the curvature that the rows of the last
        batches had, as a share of the largest of the loss, at most 0.8. None for the squared loss, which is curved
        everywhere; most for hinges once few rows are within the margin
    average : weights averaged over about the last tenth of the batches; "auto": where steps do not vanish. Zeros of an
        l1 penalty are those of a last step from the average along the average gradient
    preconditioner : "subspace": the top directions of the features are slowed down so that the others can be fast
        (EigenPro; see `preconditioner`). They come from two thirds of a seeded sample of 9,000 rows; the other third,
        which they have not seen, says how long steps may be, and the rows of the first epoch say it of rows longer
        than those | None | "auto": wherever it applies (l2, not Pegasos)
    n_directions : of the preconditioner; None takes as many as the sample can tell, 512 at most where D > 1,536
    batch_size : rows of one step; "auto" from the spectrum. Never depends on the workers
    shuffle : permute blocks, and rows in blocks, anew each epoch
    distribution : "synchronous": a batch is one step, from the gradient of all its rows | "local_sgd": a batch is
        eight blocks, each a run of small steps of its own, and the mean of where they end; fewer messages, less
        accurate (see `averaging`)
    warm_start : `fit` starts from the present weights
    checkpoint, checkpoint_every, resume : folder that keeps the state, every so many batches and at the end of
        an epoch; with resume=True `fit` continues from it, to the bits it would have reached
    random_state : seed of the sample and of the permutations

    Training starts from the best constant prediction and never ends worse: where batches or epochs rise above it steps
    are halved, the best epoch is what is kept (by the score on held-out rows, or the training objective), and the
    constant where no epoch beats it. Columns whose mean is ten standard deviations from zero are shifted inside.

    Attributes
    ----------
    coef_ : array of shape (D,) or (C, D); intercept_ : number or array of shape (C,)
    alpha_, epsilon_ : as they were used
    best_epoch_ : the epoch that was kept, from 1; 0 for the constant
    history_ : for each epoch {"epoch", "loss" (with penalty; while training), "validation_score", "seconds",
        "rows", "batches"}
    n_iter_ : epochs; t_ : batches; batch_size_ : rows of a batch

    Warns
    -----
    ConvergenceWarning : with its numbers, where the loss still falls after the last epoch, the score on held-out rows
        fell from the first epoch on, or training ended above the loss of a constant
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> StreamingSGDRegressor:
        """Fit to features X of shape (n, D) and targets y of shape (n,) or (n, C); Dask arrays out of core."""
        X, y, sample_weight = validate_fit(self, X, y, sample_weight, numeric=True)
        self._fit(X, y, sample_weight, self._targets(y, sample_weight))
        return self._flat(y)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> StreamingSGDRegressor:
        """The batches of one epoch over these rows, from where the last call ended.

        The first call measures steps and alpha on its rows; alpha then falls as one over the rows seen.
        """
        first = not hasattr(self, "coef_")
        X, y, sample_weight = validate_fit(self, X, y, sample_weight, numeric=True, reset=first)
        if first or not hasattr(self, "_centre"):
            self._centre = self._targets(y, sample_weight).centre
        self._partial_fit(X, y, sample_weight, Targets(None, self._centre))
        return self._flat(y)

    def _targets(self, y: Any, sample_weight: Any) -> Targets:
        targets = regression_targets(y, sample_weight)
        return targets if self.fit_intercept else Targets(None, np.zeros_like(targets.centre))

    def _flat(self, y: Any) -> StreamingSGDRegressor:
        if y.ndim == 1:
            self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class StreamingSGDClassifier(LinearClassifier, BaseSGD):
    """Linear classification by stochastic gradients in batches; the largest score wins.

    Parameters
    ----------
    loss : "hinge" | "squared_hinge" | "logistic" | "multinomial" | "squared" (on targets -1, 1). All but
        "multinomial" are one-vs-rest, all classes in one product
    class_weight : None, "balanced" (n / (classes * count)), or {label: factor}
    alpha, ... : see StreamingSGDRegressor

    Attributes
    ----------
    classes_ : labels, shape (c,)
    coef_ : array of shape (c, D), or (1, D) for two classes; intercept_ : shape (c,) or (1,)
    alpha_, best_epoch_, history_, n_iter_, t_, batch_size_ : see StreamingSGDRegressor
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
        l1_ratio: float = 0.15,
        epsilon: float | str = "auto",
        fit_intercept: bool = True,
        class_weight: Any = None,
        n_epochs: int | str = "auto",
        tol: float | None = 1e-4,
        n_iter_no_change: int = 3,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        learning_rate: str = "auto",
        eta0: float | None = None,
        power_t: float = 0.5,
        momentum: float | str = "auto",
        average: bool | str = "auto",
        preconditioner: str | None = "auto",
        n_directions: int | None = None,
        batch_size: int | str = "auto",
        shuffle: bool = True,
        distribution: str = "synchronous",
        warm_start: bool = False,
        checkpoint: str | None = None,
        checkpoint_every: int = 50,
        resume: bool = False,
        random_state: Any = 0,
    ):
        arguments = {k: v for k, v in locals().items() if k not in ("self", "class_weight", "__class__")}
        super().__init__(**arguments)
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> StreamingSGDClassifier:
        """Fit to features X of shape (n, D) and labels y of shape (n,); Dask arrays out of core."""
        X, y, sample_weight = validate_fit(self, X, y, sample_weight, numeric=False)
        targets = class_targets(y, sample_weight, self.class_weight)
        self.classes_ = np.asarray(targets.classes)
        self._fit(X, y, sample_weight, targets)
        return self

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> StreamingSGDClassifier:
        """The batches of one epoch over these rows, from where the last call ended.

        classes : all labels there will be; needed at the first call
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
        check_labels(y, self.classes_)
        factors = None
        if self.class_weight is not None:
            factors = np.array([float(self.class_weight.get(c, 1.0)) for c in self.classes_.tolist()])
        width = 1 if len(self.classes_) == 2 else len(self.classes_)
        self._partial_fit(X, y, sample_weight, Targets(self.classes_, np.zeros(width), factors))
        return self

    @available_if(lambda self: is_probabilistic(self.loss))
    def predict_proba(self, X: Any) -> Any:
        """Class probabilities, shape (n, c), for the logistic and the multinomial loss; lazy for a Dask array."""
        check_is_fitted(self)
        from ..features.base import validate_rows

        X = validate_rows(self, X, reset=False)
        predictor = self._predictor("probability")
        if is_dask_collection(X):
            return map_rows(predictor, X, len(self.classes_), working_dtype(X.dtype))
        return predictor(X)


def check_labels(y: Any, classes: np.ndarray) -> None:
    """Raise InputError for labels that are not among the classes; one pass over y."""
    unknown = sorted(set(class_counts(y, None)) - set(classes.tolist()), key=str)
    if unknown:
        raise InputError(f"y has labels that classes lacks: {unknown}; classes: {classes.tolist()}")


__all__ = ["StreamingSGDClassifier", "StreamingSGDRegressor"]
