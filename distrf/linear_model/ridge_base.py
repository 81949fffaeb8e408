"""What the two ridge estimators share: parameters and their rules, the pass or passes of a fit, calibration."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..errors import InputError, MemoryPlanError
from ..execution.memory import check_client
from ..execution.passes import run_pass
from ..execution.planned import Costs, PlannedRows
from ..execution.row_blocks import rows_per_block
from ..folds import GivenFolds
from ..parameters import FLAG, FOLDER, SEED, Rule, number, one_of, whole
from ..randomness import draw_seed
from ..ridge.alphas import ALPHAS, are_compared, given_alphas, warn_if_lowest
from ..ridge.conjugate_passes import ConjugateGradients
from ..ridge.folds import given_reductions, gram_reductions
from ..ridge.gram import FoldRule, GramPair, GramReduction, GramState
from ..ridge.kept_state import Calibrated, KeptState
from ..ridge.normal_equations import Compared, NormalEquations, Solution, compare_alphas, without_folds
from ..ridge.plan import ridge_costs
from ..ridge.solver import SOLVERS, choose_solver
from ..sgd.rows import Rows
from ..targets import Targets
from .base import LinearModel
from .calibration import HeldOut, count_rows, learn_calibration
from .held_out import calibration_costs, fold_scores


class NoStateError(InputError, AttributeError):
    """Sums that are not kept, or cannot be: `hasattr(model, "partial_fit")` is False then."""


class _Solved(NamedTuple):
    """A solution, and the penalties that were compared.

    rule, without : the folds of the rows, and the solutions without each of them, see `fold_scores`
    errors : of ridge on other columns beside the features, for each alpha
    """

    solution: Solution
    alphas: list[float]
    cv_errors: np.ndarray | None
    rule: FoldRule
    without: list[Solution | None]
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
    calibrate: bool
    solver: str
    n_directions: int | str
    tol: float
    max_passes: int
    keep_state: bool
    checkpoint: Any
    random_state: Any
    state_: KeptState
    l1: bool = False  # alpha |u|_1 in place of (alpha / 2) |u|^2

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
        self._check_keeps_state(self.keep_state)

    def _check_keeps_state(self, keep: bool) -> None:
        if keep and self.solver == "cg":
            raise NoStateError(
                "conjugate gradients (solver='cg') add up nothing to which more rows could be added; take solver='gram', "
                "or fit all rows again without keep_state"
            )

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        folds: GivenFolds | None,
        targets: Targets,
        columns: Any,
        keep: bool,
    ) -> np.ndarray | None:
        """Fit to features X. Returns the cross-validation errors of ridge on `columns` if the same pass can give them.

        keep : whether more rows may be added later
        """
        self._check_keeps_state(keep)
        alphas, seed = given_alphas(self.alpha), draw_seed(self.random_state)
        if folds is None:
            reductions = self._reductions(X.shape[0], X.shape[1], targets, seed, keep)
        else:
            held_out = bool(self.calibrate)
            reductions = given_reductions(self.alpha, self.cv, folds, X.shape[1], targets, held_out)
        if keep and reductions[0].rule.given:
            raise InputError(
                "rows that are added to the sums of a fit (keep_state, partial_fit) have no given folds; leave out folds, "
                "keep_state=False, or give one alpha and calibrate=False, which need no folds"
            )
        arrays = [X, y] if sample_weight is None else [X, y, sample_weight]
        asked = "gram" if keep else self.solver
        reduction, solver, reason = choose_solver(asked, reductions, arrays)
        kept = None
        if solver == "gram":
            last = [folds.values] if folds is not None and reduction.rule.given else []
            state, beside = self._add_up(reduction, [*arrays, *last], columns)
            solved = self._solve(state, reduction, alphas)
            if beside is not None:
                linear = NormalEquations(beside, columns.shape[1], self.fit_intercept)
                solved = solved._replace(errors=compare_alphas(linear, alphas, reduction).errors)
            kept = KeptState(state, replace(targets, shares=None), reduction.rule, X.shape[0])
        else:
            solved = self._iterate(arrays, folds, targets, alphas, seed)
        held = self._score_held_out(arrays, targets, solved, seed, folds)
        self._publish(solved, targets, None if held is None else learn_calibration(held, targets.classes))
        self.solver_, self.solver_reason_ = solver, reason
        self.__dict__.pop("state_", None)
        if keep:
            assert kept is not None
            self.state_ = replace(kept, calibrated=self._calibrated(held, kept))
        return solved.errors

    def _reductions(
        self, n_rows: int, n_features: int, targets: Targets, seed: int, keep: bool
    ) -> list[GramReduction]:
        held_out = bool(self.calibrate)
        return gram_reductions(
            self.alpha, self.cv, n_rows, n_features, targets, seed, held_out=held_out, grows=keep
        )

    def _iterate(
        self,
        arrays: list[Any],
        folds: GivenFolds | None,
        targets: Targets,
        alphas: list[float] | None,
        seed: int,
    ) -> _Solved:
        """Solve by conjugate gradients."""
        fitted = ConjugateGradients(
            self.fit_intercept, self.n_directions, self.tol, self.max_passes, seed, self.checkpoint,
            hold_out=bool(self.calibrate),
        ).fit(arrays, targets, alphas, folds)  # fmt: skip
        return _Solved(
            _checked(fitted.solution), fitted.alphas, fitted.cv_errors, fitted.rule, [fitted.without, None], None,
            fitted.residual, fitted.bound, fitted.passes, fitted.finder_passes,
        )  # fmt: skip

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
                states = run_pass(pair, [X, columns, *arrays[1:]], label="gram", block_rows=rows)
                return states.features, states.columns
        return run_pass(reduction, arrays, label="gram", block_rows=rows), None

    def _solve(self, state: GramState, reduction: GramReduction, alphas: list[float] | None) -> _Solved:
        """The solution from sums, for one alpha or for the best one by their folds."""
        if not state.weight.sum() > 0:
            raise InputError("sample_weight must not be zero everywhere")
        system = NormalEquations(state, reduction.n_features, self.fit_intercept, self.l1)
        if alphas is not None and len(alphas) == 1:
            compared = Compared(alphas[0], alphas, None)
        else:
            compared = compare_alphas(system, alphas, reduction)
            if alphas is None and compared.errors is not None and not self.l1:
                warn_if_lowest(compared.alphas, compared.errors, compared.variance)
        solution = _checked(next(system.solve([compared.alpha])))
        without = without_folds(system, reduction, compared.alpha) if self.calibrate else []
        return _Solved(solution, compared.alphas, compared.errors, reduction.rule, without)

    def _score_held_out(
        self,
        arrays: list[Any],
        targets: Targets,
        solved: _Solved,
        seed: int,
        folds: GivenFolds | None = None,
    ) -> HeldOut | None:
        """Scores of some of these rows by the solutions without their folds; None without `calibrate`."""
        if not self.calibrate:
            return None
        X, y, weight = (*arrays, None)[:3]
        return fold_scores(Rows.of(X, y, weight), targets, solved.rule, solved.without, seed, folds)

    def _calibrated(self, held: HeldOut | None, kept: KeptState) -> Calibrated | None:
        """What calibration rests on that was learned from these of the rows that are kept; None without `calibrate`."""
        if held is None:
            return None
        counts = count_rows(held, kept.targets.classes)
        return Calibrated(counts, kept.rows, given_alphas(self.alpha), bool(self.fit_intercept))

    def _publish(self, solved: _Solved, targets: Targets, calibration: np.ndarray | None) -> None:
        """Set what is fitted."""
        self.alphas_, self.cv_errors_ = np.array(solved.alphas), solved.cv_errors
        self.residual_, self.error_bound_ = solved.residual, solved.bound
        self.n_iter_, self.n_finder_passes_ = solved.passes, solved.finder_passes
        self.alpha_ = solved.solution.alpha
        self.coef_ = np.ascontiguousarray(solved.solution.weights.T)
        self.intercept_ = solved.solution.intercept + (targets.centre if self.fit_intercept else 0.0)
        self.__dict__.pop("calibration_", None)
        if calibration is not None:
            self.calibration_ = calibration

    def planned_costs(self, rows: PlannedRows) -> Costs:
        self.check()
        targets = Targets(None, np.zeros(rows.outputs))
        reductions = self._reductions(rows.n, rows.width, targets, 0, self.keep_state)
        costs = ridge_costs(self, rows, reductions)
        return costs + calibration_costs(rows, rows.n) if self.calibrate else costs


def _checked(solution: Solution) -> Solution:
    """The solution. Raises InputError for weights that are no numbers."""
    if not (np.isfinite(solution.weights).all() and np.isfinite(solution.intercept).all()):
        raise InputError(
            "the weights are no longer numbers: sums of squares overflow or alpha is lost in rounding; scale rows and "
            "targets, or take a larger alpha"
        )
    return solution
