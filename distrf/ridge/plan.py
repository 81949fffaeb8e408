"""The plan of ridge: one pass that sums up the Gram matrix, or the passes of conjugate gradients. Nothing runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dask.utils import format_bytes

from ..execution.planned import Costs, PlannedRows
from ..targets import target_phase
from .alphas import USUAL, given_alphas
from .conjugate_passes import conjugate_costs
from .gram import GramReduction
from .solver import first_that_fits


def ridge_costs(estimator: Any, rows: PlannedRows, reductions: Sequence[GramReduction]) -> Costs:
    """Costs of fitting a ridge model to features; `reductions` are those of `gram_reductions`."""
    n, D, width = rows.n, rows.width, rows.outputs
    asked = "gram" if estimator.keep_state else estimator.solver
    reduction, solver, reason = first_that_fits(asked, reductions, rows.pass_memory, rows.workers)
    alphas = given_alphas(estimator.alpha)
    count = USUAL if alphas is None else len(alphas)
    held_out = 1 if reduction.rule.holdout else reduction.rule.n_folds
    notes = [f"solver {solver!r}: {reason}"]
    if count > 1:
        cut = "a held-out fifth" if reduction.rule.holdout or solver == "cg" else f"{held_out} folds"
        notes.append(
            f"alpha by cross-validation: {count}{' or so' if alphas is None else ''}, compared on {cut}"
        )
    if solver == "cg":
        held = count > 1 or estimator.calibrate
        cost = conjugate_costs(n, D, width, held, estimator.n_directions)
        notes.append(f"{cost.passes} passes or so; how many conjugate gradients take depends on the data")
        return Costs(
            (rows.passes(1 + cost.passes, cost.widest),),
            8 * D * width,
            rows.pass_memory(cost.widest, 4 * D * cost.widest.width),  # directions, as the workers get them
            cost.client_bytes,
            tuple(notes),
        )
    segments = rows.segments(reduction)
    solves = 1 + held_out * ((0 if count == 1 else count) + estimator.calibrate)
    notes.append(
        f"{solves} factorisation(s) of a {D} x {D} matrix in the client, {segments} segment(s) of blocks"
    )
    written = 8 * D * width
    if estimator.keep_state:
        written += reduction.nbytes
        notes.append(f"the sums are kept with the model: {format_bytes(reduction.nbytes)}")
    return Costs(
        (target_phase(n, rows.blocks), rows.passes(1, reduction)),  # the targets are read once before
        written,
        rows.pass_memory(reduction),
        reduction.solve_bytes,
        tuple(notes),
    )
