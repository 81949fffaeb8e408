"""What rows teach on which the model was not trained: probabilities from scores, intervals from errors. Number code."""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from ..errors import InputError

#: Numbers of sorted errors that a regressor keeps at most.
_MOST_ERRORS = 2**20
#: Held-out rows that are enough to learn anew, of a regressor, and of each class: the share of rows inside of an interval of
#: 90 % is then right to 1 %, and sigmoids have a log loss about 0.01 above that of many rows.
_ENOUGH_ROWS, _ENOUGH_OF_A_CLASS = 1_000, 100
#: Of three or more classes, those with fewer held-out rows share one sigmoid (a single one shares that of the next rarest).
#: All rows of a rare class may be in one fold, whose model never saw it: its scores of the class are a constant and noise.
#: (kddcup99 with a class of one row: a slope of 5,485 and a log loss of .186 on other rows, .021 shared.)
_OWN_ROWS = 20
#: Most iterations of the fit of sigmoids, and the relative gain and the gradient at which it ends.
_ITERATIONS, _GAIN, _GRADIENT = 200, 1e-9, 1e-7


class HeldOut(NamedTuple):
    """Rows as calibration sees them.

    scores : shape (m, C), of models that were not trained on the row, float64
    targets : shape (m, C), encoded as `Targets.encode` does
    weight : shape (m,), positive
    """

    scores: np.ndarray
    targets: np.ndarray
    weight: np.ndarray


class CalibrationWarning(UserWarning):
    """Probabilities or intervals that rest on too few held-out rows, or on rows of long ago."""


def learn_calibration(held: HeldOut, classes: np.ndarray | None) -> np.ndarray:
    """What a model keeps as `calibration_`: sigmoids of a classifier, sorted errors of a regressor, whose classes are None."""
    return sort_errors(held) if classes is None else fit_sigmoids(held, classes)


def count_rows(held: HeldOut, classes: np.ndarray | None) -> np.ndarray:
    """What held-out rows are worth in rows of equal weight, (sum w)^2 / sum w^2 (Kish 1965).

    Returns
    -------
    array of int
        Of a classifier for each class, shape (c,); of a regressor, whose classes are None, shape (1,).
    """
    weight = held.weight / held.weight.max(initial=np.finfo(float).tiny)
    of = np.ones((len(weight), 1)) if classes is None else of_each_class(held.targets) > 0
    squares = weight**2 @ of
    return np.floor((weight @ of) ** 2 / np.where(squares > 0, squares, 1.0) + 1e-6).astype(np.int64)


def enough_rows(held: HeldOut, classes: np.ndarray | None, old: np.ndarray | None) -> bool:
    """Whether these rows may replace those that `calibration_` was learned from before; old : that, or None."""
    enough = _ENOUGH_ROWS if classes is None else _ENOUGH_OF_A_CLASS
    enough = min(enough, len(old)) if classes is None and old is not None else enough
    return bool((count_rows(held, classes) >= enough).all())


def fit_sigmoids(held: HeldOut, classes: np.ndarray) -> np.ndarray:
    """Platt's sigmoid of the score of each class, fitted together.

    The probability of class c is sigmoid(a_c s_c + b_c) over the sum of all sigmoids. Of two classes, which share a score
    s, the scores are -s and s; for small b_c that is Platt's sigmoid((a_1 + a_2) s + b_2 - b_1). All a_c >= 0 and b_c
    minimise the log loss of the probabilities. Sigmoids that are fitted one by one, as is usual, do not know of the sum;
    docs/methods/calibration.md has both. As Platt has it, a row of class c counts as (N_c + 1) / (N_c + 2) of one, N_c being the rows
    of the class, and the other classes share the rest: so the solution is finite also where scores separate the classes,
    or a class has no row. Of three or more classes, those with fewer than 20 held-out rows share a and b; a single one
    shares those of the next rarest.

    Parameters
    ----------
    held : HeldOut
        Targets are -1 and 1.
    classes : array of shape (c,)
        The labels, for the warning.

    Returns
    -------
    array of shape (c, 2)
        a and b of each class. Without any row, all probabilities are equal.

    Warns
    -----
    CalibrationWarning
        Held-out rows lack a class.

    References
    ----------
    .. [1] J. C. Platt, "Probabilistic Outputs for Support Vector Machines and Comparisons to Regularized Likelihood
           Methods", Advances in Large Margin Classifiers, 1999.
    .. [2] B. Zadrozny and C. Elkan, "Transforming Classifier Scores into Accurate Multiclass Probability Estimates",
           KDD 2002 (the sum over classes).
    """
    scores, right = of_each_class(held.scores), of_each_class(held.targets) > 0
    _warn_if_lacking(right, classes)
    C = right.shape[1]
    if not len(right):
        return np.zeros((C, 2))
    share = held.weight / held.weight.sum()
    counts = len(share) * (share @ right)  # rows of mean weight
    kept = right @ ((counts + 1.0) / (counts + 2.0))
    wanted = np.where(right, kept[:, None], ((1.0 - kept) / (C - 1))[:, None])
    # Where a single class is rare, the next rarest is the one that it shares with.
    rare = (C > 2) & (counts.min() < _OWN_ROWS) & ((counts < _OWN_ROWS) | (counts <= np.sort(counts)[1]))
    # The sigmoid of each class, and the classes of each sigmoid.
    own = np.unique(np.where(rare, rare.argmax(), np.arange(C)), return_inverse=True)[1]
    members = np.bincount(own)

    def each(of_class: np.ndarray) -> np.ndarray:
        return np.bincount(own, of_class)

    # In units of their spread, so that slope and offset are about 1 and hardly depend on each other.
    middle = share @ scores
    spread = np.sqrt(each(share @ (scores - middle) ** 2) / members)[own]
    middle = (each(middle) / members)[own]
    spread = np.where(spread > 1e-12 * np.abs(scores).max(), spread, np.inf)  # of equal scores the slope is 0
    S = (scores - middle) / spread

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        a, b = x.reshape(2, -1)[:, own]
        value, slope = _log_loss(a * S + b, wanted)
        return float(share @ value), np.concatenate([each(share @ (slope * S)), each(share @ slope)])

    options = {"maxiter": _ITERATIONS, "ftol": _GAIN, "gtol": _GRADIENT}
    bounds = [(0.0, None)] * len(members) + [(None, None)] * len(members)
    start = np.repeat([1.0, 0.0], len(members))
    x = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    a, b = x.reshape(2, -1)[:, own]
    a = a / spread
    return np.column_stack([a, b - a * middle])


