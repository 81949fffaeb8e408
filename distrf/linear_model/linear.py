"""Linear models with smooth losses, fitted by few passes, and the fit and its plan, which ridge beyond memory shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import is_regressor

from ..execution.planned import Costs, PlannedRows
from ..folds import GivenFolds, given_folds
from ..losses import LOSSES, Loss, losses_for
from ..newton.descent import SLOPED, STEPS, Descent
from ..newton.fit import HELD_OUT, Newton, held_out_rule
from ..newton.hessian import FACTORS
from ..newton.line import LineReduction
from ..newton.sample import sample_size
from ..parameters import CLASS_WEIGHT, FLAG, FOLDER, SEED, Rule, estimator, number, one_of, param, whole
from ..randomness import draw_seed
from ..ridge.alphas import ALPHA, are_compared, given_alphas
from ..ridge.gram import ALL_ROWS
from ..sgd.alpha import fitted_rows
from ..sgd.rows import Rows
from ..targets import Targets, target_phase
from ..typing import ArrayLike, ClassWeight, RandomState
from .base import LinearClassifier, LinearModel, LinearRegressor, loss_of
from .calibration import learn_calibration
from .held_out import calibration_costs, fold_scores
from .validation import validate_fit

#: Passes that a plan assumes. The real number depends on the data.
_EXPECTED = 10


def fit_by_passes(
    model: Any,
    loss: Loss,
    arrays: Sequence[Any],
    targets: Targets,
    folds: GivenFolds | None,
    seed: int,
    *,
    calibrates: bool,
    choose_epsilon: bool = False,
) -> tuple[Descent, Loss]:
    """Fit a model to [features, targets] or [features, targets, weights]: sets its weights, `gap_` and `n_iter_`.

    calibrates : whether fold 0 is held out, from which calibration learns; choose_epsilon : whether the width of the loss is chosen
    """
    rule = held_out_rule(folds, seed) if calibrates else ALL_ROWS
    descent, solution, loss = Newton(
        loss, given_alphas(model.alpha), choose_epsilon, bool(model.fit_intercept), float(model.tol),
        int(model.max_passes), seed, rule, model.checkpoint,
    ).fit(arrays, targets, folds)  # fmt: skip
    calibration = None
    if calibrates:
        rows = Rows.of(arrays[0], arrays[1], arrays[2] if len(arrays) > 2 else None, folds)
        solutions = [solution, *[None] * (rule.n_sets - 1)]
        calibration = learn_calibration(fold_scores(rows, targets, rule, solutions, seed), targets.classes)
    model._set_solution(solution, targets, calibration)
    model.gap_, model.n_iter_ = descent.gap, descent.looks
    return descent, loss


def pass_costs(model: Any, rows: PlannedRows, loss: Loss, calibrates: bool) -> Costs:
    """Costs of `fit_by_passes`."""
    n, D, C = rows.n, rows.width, rows.outputs
    P, targets = D + bool(model.fit_intercept), Targets(None, np.zeros(C))
    reduction = LineReduction(D, targets, loss, bool(model.fit_intercept), steps=STEPS, n_slopes=SLOPED)
    size = sample_size(n, D, rows.itemsize)
    factor = 8 * min(size, P) ** 2  # of the Hessian with and without damping, and of the Gram matrix
    factors = 2 * max(factor, min(C * factor, int(FACTORS))) + 2 * factor
    fitted = 40 * D * min(size, fitted_rows(D, C)) if are_compared(model.alpha) else 0
    client = 4 * size * P * rows.itemsize + fitted + factors + 40 * reduction.nbytes
    note = f"{_EXPECTED} passes or so over the features; how many it takes depends on the data"
    passes, memory = rows.passes(_EXPECTED, reduction), rows.pass_memory(reduction, 16 * P * C)
    costs = Costs((target_phase(n, rows.blocks),)) + rows.sample_costs(size)
    costs += Costs((passes,), 8 * D * C, memory, client, (note,))
    return costs + calibration_costs(rows, n // HELD_OUT) if calibrates else costs


def smooth_loss(task: str) -> Rule:
    """The rule for the parameter `loss`: the losses of a task that have second derivatives."""

    def known() -> list[str]:
        return [name for name in losses_for(task) if LOSSES[name].second is not Loss.second]

    return Rule(lambda: tuple(map(repr, known())), lambda value: isinstance(value, str) and value in known())


@estimator
class BaseLinear(LinearModel):
    """What the classifier and the regressor share.

    Parameters
    ----------
    alpha : float or {"auto"}, default="auto"
        Strength of the penalty. "auto" takes the one of least loss on held-out rows of the sample, extrapolated to the number
        of all rows.
    fit_intercept : bool, default=True
        Whether to fit the intercept b, which has no penalty.
    tol : float, default=0.001
        The fit ends when the loss is estimated to be at most this share of itself above its least.
    max_passes : int, default=50
        Most passes, those of failed steps included. A warning says if they were too few.
    checkpoint : str, PathLike or None, default=None
        Folder or URL that keeps the sums of each pass; the same call resumes from it, and ends with the same bits.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the sample and of the rows held out. None draws one seed.

    Attributes
    ----------
    alpha_ : float
        The strength of the penalty in use.
    gap_ : float
        Estimate of (F - least F) / F, of the preconditioned gradient and of the sample; of several targets each in units of about the
        largest spread. Where F is less than 1e-4 of the loss without weights, a share of that.
    descent_ : list of dict
        For each step "loss" (with penalty) and "gap".
    n_iter_ : int
        Passes over the features.
    n_features_in_ : int
        Number of input columns, D.
    """

    #: Subfolder of the checkpoint of a training for the passes.
    checkpoint_folder: ClassVar[str] = "passes"

    alpha: float | str = param(default="auto", rule=ALPHA | one_of("auto"))
    fit_intercept: bool = param(default=True, rule=FLAG)
    calibrate: bool = param(default=False, rule=FLAG)
    tol: float = param(default=1e-3, rule=number(above=0, below=1))
    max_passes: int = param(default=50, rule=whole())
    checkpoint: str | None = param(default=None, rule=FOLDER)
    random_state: RandomState = param(default=0, rule=SEED)

    def facts(self) -> dict[str, Any]:
        return {
            "alpha": self.alpha_,
            "loss": self.loss,
            "passes": self.n_iter_,
            "gap": self.gap_,
            "descent": self.descent_,
        }

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, folds: ArrayLike | None = None
    ) -> Self:
        """Fit to features and labels, or numbers.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, D)
            Features. A Dask array is read block by block, out of core.
        y : array or Dask array of shape (n,) or (n, C)
            Labels of a classifier: numbers or text, shape (n,). Numbers of a regressor, one or C for each row.
        sample_weight : array or Dask array of shape (n,), default=None
            Weight of each row. None weighs all alike.
        folds : array or Dask array of shape (n,) of int, default=None
            Fold of each row, from 0 on; -1 for rows that are never held out. alpha="auto" is chosen by fold 0, on the sample;
            with `calibrate`, which holds out fold 0 from all else, by fold 1. None holds out a tenth, and a third of the sample.

        Returns
        -------
        Self
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
        X, y, weight = validate_fit(self, X, y, sample_weight, numeric=is_regressor(self))
        targets, seed = self._encoded(y, weight), draw_seed(self.random_state)
        epsilon, given = getattr(self, "epsilon", None), given_folds(X, folds)
        loss = loss_of(self.loss, targets, epsilon or "auto")
        arrays = [X, y] if weight is None else [X, y, weight]
        descent, loss = fit_by_passes(
            self, loss, arrays, targets, given, seed, calibrates=self._calibrates,
            choose_epsilon=epsilon == "auto" and self.loss == "huber",
        )  # fmt: skip
        self.epsilon_, self.descent_ = loss.epsilon, descent.history
        self._finish(targets, y.ndim == 1)
        return self

    def planned_costs(self, rows: PlannedRows) -> Costs:
        self.check()
        return pass_costs(self, rows, LOSSES[self.loss](), self._calibrates)


