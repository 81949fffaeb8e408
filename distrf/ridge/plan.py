"""How a ridge fit is done: by which folds penalties are compared, by one pass for the Gram matrix or by passes of gradients, at what cost."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any

from dask.base import is_dask_collection
from dask.utils import format_bytes

from ..errors import InputError
from ..execution.memory import PassMemory, Workers
from ..execution.passes import count_segments, pass_memory
from ..execution.planned import Costs, PlannedRows
from ..execution.scheduler import current_client
from ..folds import GivenFolds
from ..subspace.choice import against_gram
from ..targets import Targets, target_phase
from ..typing import Alphas
from .alphas import USUAL, given_alphas
from .gram import ALL_ROWS, FIRST_GIVEN, FoldRule, GramReduction

SOLVERS = ("auto", "gram", "passes")
#: Features up to which five Gram matrices are kept and factored for each alpha rather than two: 170 MB in float64.
_FOLDS_UP_TO = 2048


def fold_rules(
    cv: int | str, n_rows: int, n_features: int, seed: int, folds: GivenFolds | None
) -> list[FoldRule]:
    """The ways to hold rows out that the parameter `cv` allows. The caller takes the first one that fits into memory.

    Raises InputError for anything but "auto", "holdout" and a number of folds in 2 ... n_rows, which is that of given folds.
    """
    asked = int(cv) if isinstance(cv, numbers.Integral) else 0
    if folds is not None:
        k, never = folds.n_folds, folds.never > 0
        if asked not in (0, k):
            raise InputError(
                f"cv={cv} asks for as many folds, but folds has {k} that are held out; leave out cv, or give such folds"
            )
        each = k > 1 and (asked or (cv == "auto" and n_features <= _FOLDS_UP_TO))
        return ([FoldRule(k + never, k)] if each else []) + ([FIRST_GIVEN] if not (each and asked) else [])
    if cv == "auto" and n_rows < 2:
        return [ALL_ROWS]
    if not (cv == "auto" or (cv == "holdout" and n_rows >= 5) or 2 <= asked <= n_rows):
        raise InputError(
            f"cv is 'auto', 'holdout' or a number of folds between 2 and n_samples = {n_rows}, got {cv!r}; give one "
            "alpha, without calibrate"
        )
    each = asked or (min(5, n_rows) if cv == "auto" and (n_features <= _FOLDS_UP_TO or n_rows < 5) else 0)
    ways: list[int | str] = [each] if each else []
    return [FoldRule.of_cv(way, seed) for way in ways + (["holdout"] if not asked and n_rows >= 5 else [])]


def gram_reductions(
    alphas: Alphas, cv: int | str, n_rows: int, n_features: int, targets: Targets, seed: int, *,
    folds: GivenFolds | None = None, held_out: bool = False, grows: bool = False,
) -> list[GramReduction]:  # fmt: skip
    """The reductions that would serve the fit, in order of preference; they differ in the rows that are held out.

    folds : those that are given, or None
    held_out : whether a single alpha needs folds too, so that rows can be scored by models without them
    grows : whether rows may be added later: then there are as many folds as rows could fill, however few there are now

    Raises InputError for several alphas of one row, and as `given_alphas` and `fold_rules`.
    """
    fixed = given_alphas(alphas)
    if grows:
        n_rows = max(n_rows, cv if isinstance(cv, numbers.Integral) else 5)
    if fixed is not None and len(fixed) > 1 and n_rows < 2:
        raise InputError(f"alphas cannot be compared with n_samples = {n_rows}; give one alpha")
    lone = fixed is not None and len(fixed) == 1 and not held_out
    rules = [ALL_ROWS] if lone else fold_rules(cv, n_rows, n_features, seed, folds)
    return [GramReduction(n_features, targets, rule, are_exact(alphas)) for rule in rules]


def are_exact(alphas: Alphas) -> bool:
    """Whether an alpha is 0: the rounding of float32 products would be fitted."""
    return 0.0 in (given_alphas(alphas) or [])


def choose_solver(
    solver: str, reductions: Sequence[GramReduction], arrays: Sequence[Any]
) -> tuple[GramReduction, str, str]:
    """Choose "gram" or "passes" for a fit to these arrays; see `first_that_fits` for arguments and result."""
    n = arrays[0].shape[0]
    workers = Workers.of_client(current_client())

    def memory(reduction: GramReduction) -> PassMemory:
        if not is_dask_collection(arrays[0]):
            return PassMemory(0, 0, reduction.nbytes, segments=count_segments(n, reduction))
        segments = min(count_segments(n, reduction), len(arrays[0].chunks[0]))
        return pass_memory(reduction, list(arrays), segments, workers)

    return first_that_fits(solver, reductions, memory, workers)


def first_that_fits(
    solver: str,
    reductions: Sequence[GramReduction],
    memory: Callable[[GramReduction], PassMemory],
    workers: Workers,
) -> tuple[GramReduction, str, str]:
    """Choose the first reduction whose pass fits, and the solver. Returns (reduction, "gram" or "passes", the reason).

    solver : "gram" and "passes" are returned as they are; "auto" is "gram" if some reduction fits into workers and client
    reductions : in order of preference; if none fits, the last is returned
    memory : function that returns the memory of a pass with a reduction
    """
    for reduction in reductions:
        D = reduction.n_features
        if not (obstacle := against_gram(D, memory(reduction), workers, reduction.solve_bytes)):
            break
    if solver != "auto":
        return reduction, solver, "asked for"
    chosen = (
        ("passes", obstacle) if obstacle else ("gram", f"the Gram matrix of {D} features fits: one pass, exact")
    )
    return reduction, *chosen


def gram_costs(estimator: Any, rows: PlannedRows, reduction: GramReduction) -> Costs:
    """Costs of fitting a ridge model to features by this reduction."""
    n, D = rows.n, rows.width
    alphas = given_alphas(estimator.alpha)
    count = USUAL if alphas is None else len(alphas)
    held_out = reduction.rule.held
    notes = []
    if count > 1:
        cut = "a held-out fifth" if held_out == 1 else f"{held_out} folds"
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
