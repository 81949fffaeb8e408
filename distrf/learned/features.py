"""Compact nonlinear maps as a scikit-learn transformer: for a kernel without labels, or for a loss with them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from dask.base import is_dask_collection
from sklearn.utils.validation import _check_sample_weight

from ..errors import input_errors
from ..execution.row_blocks import align_rows
from ..features.base import FeatureEstimator, validate_rows
from ..linear_model.ridge import validate_fit
from ..losses import LOSSES
from ..maps.learned import LearnedFourierMap
from ..parameters import CLASS_WEIGHT, Rule, check_parameters, name_in, number, one_of
from ..targets import class_targets, regression_targets
from .base import MapLearner


class CompactNonlinearMap(MapLearner, FeatureEstimator):
    """Fourier features whose frequencies are learned (Yu et al. 2015).

    Parameters
    ----------
    n_components : D, the number of features; even for phase="paired"
    objective : "kernel": least mean squared error of the kernel on the pairs of sampled rows (Section 5), no
        labels needed | a loss of CompactNonlinearClassifier or CompactNonlinearRegressor, with labels or
        targets y; "squared" is regression
    structure, phase, init, kernel, length_scale, gamma, theta_l2, theta_l1, theta_learning_rate, eta0, n_epochs,
        batch_size, n_jobs, random_state : see CompactNonlinearClassifier
    learning_rate, alpha, alternate, early_stopping, validation_fraction, n_iter_no_change, class_weight, epsilon,
        fit_intercept : of a loss alone, see there
    checkpoint, checkpoint_every, resume : see there

    Attributes
    ----------
    map_ : LearnedFourierMap, with arrays `frequencies` and, for offset phases, `offsets`
    history_ : for each epoch {"epoch", "loss" (while learning), "validation_score", "seconds", "rows", "batches"}
    n_iter_, best_epoch_, t_, batch_size_, length_scale_ : see CompactNonlinearClassifier
    n_features_in_ : int, d

    Notes
    -----
    The kernel objective reads a seeded sample of at most 16,384 rows, once, and learns from it where `fit` is called.
    Its loss is the mean of (k(x, y) - z(x).z(y))^2 over pairs of different rows of a batch; theta_l2="auto" is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import CompactNonlinearMap
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> CompactNonlinearMap(16, n_epochs=20, random_state=7).fit_transform(X).shape
    (500, 16)
    """

    map_: LearnedFourierMap

    parameter_rules: ClassVar[dict[str, Rule]] = MapLearner.parameter_rules | {
        "objective": one_of("kernel") | name_in(LOSSES),
        "class_weight": CLASS_WEIGHT,
        "epsilon": number(0),
    }

    def __init__(
        self,
        n_components: int = 128,
        objective: str = "kernel",
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
        epsilon: float = 0.1,
        checkpoint: str | None = None,
        checkpoint_every: int = 200,
        resume: bool = False,
        n_jobs: int | None = -1,
        random_state: Any = 0,
    ):
        self.n_components = n_components
        self.objective = objective
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
        self.epsilon = epsilon
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.resume = resume
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> CompactNonlinearMap:
        """Learn from rows X of shape (n, d); y, shape (n,), is used by a loss and ignored by the kernel.

        Raises InputError for a parameter or data that break a rule, and where a loss has no y.
        """
        check_parameters(self)
        if self.objective == "kernel":
            X = validate_rows(self, X, reset=True)
            self._learn_kernel(X, self._row_weights(X, sample_weight))
            return self
        numeric = LOSSES[self.objective].serves("regression")
        X, y, sample_weight = validate_fit(self, X, y, sample_weight, numeric=numeric)  # type: ignore[arg-type]
        targets = (
            regression_targets(y, sample_weight)
            if numeric
            else class_targets(y, sample_weight, self.class_weight)
        )
        self._learn(X, y, sample_weight, targets, self.objective)
        return self

    @staticmethod
    def _row_weights(X: Any, weight: Any) -> Any:
        if weight is None:
            return None
        if is_dask_collection(X):
            return align_rows(X, weight, "sample_weight")
        with input_errors():
            return _check_sample_weight(weight, X, dtype=np.float64)

    def planned_map(self, d: int) -> LearnedFourierMap:
        """The map that `fit` would learn on d columns, without its numbers. Raises InputError as `fit` does."""
        self._check_together()
        return LearnedFourierMap(d, int(self.n_components), self.phase, self.structure, 0)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.objective != "kernel"
        return tags
