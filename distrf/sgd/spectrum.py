"""What SGD measures on a sample of rows before the first step.

These are the preconditioner and with it the length of steps, alpha and epsilon where they are "auto", the units of columns
and targets, and the best constant prediction, from which training starts.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..execution.sampling import neighbours
from ..losses import Loss
from ..targets import Targets
from .alpha import sample_alpha
from .column_units import APART, column_sizes, unit_factors, unlike
from .optimizer import Penalty
from .preconditioner import (
    Preconditioner,
    SampledRows,
    intercept_scale,
    make_preconditioner,
    most_directions,
    sample_size,
    weighted_rows,
)
from .rows import Rows, Weights

#: Columns with fewer nonzero entries in the sample do not tell whether columns are in unlike units, if others have more.
_RARE = 20
#: If the bound on the length of all rows is less than this many times the bound from the sample, it sets the steps.
_NEAR = 2.0
#: Columns are shifted to mean zero if the mean of one is more than this many standard deviations from 0.
_FAR = 10.0


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
    units : array of shape (D,), factors on the shifted features, or None
    target_units : array of shape (C,), factors on the targets, or None. All attributes above are in these units
    """

    preconditioner: Preconditioner
    constant: float
    alpha: float
    epsilon: float | np.ndarray
    start: np.ndarray
    null_loss: float
    shift: np.ndarray | None = None
    units: np.ndarray | None = None
    target_units: np.ndarray | None = None

    def says_most_frequent(self, targets: Targets) -> bool:
        """Whether the best constant scores predict the most frequent class. For hinges the scores of several may be equal."""
        assert targets.shares is not None
        return targets.width == 1 or self.start.argmax() == targets.shares.argmax()

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


@dataclass(frozen=True)
class Requested:
    """What the estimator's parameters fix, and what they leave to the sample.

    Parameters
    ----------
    alpha : float, of the penalty; None chooses it on the sample
    epsilon : float, of the loss; None chooses it on the sample
    intercept : bool, whether the model has an intercept
    directions : int, directions of the preconditioner; None is as many as the sample supports, 0 is no preconditioner
    """

    alpha: float | None
    epsilon: float | np.ndarray | None
    intercept: bool
    directions: int | None


@dataclass(frozen=True)
class _Sample:
    """Sampled rows: dense features, encoded targets and weights.

    n : number of all rows; together : neighbouring rows that were drawn together, which may be alike; seed : of all draws
    folds : of these rows, if they are given
    """

    Z: np.ndarray
    Y: np.ndarray
    weight: np.ndarray | None
    n: int
    together: int
    seed: int
    folds: np.ndarray | None = None


def measure_spectrum(
    rows: Rows, targets: Targets, loss: Loss, weights: Weights, requested: Requested, *, stream: bool, seed: int
) -> Spectrum:
    """Draw a sample of the rows and measure on it all that a `Spectrum` holds.

    Parameters
    ----------
    rows, targets : Rows and Targets of the fit
    loss : Loss
    weights : Weights of all rows
    requested : Requested, what the estimator's parameters fix or leave open
    stream : bool, whether more rows will follow (`partial_fit`)
    seed : int, of the sample

    Returns
    -------
    Spectrum.

    Raises
    ------
    InputError : no sampled row is finite
    """
    sample = _draw_sample(rows, targets, stream, seed)
    target_units = None if targets.classes is not None else _target_units(sample.Y, sample.weight)
    if target_units is not None:
        sample = replace(sample, Y=sample.Y * target_units)
        loss = replace(loss, epsilon=loss.epsilon * target_units)
    Y, weight = sample.Y, sample.weight
    loss = with_epsilon(loss, Y, weight) if requested.epsilon is None else loss
    smoothness = loss.curvature(1.0 if targets.classes is not None else _spread(Y, weight))
    shift = _shift(sample.Z, weight) if requested.intercept and not rows.sparse else None
    if shift is not None:
        sample = replace(sample, Z=sample.Z - shift.astype(sample.Z.dtype))
    sample, penalty, units = _scale_columns(sample, loss, requested.alpha, smoothness, shift)
    constant = intercept_scale(weighted_rows(sample.Z, weight, 0.0)) if requested.intercept else 0.0
    # A bound on the length of all rows is known for columns that are not scaled. The sample may be shifted besides.
    longest = np.inf if units is not None else (rows.longest + constant**2) * weights.largest / weights.mean
    whole = len(sample.Z) >= sample.n and not stream
    split = _split(sample, constant, weights.mean, whole, longest if shift is None else np.inf)
    preconditioner = make_preconditioner(
        split, smoothness, penalty.curvature, most=most_directions(requested.directions, split.count, split.fitted.shape[1]),
        chosen=requested.directions is None, seed=seed,
    )  # fmt: skip
    if not whole and preconditioner.row_bound * _NEAR > smoothness * longest:
        preconditioner = preconditioner.bounded(longest)
    start = _constant(loss, targets, Y, weight) if requested.intercept else np.zeros(targets.width)
    return Spectrum(
        preconditioner, constant, float(penalty.alpha),
        loss.epsilon if isinstance(loss.epsilon, np.ndarray) else float(loss.epsilon),
        start, _null_loss(loss, targets, start, Y, weight), shift, units, target_units,
    )  # fmt: skip


