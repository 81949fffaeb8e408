"""The plan of the one pass that sums up the Gram matrix. Nothing runs."""

from __future__ import annotations

from typing import Any

from dask.utils import format_bytes

from ..execution.planned import Costs, PlannedRows
from ..targets import target_phase
from .alphas import USUAL, given_alphas
from .gram import GramReduction


def gram_costs(estimator: Any, rows: PlannedRows, reduction: GramReduction) -> Costs:
    """Costs of fitting a ridge model to features by this reduction."""
    n, D = rows.n, rows.width
    alphas = given_alphas(estimator.alpha)
    count = USUAL if alphas is None else len(alphas)
    held_out = 1 if reduction.rule.holdout else reduction.rule.n_folds
    notes = []
    if count > 1:
        cut = "a held-out fifth" if reduction.rule.holdout else f"{held_out} folds"
        notes.append(
            f"alpha by cross-validation: {count}{' or so' if alphas is None else ''}, compared on {cut}"
        )
    segments = rows.segments(reduction)
    solves = 1 + held_out * ((0 if count == 1 else count) + estimator.calibrate)
    notes.append(
        f"{solves} factorisation(s) of a {D} x {D} matrix in the client, {segments} segment(s) of blocks"
    )
    written = 8 * D * rows.outputs
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
