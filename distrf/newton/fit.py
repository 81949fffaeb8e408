"""A fit by passes: a pilot on sampled rows, then steps that each take one pass over all rows."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cholesky
from sklearn.exceptions import ConvergenceWarning

from ..checkpoint import Checkpoint
from ..errors import InputError
from ..execution.passes import run_pass
from ..execution.row_blocks import row_bytes, rows_per_block
from ..folds import GivenFolds
from ..losses import Loss, Squared
from ..ridge.gram import ALL_ROWS, FIRST_GIVEN, FoldRule
from ..ridge.normal_equations import Solution
from ..sgd.alpha import sample_alpha
from ..sgd.rows import Rows, open_checkpoint
from ..sgd.spectrum import check_sizes, far_means, target_units_of, with_epsilon
from ..targets import Targets
from .descent import Descent, descend, penalised
from .hessian import SampledHessian, SampledRows
from .line import LineReduction, Points, sampled_points
from .sample import draw_sample

#: Gap at which the pilot ends, the most steps that it takes, and the factor below which it renews its Hessian. On the sample a step
#: costs less than a Hessian, and one for all outputs is enough: of 26 classes the pilot takes 7 s for 46.
_PILOT: dict[str, Any] = {"tol": 3e-4, "most": 200, "slow": 1.2, "exact": True}
#: How near the descent of `doubt` on the sample comes to its least, as a share of the gap, and the most steps that it takes.
_NEAR, _LOOKS = 0.1, 30
#: One of so many folds is held out for calibration.
HELD_OUT = 10
#: Gaps are shares of the loss, or where that is less of this share of the loss without weights.
_UNIT = 1e-4
_TINY = float(np.finfo(float).tiny)
#: Sparse rows of a sample at most by which alpha is chosen.
_TURNED = 3_000
#: Damping of so much takes the largest second derivative of the loss for that of each row.
_WHOLE = 100.0
#: Sizes of columns that are smaller by this factor are lost in rounding, and alpha with them.
_LOST = 1e6


@dataclass(frozen=True)
class Newton:
    """How a model is fitted.

    loss : Loss, smooth; alphas : list of float, of several the one nearest to what the sample says, None takes that; choose_epsilon : whether that of the loss is chosen, too
    tol : estimated gap at which the descent ends, as a share of the objective; max_passes : most passes over the features
    rule : FoldRule, of which fold 0 is not trained on; see `held_out_rule`
    checkpoint : folder that keeps the sums of each pass, from which the same call resumes to the same bits
    """

    loss: Loss
    alphas: list[float] | None
    choose_epsilon: bool
    intercept: bool
    tol: float
    max_passes: int
    seed: int
    rule: FoldRule = ALL_ROWS
    checkpoint: str | os.PathLike[str] | None = None

    def fit(
        self, arrays: Sequence[Any], targets: Targets, folds: GivenFolds | None = None
    ) -> tuple[Descent, Solution, Loss]:
        """The descent over [features, targets] or [features, targets, weights], its solution, and the loss with its epsilon.

        Alpha is chosen by fold 0 of the sample, or a third.
        """
        rows = Rows.of(arrays[0], arrays[1], arrays[2] if len(arrays) > 2 else None, folds)
        steps = self._steps(rows, targets)
        passed = [*arrays, folds.values] if folds is not None and self.rule.given else list(arrays)
        sample = draw_sample(rows, targets, self.intercept, self.seed, self.rule)
        chosen = steps.run(lambda _: self._chosen(sample, rows, targets))
        loss, alpha, units = replace(self.loss, epsilon=_plain(chosen["epsilon"])), float(chosen["alpha"]), None
        if (chosen["units"] != 1.0).any():
            units = chosen["units"]
            targets, sample = replace(targets, units=units), replace(sample, Y=sample.Y * units)
        D, shift = rows.n_features, chosen["shift"] if chosen["shift"].any() else None
        if shift is not None:
            sample.Z[:] = sample.Z - shift

        def over_sample(W: np.ndarray, d: np.ndarray | None, t: tuple[float, ...], slopes: int) -> Points:
            return penalised(sampled_points(sample, loss, W, d, t, slopes), W, d, t, alpha, self.intercept)

        def over_rows(W: np.ndarray, d: np.ndarray | None, t: tuple[float, ...], slopes: int) -> Points:
            reduction = LineReduction(
                D, targets, loss, self.intercept, self.rule, t, slopes, bool(chosen["exact"]), W, d, shift
            )
            state = steps.once(lambda: run_pass(reduction, passed, label=label[0], block_rows=block))
            if not state[0] > 0:
                raise InputError("sample_weight must not be zero everywhere")
            return penalised(reduction.points(state), W, d, t, alpha, self.intercept)

        start = np.zeros((D + self.intercept, targets.width))

        def hessian(W: np.ndarray, damping: float) -> SampledHessian:
            return SampledHessian(sample, loss, alpha, W, damping, min(1.0, damping / _WHOLE) ** 2)

        def alone(
            W: np.ndarray, damping: float, shared: bool = False
        ) -> SampledHessian:  # the sample is all rows
            return SampledHessian(sample, loss, alpha, W, least=float(damping > 0), shared=shared)

        label, block = ["gradient"], rows_per_block(row_bytes(arrays[0]))

        def remark(now: Descent) -> None:
            label[0] = f"gradient|loss {now.value:.4g}, gap {now.gap:.1g}"

        unit = _UNIT * float(over_sample(start, None, (0.0,), 1).losses[0])
        fall = partial(descend, unit=unit, shifts=loss.shift_free, quadratic=isinstance(loss, Squared))
        pilot = fall(over_sample, start, partial(alone, shared=True), **_PILOT)
        doubt = partial(_tilted_fall, over_sample, partial(fall, hessian=alone))
        found = fall(
            over_rows, pilot.weights, hessian, tol=self.tol, most=self.max_passes, remark=remark, doubt=doubt
        )
        if not np.isfinite(found.weights).all():
            raise InputError("weights are no longer numbers: scale rows and targets, or raise alpha")
        if found.gap > self.tol:
            self._warn_unfinished(found.gap, found.looks)
        weights = targets.decode(found.weights)
        intercept = weights[-1] if self.intercept else np.zeros(targets.width)
        intercept = intercept - (0.0 if shift is None else shift @ weights[:D])
        epsilon = chosen["epsilon"] if units is None else chosen["epsilon"] / units
        loss = replace(self.loss, epsilon=_plain(epsilon)) if self.choose_epsilon else self.loss
        return found, Solution(alpha, weights[:D], intercept), loss

    def _warn_unfinished(self, gap: float, passes: int) -> None:
        warnings.warn(
            f"the loss after {passes} passes may be {gap:.2g} of itself above its least, more than tol={self.tol:g}; "
            "more passes (max_passes), columns in like units (StreamingScaler) or a larger alpha would help",
            ConvergenceWarning,
            stacklevel=4,
        )

    def _chosen(self, sample: SampledRows, rows: Rows, targets: Targets) -> dict[str, np.ndarray]:
        """Penalty, epsilon, units of targets, shift, and whether products are made in float64, chosen on the sample."""
        Z, Y, weight = sample.Z, sample.Y, sample.weight
        units, loss = None if targets.classes is not None else target_units_of(Y, weight), self.loss
        if units is not None:
            Y, loss = Y * units, replace(loss, epsilon=loss.epsilon * units)
        if self.choose_epsilon:  # one for each target
            epsilons = [with_epsilon(self.loss, column[:, None], weight).epsilon for column in Y.T]
            loss = replace(loss, epsilon=np.array(epsilons) if len(epsilons) > 1 else epsilons[0])
        apart, unlike = (1.0, False) if sp.issparse(Z) else check_sizes(Z, None, _LOST)
        alpha = self.alphas[0] if self.alphas and len(self.alphas) == 1 else None
        if alpha is None:
            alpha = self._sampled_alpha(replace(sample, Y=Y), sum(rows.blocks), loss, apart)
        mean, far = far_means(Z, weight)
        shift = mean if far and self.intercept and not rows.sparse else np.zeros(rows.n_features)
        units = np.ones(Y.shape[1]) if units is None else units
        made = {"alpha": alpha, "epsilon": loss.epsilon, "exact": far or unlike, "shift": shift, "units": units}
        return {name: np.asarray(value) for name, value in made.items()}

    def _sampled_alpha(self, sample: SampledRows, n: int, loss: Loss, apart: float) -> float:
        """What the sample says of alpha for n rows, or the one of several that is nearest to it."""
        Z, step = sample.Z, 1
        if sp.issparse(Z):  # rows of fewer columns that have the same products
            step = -(-Z.shape[0] // _TURNED)
            gram = (Z[::step].astype(np.float64) @ Z[::step].T).toarray()
            gram.ravel()[:: len(gram) + 1] += 1e-10 * max(gram.trace(), _TINY) / len(gram)
            Z = cholesky(gram, lower=True, check_finite=False)
        assert loss.smoothness is not None
        weight, folds = len(sample.weight) * sample.weight[::step], sample.folds
        folds = None if folds is None else folds[::step]
        alpha = sample_alpha(Z, sample.Y[::step], weight, n, self.seed, folds, loss, loss.smoothness, apart)
        return alpha if not self.alphas else min(self.alphas, key=lambda a: abs(np.log(max(a, _TINY) / alpha)))

    def _steps(self, rows: Rows, targets: Targets) -> Checkpoint:
        """Open the checkpoint, and check that it belongs to this fit to these rows."""
        options = {
            "kind": "newton", "loss": self.loss.name, "alphas": self.alphas, "intercept": self.intercept,
            "epsilon": None if self.choose_epsilon else float(self.loss.epsilon),
            "held_out": [self.rule.n_sets, self.rule.given],
        }  # fmt: skip
        return open_checkpoint(self.checkpoint, lambda: options, rows, targets, self.seed)


def _tilted_fall(over_sample: Any, fall: Any, W: np.ndarray, slope: np.ndarray, gap: float) -> float:
    """What the loss of the sample is above its least, once it is tilted to have the gradient that all rows have at W."""
    tilt = slope - over_sample(W, None, (0.0,), 1).slopes[0]

    def tilted(V: np.ndarray, d: np.ndarray | None, t: tuple[float, ...], slopes: int) -> Points:
        points: Points = over_sample(V, d, t, slopes)
        points.slopes += tilt
        points.losses += [float((tilt * (V - W - (0.0 if d is None else s * d))).sum()) for s in t]
        return points

    low = fall(tilted, W, **_PILOT | {"tol": _NEAR * gap, "most": _LOOKS})
    return float(low.history[0]["loss"] - low.value + low.gap * abs(low.value))


def held_out_rule(folds: GivenFolds | None, seed: int) -> FoldRule:
    """The rule by which fold 0 is not trained on: a tenth of the rows, or that of given folds, which are then the last array."""
    return FoldRule(2, 1, HELD_OUT, seed) if folds is None else FIRST_GIVEN


def _plain(epsilon: np.ndarray) -> Any:
    return float(epsilon) if epsilon.ndim == 0 else epsilon
