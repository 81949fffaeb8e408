"""What `partial_fit` carries from one call to the next, and when it measures steps and scales again."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from ..execution.sampling import sampled_rows
from ..sgd.batch_work import RIGHT, WEIGHT, BatchWork, score_sums, stack_rows
from ..sgd.optimizer import Penalty, PreconditionedSGD, SGDState
from ..sgd.rows import Rows, Weights
from ..sgd.trainer import TrainerState
from ..targets import Targets, float_columns

#: Most rows that are kept to measure on, and most bytes of them.
_KEPT_ROWS, _KEPT_BYTES = 256, 2**24
#: Steps and scales are measured again whenever the number of rows has doubled, until they come from this many rows.
ENOUGH = 128
#: Fewest rows that can show that the weights are wrong: fewer may be outliers.
_TELLING = 32
#: The spectrum is measured again if the loss on new rows exceeds `_FAR` times that of the best constant, or if the median
#: residual exceeds `_FAR` times its spread. Training starts anew if the loss then still exceeds `_LOST` times the former.
_FAR, _LOST = 10.0, 3.0
#: The most rows of all calls that are kept, after how many new rows they are predicted again, and above how many times the
#: loss of the best constant a warning says that they are forgotten. This costs 2 % of the training between two checks.
_PAST_ROWS, _LOOK, _FORGOTTEN = 128, 512, 1.2


class Sample(NamedTuple):
    """A few rows in memory: features of shape (s, D), targets, and weights or None."""

    Z: Any
    y: np.ndarray
    weight: np.ndarray | None

    def last(self, count: int) -> Sample:
        """The newest rows."""
        return self.at(slice(max(0, self.Z.shape[0] - count), None))

    def centre(self) -> np.ndarray:
        """The mean of the targets, shape (C,)."""
        return np.average(float_columns(self.y), axis=0, weights=self.weight)

    def joined(self, newer: Sample) -> Sample:
        """These rows followed by newer ones."""
        weight = None
        if self.weight is not None or newer.weight is not None:
            weight = np.concatenate(
                [np.ones(len(s.y)) if s.weight is None else s.weight for s in (self, newer)]
            )
        return Sample(stack_rows([self.Z, newer.Z]), stack_rows([self.y, newer.y]), weight)

    def at(self, rows: Any) -> Sample:
        """Some of the rows."""
        return Sample(self.Z[rows], self.y[rows], None if self.weight is None else self.weight[rows])

    @property
    def heavy(self) -> bool:
        """Whether any row has a weight above 0."""
        return self.weight is None or bool(self.weight.any())

    @property
    def varies(self) -> bool:
        """Whether the targets of rows with a weight above 0 differ by more than rounding."""
        y = self.y if self.weight is None else self.y[self.weight > 0]
        if y.dtype.kind not in "iufb":
            return len(np.unique(y)) > 1
        y = float_columns(y)
        return bool(len(y)) and bool((np.ptp(y, axis=0) > 1e-12 * np.abs(y).max(axis=0)).any())


def _most_rows(D: int) -> int:
    """The most rows that are kept, if they have D features."""
    return int(min(_KEPT_ROWS, max(_TELLING, _KEPT_BYTES // (8 * D))))


def newest_rows(rows: Rows, seed: int) -> Sample:
    """A few seeded rows of a call; CSR rows stay CSR if they are in memory."""
    most = _most_rows(rows.n_features)
    if rows.lazy:
        return Sample(*rows.sample(most, seed))
    indices = sampled_rows(sum(rows.blocks), most, seed, "sgd sample")
    taken = [a[indices] for a in rows.arrays]
    finite = np.isfinite(np.asarray(taken[0].sum(axis=1, dtype=np.float64)).ravel())
    return Sample(*taken, *([None] if len(taken) == 2 else [])).at(finite)


@dataclass(frozen=True)
class Past:
    """A few rows spread evenly over all calls: one of every `step` rows.

    looked : number of rows seen when these were last predicted; None after the warning that they are forgotten
    """

    rows: Sample
    step: int = 1
    looked: int | None = 0

    def extended(self, newest: Sample, n: int, seen: int) -> Past:
        """These rows and some of the newest call. newest : rows of that call; n : how many it had; seen : of all calls"""
        count = min(len(newest.y), seen // self.step - (seen - n) // self.step)
        if sp.issparse(self.rows.Z) != sp.issparse(newest.Z) or not count:
            return self
        spread = np.linspace(0, len(newest.y) - 1, count).astype(int)
        rows, step = self.rows.joined(newest.at(spread)), self.step
        while len(rows.y) > min(_PAST_ROWS, _most_rows(rows.Z.shape[1])):
            rows, step = rows.at(slice(None, None, 2)), 2 * step
        return replace(self, rows=rows, step=step)


@dataclass(frozen=True)
class Call:
    """The rows of one call of `partial_fit`.

    newest : a few of these rows, in memory; seed : of all draws
    """

    rows: Rows
    weights: Weights
    targets: Targets
    newest: Sample
    seed: int

    @property
    def count(self) -> int:
        """The number of rows."""
        return sum(self.rows.blocks)


@dataclass(frozen=True)
class Seen:
    """What is known of the rows of all calls so far.

    rows, weight : their number and total weight; window : the newest of them; past : some, spread over all calls
    """

    rows: int
    weight: float
    window: Sample
    past: Past

    @classmethod
    def of(cls, call: Call, before: Seen | None) -> Seen:
        """The rows before the call, None if it is the first, and those of the call."""
        n, newest = call.count, call.newest
        if before is None:
            past = Past(newest.at(slice(0))).extended(newest, n, n)
            return cls(n, n * call.weights.mean, newest, past)
        window, rows = newest, n + before.rows
        if sp.issparse(before.window.Z) == sp.issparse(newest.Z):
            window = before.window.joined(newest).last(_most_rows(newest.Z.shape[1]))
        past = before.past.extended(newest, n, rows)
        return cls(rows, n * call.weights.mean + before.weight, window, past)

    def without_past(self, call: Call) -> Seen:
        """The same counts and window, but of the rows spread over all calls only those of this call."""
        empty = Past(call.newest.at(slice(0)), looked=self.rows)
        return replace(self, past=empty.extended(call.newest, call.count, self.rows))


@dataclass
class Stream:
    """What `partial_fit` carries from one call to the next. It is pickled with the estimator.

    seen : the rows of all calls; batch_rows : rows of a batch
    penalty : an automatic penalty times the rows it was chosen on, since it falls as one over the rows seen; else None
    measured : number of rows on which the spectrum was measured; null_loss : mean loss of the constant on them
    """

    work: BatchWork
    optimizer: PreconditionedSGD
    state: SGDState
    training: TrainerState
    seen: Seen
    batch_rows: int
    penalty: Penalty | None
    null_loss: float
    measured: int

    def warn_forgotten(self, name: str, stacklevel: int) -> None:
        """Every 512 rows, predict the rows of `past`; warn once if the weights are worse there than a constant."""
        past, rows = self.seen.past, self.seen.rows
        sample = past.rows
        if past.looked is None or rows - past.looked < _LOOK or not (sample.heavy and sample.varies):
            return
        self.seen = replace(self.seen, past=replace(past, looked=rows))
        Y, scores, weight = self._predicted(sample)
        loss = self.work.loss
        mean = float(np.average(loss(scores, Y)[0], weights=weight))
        best = np.broadcast_to(self._best_constant(Y, weight), Y.shape)
        constant = float(np.average(loss(best, Y)[0], weights=weight))
        sums = score_sums(self.work.targets, loss, scores, Y, weight)
        right, most = sums[RIGHT, 0] / sums[WEIGHT, 0], self._shares(Y, weight).max()
        # Early in training, hinge losses may be large although the labels are correct.
        if mean <= _FORGOTTEN * constant or (self.work.targets.classes is not None and right >= most):
            return
        self.seen = replace(self.seen, past=replace(past, looked=None))
        warnings.warn(
            f"{name}: after {rows} rows the weights predict {len(sample.y)} rows of all calls worse than a constant: "
            f"their loss is {mean:.4g}, that of the best constant {constant:.4g}. So rows come in an order, of y or of "
            "another column, or what they are drawn from moves; shuffle them before they are cut into calls, or use fit",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )

    def _best_constant(self, Y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        """The constant scores of least mean loss over encoded targets, shape (C,)."""
        work = self.work
        if not work.constant:
            return np.zeros(work.targets.width)
        if work.targets.classes is None:
            mean = np.average(Y, axis=0, weights=weight)
            return mean + work.loss.best_constant(Y - mean, np.ones(len(Y)) if weight is None else weight)
        return work.loss.best_constant_of_shares(np.clip(self._shares(Y, weight), 1e-9, 1.0 - 1e-9))

    def _shares(self, Y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        """The share of each class, from encoded targets (columns of -1 and 1)."""
        mean = np.average(Y, axis=0, weights=weight)
        return 0.5 + 0.5 * (np.append(-mean, mean) if len(mean) == 1 else mean)

    def sample_to_measure(self, newest: Sample, seen: Seen) -> Sample | None:
        """The rows on which to measure the spectrum again; None if the last measurement still holds.

        It does not hold if it came from too few rows, if a batch was skipped because its loss rose, or if the weights
        predict the newest rows so badly that these must differ from the rows before.

        Parameters
        ----------
        newest : Sample, of the call that begins
        seen : Seen, the rows of all calls, this one included
        """
        window = seen.window
        judging = newest if len(newest.y) >= _TELLING else window.last(_TELLING)
        enough = len(judging.y) >= _TELLING
        unlike = enough and (self._offset(judging).any() or self._exceeds(judging, window, _FAR))
        if unlike or self.training.backed:
            return judging if judging.heavy else None
        doubled = self.measured < ENOUGH and seen.rows >= 2 * self.measured
        return window if doubled and window.heavy else None

    def intercept_offset(self, sample: Sample, window: Sample) -> np.ndarray | None:
        """What to add to the intercepts, shape (C,) in units of the targets, so that the weights fit these rows.

        Zeros if the targets have not moved far; None if a constant is better than the weights even then.
        """
        offset = self._offset(sample)
        return None if self._exceeds(sample, window, _LOST, offset) else self.work.targets.decode(offset)

    def _offset(self, sample: Sample) -> np.ndarray:
        """The median residual of each target if it is more than `_FAR` spreads from zero, else 0: shape (C,)."""
        nothing = np.zeros(self.work.targets.width)
        if not self.work.constant or self.work.targets.classes is not None or not sample.varies:
            return nothing
        Y, scores, _ = self._predicted(sample)
        middle = np.median(Y - scores, axis=0)
        spread = np.median(np.abs(Y - scores - middle), axis=0)
        return np.where(np.abs(middle) > _FAR * spread, middle, nothing)

    def _exceeds(self, sample: Sample, window: Sample, times: float, added: Any = 0.0) -> bool:
        """Whether the loss on a sample exceeds `times` that of the constant, both on `window` and as measured before."""
        if not sample.heavy:
            return False
        Y, scores, weight = self._predicted(sample)
        mean = float(np.average(self.work.loss(scores + added, Y)[0], weights=weight))
        return not (mean <= times * self.null_loss or mean <= times * self._constant_loss(window))

    def _predicted(self, sample: Sample) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Encoded targets, scores in float64, and weights of the rows."""
        work, Z = self.work, self.work.moved(sample.Z)
        Y, weight = work.targets.encode(sample.y, sample.weight)
        return Y, work.scores(Z, self.optimizer.solution(self.state)), weight

    def _constant_loss(self, sample: Sample) -> float:
        """Mean loss on these rows of their best constant; of classes, of the constant that training started from."""
        targets, loss = self.work.targets, self.work.loss
        if targets.classes is None:
            Y, weight = replace(targets, centre=sample.centre()).encode(sample.y, sample.weight)
            best = loss.best_constant(Y, np.ones(len(Y)) if weight is None else weight)
        else:
            Y, weight = targets.encode(sample.y, sample.weight)
            best = np.zeros(targets.width) if self.work.start is None else self.work.start
        return float(np.average(loss(np.broadcast_to(best, Y.shape), Y)[0], weights=weight))