def of_each_class(scores: np.ndarray) -> np.ndarray:
    """Scores, or anything linear in them, with a column for each class: of two classes, which share one, -s and s."""
    return np.hstack([-scores, scores]) if scores.shape[1] == 1 else scores


def _log_loss(z: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cross entropy of each row between `wanted` and the probabilities sigmoid(z) / sum; its derivative by z."""
    small = np.exp(-np.abs(z))
    logs = np.minimum(z, 0.0) - np.log1p(small)
    p = np.where(z > 0, 1.0, small)  # of either sign, the sigmoid is this over 1 + small
    rest = (1.0 + small - p) / (1.0 + small)
    p /= 1.0 + small
    total = np.maximum(p.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    p /= total
    value = np.log(total[:, 0]) - np.einsum("ij,ij->i", wanted, logs)
    p -= wanted
    p *= rest
    return value, p


def _warn_if_lacking(right: np.ndarray, classes: np.ndarray) -> None:
    lacking = np.asarray(classes)[~right.any(axis=0)].tolist()
    if lacking:
        shown = ", ".join(map(str, lacking[:10])) + (", ..." if len(lacking) > 10 else "")
        warnings.warn(
            f"the {len(right):,} held-out rows that probabilities are learned from have none of {len(lacking)} class(es): "
            f"{shown}; the probabilities of these are no more than a guess. Train on more rows of them",
            CalibrationWarning,
            stacklevel=2,
        )


def sort_errors(held: HeldOut) -> np.ndarray:
    """Absolute errors in ascending order, from which `error_bound` takes quantiles.

    With equal weights they are all errors, up to 2^20 numbers. Else they are as many quantiles of the weighted errors as
    the weights are worth in rows, (sum w)^2 / sum w^2 (Kish 1965).

    Parameters
    ----------
    held : HeldOut

    Returns
    -------
    array of shape (k, C)
    """
    errors, weight = np.abs(held.targets - held.scores), held.weight
    if not len(weight):
        return errors
    (worth,) = count_rows(held, None).tolist()
    k = max(1, min(worth, _MOST_ERRORS // errors.shape[1]))
    order = np.argsort(errors, axis=0, kind="stable")
    levels = np.arange(1, k + 1) / k * (1.0 - 1e-12)  # rounding must not skip a row
    kept = np.empty((k, errors.shape[1]))
    for c, rows in enumerate(order.T):
        reached = np.cumsum(weight[rows])
        kept[:, c] = errors[rows[np.searchsorted(reached, levels * reached[-1])], c]
    return kept


def error_bound(errors: np.ndarray, coverage: float) -> np.ndarray:
    """The absolute error that a new row exceeds with a probability of at most 1 - coverage.

    It is the ceil((k + 1) coverage)-th smallest of the k errors of rows that the model was not trained on [1]_, [2]_.

    Parameters
    ----------
    errors : array of shape (k, C)
        As `sort_errors` returns them.
    coverage : float
        Between 0 and 1.

    Returns
    -------
    array of shape (C,)

    Raises
    ------
    InputError
        There are too few errors for this coverage.

    References
    ----------
    .. [1] V. Vovk, A. Gammerman and G. Shafer, "Algorithmic Learning in a Random World", 2005.
    .. [2] J. Lei, M. G'Sell, A. Rinaldo, R. J. Tibshirani and L. Wasserman, "Distribution-Free Predictive Inference for
           Regression", JASA 113, 2018, Algorithm 2.
    """
    rank = math.ceil((len(errors) + 1) * coverage - 1e-9)
    if rank > len(errors):
        raise InputError(
            f"an interval of coverage {coverage:g} needs {math.ceil(coverage / (1.0 - coverage) - 1e-9):,} held-out rows, "
            f"and calibration had {len(errors):,}; take a smaller coverage, or train on more rows"
        )
    return errors[max(rank, 1) - 1]
