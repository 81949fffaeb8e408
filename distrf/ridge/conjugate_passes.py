"""Fits ridge by conjugate gradients, pass by pass."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..checkpoint import Checkpoint
from ..errors import InputError
from ..execution.passes import run_pass
from ..execution.row_blocks import row_bytes, rows_per_block
from ..folds import GivenFolds
from ..maps import working_dtype
from ..sgd.fit_checkpoint import check_same_rows
from ..subspace.choice import COLUMN_BLOCK_BYTES, HELD_STATES, held_states
from ..subspace.range_finder import find_basis
from ..targets import Targets
from .alphas import alpha_grid, best_alpha, lone_alpha, warn_if_lowest
from .conjugate_gradients import (
    ALL_ROWS,
    NormalReduction,
    Projection,
    RightReduction,
    Space,
    System,
    held_out_error,
    prediction_bounds,
    relative_residuals,
)
from .gram import FoldRule, GivenRule
from .normal_equations import Solution

#: While alphas are compared, iterations stop at this relative error of the predictions.
_COMPARISON_TOL = 1e-2


@dataclass(frozen=True)
class Conjugate:
    """The solution of conjugate gradients, and how it was found.

    alphas : those compared; cv_errors : mean squared error of each on held-out rows, or None
    passes : conjugate-gradient passes; finder_passes : those for starting directions, their products and right-hand sides
    residual : largest |c - (S + alpha I) u| / |c| over the targets
    bound : largest bound on the relative error of predictions
    rule, without : the folds, and the solution without the held-out one at the same alpha, to 1 %; None if none was held out
    """

    solution: Solution
    alphas: list[float]
    cv_errors: np.ndarray | None
    passes: int
    finder_passes: int
    residual: float
    bound: float
    rule: FoldRule
    without: Solution | None


def direction_count(n_directions: int | str, n_features: int) -> int:
    """The number of starting directions: "auto" is an eighth of the features, 64 to 512."""
    if n_directions == "auto":
        return min(n_features, max(64, min(512, n_features // 8)))
    return min(int(n_directions), n_features)


def product_width(n_rows: int, n_features: int, sets: int, width: int) -> int:
    """How many of the `width` directions one pass multiplies, so that the states on a worker stay near 1 GiB."""
    reduction = NormalReduction(n_features, Targets(None, np.zeros(1)), FoldRule(holdout=sets > 1), width)
    held = held_states(n_rows, reduction)
    while width > 16 and held * 8 * sets * n_features * width > COLUMN_BLOCK_BYTES:
        width = -(-width // 2)
        held = HELD_STATES
    return width


@dataclass(frozen=True)
class ConjugateCosts:
    """Costs of a fit by conjugate gradients, for the plan; `widest` is the reduction with the largest state."""

    widest: NormalReduction
    passes: int
    client_bytes: int


#: Passes of conjugate gradients that a plan assumes. The real number depends on the data.
_EXPECTED = 12


def conjugate_costs(
    n_rows: int, n_features: int, width: int, held_out: bool, n_directions: int | str
) -> ConjugateCosts:
    """Passes and memory of `ConjugateGradients`; width : number of targets; held_out : whether rows are."""
    targets = Targets(None, np.zeros(width))
    rule = FoldRule(2, holdout=True) if held_out else FoldRule()
    sets, count = (2 if held_out else 1), direction_count(n_directions, n_features)
    step = product_width(n_rows, n_features, sets, count)
    products = -(-count // step)
    widest = NormalReduction(n_features, targets, rule, step)
    passes = 2 + products + _EXPECTED
    state = 8 * n_features * (count + _EXPECTED * width) * (1 + sets)
    return ConjugateCosts(widest, passes, 3 * state)


class _Fit:
    """The passes of one fit."""

    def __init__(self, arrays: Sequence[Any], targets: Targets, rule: FoldRule, steps: Checkpoint):
        self.arrays, self.targets, self.rule, self.steps = list(arrays), targets, rule, steps
        self.n, self.D = (int(s) for s in arrays[0].shape)
        self.dtype = working_dtype(arrays[0].dtype)

    def run(self, reduction: Any, label: str) -> np.ndarray:
        rows = rows_per_block(row_bytes(self.arrays[0]))
        return self.steps.once(lambda: run_pass(reduction, self.arrays, label=label, block_rows=rows))

    def right_hand_sides(self) -> np.ndarray:
        return self.run(RightReduction(self.D, self.targets, self.rule), "right-hand sides")

    def system(self, sums: np.ndarray, fit_intercept: bool) -> System:
        return System(sums, fit_intercept, float(np.finfo(self.dtype).eps))

    def starting_space(self, count: int, seed: int) -> tuple[Space, int]:
        """The space of the dominant directions of the features, and the number of passes so far."""
        basis, passes = find_basis(
            self.arrays[0], None, count, sketch="gaussian", n_iter=0, seed=seed, steps=self.steps
        )
        basis = basis.astype(self.dtype).astype(np.float64)  # as the workers see it
        first, more = self.products(basis, "starting directions")
        return Space(basis, first), passes + more + 1

    def products(self, V: np.ndarray, label: str) -> tuple[np.ndarray, int]:
        """Z'wZ V of each set, shape (sets, D, k), and the number of passes for it."""
        sets = 2 if self.rule.holdout else 1
        width = product_width(self.n, self.D, sets, V.shape[1])
        products = [
            self.run(
                NormalReduction(
                    self.D, self.targets, self.rule, v.shape[1], np.ascontiguousarray(v, self.dtype)
                ),
                label,
            )
            for v in np.split(V, range(width, V.shape[1], width), axis=1)
        ]
        return products[0] if len(products) == 1 else np.concatenate(products, axis=2), len(products)

    def extension(self, V: np.ndarray, residual: float) -> tuple[np.ndarray, np.ndarray, int]:
        """V, its products, and the number of passes for them. An interrupted fit takes V from the checkpoint."""
        V = self.steps.once(lambda: V)
        return V, *self.products(V, f"conjugate gradients|residual {residual:.2g}")


