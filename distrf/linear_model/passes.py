"""A fit by passes, and its plan, as linear models and ridge beyond memory share them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..execution.planned import Costs, PlannedRows
from ..folds import GivenFolds
from ..losses import Loss
from ..newton.descent import SLOPED, STEPS
from ..newton.fit import HELD_OUT, Fitted, Newton, held_out_rule
from ..newton.hessian import FACTORS
from ..newton.line import LineReduction
from ..newton.sample import sample_size
from ..ridge.alphas import are_compared, given_alphas
from ..ridge.gram import ALL_ROWS
from ..sgd.alpha import fitted_rows
from ..sgd.rows import Rows
from ..targets import Targets, target_phase
from .calibration import learn_calibration
from .held_out import calibration_costs, fold_scores

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
) -> Fitted:
    """Fit a model to [features, targets] or [features, targets, weights]: sets its weights, `gap_` and `n_iter_`.

    calibrates : whether fold 0 is held out, from which calibration learns; choose_epsilon : whether the width of the loss is chosen
    """
    rule = held_out_rule(folds, seed) if calibrates else ALL_ROWS
    fitted = Newton(
        loss, given_alphas(model.alpha), choose_epsilon, bool(model.fit_intercept), float(model.tol),
        int(model.max_passes), seed, rule, model.checkpoint,
    ).fit(arrays, targets, folds)  # fmt: skip
    calibration = None
    if calibrates:
        rows = Rows.of(arrays[0], arrays[1], arrays[2] if len(arrays) > 2 else None, folds)
        solutions = [fitted.solution, *[None] * (rule.n_folds - 1)]
        calibration = learn_calibration(fold_scores(rows, targets, rule, solutions, seed), targets.classes)
    model._set_solution(fitted.solution, targets, calibration)
    model.gap_, model.n_iter_ = fitted.descent.gap, fitted.passes
    return fitted


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
