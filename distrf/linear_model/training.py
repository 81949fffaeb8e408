"""The loop over rounds: steps, histories, stopping, checkpoints. Knows neither Dask nor how slices are made."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..blocks.progress import current_listener
from ..errors import InputError
from .checkpoints import Checkpoint
from .schedules import Round, Schedule
from .slices import validation_score
from .steps import State, Stepper

#: A round's loss this many times that of the first says that steps are too long.
_DIVERGED = 20.0
_MOST_HALVINGS = 30


@dataclass
class Progress:
    """Where training is: what a checkpoint keeps beside the solver's state."""

    epoch: int = 0
    round: int = 0  # rounds done in this epoch
    loss: float = 0.0  # weighted sums over the rounds of this epoch
    weight: float = 0.0
    rows: int = 0
    first_loss: float | None = None
    best: float | None = None
    waited: int = 0
    stopped: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Rules:
    """n_epochs at most; stop after `patience` epochs without a gain of `tol` (relative; None: never)."""

    n_epochs: int
    tol: float | None
    patience: int
    adaptive: bool
    classes: bool


@dataclass
class Trainer:
    """Runs rounds until the rules say stop.

    rounds : DaskRounds or LocalRounds; schedule : which rows; whole : whether a round is all rows
    mean_weight : total weight of the training rows over their number
    validation : blocks with rows that are held out; empty for none
    local_rows : rows of a local step, where rounds return averaged weights; 0 where they return gradients
    """

    rounds: Any
    schedule: Schedule
    stepper: Stepper
    state: State
    rules: Rules
    whole: bool
    mean_weight: float
    validation: list[int]
    checkpoint: Checkpoint | None = None
    local_rows: int = 0
    progress: Progress = field(default_factory=Progress)

    def run(self) -> None:
        """Train; the state and the history are left in place."""
        p = self.progress
        if p.stopped:
            return
        self.rounds.begin(self._sequence(p.epoch, p.round))
        left = self.schedule.count(p.epoch) - p.round
        started = time.perf_counter()
        good = self.stepper.solution(self.state).copy()
        while p.epoch < self.rules.n_epochs:
            if left > 0:
                numbers = {"t": self.state.t, "scale": self.state.scale} if self.local_rows else {}
                result = self.rounds.gradient(self.state.weights, **numbers)
                assert result is not None
                epoch, round_, (G, loss, weight, curved) = result
                assert epoch == p.epoch
                left -= 1
                if not self._advance(round_, G, loss, weight, curved, good):
                    continue
                if self.checkpoint is not None and p.round % self.checkpoint.every == 0 and left:
                    self.checkpoint.write(self.state, p)
                continue
            self._end_epoch(time.perf_counter() - started)
            if self.checkpoint is not None:
                self.checkpoint.write(self.state, p)
            if p.stopped:
                return
            good = self.stepper.solution(self.state).copy()
            left, started = self.schedule.count(p.epoch), time.perf_counter()

    def _sequence(self, epoch: int, done: int) -> Iterator[tuple[int, Round]]:
        for e in range(epoch, self.rules.n_epochs):
            for r, round_ in enumerate(self.schedule.rounds(e)):
                if e > epoch or r >= done:
                    yield e, round_

    def _advance(
        self, round_: Round, G: np.ndarray, loss: float, weight: float, curved: float, good: np.ndarray
    ) -> bool:
        """One step; False where the round showed that steps had become too long, and is left out."""
        p = self.progress
        p.round += 1
        p.rows += round_.rows
        mean = loss / max(weight, np.finfo(float).tiny)
        if p.first_loss is None and weight > 0:
            p.first_loss = mean
        if not np.isfinite(mean) or mean > _DIVERGED * max(p.first_loss or 0.0, 1e-3):
            self._back_off(mean, good)
            return False
        p.loss += loss
        p.weight += weight
        self.stepper.observe(self.state, curved / max(weight, np.finfo(float).tiny))
        if self.local_rows:
            steps = max(1, round(round_.rows / len(round_.parcels) / self.local_rows))
            self.stepper.move(self.state, G / round_.rows, steps)
        else:
            self.stepper.step(self.state, G / (round_.rows * self.mean_weight), round_.rows, self.whole)
        listener = current_listener()
        if listener is not None:
            label = f"epoch {p.epoch + 1}/{self.rules.n_epochs}"
            listener(f"{label}|loss {mean:.4g}", p.rows, self.schedule.n_rows)
        return True

    def _back_off(self, loss: float, good: np.ndarray) -> None:
        """Half the step, from the weights at the start of the epoch."""
        if self.stepper.rate not in ("auto", "adaptive") or self.state.scale < 2.0**-_MOST_HALVINGS:
            raise InputError(
                f"the loss rose to {loss:.3g} in round {self.state.t}: steps are too long or the features too "
                f"large; use learning_rate='auto' or a smaller eta0 (now {self.stepper.eta0}), or scale the rows"
            )
        self.state.scale *= 0.5
        self.state.weights = good.copy()
        self.state.velocity = np.zeros_like(good)
        self.state.average, self.state.averaged = np.zeros_like(good), 0

    def _end_epoch(self, seconds: float) -> None:
        p, rules = self.progress, self.rules
        weights = self.stepper.solution(self.state)
        loss = p.loss / p.weight if p.weight else np.inf
        score = None
        if self.validation:
            score = validation_score(self.rounds.validate(weights, self.validation), rules.classes)
        objective = loss + self._penalty(weights)
        p.history.append(
            {
                "epoch": p.epoch + 1,
                "loss": float(objective),
                "validation_score": score,
                "seconds": round(seconds, 4),
                "rows": p.rows,
                "rounds": p.round,
            }
        )
        p.epoch += 1
        p.round, p.rows, p.loss, p.weight = 0, 0, 0.0, 0.0
        measure = objective if score is None else 1.0 - score
        if rules.tol is None:
            p.stopped = p.epoch >= rules.n_epochs
            return
        if p.best is None or measure < p.best - rules.tol * max(abs(p.best), 1e-12):
            p.waited = 0
        else:
            p.waited += 1
        p.best = measure if p.best is None else min(p.best, measure)
        if p.waited >= rules.patience:
            if rules.adaptive and self.state.scale > 1e-4:
                self.state.scale /= 5.0
                p.waited = 0
            else:
                p.stopped = True
        p.stopped = p.stopped or p.epoch >= rules.n_epochs

    def _penalty(self, W: np.ndarray) -> float:
        s = self.stepper
        U = W[: len(W) - s.intercept]
        return s.alpha * (s.l1_ratio * float(np.abs(U).sum()) + (1 - s.l1_ratio) / 2 * float((U * U).sum()))


def warn_unconverged(progress: Progress, name: str) -> None:
    """Say that the loss is still above where it began."""
    losses = [h["loss"] for h in progress.history]
    if not losses or not np.isfinite(losses[-1]):
        warnings.warn(
            f"{name} has not converged in {len(losses)} epochs; raise n_epochs, or scale the rows",
            ConvergenceWarning,
            stacklevel=3,
        )
