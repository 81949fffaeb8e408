"""What a row sample says before training: directions and steps, the penalty, the scale of the loss, the best constant."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..execution.sampling import neighbours
from ..losses import Loss
from ..targets import Targets
from .alpha import choose_alpha, choose_l1
from .column_units import APART, column_sizes, unit_factors, unlike
from .penalties import Penalty
from .preconditioner import Preconditioner, intercept_scale, make_preconditioner, sample_size, weighted_rows
from .rows import Rows, Weights

#: Directions of the preconditioner where features are many: as accurate as 1,000 on MNIST with D = 4,096
#: (96.65 and 96.63 % after one pass), in a third of the time. Few features get all directions.
MOST_DIRECTIONS = 512
MANY_FEATURES = 1_536
#: Lengths of rows are measured as rows come where a sample shows them to be this much below what they may be.
_PROBE_GAIN = 2.0
#: Where the penalty of a robust loss is chosen by squared errors, targets are brought within so many spreads.
_OUTLYING = 3.0
#: Columns whose mean is so many standard deviations are shifted to zero.
_FAR = 10.0
#: Columns so many times apart in size are scaled where an l1 penalty leaves no preconditioner.
_APART_L1 = 20.0


@dataclass(frozen=True)
class Spectrum:
    """What the row sample says.

    Attributes
    ----------
    preconditioner : Preconditioner, and with it the lengths of steps
    constant : float, value of the column that stands for the intercept among the features; 0 for none
    alpha, epsilon : float, of penalty and loss: the given ones, or those that the sample asks for
    start : array of shape (C,), the best constant prediction
    null_loss : float, mean loss of `start`
    shift : array of shape (D,), means to subtract from the features, or None
    squares : float, strength of the squares of a mixed penalty; None is alpha
    units : array of shape (D,), factors on the shifted features, or None
    """

    preconditioner: Preconditioner
    constant: float
    alpha: float
    epsilon: float
    start: np.ndarray
    null_loss: float
    shift: np.ndarray | None = None
    squares: float | None = None
    units: np.ndarray | None = None

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """What a checkpoint keeps of it: each number under its name."""
        mine = {name: getattr(self, name) for name in ("constant", "alpha", "epsilon", "start", "null_loss")}
        some = {name: getattr(self, name) for name in ("shift", "squares", "units")}
        some = {name: value for name, value in some.items() if value is not None}
        return {k: np.asarray(v) for k, v in (vars(self.preconditioner) | mine | some).items()}

    @classmethod
    def of(cls, arrays: dict[str, np.ndarray]) -> Spectrum:
        """The spectrum among the arrays that a checkpoint kept."""

        def kept(kind: type) -> dict[str, Any]:
            found = {f.name: arrays[f.name] for f in fields(kind) if f.name in arrays}
            return {name: a.item() if a.ndim == 0 else a for name, a in found.items()}

        return cls(Preconditioner(**kept(Preconditioner)), **kept(cls))


def measure_spectrum(
    rows: Rows,
    targets: Targets,
    loss: Loss,
    weights: Weights,
    *,
    alpha: float | None,
    epsilon: float | None,
    penalty: Penalty,
    intercept: bool,
    directions: int | None,
    stream: bool,
    seed: int,
) -> Spectrum:
    """What a row sample says.

    Parameters
    ----------
    rows, targets : Rows and Targets of the fit
    loss : Loss
    weights : Weights of all rows
    alpha : float, of the penalty; None for what the sample asks for
    epsilon : float, of the loss; None for what the sample asks for
    penalty : Penalty, whatever its own alpha
    intercept : bool, whether the model has one
    directions : int, of the preconditioner; None is as many as the sample can tell, 0 none
    stream : bool, whether these rows are the first of others
    seed : int, of the sample

    Returns
    -------
    Spectrum.

    Raises
    ------
    InputError : no sampled row is finite
    """
    n = sum(rows.blocks)
    Z, y, weight = rows.sample(sample_size(n, rows.n_features), seed)
    Z = Z.toarray() if sp.issparse(Z) else Z  # type: ignore[attr-defined]
    whole = len(Z) >= n and not stream
    Y, weight = targets.encode(y, weight)
    if weight is not None and not weight.sum() > 0:
        weight = None
    loss = loss if epsilon is not None else replace(loss, epsilon=_epsilon(loss, Y, weight))
    shift = _shift(Z, weight) if intercept and not rows.sparse else None
    Z = Z if shift is None else (Z - shift.astype(Z.dtype))
    sizes = column_sizes(Z, weight, shift)
    apart, dtype = unlike(sizes, _APART_L1 if penalty.l1_ratio else APART), Z.dtype
    if apart is not None:
        Z = Z.astype(np.float64)
    smoothness = loss.curvature(_spread(Y, weight) if targets.classes is None else 1.0)
    group = 1 if stream else neighbours(n)
    squares = None
    if alpha is None:
        near = _within(loss, Y, weight)
        if penalty.l1_ratio < 1.0:
            alpha = squares = choose_alpha(Z, near, weight, n, seed, group, apart) * smoothness
        if penalty.l1_ratio:
            alpha = choose_l1(Z, near, weight, n, apart) * smoothness
    assert alpha is not None
    squares = squares if 0.0 < penalty.l1_ratio < 1.0 else None
    penalty, units = replace(penalty, alpha=alpha, squares=squares), None
    if apart is not None:
        units = unit_factors(sizes, penalty.curvature / smoothness)
        penalty, Z = replace(penalty, units=units[:, None]), (Z * units).astype(dtype)
    constant = intercept_scale(weighted_rows(Z, weight, 0.0)) if intercept else 0.0
    A = weighted_rows(Z, weight, constant, weights.mean if weight is not None else None)
    held = None if whole or len(A) < 3 else (np.arange(len(A)) // group) % 3 == 2
    most = directions
    if most is None and min(A.shape) > MANY_FEATURES:
        most = MOST_DIRECTIONS
    longest = (rows.longest + constant**2) * weights.largest / weights.mean if units is None else np.inf
    made = make_preconditioner(
        A if held is None else A[~held],
        None if held is None else A[held],
        smoothness,
        penalty.curvature,
        whole=whole,
        most=most,
        chosen=directions is None,
        longest=longest if shift is None else np.inf,
        draws=len(A) / group,
        seed=seed,
    )
    if not whole and not made.certain and made.row_bound * _PROBE_GAIN > smoothness * longest:
        made = replace(made.bounded(longest), certain=True)
    start = _constant(loss, targets, Y, weight) if intercept else np.zeros(targets.width)
    null = _null_loss(loss, targets, start, Y, weight)
    return Spectrum(made, constant, float(alpha), float(loss.epsilon), start, null, shift, squares, units)


def _shift(Z: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
    """Column means, where one is so far from zero that it drowns what varies; else None."""
    mean = np.average(Z, axis=0, weights=weight).astype(np.float64)
    spread = np.sqrt(np.average((Z - mean) ** 2, axis=0, weights=weight))
    return mean if (np.abs(mean) > _FAR * spread).any() else None


def _epsilon(loss: Loss, Y: np.ndarray, weight: np.ndarray | None) -> float:
    """What the loss takes for epsilon, in units of the targets: so many robust standard deviations."""
    assert loss.epsilon_in_spreads is not None
    return max(_spread(Y, weight), 1e-300) * loss.epsilon_in_spreads


def _within(loss: Loss, Y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Targets, those of losses that outliers hardly move within so many spreads of the median."""
    if not loss.robust:
        return Y
    middle = np.array([_median(y, weight) for y in Y.T])
    reach = _OUTLYING * np.array([_spread(y[:, None], weight) for y in Y.T])
    return np.clip(Y, middle - reach, middle + reach)


