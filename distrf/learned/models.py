"""Compact nonlinear models: Fourier features that are learned together with the linear model on them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from dask.base import is_dask_collection
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..execution.row_blocks import map_rows, rows_per_block, split_rows
from ..features.base import apply_map, validate_rows
from ..linear_model.base import LinearClassifier, LinearModel, LinearRegressor
from ..linear_model.predictor import LinearPredictor
from ..linear_model.ridge import validate_fit
from ..losses import LOSSES, is_probabilistic, loss_rule
from ..maps import working_dtype
from ..parameters import CLASS_WEIGHT, Rule, number
from ..targets import Targets, class_targets, regression_targets
from .base import MapLearner


class CompactModel(MapLearner, LinearModel):
    """What classifier and regressor share; parameters are documented there."""

    n_jobs: int | None

    def _fit(self, X: Any, y: Any, weight: Any, targets: Targets, loss: str) -> None:
        layout, p = self._learn(X, y, weight, targets, loss)
        _, _, w, c = layout.split(p)
        self.coef_ = np.ascontiguousarray(layout.interleaved(w).T)
        self.intercept_ = (c if len(c) else np.zeros(targets.width)) + targets.centre

    def _features(self, X: Any) -> Any:
        if not is_dask_collection(X):
            return apply_map(self.map_, X, self.n_jobs)
        dtype = working_dtype(X.dtype)
        widest = max(self.map_.n_components, X.shape[1]) * dtype.itemsize
        return map_rows(self.map_, split_rows(X, rows_per_block(widest)), self.map_.n_components, dtype)

    def _predictor(self, output: str) -> LinearPredictor:
        return LinearPredictor(
            self.map_.n_components,
            output,
            np.atleast_2d(self.coef_),
            np.atleast_1d(self.intercept_),
            getattr(self, "classes_", None),
            LOSSES.get(getattr(self, "loss", "")),
        )

    def _predict(self, X: Any, output: str, squeeze: bool) -> Any:
        check_is_fitted(self)
        Z = self._features(validate_rows(self, X, reset=False))
        predictor = self._predictor(output)
        if not is_dask_collection(Z):
            out = predictor(Z)
            return out[:, 0] if squeeze and out.ndim == 2 else out
        if output == "label":
            return map_rows(predictor, Z, None, self.classes_.dtype)  # type: ignore[attr-defined]
        columns = np.atleast_2d(self.coef_).shape[0]
        if output == "probability":
            columns = max(2, columns)
        return map_rows(predictor, Z, None if squeeze else columns, working_dtype(Z.dtype))


class CompactNonlinearClassifier(LinearClassifier, CompactModel):
    """Classification on Fourier features whose frequencies are learned with it (Yu et al. 2015).

    Minimises over Theta, b, w and c

        (1 / W) sum_i w_i loss(w.z(x_i) + c, y_i) + (alpha/2) |w|^2 + (theta_l2/2) |Theta|^2 + theta_l1 |Theta|_1,

    z(x) = sqrt(2/D) cos(Theta x + b), by stochastic gradients in batches: the same bits for any number of workers.

    Parameters
    ----------
    n_components : D, the number of features; 8 to 128 learned ones do the work of hundreds to thousands that
        are drawn
    loss : "multinomial" (joint: softmax) | "hinge" | "squared_hinge" | "logistic" | "squared" (on targets -1, 1).
        All but the first are one-vs-rest, on shared features
    structure : "dense": Theta is D x d numbers | "circulant": ceil(D / L) vectors of about d numbers, learned
        through the FFT in O(D log d) a row
    phase : "offset": cos(theta.x + b) of D frequencies, b learned too | "paired": cosines and sines of D/2
        frequencies, for any Theta a shift-invariant kernel, which the other is not
    init : where Theta starts: the name of a projection; a RandomFourierFeatures, which brings its kernel and
        length scale; None is the projection "dense" or "circulant", as `structure` is
    kernel, length_scale, gamma : of that start, see RandomFourierFeatures; "knn-cnm" is the paper's rule, "knn"
        starts smoother and generalises better
    alpha : penalty alpha / 2 |w|^2; the intercept c has none
    theta_l2, theta_l1 : penalties of Theta, in radians by units of the columns (of the vectors if circulant).
        theta_l2="auto" is l^2 / n: the law that the frequencies are drawn from (exactly so for a Gaussian kernel of
        length scale l) is their prior, and what is learned the most probable; for regression times twice the
        loss of a residual of one standard deviation of the targets. Learned maps fit few rows perfectly without
        one (the cosine's VC dimension is infinite, Section 6.1)
    fit_intercept : whether to fit c
    learning_rate : of w: "adam", with steps that fall linearly to 0 | "pegasos": 1 / (alpha t) with projection
    theta_learning_rate : of Theta and b: "adam" | "pegasos": 1 / (alpha t), the paper's, which needs an alpha
        large enough for its first steps not to throw the start away
    eta0 : factor on the steps of Adam, which are set from the rows; None is 1
    alternate : (T1, T2) alternates T1 batches of w and T2 of Theta (Algorithm 3; the paper takes 100 and 100);
        None updates both in each batch
    n_epochs : passes over the rows; "auto": about 3,000 batches, 10 passes at least
    batch_size : rows of a batch; "auto": 500 (the paper's), more where there are millions, a quarter of few.
        Never depends on the workers
    early_stopping, validation_fraction : hold out a share of the rows, and keep the epoch that is best on them: the
        paper's regularisation. The prior of Theta and falling steps mostly gain more, and use all rows
    n_iter_no_change : with early_stopping, stop after so many epochs without a better score on held-out rows
    class_weight : None, "balanced" (n / (classes * count)), or {label: factor}
    checkpoint, checkpoint_every, resume : folder that keeps the state, every so many batches and at the end of
        an epoch; with resume=True `fit` continues from it, to the bits it would have reached
    n_jobs : threads for NumPy and CSR input of predictions; -1 takes all cores. Dask decides for Dask arrays
    random_state : seed of the start, of the order of rows and of what is held out

    Attributes
    ----------
    map_ : LearnedFourierMap, with arrays `frequencies` and, for offset phases, `offsets`
    coef_ : array of shape (c, D), or (1, D) for two classes; intercept_ : shape (c,) or (1,)
    classes_ : labels, shape (c,)
    history_ : for each epoch {"epoch", "loss" (with penalty; while learning), "validation_score", "seconds",
        "rows", "batches"}
    n_iter_ : epochs; best_epoch_ : the one that was kept; t_ : batches; batch_size_ : rows of a batch
    length_scale_ : of the start; n_features_in_ : int, d

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import CompactNonlinearClassifier
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> y = X[:, 0] ** 2 + X[:, 1] ** 2 > 1
    >>> bool(CompactNonlinearClassifier(4, n_epochs=50, random_state=7).fit(X, y).score(X, y) > 0.9)
    True
    """

    parameter_rules: ClassVar[dict[str, Rule]] = MapLearner.parameter_rules | {
        "loss": loss_rule("classification"),
        "class_weight": CLASS_WEIGHT,
    }

    def __init__(
        self,
        n_components: int = 128,
        loss: str = "multinomial",
        *,
        structure: str = "dense",
        phase: str = "offset",
        init: Any = None,
        kernel: Any = "gaussian",
        length_scale: float | str = "knn",
        gamma: float | None = None,
        alpha: float = 1e-6,
        theta_l2: float | str = "auto",
        theta_l1: float = 0.0,
        fit_intercept: bool = True,
        learning_rate: str = "adam",
        theta_learning_rate: str = "adam",
        eta0: float | None = None,
        alternate: tuple[int, int] | None = None,
        n_epochs: int | str = "auto",
        batch_size: int | str = "auto",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        class_weight: Any = None,
        checkpoint: str | None = None,
        checkpoint_every: int = 200,
        resume: bool = False,
        n_jobs: int | None = -1,
        random_state: Any = 0,
    ):
        self.n_components = n_components
        self.loss = loss
        self.structure = structure
        self.phase = phase
        self.init = init
        self.kernel = kernel
        self.length_scale = length_scale
        self.gamma = gamma
        self.alpha = alpha
        self.theta_l2 = theta_l2
        self.theta_l1 = theta_l1
        self.fit_intercept = fit_intercept
        self.learning_rate = learning_rate
        self.theta_learning_rate = theta_learning_rate
        self.eta0 = eta0
        self.alternate = alternate
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.class_weight = class_weight
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.resume = resume
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CompactNonlinearClassifier:
        """Learn from rows X of shape (n, d) and labels y of shape (n,); Dask arrays out of core."""
        X, y, sample_weight = validate_fit(self, X, y, sample_weight, numeric=False)
        targets = class_targets(y, sample_weight, self.class_weight)
        self.classes_ = np.asarray(targets.classes)
        self._fit(X, y, sample_weight, targets, self.loss)
        return self

    @available_if(lambda self: is_probabilistic(self.loss))
    def predict_proba(self, X: Any) -> Any:
        """Class probabilities, shape (n, c), for the logistic and the multinomial loss; lazy for a Dask array."""
        return self._predict(X, "probability", False)


class CompactNonlinearRegressor(LinearRegressor, CompactModel):
    """Regression on Fourier features whose frequencies are learned with it (Yu et al. 2015).

    Parameters
    ----------
    n_components : D, the number of features
    loss : "squared" (residual^2 / 2) | "huber" | "epsilon_insensitive"; epsilon : of the last two
    structure, ... : see CompactNonlinearClassifier

    Attributes
    ----------
    map_ : LearnedFourierMap
    coef_ : array of shape (D,) or (C, D); intercept_ : number or array of shape (C,)
    history_, n_iter_, best_epoch_, t_, batch_size_, length_scale_ : see CompactNonlinearClassifier
    """

    parameter_rules: ClassVar[dict[str, Rule]] = MapLearner.parameter_rules | {
        "loss": loss_rule("regression"),
        "epsilon": number(0),
    }

    def __init__(
        self,
        n_components: int = 128,
        loss: str = "squared",
        *,
        epsilon: float = 0.1,
        structure: str = "dense",
        phase: str = "offset",
        init: Any = None,
        kernel: Any = "gaussian",
        length_scale: float | str = "knn",
        gamma: float | None = None,
        alpha: float = 1e-6,
        theta_l2: float | str = "auto",
        theta_l1: float = 0.0,
        fit_intercept: bool = True,
        learning_rate: str = "adam",
        theta_learning_rate: str = "adam",
        eta0: float | None = None,
        alternate: tuple[int, int] | None = None,
        n_epochs: int | str = "auto",
        batch_size: int | str = "auto",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        checkpoint: str | None = None,
        checkpoint_every: int = 200,
        resume: bool = False,
        n_jobs: int | None = -1,
        random_state: Any = 0,
    ):
        self.n_components = n_components
        self.loss = loss
        self.epsilon = epsilon
        self.structure = structure
        self.phase = phase
        self.init = init
        self.kernel = kernel
        self.length_scale = length_scale
        self.gamma = gamma
        self.alpha = alpha
        self.theta_l2 = theta_l2
        self.theta_l1 = theta_l1
        self.fit_intercept = fit_intercept
        self.learning_rate = learning_rate
        self.theta_learning_rate = theta_learning_rate
        self.eta0 = eta0
        self.alternate = alternate
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.resume = resume
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CompactNonlinearRegressor:
        """Learn from rows X of shape (n, d) and targets y of shape (n,) or (n, C); Dask arrays out of core."""
        X, y, sample_weight = validate_fit(self, X, y, sample_weight, numeric=True)
        targets = regression_targets(y, sample_weight)
        if not self.fit_intercept:
            targets = Targets(None, np.zeros_like(targets.centre))
        self._fit(X, y, sample_weight, targets, self.loss)
        if y.ndim == 1:
            self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
