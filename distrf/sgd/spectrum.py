"""What SGD measures on a sample of rows before the first step.

These are the preconditioner and with it the length of steps, alpha and epsilon where they are "auto", the units of targets,
and the best constant prediction, from which training starts.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from ..errors import InputError, warn
from ..execution.sampling import neighbours
from ..losses import Loss, Squared
from ..targets import Targets
from .alpha import sample_alpha
from .preconditioner import (
    Preconditioner,
    largest_eigenvalue,
    make_preconditioner,
    most_directions,
    sample_size,
    split_rows,
    weighted_rows,
)
from .rows import Rows

#: Largest entries of columns beyond which float32 does not hold sums of squares, and their ratio from which on there is a warning:
#: the variance of the smaller column is then a millionth, and directions of so little are not preconditioned.
_EXTREME, UNLIKE = 1e15, 1e3
#: The share of the smallest columns that this warning leaves out.
_FEW = 0.05
#: If the bound on the length of all rows is less than this many times the bound from the sample, it sets the steps.
_NEAR = 2.0
#: Columns are shifted to mean zero if the mean of one is more than this many standard deviations from 0.
_FAR = 10.0
#: If the best constant scores do not single out the most frequent class, those of the other classes are lowered by this.
_TIE = 1e-5


@dataclass(frozen=True)
class Spectrum:
    """What was measured on the row sample.

    Attributes
    ----------
    preconditioner : Preconditioner, which also sets the length of steps
    constant : float, value of the constant column whose weight is the intercept; 0 without an intercept
    alpha, epsilon : float, of penalty and loss: as the user gave them, or chosen on the sample
    start : array of shape (C,), the best constant prediction
    null_loss : float, mean loss of `start`
    shift : array of shape (D,), means to subtract from the features, or None
    target_units : array of shape (C,), factors on the targets, or None. All attributes above are in these units
    """

    preconditioner: Preconditioner
    constant: float
    alpha: float
    epsilon: float | np.ndarray
    start: np.ndarray
    null_loss: float
    shift: np.ndarray | None = None
    target_units: np.ndarray | None = None

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The spectrum as named arrays, for a checkpoint."""
        own = {
            name: value for name, value in vars(self).items() if name != "preconditioner" and value is not None
        }
        return {name: np.asarray(value) for name, value in (vars(self.preconditioner) | own).items()}

    @classmethod
    def of(cls, arrays: dict[str, np.ndarray]) -> Spectrum:
        """The spectrum among the arrays that a checkpoint kept."""

        def values_of(kind: type) -> dict[str, Any]:
            values = {f.name: arrays[f.name] for f in fields(kind) if f.name in arrays}
            return {name: a.item() if a.ndim == 0 else a for name, a in values.items()}

        return cls(Preconditioner(**values_of(Preconditioner)), **values_of(cls))


def measure_spectrum(
    rows: Rows, targets: Targets, loss: Loss, *, alpha: float | None, choose_epsilon: bool, intercept: bool,
    directions: int | None, stream: bool, seed: int,
) -> Spectrum:  # fmt: skip
    """Draw a sample of the rows and measure on it all that a `Spectrum` holds.

    Parameters
    ----------
    rows, targets : Rows and Targets of the fit
    loss : Loss
    alpha : float, of the penalty; None chooses it on the sample
    choose_epsilon : bool, whether that of the loss is chosen on the sample
    intercept : bool, whether the model has an intercept
    directions : int, directions of the preconditioner; None is as many as the sample supports, 0 is no preconditioner
    stream : bool, whether more rows will follow (`partial_fit`)
    seed : int, of the sample

    Returns
    -------
    Spectrum.

    Raises
    ------
    InputError : no sampled row is finite, or features are too large or too small for squares
    """
    n = sum(rows.blocks)
    Z, y, weight, folds = rows.sample(sample_size(n, rows.n_features), seed)
    Y, weight = targets.encode(y, weight)
    weight = weight if weight is None or weight.sum() > 0 else None
    target_units = None if targets.classes is not None else target_units_of(Y, weight)
    if target_units is not None:
        Y, loss = Y * target_units, replace(loss, epsilon=loss.epsilon * target_units)
    loss = with_epsilon(loss, Y, weight) if choose_epsilon else loss
    smoothness = loss.curvature(1.0 if targets.classes is not None else _spread(Y, weight))
    mean, far = far_means(Z, weight)
    shift = mean if far and intercept and not rows.sparse else None
    Z = Z if shift is None else Z - shift.astype(Z.dtype)
    apart, _ = check_sizes(Z, shift)
    if alpha is None:
        alpha = sample_alpha(Z, Y, weight, n, seed, folds, loss, smoothness, apart)
    # The constant column whose weight is the intercept: so it learns as fast as the fastest direction, and steps are halved at most.
    constant = float(np.sqrt(largest_eigenvalue(weighted_rows(Z, weight, 0.0), seed))) or 1.0
    constant = constant if intercept else 0.0
    largest = 1.0 if targets.class_weight is None else targets.class_weight.max() / targets.weight_unit
    largest = largest if len(rows.arrays) == 2 else np.inf  # that of the rows is not known
    longest = (rows.longest + constant**2) * largest / targets.mean_weight
    whole = len(Z) >= n and not stream
    Z = weighted_rows(Z, weight, constant, None if weight is None else targets.mean_weight)
    together = 1 if stream else neighbours(n)  # rows that were drawn together may be alike
    split = split_rows(Z, together, whole, longest if shift is None else np.inf)
    preconditioner = make_preconditioner(
        split, smoothness, alpha, most=most_directions(directions, len(Z), Z.shape[1]), chosen=directions is None, seed=seed,
    )  # fmt: skip
    if not whole and preconditioner.row_bound * _NEAR > smoothness * longest:
        preconditioner = preconditioner.bounded(longest)
    start, null_loss = best_constant(loss, targets, Y, weight, intercept)
    return Spectrum(
        preconditioner, constant, float(alpha),
        loss.epsilon if isinstance(loss.epsilon, np.ndarray) else float(loss.epsilon),
        start, null_loss, shift, target_units,
    )  # fmt: skip


