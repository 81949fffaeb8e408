"""Ridge regression on a stream of features: exact by one pass, or by conjugate gradients over passes."""

from __future__ import annotations

import numbers
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from dask.base import is_dask_collection
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, column_or_1d, validate_data

from ..errors import InputError, MemoryPlanError, input_errors
from ..execution.memory import check_client
from ..execution.passes import run_pass
from ..execution.planned import Costs, PlannedRows
from ..execution.row_blocks import align_rows, rows_per_block
from ..features.base import validate_rows
from ..maps import working_dtype
from ..parameters import CLASS_WEIGHT, FLAG, FOLDER, SEED, Rule, check_parameters, number, one_of, whole
from ..randomness import draw_seed
from ..ridge.alphas import ALPHAS, given_alphas
from ..ridge.conjugate_passes import SOLVERS, choose_solver, fit_conjugate
from ..ridge.gram import FoldRule, GramPair, GramReduction
from ..ridge.normal_equations import Compared, NormalEquations, Solution, choose_alpha
from ..ridge.plan import ridge_costs
from ..targets import Targets, as_columns, class_targets, refuse_unlike_targets, regression_targets
from .base import LinearClassifier, LinearModel, LinearRegressor

#: Features up to which five Gram matrices are kept and factored for each alpha rather than two: 170 MB in float64.
_FOLDS_UP_TO = 2048


class _Ridge(LinearModel):
    alphas: Any
    fit_intercept: bool
    cv: int | str
    solver: str
    n_directions: int | str
    tol: float
    max_passes: int
    checkpoint: Any
    random_state: Any

    parameter_rules: ClassVar[dict[str, Rule]] = {
        "alphas": ALPHAS,
        "fit_intercept": FLAG,
        "cv": whole(2) | one_of("holdout", "auto"),
        "solver": one_of(*SOLVERS),
        "n_directions": whole() | one_of("auto"),
        "tol": number(above=0, below=1),
        "max_passes": whole(),
        "checkpoint": FOLDER,
        "random_state": SEED,
    }

    def _fit(self, X: Any, y: Any, sample_weight: Any, targets: Targets, columns: Any) -> np.ndarray | None:
        """Fit to features X; the squared errors of a linear model on `columns`, where the same pass can tell."""
        alphas = given_alphas(self.alphas)
        seed = draw_seed(self.random_state)
        errors = None
        reductions = gram_reductions(self.alphas, self.cv, X.shape[0], X.shape[1], targets, seed)
        arrays = [X, y] if sample_weight is None else [X, y, sample_weight]
        reduction, self.solver_, self.solver_reason_ = choose_solver(
            self.solver, reductions, arrays, solve_bytes
        )
        if self.solver_ == "gram":
            solution, errors = self._solve_gram(reduction, arrays, alphas, columns)
        else:
            found = fit_conjugate(
                arrays,
                targets,
                alphas,
                fit_intercept=self.fit_intercept,
                n_directions=self.n_directions,
                tol=self.tol,
                max_passes=self.max_passes,
                seed=seed,
                checkpoint=self.checkpoint,
            )
            solution = found.solution
            self.alphas_, self.cv_errors_ = np.array(found.alphas), found.cv_errors
            self.residual_, self.error_bound_ = found.residual, found.bound
            self.n_iter_, self.n_finder_passes_ = found.passes, found.finder_passes
        if not (np.isfinite(solution.weights).all() and np.isfinite(solution.intercept).all()):
            raise InputError(
                "the weights are no longer numbers: sums of squares overflow or alpha is lost in rounding; scale rows and "
                "targets, or take a larger alpha"
            )
        self.alpha_ = solution.alpha
        self.coef_ = np.ascontiguousarray(solution.weights.T)
        self.intercept_ = solution.intercept + (targets.centre if self.fit_intercept else 0.0)
        return errors

    def _solve_gram(
        self, reduction: GramReduction, arrays: list[Any], alphas: list[float] | None, columns: Any
    ) -> tuple[Solution, np.ndarray | None]:
        check_client(solve_bytes(reduction), type(self).__name__)
        X, beside, errors = arrays[0], None, None
        rows = rows_per_block(X.dtype.itemsize * X.shape[1])
        if columns is not None and reduction.rule.n_folds > 1:
            pair = GramPair(reduction, replace(reduction, n_features=columns.shape[1]))
            with suppress(MemoryPlanError):  # the features alone may fit
                check_client(solve_bytes(reduction) + solve_bytes(pair.columns), type(self).__name__)
                states = run_pass(pair, [X, columns, *arrays[1:]], label="Gram matrices", block_rows=rows)
                state, beside = states.features, states.columns
        if beside is None:
            state = run_pass(reduction, arrays, label="Gram matrix", block_rows=rows)
        if not state.weight.sum() > 0:
            raise InputError("sample_weight must not be zero everywhere")
        if beside is not None:
            linear = NormalEquations(beside, columns.shape[1], self.fit_intercept)
            errors = choose_alpha(linear, alphas, reduction.rule.holdout).errors
        system = NormalEquations(state, reduction.n_features, self.fit_intercept)
        if alphas is not None and len(alphas) == 1:
            compared = Compared(alphas[0], alphas, None)
        else:
            compared = choose_alpha(system, alphas, reduction.rule.holdout)
        self.alphas_, self.cv_errors_ = np.array(compared.alphas), compared.errors
        self.residual_, self.error_bound_, self.n_iter_, self.n_finder_passes_ = 0.0, 0.0, 0, 0
        return next(system.solve([compared.alpha])), errors

    def planned_costs(self, rows: PlannedRows) -> Costs:
        """What `fit` takes on such features. Raises InputError for parameters that break a rule."""
        check_parameters(self)
        targets = Targets(None, np.zeros(rows.outputs))
        reductions = gram_reductions(self.alphas, self.cv, rows.n, rows.width, targets, 0)
        return ridge_costs(self, rows, reductions, solve_bytes)


