"""The cross-validation folds on which ridge compares penalties, and the reductions that sum up each fold."""

from __future__ import annotations

import numbers

from ..errors import InputError
from ..folds import GivenFolds
from ..targets import Targets
from ..typing import Alphas
from .alphas import given_alphas
from .gram import FoldRule, GivenRule, GramReduction

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
    return [FoldRule.of_cv(way, seed) for way in ways]


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
    return [GramReduction(n_features, targets, rule, are_exact(alphas)) for rule in rules]


def are_exact(alphas: Alphas) -> bool:
    """Whether an alpha is 0: the rounding of float32 products would be fitted."""
    return 0.0 in (given_alphas(alphas) or [])


def given_reductions(
    alphas: Alphas, cv: int | str, folds: GivenFolds, n_features: int, targets: Targets, held_out: bool
) -> list[GramReduction]:
    """`gram_reductions` with folds that are given.

    Raises InputError for a number `cv` that is not that of the folds, and as `given_alphas`.
    """
    k, never = folds.n_folds, folds.never > 0
    if isinstance(cv, numbers.Integral) and cv != k:
        raise InputError(
            f"cv={cv} asks for as many folds, but folds has {k} that are held out; leave out cv, or give such folds"
        )
    fixed = given_alphas(alphas)
    if fixed is not None and len(fixed) == 1 and not held_out:
        return [GramReduction(n_features, targets, exact=are_exact(alphas))]
    rules: list[FoldRule] = []
    if k > 1 and (isinstance(cv, numbers.Integral) or (cv == "auto" and n_features <= _FOLDS_UP_TO)):
        rules.append(GivenRule(k + never, never=never))
    if not (rules and isinstance(cv, numbers.Integral)):
        rules.append(GivenRule(2, holdout=True))
    return [GramReduction(n_features, targets, rule, are_exact(alphas)) for rule in rules]