def _scale_columns(
    sample: _Sample,
    loss: Loss,
    alpha: float | None,
    smoothness: float,
    shift: np.ndarray | None,
) -> tuple[_Sample, Penalty, np.ndarray | None]:
    """Choose the penalty, and scale the columns of the sample if their sizes are unlike; the factors come last."""
    sizes = column_sizes(sample.Z, sample.weight, shift)
    # The size of a rare word is chance: it is that of the few rows that have it.
    usual = np.count_nonzero(sample.Z, axis=0) >= _RARE
    apart = unlike(sizes[usual] if usual.any() else sizes, APART)
    # Squares of the columns may leave the range of float32 until they are scaled.
    wide = sample if apart is None else replace(sample, Z=sample.Z.astype(np.float64))
    if alpha is None:
        alpha = sample_alpha(
            wide.Z, wide.Y, wide.weight, wide.n, wide.seed, apart, wide.folds, loss, smoothness
        )
    penalty = Penalty(alpha)
    if apart is None:
        return sample, penalty, None
    units = unit_factors(sizes, penalty.curvature / smoothness)
    scaled = replace(sample, Z=(wide.Z * units).astype(sample.Z.dtype))
    return scaled, penalty.for_columns(units), units


def _target_units(Y: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
    """Powers of two, shape (C,), by which targets get about the largest spread among them; None if spreads are alike.

    One length of steps, one epsilon and one sum of losses then suit all targets.
    """
    spreads = np.array([_spread(y[:, None], weight) for y in Y.T])
    largest = spreads.max() or 1.0
    units = np.exp2(np.round(np.log2(largest / np.where(spreads > 0, spreads, largest))))
    return units if (units > 1).any() else None


def _draw_sample(rows: Rows, targets: Targets, stream: bool, seed: int) -> _Sample:
    """The row sample. Its weights are None where they are all zero."""
    n = sum(rows.blocks)
    Z, y, weight, folds = rows.sample_with_folds(sample_size(n, rows.n_features), seed)
    Y, weight = targets.encode(y, weight)
    if weight is not None and not weight.sum() > 0:
        weight = None
    return _Sample(Z, Y, weight, n, 1 if stream else neighbours(n), seed, folds)


def _split(sample: _Sample, constant: float, mean_weight: float, whole: bool, longest: float) -> SampledRows:
    """Add the constant column and split the sample: two thirds give the directions, the other third tests them."""
    weighted = None if sample.weight is None else mean_weight
    rows = weighted_rows(sample.Z, sample.weight, constant, weighted)
    draws = len(rows) / sample.together
    if whole or len(rows) < 3:
        return SampledRows(rows, None, whole, longest, draws)
    held = (np.arange(len(rows)) // sample.together) % 3 == 2
    return SampledRows(rows[~held], rows[held], whole, longest, draws)


def _shift(Z: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
    """The column means, if one is so far from zero that rounding would hide the variation of its column; else None."""
    mean = np.average(Z, axis=0, weights=weight).astype(np.float64)
    spread = np.sqrt(np.average((Z - mean) ** 2, axis=0, weights=weight))
    return mean if (np.abs(mean) > _FAR * spread).any() else None


def with_epsilon(loss: Loss, Y: np.ndarray, weight: np.ndarray | None) -> Loss:
    """The loss with epsilon="auto" resolved: `epsilon_in_spreads` robust standard deviations of the targets.

    A loss without an epsilon is returned as it is.
    """
    if loss.epsilon_in_spreads is None:
        return loss
    return replace(loss, epsilon=max(_spread(Y, weight), 1e-300) * loss.epsilon_in_spreads)


def _constant(loss: Loss, targets: Targets, Y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """The constant scores of least mean loss, shape (C,): exact from the shares of the classes, else by the sample."""
    if targets.classes is None:
        return loss.best_constant(Y, np.ones(len(Y)) if weight is None else weight)
    if targets.shares is None:
        return np.zeros(targets.width)
    return loss.best_constant_of_shares(np.clip(targets.shares, 1e-9, 1.0 - 1e-9))


def _null_loss(
    loss: Loss, targets: Targets, start: np.ndarray, Y: np.ndarray, weight: np.ndarray | None
) -> float:
    """Mean loss of a constant prediction: exact from the shares of the classes, else by the sample."""
    if targets.classes is not None and targets.shares is not None:
        Y, weight = Targets(targets.classes, targets.centre).encode(targets.classes, None)[0], targets.shares
    return float(np.average(loss(np.broadcast_to(start, Y.shape), Y)[0], weights=weight))


def _spread(Y: np.ndarray, weight: np.ndarray | None) -> float:
    """The largest robust standard deviation of the columns: 1.48 x the median distance from the median."""
    return max(_deviation(y, weight) for y in Y.T) or float(
        np.sqrt(np.average((Y * Y).mean(axis=1), weights=weight))
    )


def _deviation(y: np.ndarray, weight: np.ndarray | None) -> float:
    return 1.4826 * _median(np.abs(y - _median(y, weight)), weight)


def _median(values: np.ndarray, weight: np.ndarray | None) -> float:
    order = np.argsort(values, kind="stable")
    total = np.cumsum(np.ones(len(values)) if weight is None else weight[order])
    return float(values[order][np.searchsorted(total, total[-1] / 2)])