@dataclass(frozen=True)
class ConjugateGradients:
    """How ridge is solved by conjugate gradients.

    n_directions : starting directions, or "auto"; seed : of these, and of the held-out rows
    tol : iterations stop when the residual guarantees that the predictions of every target are within tol of the
        exact ones, relative to their norm; or after `max_passes`, with a warning
    checkpoint : folder that keeps the result of each pass. The same call resumes from it; with a single alpha, so does
        a call with more `max_passes`
    hold_out : whether a fifth of the rows is held out for a single alpha too
    """

    fit_intercept: bool
    n_directions: int | str = "auto"
    tol: float = 1e-3
    max_passes: int = 50
    seed: int = 0
    checkpoint: str | os.PathLike[str] | None = None
    hold_out: bool = False

    def fit(
        self,
        arrays: Sequence[Any],
        targets: Targets,
        alphas: Sequence[float] | None,
        folds: GivenFolds | None = None,
    ) -> Conjugate:
        """Solve for all alphas at once. Of several, take the one with the least error on a held-out fifth and fit it again.

        arrays : [features, targets] or [features, targets, weights]
        alphas : None for decades around the energy of the features
        folds : of which fold 0 is held out in place of a fifth
        """
        lone = alphas is not None and len(alphas) == 1
        held_out = not lone or self.hold_out
        rule = FoldRule.of_cv("holdout", self.seed) if held_out else FoldRule()
        if held_out and folds is not None:
            rule, arrays = GivenRule(2, holdout=True), [*arrays, folds.values]
        count = direction_count(self.n_directions, int(arrays[0].shape[1]))
        fit = _Fit(arrays, targets, rule, self._steps(arrays, targets, rule, alphas, count))
        sums = fit.right_hand_sides()
        system = fit.system(sums.sum(axis=0), self.fit_intercept)
        lowest = None if alphas is not None else system.rounding_floor
        if alphas is None or lone:
            held_out = held_out and all(s[-2, -1] > 0 for s in sums)  # both sets need weight
        if alphas is None:
            alphas = alpha_grid(system.energy, wide=True) if held_out else [lone_alpha(system.energy)]
        compared = [float(a) for a in alphas]
        space, finder_passes = fit.starting_space(count, self.seed)
        passes, errors, without = 0, None, None
        whole = Projection(space, system, 0)
        if held_out:
            # Solve without the held-out rows. The same passes extend the space for all rows at the best alpha so far.
            rest = Projection(space, fit.system(sums[1], self.fit_intercept), 1)
            both = sums.sum(axis=0)
            counts, variance = targets.error_factors(both[-2, -1], both[-2, :-1], both[-1, :-1])
            while True:
                comparison = _Comparison(rest, sums[0], compared, whole, self.tol, counts)
                tol, left = max(self.tol, _COMPARISON_TOL), self.max_passes - passes
                loose = _iterate(fit, rest, compared, tol, left, comparison)
                passes, errors = passes + loose.passes, comparison.errors(loose.solutions)
                alphas = [best_alpha(compared, errors)]
                below = float(f"1e{round(math.log10(alphas[0])) - 1}") if lowest else 0.0
                if not lowest or alphas[0] > compared[0] or below < lowest:
                    break
                compared = [below, *compared]
            if lowest:
                warn_if_lowest(compared, errors, variance)
            u = loose.solutions[compared.index(alphas[0])]
            without = rest.system.solution(alphas[0], u)
        last = _iterate(fit, whole, alphas, self.tol, self.max_passes - passes)
        passes += last.passes
        if last.bound > self.tol:
            self._warn_unfinished(passes, last, system.far)
        solution = system.solution(float(alphas[0]), last.solutions[0])
        return Conjugate(
            solution, compared, None if lone else errors, passes, finder_passes, last.residual, last.bound,
            rule, without,
        )  # fmt: skip

    def _warn_unfinished(self, passes: int, last: _Iterated, far: bool) -> None:
        remedy = (
            "more passes (max_passes), more starting directions (n_directions), columns in like units "
            "(StreamingScaler) or a larger alpha would help"
        )
        if far:
            remedy = (
                "the residual is rounding, since the means of the columns are far larger than their spread: subtract "
                "them (StreamingScaler)"
            )
        warnings.warn(
            f"conjugate gradients stopped after {passes} passes at a relative residual of {last.residual:.2g}; "
            f"predictions may be off by {last.bound:.2g}, above tol={self.tol:g}; {remedy}",
            ConvergenceWarning,
            stacklevel=4,
        )

    def _steps(
        self,
        arrays: Sequence[Any],
        targets: Targets,
        rule: FoldRule,
        alphas: Sequence[float] | None,
        count: int,
    ) -> Checkpoint:
        """Open the checkpoint, and check that it belongs to this fit to these rows."""
        if self.checkpoint is None:
            return Checkpoint(None, {})
        arrays, folds = (arrays[:-1], arrays[-1]) if rule.given else (arrays, None)
        ends = None if rule == ALL_ROWS else self.max_passes  # with one alpha, more passes may be added
        job = _job(arrays, targets, rule, alphas, count, self.seed)
        job |= {"fit_intercept": self.fit_intercept, "tol": self.tol, "max_passes": ends}
        steps = Checkpoint(self.checkpoint, job)
        check_same_rows(steps, arrays, targets, self.seed, folds)
        return steps