class StreamingRidge(LinearRegressor, _Ridge):
    """Ridge regression by one pass that accumulates the normal equations, or by conjugate gradients.

    Minimises (1 / 2W) sum_i w_i |y_i - b - z_i.u|^2 + (alpha / 2) |u|^2 with W = sum_i w_i; the intercept b is
    not penalised. scikit-learn's `Ridge(alpha)` is ours with alpha / n.

    Parameters
    ----------
    alphas : penalty, or several, of which cross-validation picks one, or "auto": decades from 1e-8 to 1e-1 times the
        energy of the features (their mean square about the mean, about 1 for Fourier features), more of them while
        the best one is an edge, and the half decades beside it. Each costs one factorisation of a D x D matrix for
        each fold; no further pass over the data. Where nothing can be held out, as of one row, "auto" is 1e-3
    fit_intercept : whether to fit b
    cv : number of folds of seeded stripes of neighbouring rows, which sorting by class or target does not hurt, or
        "holdout" for one set of a fifth. Used when alphas are compared; the pass then keeps one Gram matrix for each
        fold, two for "holdout". "auto": 5 folds (one for each row of fewer) up to 2,048 features where workers and
        client hold them, else "holdout". Copies of a row that are far apart fall into different folds, and alphas
        come out too small: put them side by side
    solver : "gram" (exact, one pass, D x D numbers) | "cg" (conjugate gradients: a few passes, D x n_directions
        numbers; several alphas are compared on one held-out fifth, whatever `cv` is, and only the best and its
        neighbours are followed to convergence, so of two valleys of the error it may take either; of "auto" decades
        from 1e-8 to 100 times the energy, no smaller ones, which would take many passes) | "auto": "gram"
        where the plan says that workers and client hold it, else "cg", see `solver_reason_`
    n_directions : dominant directions of the features that "cg" starts from; "auto" is D / 8, 64 to 512. More
        take more memory and fewer passes
    tol : "cg" stops when its predictions are that close to the exact ones, relative to their norm, by the
        bound that its residual gives
    max_passes : most passes of "cg"; a warning says when they did not suffice
    checkpoint : folder or URL in which "cg" keeps the result of each pass; an interrupted fit, called again,
        resumes there, and with one alpha more `max_passes` go on from there
    random_state : seed of the folds and of the directions

    Attributes
    ----------
    coef_ : array of shape (D,) or (C, D); intercept_ : number or array of shape (C,)
    alpha_ : the alpha used; alphas_ : those compared
    cv_errors_ : mean squared error of each of `alphas_` over held-out rows, or None where there was but one
    solver_, solver_reason_ : what "auto" took and why
    n_iter_, n_finder_passes_ : passes of "cg" and those before it (right-hand sides, directions); 0 for "gram"
    residual_ : largest relative residual of the normal equations that "cg" left, over the targets; 0 for "gram"
    error_bound_ : the bound that stopped it, on the relative error of predictions of the training rows
    """

    def __init__(
        self,
        alphas: Any = "auto",
        *,
        fit_intercept: bool = True,
        cv: int | str = "auto",
        solver: str = "auto",
        n_directions: int | str = "auto",
        tol: float = 1e-3,
        max_passes: int = 50,
        checkpoint: str | None = None,
        random_state: Any = 0,
    ):
        self.alphas = alphas
        self.fit_intercept = fit_intercept
        self.cv = cv
        self.solver = solver
        self.n_directions = n_directions
        self.tol = tol
        self.max_passes = max_passes
        self.checkpoint = checkpoint
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> StreamingRidge:
        """Fit to features X of shape (n, D) and targets y of shape (n,) or (n, C); Dask arrays out of core."""
        self._fit_beside(X, None, y, sample_weight)
        return self

    def _fit_beside(self, X: Any, columns: Any, y: Any, sample_weight: Any) -> np.ndarray | None:
        X, y, sample_weight = validate_fit(self, X, y, sample_weight, numeric=True)
        targets = regression_targets(y, sample_weight)
        if not self.fit_intercept:
            targets = Targets(None, np.zeros_like(targets.centre))
        errors = self._fit(X, y, sample_weight, targets, columns)
        if y.ndim == 1:
            self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])
        return errors

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class StreamingRidgeClassifier(LinearClassifier, _Ridge):
    """Ridge regression on +-1 targets, one-vs-rest; the largest score wins.

    Parameters
    ----------
    alphas, fit_intercept, cv, solver, n_directions, tol, max_passes, checkpoint, random_state : see StreamingRidge.
        Cross-validation compares squared errors
    class_weight : None, "balanced" (n / (classes * count)), or {label: factor}

    Attributes
    ----------
    classes_ : labels, shape (c,)
    coef_ : array of shape (c, D), or (1, D) for two classes; intercept_ : shape (c,) or (1,)
    alpha_, alphas_, cv_errors_, solver_, solver_reason_, n_iter_, n_finder_passes_, residual_ : see StreamingRidge
    """

    parameter_rules: ClassVar[dict[str, Rule]] = _Ridge.parameter_rules | {"class_weight": CLASS_WEIGHT}

    def __init__(
        self,
        alphas: Any = "auto",
        *,
        fit_intercept: bool = True,
        class_weight: Any = None,
        cv: int | str = "auto",
        solver: str = "auto",
        n_directions: int | str = "auto",
        tol: float = 1e-3,
        max_passes: int = 50,
        checkpoint: str | None = None,
        random_state: Any = 0,
    ):
        self.alphas = alphas
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.cv = cv
        self.solver = solver
        self.n_directions = n_directions
        self.tol = tol
        self.max_passes = max_passes
        self.checkpoint = checkpoint
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> StreamingRidgeClassifier:
        """Fit to features X of shape (n, D) and labels y of shape (n,); Dask arrays out of core."""
        self._fit_beside(X, None, y, sample_weight)
        return self

    def _fit_beside(self, X: Any, columns: Any, y: Any, sample_weight: Any) -> np.ndarray | None:
        X, y, sample_weight = validate_fit(self, X, y, sample_weight, numeric=False)
        targets = class_targets(y, sample_weight, self.class_weight)
        self.classes_ = np.asarray(targets.classes)
        return self._fit(X, y, sample_weight, targets, columns)


