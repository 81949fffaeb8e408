"""A fit by passes: a pilot on sampled rows, then steps that each take one pass over all rows."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..checkpoint import Checkpoint
from ..errors import InputError
from ..execution.passes import run_pass
from ..execution.row_blocks import row_bytes, rows_per_block
from ..losses import Loss
from ..maps import working_dtype
from ..ridge.conjugate_gradients import ALL_ROWS
from ..ridge.gram import FoldRule
from ..sgd.alpha import sample_alpha
from ..sgd.column_units import APART, column_sizes, unlike
from ..sgd.fit_checkpoint import check_same_rows
from ..sgd.rows import Rows
from ..sgd.spectrum import with_epsilon
from ..targets import Targets
from .descent import Descent, descend, penalised
from .hessian import SampledHessian, SampledRows
from .line import LineReduction, Points
from .sample import draw_sample

#: Gap at which the pilot ends, and the most steps that it takes: its own optimum is farther from that of all rows.
_PILOT_GAP, _PILOT_STEPS = 1e-3, 50
#: Gaps are shares of the loss, or where that is less of this share of the loss without weights.
_UNIT = 1e-4
#: Products are made in float64 where a column's mean is so many times its standard deviation, or columns are so unlike.
_FAR = 10.0


@dataclass(frozen=True)
class Fitted:
    """weights : array of shape (D, C); intercept : shape (C,), 0 without one; loss : with its epsilon; passes : over all rows"""

    descent: Descent
    weights: np.ndarray
    intercept: np.ndarray
    alpha: float
    loss: Loss
    passes: int


@dataclass(frozen=True)
class Newton:
    """How a model is fitted.

    loss : Loss, smooth; alpha : float, None chooses it on the sample; choose_epsilon : whether that of the loss is chosen, too
    tol : estimated gap at which the descent ends, as a share of the objective; max_passes : most passes over the features
    rule : FoldRule, of which fold 0 is not trained on
    checkpoint : folder that keeps the sums of each pass, from which the same call resumes to the same bits
    """

    loss: Loss
    alpha: float | None
    choose_epsilon: bool
    intercept: bool
    tol: float
    max_passes: int
    seed: int
    rule: FoldRule = ALL_ROWS
    checkpoint: str | os.PathLike[str] | None = None

    def fit(self, arrays: Sequence[Any], targets: Targets) -> Fitted:
        """Fit to [features, targets] or [features, targets, weights], with the folds last where they are given."""
        own = arrays[:-1] if self.rule.given else arrays
        rows = Rows.of(own[0], own[1], own[2] if len(own) > 2 else None)
        steps = self._steps(own, targets, arrays[-1] if self.rule.given else None)
        sample = draw_sample(rows, targets, self.intercept, self.seed)
        chosen = steps.run(lambda _: self._chosen(sample, rows))
        loss, alpha = replace(self.loss, epsilon=_plain(chosen["epsilon"])), float(chosen["alpha"])
        D, shift = rows.n_features, chosen["shift"] if chosen["shift"].any() else None
        if shift is not None:
            sample.Z[:, :D] = sample.Z[:, :D] - shift

        def over_sample(W: np.ndarray, d: np.ndarray | None, t: tuple[float, ...], slopes: int) -> Points:
            return penalised(_points(sample, loss, W, d, t, slopes), W, d, t, alpha, self.intercept)

        def over_rows(W: np.ndarray, d: np.ndarray | None, t: tuple[float, ...], slopes: int) -> Points:
            reduction = LineReduction(
                D, targets, loss, self.intercept, self.rule, t, slopes, bool(chosen["exact"]), W, d, shift
            )
            state = steps.once(
                lambda: run_pass(
                    reduction, list(arrays), label=label[0], block_rows=rows_per_block(row_bytes(own[0]))
                )
            )
            if not state[0] > 0:
                raise InputError("sample_weight must not be zero everywhere")
            passes[0] += 1
            return penalised(reduction.points(state), W, d, t, alpha, self.intercept)

        def hessian(W: np.ndarray, bound: bool) -> SampledHessian:
            return SampledHessian(sample, W, loss, alpha, bound)

        label, passes = ["gradient"], [0]

        def remark(now: Descent) -> None:
            label[0] = f"gradient|loss {now.value:.4g}, gap {now.gap:.1g}"

        start = np.zeros((D + self.intercept, targets.width))
        unit = _UNIT * float(over_sample(start, None, (0.0,), 1).losses[0])
        options: dict[str, Any] = {"unit": unit, "shifts": loss.shift_free}
        pilot = descend(over_sample, start, hessian, tol=_PILOT_GAP, most=_PILOT_STEPS, **options)
        found = descend(
            over_rows, pilot.weights, hessian, tol=self.tol, most=self.max_passes, remark=remark, **options
        )
        if not np.isfinite(found.weights).all():
            raise InputError(
                "the weights are no longer numbers: scale rows and targets, or take a larger alpha"
            )
        if found.gap > self.tol:
            warnings.warn(
                f"the loss after {passes[0]} passes may be {found.gap:.2g} of itself above its least, more than tol={self.tol:g}; "
                "more passes (max_passes), columns in like units (StreamingScaler) or a larger alpha would help",
                ConvergenceWarning,
                stacklevel=4,
            )
        intercept = found.weights[-1] if self.intercept else np.zeros(targets.width)
        if shift is not None:
            intercept = intercept - shift @ found.weights[:D]
        return Fitted(found, found.weights[:D], intercept, alpha, loss, passes[0])

    def _chosen(self, sample: SampledRows, rows: Rows) -> dict[str, np.ndarray]:
        """Penalty, epsilon, shift, and whether products are made in float64, chosen on the sample."""
        Z, weight = sample.Z[:, : rows.n_features], sample.weight
        loss = self.loss
        if self.choose_epsilon:  # one for each target
            epsilons = [with_epsilon(loss, Y[:, None], weight).epsilon for Y in sample.Y.T]
            loss = replace(loss, epsilon=np.array(epsilons) if len(epsilons) > 1 else epsilons[0])
        sizes = column_sizes(Z, weight, None)
        apart = unlike(sizes, APART)
        alpha = self.alpha
        if alpha is None:
            smoothness = loss.smoothness
            assert smoothness is not None
            wide = Z.astype(np.float64) if apart is not None else Z
            alpha = sample_alpha(
                wide, sample.Y, weight * len(weight), sum(rows.blocks), self.seed, apart, None, loss, smoothness
            )
        mean = weight @ Z.astype(np.float64)
        spread = np.sqrt(np.maximum(weight @ np.square(Z - mean, dtype=np.float64), 0.0))
        far = bool((np.abs(mean) > _FAR * spread).any())
        shift = mean if far and self.intercept and not rows.sparse else np.zeros(rows.n_features)
        exact = np.array(far or apart is not None)
        return {"alpha": np.array(alpha), "epsilon": np.asarray(loss.epsilon), "exact": exact, "shift": shift}

    def _steps(self, arrays: Sequence[Any], targets: Targets, folds: Any) -> Checkpoint:
        """Open the checkpoint, and check that it belongs to this fit to these rows."""
        if self.checkpoint is None:
            return Checkpoint(None, {})
        X = arrays[0]
        job = {
            "kind": "newton", "rows": int(X.shape[0]), "columns": int(X.shape[1]), "dtype": working_dtype(X.dtype).name,
            "weighted": len(arrays) > 2, "loss": self.loss.name, "alpha": self.alpha, "intercept": self.intercept,
            "epsilon": None if self.choose_epsilon else float(self.loss.epsilon), "seed": self.seed,
            "held_out": [self.rule.n_folds, self.rule.given],
            "class_weight": None if targets.class_weight is None else targets.class_weight.tolist(),
        }  # fmt: skip
        steps = Checkpoint(self.checkpoint, job)
        check_same_rows(steps, arrays, targets, self.seed, folds)
        return steps


def _plain(epsilon: np.ndarray) -> Any:
    return float(epsilon) if epsilon.ndim == 0 else epsilon


def _points(
    rows: SampledRows, loss: Loss, W: np.ndarray, d: np.ndarray | None, steps: tuple[float, ...], slopes: int
) -> Points:
    """What a pass gives, on the sampled rows."""
    here, along = rows.scores(W), None if d is None else rows.scores(d)
    losses, gradients = [], []
    for i, t in enumerate(steps):
        value, slope = loss(here if along is None else here - t * along, rows.Y)
        losses.append(rows.weight @ value)
        if i < slopes:
            weighted = (slope * rows.weight[:, None]).astype(rows.Z.dtype)
            gradients.append(np.asarray(rows.Z.T @ weighted, dtype=np.float64))
    return Points(np.array(losses), np.array(gradients))