def _constant(loss: Loss, targets: Targets, Y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """The constant scores of least mean loss, shape (C,): exact for shares of classes, else by the sample."""
    if targets.classes is None:
        return loss.best_constant(Y, np.ones(len(Y)) if weight is None else weight)
    if targets.shares is None:
        return np.zeros(targets.width)
    return loss.best_constant_of_shares(np.clip(targets.shares, 1e-9, 1.0 - 1e-9))


def _null_loss(
    loss: Loss, targets: Targets, start: np.ndarray, Y: np.ndarray, weight: np.ndarray | None
) -> float:
    """Mean loss of a constant prediction: exact for shares of classes, else by the sample."""
    if targets.classes is not None and targets.shares is not None:
        Y, weight = Targets(targets.classes, targets.centre).encode(targets.classes, None)[0], targets.shares
    return float(np.average(loss(np.broadcast_to(start, Y.shape), Y)[0], weights=weight))


def _spread(Y: np.ndarray, weight: np.ndarray | None) -> float:
    """Robust standard deviation, largest of the columns: 1.48 x the median distance from the median."""
    spreads = [1.4826 * _median(np.abs(y - _median(y, weight)), weight) for y in Y.T]
    return max(spreads) or float(np.sqrt(np.average((Y * Y).mean(axis=1), weights=weight)))


def _median(values: np.ndarray, weight: np.ndarray | None) -> float:
    order = np.argsort(values, kind="stable")
    total = np.cumsum(np.ones(len(values)) if weight is None else weight[order])
    return float(values[order][np.searchsorted(total, total[-1] / 2)])