def fit_beside(
    model: StreamingRidge | StreamingRidgeClassifier, X: Any, columns: Any, y: Any, sample_weight: Any = None
) -> np.ndarray | None:
    """Fit `model` to features X, and a linear model to other columns of the same rows in the same pass.

    Parameters
    ----------
    X, columns : of shapes (n, D) and (n, d), both dense, in memory or both Dask arrays with the same row chunks
    y, sample_weight : as for `fit`

    Returns
    -------
    The squared error on the columns for each penalty tried, by the folds that `model.cv_errors_` is measured on; None
    where nothing is held out (one penalty), or conjugate gradients fit the model
    """
    return model._fit_beside(X, columns, y, sample_weight)


def solve_bytes(reduction: GramReduction) -> int:
    """Memory of the final solve: the sums as they arrive, and a D x D matrix with its copy."""
    return 2 * reduction.nbytes + 16 * reduction.n_features**2


def fold_rules(cv: int | str, n_rows: int, n_features: int, seed: int) -> list[FoldRule]:
    """The folds that `cv` stands for; of several ways to cut them the first that memory allows is to be taken.

    Raises InputError for anything but "auto", "holdout" and a number of folds in 2 ... n_rows.
    """
    ways: list[int | str]
    if cv == "auto":
        ways = [min(5, n_rows)] if n_features <= _FOLDS_UP_TO or n_rows < 5 else []
        ways += ["holdout"] if n_rows >= 5 else []
        if n_rows < 2:
            return [FoldRule()]
    elif cv == "holdout" and n_rows >= 5:
        ways = [cv]
    elif isinstance(cv, numbers.Integral) and 2 <= cv <= n_rows:
        ways = [int(cv)]
    else:
        raise InputError(
            f"cv is 'auto', 'holdout' or a number of folds between 2 and n_samples = {n_rows}, got {cv!r}; give one "
            "alpha"
        )
    return [FoldRule.for_rows(n_rows, way, seed) for way in ways]


