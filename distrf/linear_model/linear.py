"""Linear models with smooth losses, fitted by few passes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import Tags

from ..execution.planned import Costs, PlannedRows
from ..folds import GivenFolds, given_folds
from ..losses import LOSSES, Loss, get_loss, losses_for
from ..newton.descent import SLOPED, STEPS
from ..newton.fit import Newton
from ..newton.line import LineReduction
from ..newton.sample import sample_size
from ..parameters import CLASS_WEIGHT, FLAG, FOLDER, SEED, Rule, number, one_of, whole
from ..randomness import draw_seed
from ..ridge.alphas import ALPHA
from ..ridge.gram import FoldRule, GivenRule
from ..ridge.normal_equations import Solution
from ..sgd.rows import Rows
from ..targets import Targets, class_targets, regression_targets, target_phase
from ..typing import ArrayLike, ClassWeight, RandomState
from .base import LinearClassifier, LinearModel, LinearRegressor
from .calibration import learn_calibration
from .held_out import calibration_costs, fold_scores
from .validation import validate_fit

#: One of so many folds is held out for calibration.
_FOLDS = 10
#: Passes that a plan assumes. The real number depends on the data.
_EXPECTED = 10


def smooth_loss(task: str) -> Rule:
    """The rule for the parameter `loss`: the losses of a task that have second derivatives."""

    def known() -> list[str]:
        return [name for name in losses_for(task) if LOSSES[name].second is not Loss.second]

    return Rule(lambda: tuple(map(repr, known())), lambda value: isinstance(value, str) and value in known())


class BaseLinear(LinearModel):
    """What the classifier and the regressor, which document the parameters, share."""

    loss: str
    alpha: Any
    fit_intercept: bool
    calibrate: bool
    tol: float
    max_passes: int
    checkpoint: Any
    random_state: Any

    #: Subfolder of the command line's --checkpoint for the passes.
    checkpoint_folder: ClassVar[str] = "passes"
    parameter_rules: ClassVar[dict[str, Rule]] = {
        "alpha": ALPHA | one_of("auto"),
        "fit_intercept": FLAG,
        "calibrate": FLAG,
        "tol": number(above=0, below=1),
        "max_passes": whole(),
        "checkpoint": FOLDER,
        "random_state": SEED,
    }

    def facts(self) -> dict[str, Any]:
        return {
            "alpha": self.alpha_,
            "loss": self.loss,
            "passes": self.n_iter_,
            "gap": self.gap_,
            "descent": self.descent_,
        }

    @property
    def _calibrates(self) -> bool:
        return bool(self.calibrate) and not LOSSES[self.loss].probabilistic

    def _fit_passes(
        self, X: Any, y: Any, weight: Any, targets: Targets, folds: GivenFolds | None, loss: Loss, choose: bool
    ) -> None:
        seed = draw_seed(self.random_state)
        arrays, rule = [X, y] if weight is None else [X, y, weight], FoldRule()
        if self._calibrates:
            rule = FoldRule(_FOLDS, seed=seed)
            if folds is not None:
                rule, arrays = GivenRule(2, holdout=True), [*arrays, folds.values]
        fitted = Newton(
            loss, None if self.alpha == "auto" else float(self.alpha), choose, bool(self.fit_intercept), float(self.tol),
            int(self.max_passes), seed, rule, self.checkpoint,
        ).fit(arrays, targets)  # fmt: skip
        self.__dict__.pop("calibration_", None)
        if self._calibrates:
            solution = Solution(fitted.alpha, fitted.weights, fitted.intercept)
            others = [None] * (rule.n_folds - 1)
            held = fold_scores(Rows.of(X, y, weight, folds), targets, rule, [solution, *others], seed, folds)
            self.calibration_ = learn_calibration(held, targets.classes)
        self.coef_ = np.ascontiguousarray(fitted.weights.T)
        self.intercept_ = fitted.intercept + (targets.centre if self.fit_intercept else 0.0)
        self.alpha_, self.gap_, self.n_iter_ = fitted.alpha, fitted.descent.gap, fitted.passes
        self.epsilon_, self.descent_ = fitted.loss.epsilon, fitted.descent.history

    def planned_costs(self, rows: PlannedRows) -> Costs:
        self.check()
        n, D, C = rows.n, rows.width, rows.outputs
        P = D + bool(self.fit_intercept)
        reduction = LineReduction(
            D,
            Targets(None, np.zeros(C)),
            LOSSES[self.loss](),
            bool(self.fit_intercept),
            steps=STEPS,
            n_slopes=SLOPED,
        )
        size = sample_size(n, D, rows.itemsize)
        factors = 8 * (C + 2) * min(size, P) ** 2
        client = 3 * size * P * rows.itemsize + factors + 40 * reduction.nbytes
        note = f"{_EXPECTED} passes or so over the features; how many it takes depends on the data"
        costs = Costs((target_phase(n, rows.blocks),)) + rows.sample_costs(size)
        costs += Costs(
            (rows.passes(_EXPECTED, reduction),),
            8 * D * C,
            rows.pass_memory(reduction, 16 * P * C),
            client,
            (note,),
        )
        return costs + calibration_costs(rows, n // _FOLDS) if self._calibrates else costs


class StreamingLinearClassifier(LinearClassifier, BaseLinear):
    """Linear classification with a smooth loss, by few passes over the rows; the largest score wins.

    Minimises F = (1 / W) sum_i w_i loss(z_i.u + b, y_i) + (alpha / 2) |u|^2, with W = sum_i w_i, to a share `tol` of its least.
    The intercept b has no penalty. L-BFGS [1]_ starts from the solution on at most 16,000 sampled rows, and is preconditioned by the
    Hessian of that sample. Each pass gives the loss at several lengths of a step, and workers share its rows.

    Parameters
    ----------
    loss : {"multinomial", "logistic", "squared_hinge", "squared"}, default="multinomial"
        Of the classes. All but "multinomial" are one against the rest; "squared" is on targets -1 and 1.
    alpha : float or {"auto"}, default="auto"
        Strength of the penalty. "auto" takes the one of least loss on held-out rows of the sample, extrapolated to the number
        of all rows.
    fit_intercept : bool, default=True
        Whether to fit the intercept b, which has no penalty.
    class_weight : {"balanced"}, dict or None, default=None
        Factor on the weight of the rows of each class: "balanced" is n / (classes * count), a dict is {label: factor}.
    calibrate : bool, default=False
        Whether `fit` also learns probabilities from a tenth of the rows, which it then does not train on; a model that is made by
        name does. The logistic and the multinomial loss have probabilities without it.
    tol : float, default=0.001
        The fit ends when the loss is estimated to be at most this share of itself above its least.
    max_passes : int, default=50
        Most passes. A warning says if they were too few.
    checkpoint : str, PathLike or None, default=None
        Folder or URL that keeps the sums of each pass; the same call resumes from it, and ends with the same bits.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the sample and of the rows held out. None draws one seed.

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
    gap_ : float
        Estimate of (F - least F) / F, of the preconditioned gradient.
    calibration_ : array of shape (c, 2)
        Slope and offset of the sigmoid of each class. Only with `calibrate`, of other losses than "logistic" and "multinomial".
    descent_ : list of dict
        For each step "loss" (with penalty) and "gap".
    n_iter_ : int
        Passes over the features.
    epsilon_ : float
        Not read by losses of classification.
    n_features_in_ : int
        Number of input columns, D.

    Warns
    -----
    ConvergenceWarning
        `gap_` is above `tol` after `max_passes`.

    Notes
    -----
    One pass is one step: it adds up the loss at six lengths of the step and the gradient at two of them, and the lowest is taken. With the
    gradient g and the preconditioner P, g'P^-1 g / F (twice the Newton decrement over two F, for the errors of the sample), or what the
    pairs of L-BFGS make of it where that is more, estimates the gap. A class of which the sample would have fewer than 256 rows
    enters it whole, or with many rows, and with a weight that makes up for it. Where a step lowers the estimate by less than a factor 3, the
    sample's Hessian is taken anew. The client holds the sample and a factor of min(D, rows of the sample)^2 numbers for each output, or one
    for all where those take more than 1.5 GiB.

    References
    ----------
    .. [1] J. Nocedal and S. J. Wright, "Numerical Optimization", 2nd edition, Springer 2006, Algorithm 7.4.

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import StreamingLinearClassifier
    >>> Z = np.random.default_rng(0).normal(size=(500, 3))
    >>> y = np.where(Z[:, 0] > 0, "above", "below")
    >>> StreamingLinearClassifier(alpha=1e-4).fit(Z, y).score(Z, y) > 0.9
    True
    """

    parameter_rules: ClassVar[dict[str, Rule]] = BaseLinear.parameter_rules | {
        "loss": smooth_loss("classification"),
        "class_weight": CLASS_WEIGHT,
    }

    def __init__(
        self,
        loss: str = "multinomial",
        *,
        alpha: float | str = "auto",
        fit_intercept: bool = True,
        class_weight: ClassWeight = None,
        calibrate: bool = False,
        tol: float = 1e-3,
        max_passes: int = 50,
        checkpoint: str | None = None,
        random_state: RandomState = 0,
    ):
        self.loss = loss
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.calibrate = calibrate
        self.tol = tol
        self.max_passes = max_passes
        self.checkpoint = checkpoint
        self.random_state = random_state

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, folds: ArrayLike | None = None
    ) -> StreamingLinearClassifier:
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
            Fold of each row, from 0 on; -1 for rows that are never held out. `calibrate` holds out fold 0. None holds out a tenth.

        Returns
        -------
        StreamingLinearClassifier
            The fitted estimator itself.

        Raises
        ------
        InputError
            A parameter breaks a rule, or the data do: NaN or infinity, another length of y.
        MemoryPlanError
            The job cannot fit into memory.
        SpecMismatchError
            The checkpoint belongs to another fit.
        """
        X, y, sample_weight = validate_fit(self, X, y, sample_weight, numeric=False)
        targets = class_targets(y, sample_weight, self.class_weight)
        self.classes_ = np.asarray(targets.classes)
        loss = get_loss(self.loss, "classification", len(self.classes_))
        self._fit_passes(X, y, sample_weight, targets, given_folds(X, folds), loss, False)
        return self