def _job(
    arrays: Sequence[Any],
    targets: Targets,
    rule: FoldRule,
    alphas: Sequence[float] | None,
    count: int,
    seed: int,
) -> dict[str, Any]:
    """All that determines the result of every pass, except for the rows themselves."""
    return {
        "rows": int(arrays[0].shape[0]),
        "columns": int(arrays[0].shape[1]),
        "dtype": working_dtype(arrays[0].dtype).name,
        "weighted": len(arrays) > 2,
        "class_weight": None if targets.class_weight is None else [float(w) for w in targets.class_weight],
        "held_out": {  # the keys are those of checkpoints on disk
            "n_folds": rule.n_folds,
            "holdout": rule.holdout,
            "seed": rule.seed,
        }
        | ({"given": True} if rule.given else {}),
        "alphas": "auto" if alphas is None else [float(a) for a in alphas],
        "n_directions": count,
        "seed": seed,
    }


class _Comparison:
    """Compares alphas by their errors on held-out rows, and says which of them must converge.

    rest : the system of the other rows; held_out : set 0 of the sums of RightReduction
    whole : the system of all rows, which is solved to `tol` afterwards; counts : factor on each target
    """

    def __init__(
        self,
        rest: Projection,
        held_out: np.ndarray,
        alphas: list[float],
        whole: Projection,
        tol: float,
        counts: np.ndarray,
    ):
        self.space, self.system, self.held_out, self.alphas = rest.space, rest.system, held_out, alphas
        self.whole, self.tol, self.counts = whole, tol, counts
        if not held_out[-2, -1] > 0:
            raise InputError(
                "sample_weight is zero on all rows held out to compare alphas; give one alpha, or another random_state"
            )

    def errors(self, solutions: Sequence[np.ndarray]) -> np.ndarray:
        """Mean squared error of each alpha."""
        total = self.held_out[-2, -1] * len(self.counts)
        out = []
        for alpha, u in zip(self.alphas, solutions, strict=True):
            product = self.space.products[0] @ (self.space.V.T @ u)
            out.append(
                held_out_error(self.system.solution(alpha, u), product, self.held_out, self.counts) / total
            )
        return np.array(out)

    def close(self, solutions: Sequence[np.ndarray]) -> list[int]:
        """Indices of the best alpha so far and its neighbours: the ones that must converge.

        Much smaller alphas would need the most passes. If the errors have two minima, either may be found.
        """
        order = np.argsort(self.alphas).tolist()
        best = order.index(int(np.argmin(self.errors(solutions))))
        return order[max(best - 1, 0) : best + 2]

    def ahead(self, solutions: Sequence[np.ndarray]) -> np.ndarray:
        """Residuals of the system of all rows at the best alpha so far, for the targets that have not converged."""
        alphas = [self.alphas[int(np.argmin(self.errors(solutions)))]]
        solved, residuals = self.whole.solve(alphas)
        return residuals[0][:, prediction_bounds(self.whole.system, alphas, solved, residuals)[0] > self.tol]