@estimator
class StreamingLinearClassifier(LinearClassifier, BaseLinear):
    """Linear classification with a smooth loss, by few passes over the rows; the largest score wins.

    Minimises F = (1 / W) sum_i w_i loss(z_i.u + b, y_i) + (alpha / 2) |u|^2, with W = sum_i w_i, to a share `tol` of its least.
    The intercept b has no penalty. L-BFGS [1]_ starts from the solution on at most 16,000 sampled rows, and is preconditioned by the
    Hessian of that sample. Each pass gives the loss at several lengths of a step, and workers share its rows.

    Parameters
    ----------
    loss : {"multinomial", "logistic", "squared_hinge", "squared"}, default="multinomial"
        Of the classes. All but "multinomial" are one against the rest; "squared" is on targets -1 and 1.
    class_weight : {"balanced"}, dict or None, default=None
        Factor on the weight of the rows of each class: "balanced" is n / (classes * count), a dict is {label: factor}.
    calibrate : bool, default=False
        Whether `fit` also learns probabilities from a tenth of the rows, which it then does not train on; a model that is made by
        name does. The logistic and the multinomial loss have probabilities without it.

    Attributes
    ----------
    classes_ : array of shape (c,)
        The labels, sorted.
    coef_ : array of shape (c, D) or (1, D)
        Weights; one row for two classes.
    intercept_ : array of shape (c,) or (1,)
        Intercepts.
    calibration_ : array of shape (c, 2)
        Slope and offset of the sigmoid of each class. Only with `calibrate`, of other losses than "logistic" and "multinomial".
    epsilon_ : float
        Not read by losses of classification.

    Warns
    -----
    ConvergenceWarning
        `gap_` is above `tol` after `max_passes`.

    Notes
    -----
    One pass is one step: it adds up the loss at six lengths of the step and the gradient at two of them, and the lowest is taken. With the
    gradient g and the preconditioner P, g'P^-1 g / F (twice the Newton decrement over two F, for the errors of the sample), or what the
    pairs of L-BFGS make of it where that is more, estimates the gap. A class of which the sample would have fewer than 256 rows
    enters it whole, or with many rows, and with a weight that makes up for it; others have fewer then. Where a step lowers the estimate by
    less than a factor 3, the sample's Hessian is taken anew. Where a step fails, a tenth of the Hessian's mean curvature is added to it,
    ten times more after each further failure, and less once steps could be longer; the gap is still that of the Hessian itself. The squared loss needs none of that: one
    look tells the lowest point of its line, as in conjugate gradients. The client holds the sample and two factors of min(D, rows of the
    sample)^2 numbers for each output, or for all where those take more than 1.5 GiB.

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

    loss: str = param(default="multinomial", rule=smooth_loss("classification"), kw_only=False)
    class_weight: ClassWeight = param(default=None, rule=CLASS_WEIGHT)


@estimator
class StreamingLinearRegressor(LinearRegressor, BaseLinear):
    """Linear regression with a smooth loss, by few passes over the rows.

    Minimises as `StreamingLinearClassifier` does, the sum over targets of the losses of their residuals: Huber's [1]_, or squares.

    Parameters
    ----------
    loss : {"huber", "squared"}, default="huber"
        "huber" is r^2 / 2 up to |r| = epsilon and a line beyond, so that outlying targets hardly move it.
    epsilon : float or {"auto"}, default="auto"
        Width of the Huber loss, in the units of y. "auto" is a robust standard deviation of sampled targets.
    calibrate : bool, default=False
        Whether `fit` also learns the errors of `predict_interval` from a tenth of the rows, which it then does not train on; a model
        that is made by name does.

    Attributes
    ----------
    coef_ : array of shape (D,) or (C, D)
        Weights.
    intercept_ : float or array of shape (C,)
        Intercept.
    epsilon_ : float or array of shape (C,)
        The width of the loss in use; with several targets and epsilon="auto" one for each.
    calibration_ : array of shape (k, C)
        Absolute errors of held-out rows, ascending for each target. Only with `calibrate`.

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

    loss: str = param(default="huber", rule=smooth_loss("regression"), kw_only=False)
    epsilon: float | str = param(default="auto", rule=number(above=0) | one_of("auto"))