class StreamingLinearRegressor(LinearRegressor, BaseLinear):
    """Linear regression with a smooth loss, by few passes over the rows.

    Minimises as `StreamingLinearClassifier` does, the sum over targets of the losses of their residuals: Huber's [1]_, or squares.

    Parameters
    ----------
    loss : {"huber", "squared"}, default="huber"
        "huber" is r^2 / 2 up to |r| = epsilon and a line beyond, so that outlying targets hardly move it.
    alpha : float or {"auto"}, default="auto"
        As of `StreamingLinearClassifier`.
    epsilon : float or {"auto"}, default="auto"
        Width of the Huber loss, in the units of y. "auto" is a robust standard deviation of sampled targets.
    fit_intercept : bool, default=True
        Whether to fit the intercept b, which has no penalty.
    calibrate : bool, default=False
        Whether `fit` also learns the errors of `predict_interval` from a tenth of the rows, which it then does not train on; a model
        that is made by name does.
    tol : float, default=0.001
        As of `StreamingLinearClassifier`.
    max_passes : int, default=50
        As of `StreamingLinearClassifier`.
    checkpoint : str, PathLike or None, default=None
        As of `StreamingLinearClassifier`.
    random_state : int, Generator, RandomState or None, default=0
        As of `StreamingLinearClassifier`.

    Attributes
    ----------
    coef_ : array of shape (D,) or (C, D)
        Weights.
    intercept_ : float or array of shape (C,)
        Intercept.
    alpha_ : float
        The strength of the penalty in use.
    epsilon_ : float or array of shape (C,)
        The width of the loss in use; with several targets and epsilon="auto" one for each.
    gap_ : float
        Estimate of (F - least F) / F, of the preconditioned gradient.
    calibration_ : array of shape (k, C)
        Absolute errors of held-out rows, ascending for each target. Only with `calibrate`.
    descent_ : list of dict
        For each step "loss" (with penalty) and "gap".
    n_iter_ : int
        Passes over the features.
    n_features_in_ : int
        Number of input columns, D.

    Warns
    -----
    ConvergenceWarning
        `gap_` is above `tol` after `max_passes`.

    References
    ----------
    .. [1] P. J. Huber, "Robust Estimation of a Location Parameter", Annals of Mathematical Statistics 35, 1964.

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import StreamingLinearRegressor
    >>> Z = np.random.default_rng(0).normal(size=(500, 3))
    >>> y = Z @ [1.0, 2.0, 3.0]
    >>> y[::10] += 100  # outliers
    >>> StreamingLinearRegressor(alpha=1e-6, epsilon=0.1).fit(Z, y).coef_.round(1)
    array([1., 2., 3.])
    """

    parameter_needs: ClassVar[dict[str, dict[str, tuple[Any, ...]]]] = {"epsilon": {"loss": ("huber",)}}
    parameter_rules: ClassVar[dict[str, Rule]] = BaseLinear.parameter_rules | {
        "loss": smooth_loss("regression"),
        "epsilon": number(above=0) | one_of("auto"),
    }

    def __init__(
        self,
        loss: str = "huber",
        *,
        alpha: float | str = "auto",
        epsilon: float | str = "auto",
        fit_intercept: bool = True,
        calibrate: bool = False,
        tol: float = 1e-3,
        max_passes: int = 50,
        checkpoint: str | None = None,
        random_state: RandomState = 0,
    ):
        self.loss = loss
        self.alpha = alpha
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.calibrate = calibrate
        self.tol = tol
        self.max_passes = max_passes
        self.checkpoint = checkpoint
        self.random_state = random_state

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, folds: ArrayLike | None = None
    ) -> StreamingLinearRegressor:
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
            As of `StreamingLinearClassifier.fit`.

        Returns
        -------
        StreamingLinearRegressor
            The fitted estimator itself.

        Raises
        ------
        InputError
            A parameter breaks a rule, or the data do: NaN or infinity, another length of y, text for numbers.
        MemoryPlanError
            The job cannot fit into memory.
        SpecMismatchError
            The checkpoint belongs to another fit.
        """
        X, y, sample_weight = validate_fit(self, X, y, sample_weight, numeric=True)
        targets = regression_targets(y, sample_weight)
        if not self.fit_intercept:
            targets = replace(targets, centre=np.zeros_like(targets.centre))
        epsilon = 0.1 if self.epsilon == "auto" else float(self.epsilon)
        loss = get_loss(self.loss, "regression", 0, epsilon)
        self._fit_passes(
            X,
            y,
            sample_weight,
            targets,
            given_folds(X, folds),
            loss,
            self.epsilon == "auto" and self.loss == "huber",
        )
        if np.ndim(y) == 1:
            self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
