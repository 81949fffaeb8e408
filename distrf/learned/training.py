"""The loop over rounds that learns a map: steps, histories, the best epoch, checkpoints."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ..blocks.progress import current_listener
from ..errors import InputError, SpecMismatchError, StoreError
from ..linear_model.schedules import Round, Schedule
from ..linear_model.slices import validation_score
from ..store import is_bundle, read_bundle, write_bundle
from .steps import State, Stepper


@dataclass
class Progress:
    """Where training is: what a checkpoint keeps beside the state."""

    epoch: int = 0
    round: int = 0  # rounds done in this epoch
    loss: float = 0.0  # weighted sums over the rounds of this epoch
    weight: float = 0.0
    rows: int = 0
    best: tuple[float, float] | None = None  # (1 - score, loss) of the best epoch, on held-out rows
    best_epoch: int = 0
    stopped: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Checkpoint:
    """A folder with the state, written in turn to two places: a job can die while it writes one of them."""

    path: str
    spec: dict[str, Any]
    every: int
    turn: int = 0

    def _place(self, turn: int) -> str:
        return f"{self.path.rstrip('/')}/state-{turn}"

    def begin(self) -> None:
        """Take a token of this job: states that an earlier one left behind are not taken up."""
        self.spec = self.spec | {"run": uuid.uuid4().hex}

    def write(self, state: State, progress: Progress) -> None:
        """Keep the state; atomic."""
        spec = self.spec | {"state": state.numbers, "progress": asdict(progress)}
        self.turn = 1 - self.turn
        write_bundle(self._place(self.turn), spec, state.arrays, overwrite=True)

    def read(self) -> tuple[State, Progress] | None:
        """The newest state; None where none was kept. Raises SpecMismatchError for one of another job."""
        found: list[tuple[int, int, dict[str, Any], dict[str, np.ndarray]]] = []
        for turn in (0, 1):
            try:
                if is_bundle(self._place(turn)):
                    spec, arrays = read_bundle(self._place(turn))
                    found.append((spec["state"]["t"], turn, spec, arrays))
            except StoreError:  # the one that was being written
                continue
        if not found:
            return None
        _, self.turn, spec, arrays = max(found, key=lambda f: (f[0], f[2]["progress"]["epoch"]))
        changed = [k for k in self.spec if spec.get(k) != self.spec[k]]
        if changed:
            raise SpecMismatchError(
                f"the checkpoint {self.path!r} is of another job: {', '.join(changed)} differ; "
                "train without resume, or give the options it was started with"
            )
        self.spec = self.spec | {"run": spec["run"]}
        named: dict[str, Any] = {k: np.array(v) for k, v in arrays.items()}
        progress = Progress(**spec["progress"])
        progress.best = None if progress.best is None else (progress.best[0], progress.best[1])
        return State(**named, **spec["state"]), progress


@dataclass
class Learner:
    """Runs rounds until the epochs are done, or held-out rows say stop.

    rounds : DaskRounds or LocalRounds; schedule : which rows
    mean_weight : total weight of the training rows over their number
    validation : blocks with rows that are held out; empty for none
    patience : epochs without a better score on them after which to stop
    """

    rounds: Any
    schedule: Schedule
    stepper: Stepper
    state: State
    n_epochs: int
    patience: int
    classes: bool
    mean_weight: float
    validation: list[int]
    checkpoint: Checkpoint | None = None
    progress: Progress = field(default_factory=Progress)

    def run(self) -> None:
        """Train; `solution` and the history are left in place."""
        p = self.progress
        self.state.parameters[0] = self.stepper.mode(self.state.t)
        self.rounds.begin(self._sequence(p.epoch, p.round))
        while p.epoch < self.n_epochs and not p.stopped:
            started, count = time.perf_counter(), self.schedule.count(p.epoch)
            while p.round < count:
                result = self.rounds.gradient(self.state.parameters)
                assert result is not None
                _, round_, (G, loss, weight) = result
                self._advance(round_, G, loss, weight)
                every = None if self.checkpoint is None else self.checkpoint.every
                if every is not None and self.state.t % every == 0 and p.round < count:
                    self.checkpoint.write(self.state, p)  # type: ignore[union-attr]
            self._end_epoch(time.perf_counter() - started)
            if self.checkpoint is not None:
                self.checkpoint.write(self.state, p)

    @property
    def solution(self) -> np.ndarray:
        """The parameters of the best epoch by the held-out rows; without any, the last."""
        return self.state.best if self.validation and self.progress.best else self.state.parameters

    def _sequence(self, epoch: int, done: int) -> Iterator[tuple[int, Round]]:
        for e in range(epoch, self.n_epochs):
            for r, round_ in enumerate(self.schedule.rounds(e)):
                if e > epoch or r >= done:
                    yield e, round_

    def _advance(self, round_: Round, G: np.ndarray, loss: float, weight: float) -> None:
        p = self.progress
        mean = loss / max(weight, np.finfo(float).tiny)
        if not (np.isfinite(mean) and np.isfinite(G.sum())):
            raise InputError(
                f"the loss is no longer a number in round {self.state.t}: steps are too long; scale the rows, use "
                "learning_rate='adam', or a smaller eta0"
            )
        p.round += 1
        p.rows += round_.rows
        p.loss += loss
        p.weight += weight
        self.stepper.step(self.state, G / (round_.rows * self.mean_weight))
        listener = current_listener()
        if listener is not None:
            listener(f"epoch {p.epoch + 1}/{self.n_epochs}|loss {mean:.4g}", p.rows, self.schedule.n_rows)

    def _end_epoch(self, seconds: float) -> None:
        p, state = self.progress, self.state
        p.epoch += 1
        score = None
        if self.validation:
            sums = self.rounds.validate(state.parameters, self.validation)
            score = validation_score(sums, self.classes)
            measure = (1.0 - score, float(sums[4].sum() / max(sums[0, 0], np.finfo(float).tiny)))
            if p.best is None or measure < p.best:
                p.best, p.best_epoch, state.best = measure, p.epoch, state.parameters.copy()
        loss = p.loss / p.weight if p.weight else np.inf
        p.history.append(
            {
                "epoch": p.epoch,
                "loss": float(loss + self.stepper.penalty(state.parameters)),
                "validation_score": score,
                "seconds": round(seconds, 4),
                "rows": p.rows,
                "rounds": p.round,
            }
        )
        p.round, p.rows, p.loss, p.weight = 0, 0, 0.0, 0.0
        p.stopped = p.epoch >= self.n_epochs or (score is not None and p.epoch - p.best_epoch >= self.patience)
