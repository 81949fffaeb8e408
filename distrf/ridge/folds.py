"""The cross-validation folds on which ridge compares penalties, and the reductions that sum up each fold."""

from __future__ import annotations

import numbers

from ..errors import InputError
from ..targets import Targets
from ..typing import Alphas
from .alphas import given_alphas
from .gram import FoldRule, GramReduction

#: Features up to which five Gram matrices are kept and factored for each alpha rather than two: 170 MB in float64.
_FOLDS_UP_TO = 2048


def fold_rules(cv: int | str, n_rows: int, n_features: int, seed: int) -> list[FoldRule]:
    """The ways to cut folds that the parameter `cv` allows. The caller takes the first one that fits into memory.

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
            "alpha, without calibrate"
        )
    return [FoldRule.for_rows(n_rows, way, seed) for way in ways]


def gram_reductions(
    alphas: Alphas,
    cv: int | str,
    n_rows: int,
    n_features: int,
    targets: Targets,
    seed: int,
    *,
    held_out: bool = False,
    grows: bool = False,
) -> list[GramReduction]:
    """The reductions that would serve the fit, in order of preference; they differ in their folds.

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
    rules = [FoldRule()] if lone else fold_rules(cv, n_rows, n_features, seed)
    return [GramReduction(n_features, targets, rule) for rule in rules]
