"""What the two ridge estimators share: parameters and their rules, the pass or passes of a fit, calibration."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..errors import InputError, MemoryPlanError
from ..execution.keeping import keeping_blocks
from ..execution.memory import check_client
from ..execution.passes import run_pass
from ..execution.planned import Costs, PlannedRows
from ..execution.row_blocks import rows_per_block
from ..parameters import FLAG, FOLDER, SEED, Rule, check_parameters, number, one_of, whole
from ..randomness import draw_seed
from ..ridge.alphas import ALPHAS, are_compared, given_alphas, warn_if_lowest
from ..ridge.conjugate_passes import ConjugateGradients
from ..ridge.folds import gram_reductions
from ..ridge.gram import FoldRule, GramPair, GramReduction
from ..ridge.normal_equations import Compared, NormalEquations, Solution, compare_alphas, without_folds
from ..ridge.plan import ridge_costs
from ..ridge.solver import SOLVERS, choose_solver
from ..sgd.rows import Rows
from ..targets import Targets
from .base import LinearModel
from .held_out import calibration_costs, fold_scores


class _Solved(NamedTuple):
    """A solution, and those without the rows of each fold of `rule`: see `fold_scores`.

    errors : of ridge on other columns beside the features, for each alpha
    """

    solution: Solution
    rule: FoldRule
    without: list[Solution | None]
    errors: np.ndarray | None = None


class BaseRidge(LinearModel):
    """Base of the regressor and the classifier, which document the parameters."""

    alpha: Any
    fit_intercept: bool
    cv: int | str
    calibrate: bool
    solver: str
    n_directions: int | str
    tol: float
    max_passes: int
    checkpoint: Any
    random_state: Any

    #: Parameters that are read only if another parameter has one of these values.
    parameter_needs: ClassVar[dict[str, dict[str, tuple[Any, ...]]]] = {
        name: {"solver": ("auto", "cg")} for name in ("tol", "n_directions", "max_passes")
    }
    parameter_rules: ClassVar[dict[str, Rule]] = {
        "alpha": ALPHAS,
        "fit_intercept": FLAG,
        "cv": whole(2) | one_of("holdout", "auto"),
        "calibrate": FLAG,
        "solver": one_of(*SOLVERS),
        "n_directions": whole() | one_of("auto"),
        "tol": number(above=0, below=1),
        "max_passes": whole(),
        "checkpoint": FOLDER,
        "random_state": SEED,
    }

    @property
    def compares_alphas(self) -> bool:
        """Whether a fit chooses between penalties."""
        return are_compared(self.alpha)

    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"alpha": self.alpha_, "solver": self.solver_}
        if self.solver_ != "gram":
            facts["passes"] = self.n_iter_ + self.n_finder_passes_
        if self.cv_errors_ is not None:
            facts["alphas"], facts["cv_errors"] = self.alphas_.tolist(), self.cv_errors_.tolist()
        return facts

    @property
    def checkpoint_folder(self) -> str:
        """Subfolder of the command line's --checkpoint for the passes of conjugate gradients; "" for none."""
        return "" if self.solver == "gram" else "cg"

    def _fit(self, X: Any, y: Any, sample_weight: Any, targets: Targets, columns: Any) -> np.ndarray | None:
        """Fit to features X. Returns the cross-validation errors of ridge on `columns` if the same pass can give them."""
        self.__dict__.pop("calibration_", None)
        alphas, seed = given_alphas(self.alpha), draw_seed(self.random_state)
        reductions = gram_reductions(
            self.alpha, self.cv, X.shape[0], X.shape[1], targets, seed, held_out=bool(self.calibrate)
        )
        arrays = [X, y] if sample_weight is None else [X, y, sample_weight]
        reduction, self.solver_, self.solver_reason_ = choose_solver(self.solver, reductions, arrays)
        gram = self.solver_ == "gram"
        with keeping_blocks(*([] if gram and not self.calibrate else arrays)):  # one pass needs nothing kept
            if gram:
                solved = self._solve_gram(reduction, arrays, alphas, columns)
            else:
                solved = self._iterate(arrays, targets, alphas, seed)
            solution = solved.solution
            if not (np.isfinite(solution.weights).all() and np.isfinite(solution.intercept).all()):
                raise InputError(
                    "the weights are no longer numbers: sums of squares overflow or alpha is lost in rounding; scale rows "
                    "and targets, or take a larger alpha"
                )
            if self.calibrate:
                rows = Rows.of(X, y, sample_weight)
                self._calibrate(fold_scores(rows, targets, solved.rule, solved.without, seed))
        self.alpha_ = solution.alpha
        self.coef_ = np.ascontiguousarray(solution.weights.T)
        self.intercept_ = solution.intercept + (targets.centre if self.fit_intercept else 0.0)
        return solved.errors

    def _iterate(self, arrays: list[Any], targets: Targets, alphas: list[float] | None, seed: int) -> _Solved:
        """Solve by conjugate gradients."""
        fitted = ConjugateGradients(
            self.fit_intercept, self.n_directions, self.tol, self.max_passes, seed, self.checkpoint,
            hold_out=bool(self.calibrate),
        ).fit(arrays, targets, alphas)  # fmt: skip
        self.alphas_, self.cv_errors_ = np.array(fitted.alphas), fitted.cv_errors
        self.residual_, self.error_bound_ = fitted.residual, fitted.bound
        self.n_iter_, self.n_finder_passes_ = fitted.passes, fitted.finder_passes
        return _Solved(fitted.solution, fitted.rule, [fitted.without, None])

    def _solve_gram(
        self, reduction: GramReduction, arrays: list[Any], alphas: list[float] | None, columns: Any
    ) -> _Solved:
        """Solve the normal equations, which one pass adds up."""
        check_client(reduction.solve_bytes, type(self).__name__)
        X, beside, errors = arrays[0], None, None
        rows = rows_per_block(X.dtype.itemsize * X.shape[1])
        if columns is not None and reduction.rule.n_folds > 1:
            pair = GramPair(reduction, replace(reduction, n_features=columns.shape[1]))
            with suppress(MemoryPlanError):  # the features alone may fit
                check_client(reduction.solve_bytes + pair.columns.solve_bytes, type(self).__name__)
                states = run_pass(pair, [X, columns, *arrays[1:]], label="Gram matrices", block_rows=rows)
                state, beside = states.features, states.columns
        if beside is None:
            state = run_pass(reduction, arrays, label="Gram matrix", block_rows=rows)
        if not state.weight.sum() > 0:
            raise InputError("sample_weight must not be zero everywhere")
        if beside is not None:
            linear = NormalEquations(beside, columns.shape[1], self.fit_intercept)
            errors = compare_alphas(linear, alphas, reduction).errors
        system = NormalEquations(state, reduction.n_features, self.fit_intercept)
        if alphas is not None and len(alphas) == 1:
            compared = Compared(alphas[0], alphas, None)
        else:
            compared = compare_alphas(system, alphas, reduction)
            if alphas is None and compared.errors is not None:
                warn_if_lowest(compared.alphas, compared.errors, compared.variance)
        self.alphas_, self.cv_errors_ = np.array(compared.alphas), compared.errors
        self.residual_, self.error_bound_, self.n_iter_, self.n_finder_passes_ = 0.0, 0.0, 0, 0
        without = without_folds(system, reduction, compared.alpha) if self.calibrate else []
        return _Solved(next(system.solve([compared.alpha])), reduction.rule, without, errors)

    def planned_costs(self, rows: PlannedRows) -> Costs:
        check_parameters(self)
        targets = Targets(None, np.zeros(rows.outputs))
        reductions = gram_reductions(
            self.alpha, self.cv, rows.n, rows.width, targets, 0, held_out=bool(self.calibrate)
        )
        costs = ridge_costs(self, rows, reductions)
        return costs + calibration_costs(self, rows, rows.n) if self.calibrate else costs