class _Iterated(NamedTuple):
    """Solutions for each alpha, the number of passes, and the largest residual and bound of those that must converge."""

    solutions: list[np.ndarray]
    passes: int
    residual: float
    bound: float


def _iterate(
    fit: _Fit,
    projection: Projection,
    alphas: Sequence[float],
    tol: float,
    most: int,
    comparison: _Comparison | None = None,
) -> _Iterated:
    """Extend the space by the residuals until the bounds on the predictions are at most `tol`, or for `most` passes.

    comparison : decides which alphas must converge; None: all
    """
    passes, space, system = 0, projection.space, projection.system
    while True:
        solutions, residuals = projection.solve(alphas)
        which = range(len(alphas)) if comparison is None else comparison.close(solutions)
        followed = [residuals[i] for i in which]
        bounds = prediction_bounds(system, [alphas[i] for i in which], [solutions[i] for i in which], followed)
        worst = float(relative_residuals(system, followed).max()), float(bounds.max())
        if worst[1] <= tol or passes >= most:
            return _Iterated(solutions, passes, *worst)
        directions = [r[:, row > tol] for r, row in zip(followed, bounds, strict=True)]
        if comparison is not None:
            directions.append(comparison.ahead(solutions))
        V = space.independent(np.concatenate(directions, axis=1))
        V = V.astype(fit.dtype).astype(np.float64)
        if V.shape[1] == 0:  # nothing new: the residual is rounding
            return _Iterated(solutions, passes, *worst)
        V, products, count = fit.extension(V, worst[0])
        space.extend(V, products)
        passes += count