def check_sizes(Z: np.ndarray, shift: np.ndarray | None, warned: float = UNLIKE) -> tuple[float, bool]:
    """The size of the smallest column over that of the largest, and whether that is less than 1 / UNLIKE of many columns.

    Their sizes are those of their largest entries; columns of zeros have none, and constant ones, of which subtracting a shift left
    what rounding is. Refuses extreme sizes, and warns of sizes that are as unlike as `warned`. Of many columns a share of the smallest is
    left out then.
    """
    sizes = np.maximum(Z.max(axis=0), -Z.min(axis=0)).astype(np.float64)
    sizes = np.sort(sizes[sizes > (0.0 if shift is None else 4.0 * np.finfo(Z.dtype).eps * np.abs(shift))])
    if not len(sizes):
        return 1.0, False
    low, high = sizes[int(_FEW * len(sizes))], sizes[-1]
    if not 1.0 / _EXTREME < high < _EXTREME:
        raise InputError(
            f"the largest features must lie between {1.0 / _EXTREME:g} and {_EXTREME:g} in size, so that sums of their squares are "
            f"numbers; got {high:.3g}; scale the columns, as StreamingScaler does"
        )
    if high > warned * low:
        text = f"columns have sizes from {low:.2g} to {high:.2g}: little is learned from the small ones; put StreamingScaler before it"
        warn(text, ConvergenceWarning)
    return float(sizes[0] / high), bool(high > UNLIKE * low)


def target_units_of(Y: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
    """Powers of two, shape (C,), by which targets get about the largest spread among them; None if spreads are alike.

    One length of steps, one epsilon and one sum of losses then suit all targets.
    """
    spreads = np.array([_spread(y[:, None], weight) for y in Y.T])
    largest = spreads.max() or 1.0
    units = np.exp2(np.round(np.log2(largest / np.where(spreads > 0, spreads, largest))))
    return units if (units > 1).any() else None


def far_means(Z: Any, weight: np.ndarray | None) -> tuple[np.ndarray, bool]:
    """The means of columns, and whether one is so far from zero that rounding would hide the variation of its column."""
    w = np.ones(Z.shape[0]) if weight is None else weight
    if sp.issparse(Z):
        mean, squares = Z.T @ w / w.sum(), Z.multiply(Z).T @ w / w.sum()
    else:
        mean = np.einsum("i,ij->j", w, Z, dtype=np.float64) / w.sum()
        squares = np.einsum("i,ij,ij->j", w, Z, Z, dtype=np.float64) / w.sum()
    return mean, bool((np.abs(mean) > _FAR * np.sqrt(np.maximum(squares - mean**2, 0.0))).any())


def with_epsilon(loss: Loss, Y: np.ndarray, weight: np.ndarray | None) -> Loss:
    """The loss with epsilon="auto" resolved: `epsilon_in_spreads` robust standard deviations of the targets.

    A loss without an epsilon is returned as it is.
    """
    if loss.epsilon_in_spreads is None:
        return loss
    return replace(loss, epsilon=max(_spread(Y, weight), 1e-300) * loss.epsilon_in_spreads)


def best_constant(
    loss: Loss, targets: Targets, Y: np.ndarray, weight: np.ndarray | None, intercept: bool = True
) -> tuple[np.ndarray, float]:
    """The constant scores of least mean loss, shape (C,), and that loss: exact from the shares of classes, else by the sample.

    Without an intercept they are 0. The most frequent class has the largest score, also where that of a hinge is no larger than others.
    """
    shares = targets.shares
    if targets.classes is not None and shares is not None:
        Y, weight = Targets(targets.classes, targets.centre).encode(targets.classes, None)[0], shares
    w = np.ones(len(Y)) if weight is None else weight
    start = np.zeros(targets.width)  # of squares of numbers, which are centred, the best
    if intercept and (not isinstance(loss, Squared) if targets.classes is None else shares is not None):
        start = loss.best_constant(Y, w if shares is None else np.clip(w, 1e-9, 1.0 - 1e-9))
        if shares is not None and len(start) > 1 and start.argmax() != shares.argmax():
            start[np.arange(len(start)) != shares.argmax()] -= _TIE
    return start, float(np.average(loss(np.broadcast_to(start, Y.shape), Y)[0], weights=w))


def _spread(Y: np.ndarray, weight: np.ndarray | None) -> float:
    """The largest robust standard deviation of the columns: 1.48 x the median distance from the median."""
    return max(_deviation(y, weight) for y in Y.T) or float(
        np.sqrt(np.average((Y * Y).mean(axis=1), weights=weight))
    )


def _deviation(y: np.ndarray, weight: np.ndarray | None) -> float:
    median = partial(np.quantile, q=0.5, weights=weight, method="inverted_cdf")
    return float(1.4826 * median(np.abs(y - median(y))))