def gram_reductions(
    alphas: Any, cv: int | str, n_rows: int, n_features: int, targets: Targets, seed: int
) -> list[GramReduction]:
    """The passes over the Gram matrix that would do, in order of preference.

    Raises InputError for several alphas of one row, and as `given_alphas` and `fold_rules`.
    """
    given = given_alphas(alphas)
    if given is not None and len(given) > 1 and n_rows < 2:
        raise InputError(f"alphas cannot be compared with n_samples = {n_rows}; give one alpha")
    rules = [FoldRule()] if given and len(given) == 1 else fold_rules(cv, n_rows, n_features, seed)
    return [GramReduction(n_features, targets, rule) for rule in rules]


def validate_fit(
    estimator: LinearModel, X: Any, y: Any, sample_weight: Any, *, numeric: bool, reset: bool = True
) -> tuple[Any, Any, Any]:
    """Checked (X, y, sample_weight) for fitting, and parameters; Dask arrays stay lazy and come out aligned."""
    check_parameters(estimator)
    if y is None:
        raise InputError(f"{type(estimator).__name__} requires y to be passed, but the target y is None")
    if numeric and getattr(getattr(y, "dtype", None), "kind", "") in ("U", "S"):
        raise InputError(f"{type(estimator).__name__} needs numbers as y, got text; take a classifier")
    if is_dask_collection(X):
        X = validate_rows(estimator, X, reset=reset)
        y = align_rows(X, as_columns(y), "y")
        if sample_weight is not None:
            sample_weight = align_rows(X, sample_weight, "sample_weight")
        return X, y, sample_weight
    if is_dask_collection(y) or is_dask_collection(sample_weight):
        raise InputError("X is in memory, but y or sample_weight is a Dask array; compute() it first")
    refuse_unlike_targets(y)
    with input_errors():
        X, y = validate_data(
            estimator,
            X,
            y,
            accept_sparse="csr",
            dtype="numeric",
            multi_output=True,
            y_numeric=numeric,
            reset=reset,
        )
        X = X.astype(working_dtype(X.dtype), copy=False)
        if not numeric:
            y = as_columns(column_or_1d(y, warn=True))
            check_classification_targets(y)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
    return X, y, sample_weight
