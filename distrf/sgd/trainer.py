"""The loop over epochs and batches: steps, history, stopping, the best epoch, checkpoints.

The trainer knows neither Dask nor what is learned. DaskBatches or LocalBatches compute gradients, an optimizer makes steps.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..checkpoint import Checkpoint
from ..progress import current_listener
from .batch_work import Sums
from .optimizer import OptimizerState
from .rows import Rows
from .schedules import Batch, Schedule

_TINY = float(np.finfo(float).tiny)
#: Below, "the constant" is the constant prediction that training starts from.
#: Steps are too long if the loss of a batch exceeds this many times that of the constant, both on the rows of the batch
#: and on all rows.
_DIVERGED = 3.0
#: Steps are too long if the loss of an epoch exceeds that of the best epoch by this share of the constant's loss.
_ROSE = 0.02
#: A solution whose loss exceeds this share of the constant's loss is compared with the constant on all rows.
_DOUBTFUL = 0.9
#: Nor does the loss of an epoch tell that of its last weights where a batch has had this many times the mean weight. Where steps were made
#: this short since, as they are where the sample that sets them lacks such rows, little is learned from all others.
_HEAVY, _SHORT = 2.0, 0.1
#: More epochs would help if the last `_LAST` of them gained more than the share `_UNFINISHED` of the constant's loss.
_LAST, _UNFINISHED = 3, 0.01


@dataclass
class TrainerState:
    """How far training is: what a checkpoint keeps beside the optimizer's state.

    loss, null, penalty : sums over the batches of this epoch: of the loss, of the loss of the constant prediction that
        training starts from, and of the penalty at the weights of each batch
    null_loss : mean loss of the constant prediction in the last epoch
    first_ratio : loss of the first batch over that of the constant, at least 1
    best, best_epoch : the measure of the best epoch so far, see `Trainer._measure`, and its number from 1
    waited : epochs since the last one that was better by more than the tolerance
    heaviest : the largest mean weight of a batch, in units of that of all rows
    """

    epoch: int = 0
    batch: int = 0  # batches done in this epoch
    loss: float = 0.0  # weighted sums over the batches of this epoch
    weight: float = 0.0
    null: float = 0.0
    penalty: float = 0.0
    rows: int = 0
    null_loss: float | None = None
    first_ratio: float | None = None
    best: float | None = None
    best_epoch: int = 0
    waited: int = 0
    heaviest: float = 0.0
    stopped: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Rules:
    """When training ends, and what it returns.

    n_epochs : the most epochs; tol, patience : stop after `patience` epochs without a relative gain of `tol` (None: never)
    keep_best : whether the solution is the best epoch, else the last
    guarded : whether the solution must beat the constant prediction that training starts from. If so, steps are shortened
        when the loss of a batch or an epoch rises, and the constant is returned if no epoch beats it
    """

    n_epochs: int
    tol: float | None
    patience: int
    keep_best: bool = False
    guarded: bool = False


@dataclass
class Trainer:
    """Takes one optimizer step for each batch until the rules end training.

    batches : DaskBatches or LocalBatches; schedule : which rows a batch has
    optimizer : PreconditionedSGD, or another with its methods
    whole : whether a batch is all rows. The loss of an epoch is then that of the weights before its only step
    mean_weight : mean weight of the training rows
    validates : whether epochs are judged by held-out rows
    rows : of which training and held-out rows are scored
    every : batches between two states of the checkpoint
    fallback : the weights to return to when training diverges: of the best epoch with `keep_best`, else of the last. Those
        of epoch 0 are the constant prediction
    measured : with `whole`, the weights to which the loss of the last epoch belongs
    null_loss : mean loss of the constant prediction over all rows or a sample; a single batch may lack a rare class
    """

    batches: Any
    schedule: Schedule
    optimizer: Any
    state: Any  # of the optimizer's kind
    rules: Rules
    mean_weight: float
    rows: Rows
    validates: bool = False
    whole: bool = False
    checkpoint: Checkpoint = field(default_factory=lambda: Checkpoint(None, {}))
    every: int = 1
    training: TrainerState = field(default_factory=TrainerState)
    fallback: np.ndarray | None = None
    measured: np.ndarray | None = None
    null_loss: float = 0.0

    def __post_init__(self) -> None:
        self.first = self.optimizer.solution(self.state)  # of epoch 0

    def resume(self) -> bool:
        """Continue from the state in the checkpoint. Returns False if it has none."""
        state = self.checkpoint.state()
        if state is None:
            return False
        arrays, numbers = state
        self.fallback = arrays.pop("kept")
        self.state = type(self.state)(**arrays, **numbers["state"])
        self.training = TrainerState(**numbers["training"])
        self.training.stopped = self._done()
        return True

    def run(self) -> None:
        """Train. Afterwards `solution` has the weights and `training.history` the epochs."""
        p = self.training
        if self.fallback is None:
            self.fallback = self.optimizer.solution(self.state).copy()
        self.batches.begin(self._sequence(p.epoch, p.batch))
        while not p.stopped and p.epoch < self.rules.n_epochs:
            started, count = time.perf_counter(), self.schedule.count(p.epoch)
            while p.batch < count:
                result = self.batches.gradient(self.state.weights)
                assert result is not None
                epoch, batch, sums = result
                assert epoch == p.epoch
                if self._advance(batch, sums) and p.batch % self.every == 0 and p.batch < count:
                    self._keep()
            self._end_epoch(time.perf_counter() - started)
            if p.stopped and self.rules.guarded and self.rules.keep_best:
                self._conclude()
            self._keep()

    def _conclude(self) -> None:
        """Take the weights after the last step of all rows, which no epoch has measured, or the constant, where they are the best."""
        p, last, null = self.training, self.optimizer.solution(self.state), self.training.null_loss or 0.0
        assert self.fallback is not None
        if self.whole and (p.best is None or self._measure(last, self._objective(last)) <= p.best):
            self.fallback, p.best_epoch = last.copy(), p.epoch
        # One batch with most of the weight may undo what the loss of the epoch has measured.
        clear = (
            p.best_epoch > 0 and p.history[p.best_epoch - 1]["loss"] < _DOUBTFUL * null and p.heaviest < _HEAVY
        )
        if not clear and null > 0 and not self._objective(self.fallback) < null:
            self.fallback, p.best_epoch = self.first, 0

    def _objective(self, weights: np.ndarray) -> float:
        """Mean loss plus penalty over all training rows. This reads them once."""
        return self.rows.loss(self.batches.work, weights, held=False) + self.optimizer.penalty_value(weights)

    @property
    def solution(self) -> np.ndarray:
        """The weights of the best or the last epoch, as the rules say; those of the constant, epoch 0, if no epoch beat it."""
        p = self.training
        best = self.rules.keep_best and (p.best is not None or self.rules.guarded)
        return self.fallback if best and self.fallback is not None else self.optimizer.solution(self.state)

    @property
    def epoch_of_solution(self) -> int:
        """The number of the epoch that `solution` belongs to, from 1; 0 before the first has ended."""
        p = self.training
        return p.best_epoch if self.rules.keep_best else p.epoch

    def _sequence(self, epoch: int, done: int) -> Iterator[tuple[int, Batch]]:
        for e in range(epoch, self.rules.n_epochs):
            for b, batch in enumerate(self.schedule.batches(e)):
                if e > epoch or b >= done:
                    yield e, batch

    def _keep(self) -> None:
        state: OptimizerState = self.state
        assert self.fallback is not None
        numbers = {"state": state.numbers, "training": vars(self.training)}  # written at once, so not copied
        self.checkpoint.keep(state.arrays | {"kept": self.fallback}, numbers)

    def _advance(self, batch: Batch, sums: Sums) -> bool:
        """Take one step. Returns False if the loss of the batch shows that steps are too long: it is then skipped."""
        p = self.training
        p.batch += 1
        p.rows += batch.rows
        weight = max(sums.weight, _TINY)
        mean, null = sums.loss / weight, sums.null / weight
        if p.first_ratio is None and sums.weight > 0:
            p.first_ratio = max(1.0, mean / null) if null > 0 and np.isfinite(mean) else 1.0
        p.null += sums.null
        p.weight += sums.weight
        most = _DIVERGED * (p.first_ratio or 1.0) * max(null, self.null_loss) + _TINY
        p.heaviest = max(p.heaviest, weight / (batch.rows * self.mean_weight))
        too_long = self.rules.guarded and mean > most
        if too_long or not (np.isfinite(mean) and np.isfinite(sums.gradient.sum())):
            assert self.fallback is not None
            if np.array_equal(self.state.weights, self.fallback):  # then no step from there is to blame
                self.fallback, p.best, p.best_epoch = self.first.copy(), None, 0
            self.optimizer.back_off(self.state, self.fallback, mean)
            p.loss += max(sums.loss, sums.null) if np.isfinite(mean) else _DIVERGED * sums.null
            self._add_penalty(weight)
            return False
        p.loss += sums.loss
        if self.whole:
            self.measured = self.optimizer.solution(self.state).copy()
        self._add_penalty(weight)
        self.optimizer.step(self.state, sums.gradient / (batch.rows * self.mean_weight), batch.rows, self.whole)
        listener = current_listener()
        if listener is not None:
            label = f"epoch {p.epoch + 1}/{self.rules.n_epochs}"
            listener(f"{label}|loss {mean:.4g}", p.rows, self.schedule.n_rows)
        return True

    def _add_penalty(self, weight: float) -> None:
        """Count the penalty at the weights of a batch; every batch that `weight` counts has one."""
        if self.rules.guarded:
            self.training.penalty += weight * self.optimizer.penalty_value(self.state.weights)

    def _end_epoch(self, seconds: float) -> None:
        """Note the epoch, compare it with the best one, and decide how to go on."""
        p, rules, weights = self.training, self.rules, self.optimizer.solution(self.state)
        if self.measured is not None and rules.guarded:
            weights = self.measured
        # Epochs are compared by loss plus penalty, so both must belong to the same weights.
        penalty = p.penalty / p.weight if rules.guarded and p.weight else self.optimizer.penalty_value(weights)
        objective = float((p.loss / p.weight if p.weight else np.inf) + penalty)
        measure = self._measure(weights, objective)
        null = p.null / p.weight if p.weight else 0.0
        lowest = null if p.best_epoch == 0 else min(null, p.history[p.best_epoch - 1]["loss"])
        rose = rules.guarded and objective > lowest + _ROSE * null
        p.epoch += 1
        p.history.append(
            {
                "epoch": p.epoch,
                "loss": objective,
                "validation_loss": measure if self.validates else None,
                "seconds": round(seconds, 4),
                "rows": p.rows,
                "batches": p.batch,
            }
        )
        p.batch, p.rows, p.loss, p.weight, p.null, p.penalty = 0, 0, 0.0, 0.0, 0.0, 0.0
        p.null_loss = null
        gain = (rules.tol or 0.0) * max(abs(p.best), 1e-12) if p.best is not None else 0.0
        p.waited = 0 if p.best is None or measure < p.best - gain else p.waited + 1
        better = (p.best is None or measure <= p.best) and np.isfinite(objective)
        if better and (self.validates or not rose):
            p.best, p.best_epoch = measure, p.epoch
        if p.best_epoch == p.epoch or not rules.keep_best:
            self.fallback = weights.copy()
        p.stopped = self._done()
        if rose and not p.stopped:
            assert self.fallback is not None
            self.optimizer.back_off(self.state, self.fallback, objective)

    def _measure(self, weights: np.ndarray, objective: float) -> float:
        """By what epochs are compared: the mean loss of held-out rows, without any the training objective.

        Of equal ones the later epoch is better; digits beyond the twelfth are rounding.
        """
        loss = self.rows.loss(self.batches.work, weights, held=True) if self.validates else objective
        return float(f"{loss:.12g}")

    def _done(self) -> bool:
        p, rules = self.training, self.rules
        return p.epoch >= rules.n_epochs or (rules.tol is not None and p.waited >= rules.patience)


def warn_unconverged(trainer: Trainer, name: str, stacklevel: int = 3) -> None:
    """Raise a ConvergenceWarning, with numbers and remedy, if the history shows that training failed or ended too soon."""
    p = trainer.training
    if not p.history or p.null_loss is None:
        return
    losses, null = [entry["loss"] for entry in p.history], max(p.null_loss, _TINY)
    gained = (losses[-1 - _LAST] - losses[-1]) / null if p.epoch > _LAST and p.waited == 0 else 0.0
    remedy = "if the columns do tell of y, scale them or bring in their tails, or take another loss or a larger alpha"
    if p.heaviest > _HEAVY:
        remedy = f"a batch had {p.heaviest:.2g} times the mean weight; StreamingRidge and fits by passes weigh such rows as they are"
    if p.best_epoch == 0 and trainer.rules.keep_best:
        warning = (
            f"no epoch was better than a constant, whose loss is {null:.4g} (theirs {min(losses):.4g} at least): the constant is what is "
            f"kept; {remedy}"
        )
    elif p.heaviest > _HEAVY and getattr(trainer.state, "scale", 1.0) < _SHORT:
        warning = f"steps are {1.0 / trainer.state.scale:.0f} times shorter than without them, and learn little; {remedy}"
    elif gained > _UNFINISHED:
        warning = (
            f"the loss still falls after {len(losses)} epochs: to {losses[-1]:.4g} in the last {_LAST}, by {gained:.1%} of that of "
            f"a constant; raise n_epochs (now {len(losses)}), or take a larger alpha"
        )
    else:
        return
    warnings.warn(f"{name}: {warning}", ConvergenceWarning, stacklevel=stacklevel)
