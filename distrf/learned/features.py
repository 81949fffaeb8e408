"""Compact nonlinear maps as a scikit-learn transformer: for a kernel without labels, or for a loss with them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from dask.base import is_dask_collection
from sklearn.utils import Tags
from sklearn.utils.validation import _check_sample_weight

from ..errors import InputError, input_errors
from ..execution.planned import Costs, PlannedRows
from ..execution.row_blocks import align_rows
from ..features import RandomFourierFeatures
from ..features.base import FeatureEstimator, validate_rows
from ..features.fourier import kernel_trial
from ..features.length_scale import rule_costs
from ..folds import given_folds
from ..kernels.shift_invariant import Kernel
from ..linear_model.validation import validate_fit
from ..losses import LOSSES
from ..maps.learned import LearnedFourierMap
from ..parameters import CLASS_WEIGHT, Rule, check_parameters, name_in, number, one_of
from ..targets import class_targets, regression_targets
from ..typing import ArrayLike, ClassWeight, RandomState
from .base import MapLearner

#: The most features that `make_model` takes: accuracy hardly grows with more learned ones.
_MOST_COMPONENTS = 256


class CompactNonlinearMap(MapLearner, FeatureEstimator):
    """Fourier features whose frequencies are learned, from a kernel or from labels.

    z(x) = sqrt(2/D) cos(Theta x + b). Theta and b are learned by stochastic gradients in batches.

    Parameters
    ----------
    n_components : int, default=128
        D, the number of features; even for phase="paired". 8 to 128 learned ones do the work of hundreds to
        thousands that are drawn.
    objective : str, default="kernel"
        "kernel" needs no labels: it minimises the mean squared error of the kernel on pairs of sampled rows
        (Section 5). Or a loss of CompactNonlinearClassifier or CompactNonlinearRegressor, with labels or
        targets y; "squared" is regression.
    structure : {"dense", "circulant"}, default="dense"
        "dense" learns D x d numbers. "circulant" learns ceil(D / L) vectors of about d numbers through the
        FFT, in O(D log d) a row.
    phase : {"offset", "paired"}, default="offset"
        "offset" takes cos(theta.x + b) of D frequencies and learns b too. "paired" takes cosines and sines
        of D/2 frequencies: a shift-invariant kernel for any Theta, which the other is not.
    init : str, RandomFourierFeatures or None, default=None
        Where Theta starts: the name of a projection, or an estimator that brings its kernel and length
        scale. None is the projection that `structure` is named after.
    kernel : str or Kernel, default="gaussian"
        Kernel of the start, as in RandomFourierFeatures.
    length_scale : float or {"knn", "knn-cnm", "median", "scale"}, default="knn"
        Length scale of the start, as in RandomFourierFeatures. "knn-cnm" is the paper's rule; "knn" starts
        smoother and generalises better.
    gamma : float or None, default=None
        scikit-learn's parameter, which sets l: 1 / (2 l^2) for the gaussian kernel, 1 / l for the
        laplacian. With it, leave `length_scale` at its default.
    nu : {0.5, 1.5, 2.5}, default=1.5
        Smoothness of the Matern kernel. Read by that kernel alone.
    alpha : float, default=1e-06
        Penalty (alpha / 2) |w|^2 of the linear model. The intercept has none.
    theta_l2 : float or {"auto"}, default="auto"
        Penalty (theta_l2 / 2) |Theta|^2, with Theta in radians by units of the columns (of the vectors if
        circulant). Without one, learned maps fit few rows perfectly. "auto" is l^2 / n: it makes the law
        that the frequencies are drawn from their prior (exactly for a Gaussian kernel of length scale l).
        For regression it is multiplied by twice the loss of a residual of one standard deviation of the
        targets.
    theta_l1 : float, default=0.0
        Penalty theta_l1 |Theta|_1.
    fit_intercept : bool, default=True
        Whether to fit the intercept c.
    learning_rate : {"adam", "pegasos"}, default="adam"
        Steps of w: "adam" has steps that fall linearly to 0, "pegasos" is 1 / (alpha t) with projection.
    theta_learning_rate : {"adam", "pegasos"}, default="adam"
        Steps of Theta and b. "pegasos" is the paper's 1 / (alpha t); alpha must be so large that its first
        steps do not throw the start away.
    eta0 : float or None, default=None
        Factor on the steps of Adam, which are set from the rows. None is 1.
    alternate : tuple of (int, int) or None, default=None
        (T1, T2) alternates T1 batches of w and T2 of Theta (Algorithm 3; the paper takes 100 and 100). None
        updates both in each batch.
    n_epochs : int or {"auto"}, default="auto"
        Passes over the rows. "auto" makes about 3,000 batches, in 10 passes at least.
    batch_size : int or {"auto"}, default="auto"
        Rows of a batch. "auto" is 500 (the paper's), more where there are millions of rows, a quarter of
        few. It never depends on the workers.
    early_stopping : bool, default=False
        Hold out rows and keep the epoch that is best on them, the paper's regularisation. The prior of
        Theta and falling steps mostly gain more, and use all rows.
    validation_fraction : float, default=0.1
        Share of the rows that early stopping holds out.
    n_iter_no_change : int, default=20
        With early stopping, training stops after so many epochs without a better score on held-out rows.
    class_weight : {"balanced"}, dict or None, default=None
        Factor on the weight of the rows of each class: "balanced" is n / (classes * count), a dict is
        {label: factor}.
    epsilon : float or {"auto"}, default="auto"
        Width of the Huber and of the epsilon-insensitive loss, in units of the targets. "auto" is a robust
        standard deviation of the targets for the first, a tenth of it for the second.
    checkpoint : str, PathLike or None, default=None
        Folder or URL that keeps the state of training.
    checkpoint_every : int, default=200
        Batches from one saved state to the next; the end of an epoch is saved too.
    resume : bool, default=False
        Whether `fit` continues from `checkpoint`. It then ends with the same bits as without the
        interruption.
    n_jobs : int or None, default=-1
        Threads of predictions for NumPy and CSR input: -1 takes all cores, None takes one. Dask decides for
        Dask arrays.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the start, of the order of rows and of what is held out. None draws one seed.

    Attributes
    ----------
    map_ : LearnedFourierMap
        The learned map, with the arrays `frequencies` and, for offset phases, `offsets`.
    history_ : list of dict
        For each epoch "epoch", "loss" (with penalty, while training), "validation_score", "seconds", "rows"
        and "batches".
    n_iter_ : int
        Epochs.
    best_epoch_ : int
        The epoch that was kept, counted from 1.
    t_ : int
        Batches.
    batch_size_ : int
        Rows of a batch.
    length_scale_ : float
        Length scale of the start.
    n_features_in_ : int
        Number of input columns, d.

    Notes
    -----
    The kernel objective reads a seeded sample of at most 16,384 rows, once, and learns from it where `fit` is
    called. Its loss is the mean of (k(x, y) - z(x).z(y))^2 over pairs of different rows of a batch, and
    theta_l2="auto" is 0. It does not read the parameters of a loss: `learning_rate`, `alpha`, `alternate`,
    `early_stopping`, `validation_fraction`, `n_iter_no_change`, `class_weight`, `epsilon` and `fit_intercept`.

    References
    ----------
    .. [1] F. X. Yu, S. Kumar, H. Rowley and S.-F. Chang, "Compact Nonlinear Maps and Circulant Extensions",
           2015, arXiv:1503.03893.

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import CompactNonlinearMap
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> CompactNonlinearMap(16, n_epochs=20, random_state=7).fit_transform(X).shape
    (500, 16)
    """

    map_: LearnedFourierMap

    #: Subfolder of the command line's --checkpoint for the state of training. TEFM uses the same name.
    checkpoint_folder: ClassVar[str] = "subspace"
    parameter_rules: ClassVar[dict[str, Rule]] = MapLearner.parameter_rules | {
        "objective": one_of("kernel") | name_in(LOSSES),
        "class_weight": CLASS_WEIGHT,
        "epsilon": number(0) | one_of("auto"),
    }

    def __init__(
        self,
        n_components: int = 128,
        objective: str = "kernel",
        *,
        structure: str = "dense",
        phase: str = "offset",
        init: str | RandomFourierFeatures | None = None,
        kernel: str | Kernel = "gaussian",
        length_scale: float | str = "knn",
        gamma: float | None = None,
        nu: float = 1.5,
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
        class_weight: ClassWeight = None,
        epsilon: float | str = "auto",
        checkpoint: str | None = None,
        checkpoint_every: int = 200,
        resume: bool = False,
        n_jobs: int | None = -1,
        random_state: RandomState = 0,
    ):
        self.n_components = n_components
        self.objective = objective
        self.structure = structure
        self.phase = phase
        self.init = init
        self.kernel = kernel
        self.length_scale = length_scale
        self.gamma = gamma
        self.nu = nu
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

    def trial_map(self, D: int, seed: int) -> FeatureEstimator:
        return kernel_trial(self, D, seed) or super().trial_map(D, seed)

    def take_size(self, D: int) -> None:
        self.set_params(n_components=min(D, _MOST_COMPONENTS))

    def target_parameters(self, labels: bool) -> dict[str, Any]:
        return {"objective": "multinomial" if labels else "squared"}

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        folds: ArrayLike | None = None,
        *,
        X_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
        sample_weight_val: ArrayLike | None = None,
    ) -> CompactNonlinearMap:
        """Learn the map from rows, and from targets where the objective is a loss.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, d)
            Input rows. A Dask array is read block by block.
        y : array or Dask array of shape (n,), default=None
            Labels or targets of a loss. The kernel objective does not read them.
        sample_weight : array or Dask array of shape (n,), default=None
            Weight of each row. None weighs all alike.
        folds : array or Dask array of shape (n,) of int, default=None
            Fold of each row, from 0 on; -1 for rows that are never held out (as scikit-learn's PredefinedSplit). With
            `early_stopping` the rows of fold 0 are held out, whatever `validation_fraction` is. None draws rows of every
            block.
        X_val : {array, CSR matrix, Dask array} of shape (m, d), default=None
            Rows by which epochs are scored, in place of held-out ones. With `early_stopping` they decide when training ends
            and which epoch is kept; without, `history_` notes their scores.
        y_val : array or Dask array of shape (m,) or (m, C), default=None
            Their targets.
        sample_weight_val : array or Dask array of shape (m,), default=None
            Their weights. None weighs all alike.

        Returns
        -------
        CompactNonlinearMap
            The fitted estimator itself.

        Raises
        ------
        InputError
            A parameter breaks a rule, X holds NaN or infinity, or a loss has no y.
        SpecMismatchError
            The checkpoint belongs to another fit.
        """
        check_parameters(self)
        given = (X_val, y_val, sample_weight_val)
        if self.objective == "kernel":
            if any(part is not None for part in given):
                raise InputError(
                    "objective='kernel' learns from pairs of rows and has no score of other rows; leave out X_val, y_val and "
                    "sample_weight_val, or give a loss as the objective"
                )
            given_folds(X, folds)  # nothing is held out
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
        self._learn(X, y, sample_weight, targets, self.objective, given, given_folds(X, folds))
        return self

    @staticmethod
    def _row_weights(X: Any, weight: Any) -> Any:
        if weight is None:
            return None
        if is_dask_collection(X):
            return align_rows(X, weight, "sample_weight")
        with input_errors():
            return _check_sample_weight(weight, X, dtype=np.float64)

    def _planned_map(self, d: int) -> LearnedFourierMap:
        self._check_together()
        return LearnedFourierMap(d, int(self.n_components), self.phase, self.structure, 0)

    def planned_costs(self, rows: PlannedRows, planned: Any) -> Costs:
        from .plan import planned_learning

        return rule_costs(rows, self.kernel, self.length_scale, self.gamma) + planned_learning(self, rows)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.objective != "kernel"
        return tags
