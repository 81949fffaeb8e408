"""What the two ridge estimators share: parameters and their rules, the pass or passes of a fit, sums of more rows."""

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
from ..parameters import FLAG, FOLDER, SEED, Rule, number, one_of, whole
from ..randomness import draw_seed
from ..ridge.alphas import ALPHAS, are_compared, given_alphas, warn_if_lowest
from ..ridge.conjugate_passes import ConjugateGradients
from ..ridge.folds import gram_reductions
from ..ridge.gram import GramPair, GramReduction, GramState
from ..ridge.kept_state import KeptState
from ..ridge.normal_equations import Compared, NormalEquations, Solution, compare_alphas
from ..ridge.plan import ridge_costs
from ..ridge.solver import SOLVERS, choose_solver
from ..targets import Targets
from .base import LinearModel


class NoStateError(InputError, AttributeError):
    """Sums that are not kept, or cannot be: `hasattr(model, "partial_fit")` is False then."""


class _Solved(NamedTuple):
    """A solution and the penalties that were compared; errors : of ridge on other columns beside the features."""

    solution: Solution
    alphas: list[float]
    cv_errors: np.ndarray | None
    errors: np.ndarray | None = None
    residual: float = 0.0
    bound: float = 0.0
    passes: int = 0
    finder_passes: int = 0


class BaseRidge(LinearModel):
    """Base of the regressor and the classifier, which document the parameters."""

    alpha: Any
    fit_intercept: bool
    cv: int | str
    solver: str
    n_directions: int | str
    tol: float
    max_passes: int
    keep_state: bool
    checkpoint: Any
    random_state: Any
    state_: KeptState

    #: Parameters that are read only if another parameter has one of these values.
    parameter_needs: ClassVar[dict[str, tuple[str, tuple[Any, ...]]]] = {
        name: ("solver", ("auto", "cg")) for name in ("tol", "n_directions", "max_passes")
    }
    parameter_rules: ClassVar[dict[str, Rule]] = {
        "alpha": ALPHAS,
        "fit_intercept": FLAG,
        "cv": whole(2) | one_of("holdout", "auto"),
        "solver": one_of(*SOLVERS),
        "n_directions": whole() | one_of("auto"),
        "tol": number(above=0, below=1),
        "max_passes": whole(),
        "keep_state": FLAG,
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
        return "" if self.solver == "gram" or self.keep_state else "cg"

    def check(self) -> None:
        super().check()
        self._check_keeping(self.keep_state)

    def _check_keeping(self, keep: bool) -> None:
        if keep and self.solver == "cg":
            raise NoStateError(
                "conjugate gradients (solver='cg') add up nothing to which more rows could be added; take solver='gram', "
                "or fit all rows again without keep_state"
            )

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, targets: Targets, columns: Any, keep: bool
    ) -> np.ndarray | None:
        """Fit to features X. Returns the cross-validation errors of ridge on `columns` if the same pass can give them.

        keep : whether more rows may be added later
        """
        self._check_keeping(keep)
        alphas = given_alphas(self.alpha)
        seed = draw_seed(self.random_state)
        reductions = gram_reductions(self.alpha, self.cv, X.shape[0], X.shape[1], targets, seed, grows=keep)
        arrays = [X, y] if sample_weight is None else [X, y, sample_weight]
        asked = "gram" if keep else self.solver
        reduction, solver, reason = choose_solver(asked, reductions, arrays)
        kept = None
        if solver == "gram":
            state, beside = self._add_up(reduction, arrays, columns)
            solved = self._solve(state, reduction, alphas)
            if beside is not None:
                linear = NormalEquations(beside, columns.shape[1], self.fit_intercept)
                solved = solved._replace(errors=compare_alphas(linear, alphas, reduction).errors)
            kept = KeptState(state, replace(targets, shares=None), reduction.rule, X.shape[0])
        else:
            with keeping_blocks(*arrays):
                fitted = ConjugateGradients(
                    self.fit_intercept, self.n_directions, self.tol, self.max_passes, seed, self.checkpoint
                ).fit(arrays, targets, alphas)
            solved = _Solved(
                fitted.solution, fitted.alphas, fitted.cv_errors, None, fitted.residual, fitted.bound, fitted.passes,
                fitted.finder_passes,
            )  # fmt: skip
        self._publish(solved, targets)
        self.solver_, self.solver_reason_ = solver, reason
        self.__dict__.pop("state_", None)
        if keep:
            assert kept is not None
            self.state_ = kept
        return solved.errors

    def _add_up(
        self, reduction: GramReduction, arrays: list[Any], columns: Any = None
    ) -> tuple[GramState, GramState | None]:
        """The sums of these features, and those of `columns` if there are folds and the memory is there; one pass."""
        check_client(reduction.solve_bytes, type(self).__name__)
        X = arrays[0]
        rows = rows_per_block(X.dtype.itemsize * X.shape[1])
        if columns is not None and reduction.rule.n_folds > 1:
            pair = GramPair(reduction, replace(reduction, n_features=columns.shape[1]))
            with suppress(MemoryPlanError):  # the features alone may fit
                check_client(reduction.solve_bytes + pair.columns.solve_bytes, type(self).__name__)
                states = run_pass(pair, [X, columns, *arrays[1:]], label="Gram matrices", block_rows=rows)
                return states.features, states.columns
        return run_pass(reduction, arrays, label="Gram matrix", block_rows=rows), None

    def _solve(self, state: GramState, reduction: GramReduction, alphas: list[float] | None) -> _Solved:
        """The solution from sums, for one alpha or for the best one by their folds."""
        if not state.weight.sum() > 0:
            raise InputError("sample_weight must not be zero everywhere")
        system = NormalEquations(state, reduction.n_features, self.fit_intercept)
        if alphas is not None and len(alphas) == 1:
            compared = Compared(alphas[0], alphas, None)
        else:
            compared = compare_alphas(system, alphas, reduction)
            if alphas is None and compared.errors is not None:
                warn_if_lowest(compared.alphas, compared.errors, compared.variance)
        return _Solved(next(system.solve([compared.alpha])), compared.alphas, compared.errors)

    def _publish(self, solved: _Solved, targets: Targets) -> None:
        """Set what is fitted. Raises InputError for weights that are no numbers, before anything is set."""
        solution = solved.solution
        if not (np.isfinite(solution.weights).all() and np.isfinite(solution.intercept).all()):
            raise InputError(
                "the weights are no longer numbers: sums of squares overflow or alpha is lost in rounding; scale rows and "
                "targets, or take a larger alpha"
            )
        self.alphas_, self.cv_errors_ = np.array(solved.alphas), solved.cv_errors
        self.residual_, self.error_bound_ = solved.residual, solved.bound
        self.n_iter_, self.n_finder_passes_ = solved.passes, solved.finder_passes
        self.alpha_ = solution.alpha
        self.coef_ = np.ascontiguousarray(solution.weights.T)
        self.intercept_ = solution.intercept + (targets.centre if self.fit_intercept else 0.0)

    def planned_costs(self, rows: PlannedRows) -> Costs:
        self.check()
        targets = Targets(None, np.zeros(rows.outputs))
        reductions = gram_reductions(self.alpha, self.cv, rows.n, rows.width, targets, 0, grows=self.keep_state)
        return ridge_costs(self, rows, reductions)
