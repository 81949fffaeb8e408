"""What the two ridge estimators share: parameters and their rules, the pass of a fit or its passes, calibration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import is_regressor

from ..errors import InputError, first_not_finite
from ..execution.memory import check_client
from ..execution.passes import run_pass
from ..execution.planned import Costs, PlannedRows
from ..execution.row_blocks import rows_per_block
from ..execution.scheduler import computed
from ..folds import GivenFolds, given_folds
from ..losses import Squared
from ..parameters import FLAG, FOLDER, SEED, estimator, number, one_of, param, whole
from ..randomness import draw_seed
from ..ridge.alphas import ALPHAS, are_compared, given_alphas
from ..ridge.gram import FoldRule, GramReduction, GramState
from ..ridge.kept_state import KeptState, check_same_weights
from ..ridge.normal_equations import (  # fmt: skip
    Compared,
    NormalEquations,
    Solution,
    compare_alphas,
    is_short,
    turned_rows,
    without_folds,
)
from ..ridge.plan import (
    SOLVERS,
    are_exact,
    choose_solver,
    first_that_fits,
    gram_costs,
    gram_reductions,
)
from ..sgd.rows import Rows
from ..targets import Targets, check_labels
from ..typing import Alphas, ArrayLike, RandomState
from .base import LinearModel
from .calibration import enough_rows, learn_calibration
from .held_out import calibration_costs, fold_scores
from .validation import validate_fit


class _Solved(NamedTuple):
    """A solution, and the penalties that were compared.

    rule, without : the folds of the rows, and the solutions without each of them, see `fold_scores`
    """

    solution: Solution
    alphas: list[float]
    cv_errors: np.ndarray | None
    rule: FoldRule
    without: list[Solution | None]


@estimator
class BaseRidge(LinearModel):
    """What the regressor and the classifier share.

    Parameters
    ----------
    alpha : float, sequence of float or {"auto"}, default="auto"
        Penalty alpha, or several of which cross-validation picks one. "auto" takes decades from 1e-8 to
        1e-1 times the energy of the features (their mean square about the mean, about 1 for Fourier
        features). It adds decades while the best one is at an edge, and the half decades beside the best.
        Each alpha costs one factorisation of a D x D matrix for each fold and no further pass. Where no row
        can be held out, "auto" is 1e-3.
    fit_intercept : bool, default=True
        Whether to fit the intercept b, which has no penalty.
    cv : int or {"auto", "holdout"}, default="auto"
        How alphas are compared: by so many folds, or by one held-out fifth ("holdout"). The pass keeps one
        Gram matrix for each fold, two for "holdout". "auto" is 5 folds up to 2,048 features where workers
        and client hold them, else "holdout". A row's fold is random, from a hash of its number, so the order of the
        rows does no harm. Copies of a row, whose folds then differ, make alpha too small: `fit(X, y, folds=)` keeps
        them together, and `train` gives it such folds.
    solver : {"auto", "gram", "passes"}, default="auto"
        "gram" is exact, in one pass and D^2 numbers. "passes" fits as `StreamingLinearRegressor` does: some gradients, each a pass, and
        a sample of at most 1 GiB in the client. "auto" is "gram" where the plan says that workers and client hold it, and
        `solver_reason_` says why. By "passes", alpha is chosen on the sample, whatever `cv` is: of several alphas it is the one
        nearest to what "auto" would take.
    tol : float, default=0.001
        "passes" end when the objective is estimated to be at most this share of itself above its least.
    max_passes : int, default=50
        Most passes. A warning says if they were too few.
    keep_state : bool, default=False
        Whether `fit` keeps the sums of its pass in `state_`, so that `partial_fit` can add more rows. They are saved with
        the model: for each fold the lower tiles of a D x D float64 matrix, of 8 D^2 bytes up to 1,024 features, 6 D^2 with
        2,048, near 4 D^2 with many. The solver is "gram" then.
    checkpoint : str, PathLike or None, default=None
        Folder or URL that keeps the sums of each of the "passes"; the same call resumes from it, and ends with the same bits.
    random_state : int, Generator, RandomState or None, default=0
        Seed of all draws. None draws one seed.

    Attributes
    ----------
    alpha_ : float
        The penalty in use.
    alphas_ : array of shape (a,)
        The penalties that were compared.
    solver_ : str
        The solver in use, "gram" or "passes".
    solver_reason_ : str
        Why "auto" took it.
    n_iter_ : int
        Passes over the features by "passes"; 0 for "gram".
    gap_ : float
        Estimate of (F - least F) / F, F being the objective; 0 for "gram".
    state_ : KeptState
        The sums of all rows so far; only with `keep_state`, or after `partial_fit`.
    n_features_in_ : int
        Number of input columns, D.
    """

    alpha: Alphas = param(default="auto", rule=ALPHAS, kw_only=False)
    fit_intercept: bool = param(default=True, rule=FLAG)
    cv: int | str = param(default="auto", rule=whole(2) | one_of("holdout", "auto"))
    calibrate: bool = param(default=False, rule=FLAG)
    solver: str = param(default="auto", rule=one_of(*SOLVERS))
    tol: float = param(default=1e-3, rule=number(above=0, below=1))
    max_passes: int = param(default=50, rule=whole())
    keep_state: bool = param(default=False, rule=FLAG)
    checkpoint: str | None = param(default=None, rule=FOLDER)
    random_state: RandomState = param(default=0, rule=SEED)

    @property
    def compares_alphas(self) -> bool:
        """Whether a fit chooses between penalties."""
        return are_compared(self.alpha)

    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"alpha": self.alpha_, "solver": self.solver_}
        if self.solver_ != "gram":
            facts["passes"], facts["gap"] = self.n_iter_, self.gap_
        if self.cv_errors_ is not None:
            facts["alphas"], facts["cv_errors"] = self.alphas_.tolist(), self.cv_errors_.tolist()
        return facts

    @property
    def checkpoint_folder(self) -> str:
        """Subfolder of the checkpoint of a training for the passes; "" for none."""
        return "" if self.solver == "gram" or self.keep_state else "passes"

    def check(self) -> None:
        super().check()
        self._check_keeps_state(self.keep_state)

    def _check_keeps_state(self, keep: bool) -> None:
        if keep and self.solver == "passes":
            raise InputError(
                "solver='passes' adds up nothing to which more rows could be added; take solver='gram', "
                "or fit all rows again without keep_state"
            )
        if keep and isinstance(getattr(self, "class_weight", None), str):
            raise InputError(
                "class_weight='balanced' follows from all rows, and would change the weights of those that are added up "
                "already; give a dictionary {label: factor}, or fit all rows again without keep_state"
            )

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
            Fold of each row, from 0 on; -1 for rows that are never held out (as scikit-learn's PredefinedSplit). By these
            alphas are compared and calibration learns: each fold in turn, or fold 0 alone where one part is held out
            (`cv="holdout"`, "passes", many features). None cuts folds by `cv`.

        Returns
        -------
        Self
            The fitted estimator itself.

        Raises
        ------
        InputError
            A parameter breaks a rule, or the data do: NaN or infinity, another length of y, text for
            numbers.
        MemoryPlanError
            The job cannot fit into memory.
        SpecMismatchError
            The checkpoint belongs to another fit.
        """
        self._fit_rows(X, y, sample_weight, folds)
        return self

    def _fit_rows(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        folds: Any = None,
        classes: Any = None,
        keep: bool = False,
    ) -> None:
        """Fit to rows as the user gives them."""
        X, y, sample_weight = validate_fit(self, X, y, sample_weight, numeric=is_regressor(self))
        keep, basis = keep or self.keep_state, None
        if is_short(*X.shape) and self.solver != "passes" and not keep:
            X, y, sample_weight, folds = computed(X, y, sample_weight, folds)
            if first_not_finite(X) is None:  # else the pass names the entry
                X, basis = turned_rows(X)
        targets = self._encoded(
            y, sample_weight, None if classes is None else np.unique(np.asarray(list(classes)))
        )
        given = given_folds(X, folds)
        self._fit(X, y, sample_weight, given, targets, keep)
        if basis is not None:
            self.coef_ = np.ascontiguousarray(self.coef_ @ basis.T)
        self._finish(targets, y.ndim == 1)

    def _more_rows(self, X: Any, y: Any, sample_weight: Any, classes: Any = None) -> Self:
        """Add rows to those that were fitted, or fit to the first ones."""
        if not hasattr(self, "coef_"):
            self._fit_rows(X, y, sample_weight, classes=classes, keep=True)
            return self
        kept: KeptState = self.state_
        X, y, sample_weight = validate_fit(self, X, y, sample_weight, numeric=is_regressor(self), reset=False)
        if (known := kept.targets.classes) is not None:
            check_labels(known.tolist() if classes is None else list(classes), known)
            targets = self._encoded(y, sample_weight, known)
            check_same_weights(kept.targets, targets)
        else:
            width, columns = kept.targets.width, 1 if y.ndim == 1 else y.shape[1]
            if columns != width:
                raise InputError(f"y must have as many columns as in the rows before, {width}, got {columns}")
            targets = self._encoded(y, sample_weight, kept.targets.centre)
        flat = np.ndim(self.coef_) == 1
        self._add(X, y, sample_weight, kept, targets)
        self._finish(targets, flat)
        return self

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        folds: GivenFolds | None,
        targets: Targets,
        keep: bool,
    ) -> None:
        """Fit to features X.

        keep : whether more rows may be added later
        """
        self._check_keeps_state(keep)
        alphas, seed = given_alphas(self.alpha), draw_seed(self.random_state)
        reductions = self._reductions(X.shape[0], X.shape[1], targets, seed, keep, folds)
        if keep and reductions[0].rule.given:
            raise InputError(
                "rows that are added to the sums of a fit (keep_state, partial_fit) have no given folds; leave out folds "
                "and split=, or take keep_state=False, or give one alpha and calibrate=False, which need no folds"
            )
        arrays = [X, y] if sample_weight is None else [X, y, sample_weight]
        asked = "gram" if keep else self.solver
        reduction, solver, reason = choose_solver(asked, reductions, arrays)
        self.__dict__.pop("state_", None)
        if solver == "passes":
            from .linear import fit_by_passes  # late: whoever predicts needs none

            fit_by_passes(self, Squared(), arrays, targets, folds, seed, calibrates=bool(self.calibrate))
            self.alphas_ = np.array(alphas or [self.alpha_])
            self.cv_errors_: np.ndarray | None = None
        else:
            last = [folds.values] if folds is not None and reduction.rule.given else []
            state = self._add_up(reduction, [*arrays, *last])
            solved = self._solve(state, reduction, alphas)
            self._publish(solved, targets, self._calibrate(arrays, folds, targets, solved, seed))
            if keep:
                self.state_ = KeptState(state, replace(targets, shares=None), reduction.rule, X.shape[0])
        self.solver_, self.solver_reason_ = solver, reason

    def _reductions(
        self, n: int, D: int, targets: Targets, seed: int, keep: bool, folds: GivenFolds | None = None
    ) -> list[GramReduction]:
        held_out = bool(self.calibrate)
        return gram_reductions(
            self.alpha, self.cv, n, D, targets, seed, folds=folds, held_out=held_out, grows=keep
        )

    def _add_up(self, reduction: GramReduction, arrays: list[Any]) -> GramState:
        """The sums of these features; one pass."""
        check_client(reduction.solve_bytes, type(self).__name__)
        rows = rows_per_block(arrays[0].dtype.itemsize * arrays[0].shape[1])
        state: GramState = run_pass(reduction, arrays, label="gram", block_rows=rows)
        return state

    def _solve(self, state: GramState, reduction: GramReduction, alphas: list[float] | None) -> _Solved:
        """The solution from sums, for one alpha or for the best one by their folds."""
        if not state.weight.sum() > 0:
            raise InputError("sample_weight must not be zero everywhere")
        system = NormalEquations(state, reduction.n_features, self.fit_intercept)
        if alphas is not None and len(alphas) == 1:
            compared = Compared(alphas[0], alphas, None)
        else:
            compared = compare_alphas(system, alphas, reduction)
        solution = _checked(next(system.solve([compared.alpha])))
        without = without_folds(system, reduction, compared.alpha) if self.calibrate else []
        return _Solved(solution, compared.alphas, compared.errors, reduction.rule, without)

    def _add(self, X: Any, y: Any, sample_weight: Any, kept: KeptState, targets: Targets) -> None:
        """Add rows to the sums that are kept, and solve anew.

        kept : in terms of the classes of `targets`; targets : of these rows
        """
        if kept.rule.n_sets == 1 and (self.compares_alphas or self.calibrate):
            raise InputError(
                "alphas are compared by folds, and calibration needs them; one alpha and calibrate=False were given when "
                "the sums were made, so they have none; give these again, or fit all rows again"
            )
        arrays = [X, y] if sample_weight is None else [X, y, sample_weight]
        targets = replace(targets, weight_unit=kept.targets.weight_unit)
        reduction = GramReduction(kept.n_features, targets, kept.next_rule(), are_exact(self.alpha))
        check_client(reduction.solve_bytes + kept.nbytes, type(self).__name__)
        state = self._add_up(reduction, arrays)
        total = self._sum(kept, KeptState(state, targets, reduction.rule, X.shape[0]))
        solved = self._solve(total.state, total.reduction, given_alphas(self.alpha))
        solved = solved._replace(rule=reduction.rule)  # of the rows that can be scored: the others are gone
        calibration = self._calibrate(arrays, None, total.targets, solved, kept.rule.seed, grows=True)
        self._publish(solved, total.targets, calibration)
        self.state_ = total

    def _sum(self, kept: KeptState, more: KeptState) -> KeptState:
        """The sums of all rows, of targets about the mean of all where there is an intercept."""
        if kept.targets.classes is None:
            weights = np.array([part.state.weight.sum() for part in (kept, more)])
            centre = weights / weights.sum() @ np.stack([kept.targets.centre, more.targets.centre])
            if not self.fit_intercept:
                centre = np.zeros_like(centre)
            kept, more = kept.centred(centre), more.centred(centre)
        return kept.added(more)

    def _calibrate(
        self,
        arrays: list[Any],
        folds: GivenFolds | None,
        targets: Targets,
        solved: _Solved,
        seed: int,
        grows: bool = False,
    ) -> np.ndarray | None:
        """`calibration_`, learned from scores of some of these rows by solutions without their folds; None without `calibrate`.

        grows : whether the rows join others: then it stays where these are too few
        """
        if not self.calibrate:
            return None
        X, y, weight = (*arrays, None)[:3]
        held = fold_scores(Rows.of(X, y, weight, folds), targets, solved.rule, solved.without, seed)
        old = self.__dict__.get("calibration_")
        enough = not grows or enough_rows(held, targets.classes, old)
        return learn_calibration(held, targets.classes) if enough else old

    def _publish(self, solved: _Solved, targets: Targets, calibration: np.ndarray | None) -> None:
        self._set_solution(solved.solution, targets, calibration)
        self.alphas_, self.cv_errors_ = np.array(solved.alphas), solved.cv_errors
        self.gap_, self.n_iter_ = 0.0, 0

    def planned_costs(self, rows: PlannedRows) -> Costs:
        self.check()
        targets = Targets(None, np.zeros(rows.outputs))
        reductions = self._reductions(rows.n, rows.width, targets, 0, self.keep_state)
        asked = "gram" if self.keep_state else self.solver
        reduction, solver, reason = first_that_fits(asked, reductions, rows.pass_memory, rows.workers)
        costs = Costs(notes=(f"solver {solver!r}: {reason}",))
        if solver == "passes":
            from .linear import pass_costs

            return costs + pass_costs(self, rows, Squared(), bool(self.calibrate))
        costs += gram_costs(self, rows, reduction)
        return costs + calibration_costs(rows, rows.n) if self.calibrate else costs


def takes_rows(model: BaseRidge) -> bool:
    """True for a model that has sums to which rows can be added, or has not been fitted. Raises InputError for others."""
    model._check_keeps_state(True)
    if hasattr(model, "coef_") and not hasattr(model, "state_"):
        why = "solver='passes', which adds up none" if model.solver_ == "passes" else "keep_state=False"
        raise InputError(
            f"partial_fit adds rows to the sums of the rows before, and this {type(model).__name__} was fitted with "
            f"{why}; fit it again with keep_state=True"
        )
    return True


def _checked(solution: Solution) -> Solution:
    """The solution. Raises InputError for weights that are no numbers."""
    if not (np.isfinite(solution.weights).all() and np.isfinite(solution.intercept).all()):
        raise InputError(
            "the weights are no longer numbers: sums of squares overflow or alpha is lost in rounding; scale rows and "
            "targets, or take a larger alpha"
        )
    return solution
