"""What the SGD estimators share: checks of parameters, the state they build up, checkpoints and warm starts."""

from __future__ import annotations

import numbers
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import InputError
from ..randomness import draw_seed
from . import assembly
from .averaging import LocalStepper, LocalWork, local_rows
from .base import LinearModel
from .checkpoints import Checkpoint
from .losses import LOSSES, Loss, get_loss
from .schedules import AVERAGED_BLOCKS, Holdout
from .slices import SliceWork
from .steps import PENALTIES, RATES, State, Stepper
from .targets import Targets
from .training import Progress, Rules, Trainer, warn_unconverged


class BaseSGD(LinearModel):
    """What classifier and regressor share; parameters are documented there."""

    loss: str
    history_: list[dict[str, Any]]
    t_: int

    def __init__(
        self,
        loss: str = "squared",
        *,
        alpha: float = 1e-6,
        penalty: str = "l2",
        l1_ratio: float = 0.15,
        epsilon: float = 0.1,
        fit_intercept: bool = True,
        n_epochs: int = 20,
        tol: float | None = 1e-3,
        n_iter_no_change: int = 3,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        learning_rate: str = "auto",
        eta0: float | None = None,
        power_t: float = 0.5,
        momentum: float | str = "auto",
        average: bool | str = "auto",
        preconditioner: str | None = "auto",
        n_directions: int | None = None,
        round_rows: int | str = "auto",
        shuffle: bool = True,
        distribution: str = "synchronous",
        warm_start: bool = False,
        checkpoint: str | None = None,
        checkpoint_every: int = 50,
        resume: bool = False,
        random_state: Any = 0,
    ):
        self.loss = loss
        self.alpha = alpha
        self.penalty = penalty
        self.l1_ratio = l1_ratio
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.n_epochs = n_epochs
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.learning_rate = learning_rate
        self.eta0 = eta0
        self.power_t = power_t
        self.momentum = momentum
        self.average = average
        self.preconditioner = preconditioner
        self.n_directions = n_directions
        self.round_rows = round_rows
        self.shuffle = shuffle
        self.distribution = distribution
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.resume = resume
        self.random_state = random_state

    def _l1_ratio(self) -> float:
        return {"l2": 0.0, "l1": 1.0}.get(self.penalty, float(self.l1_ratio))

    def _directions(self, loss: Loss) -> int | None:
        """Directions of the preconditioner: None as many as can be told, 0 none."""
        if self.preconditioner is None:
            return 0
        fits = self.learning_rate != "pegasos" and not self._l1_ratio()
        if self.preconditioner == "subspace" and not fits:
            raise InputError(
                "preconditioner='subspace' needs penalty='l2' and another learning_rate than 'pegasos', got "
                f"penalty={self.penalty!r}, learning_rate={self.learning_rate!r}; use preconditioner=None"
            )
        return self.n_directions if fits else 0

    def _check(self, task: str) -> None:
        """Raise InputError for a parameter that breaks a rule."""
        _one_of("penalty", self.penalty, PENALTIES)
        _one_of("learning_rate", self.learning_rate, RATES)
        _one_of("distribution", self.distribution, ("synchronous", "average"))
        _one_of("preconditioner", self.preconditioner, ("auto", "subspace", None))
        _number("alpha", self.alpha, 0.0)
        _number("l1_ratio", self.l1_ratio, 0.0, 1.0)
        if self.momentum != "auto":
            _number("momentum", self.momentum, 0.0, 0.999)
        _number("validation_fraction", self.validation_fraction, 1e-6, 0.9)
        _number("n_epochs", self.n_epochs, 1)
        _number("n_iter_no_change", self.n_iter_no_change, 1)
        _number("checkpoint_every", self.checkpoint_every, 1)
        if self.eta0 is not None:
            _number("eta0", self.eta0, 1e-300)
        if self.tol is not None:
            _number("tol", self.tol, 0.0)
        if self.round_rows != "auto":
            _number("round_rows", self.round_rows, 1)
        if self.n_directions is not None:
            _number("n_directions", self.n_directions, 0)
        if self.resume and self.checkpoint is None:
            raise InputError("resume=True continues from checkpoint=, which is None; give its folder")
        if self.learning_rate == "pegasos" and not (
            self.loss == "hinge" and self.penalty == "l2" and self.alpha > 0 and self.momentum in ("auto", 0)
        ):
            raise InputError(
                "learning_rate='pegasos' needs loss='hinge', penalty='l2', momentum=0 and alpha > 0, got "
                f"loss={self.loss!r}, penalty={self.penalty!r}, momentum={self.momentum}, alpha={self.alpha}"
            )

    def _momentum(self) -> float | None:
        """Nesterov's factor; None: by the curvature that rounds meet."""
        if self.momentum == "auto":
            return None if self.learning_rate == "auto" and self.distribution == "synchronous" else 0.0
        return float(self.momentum)

    def _averages(self, whole: bool) -> bool:
        if self.average == "auto":
            return self.learning_rate == "auto" and not (whole and self._loss_is_smooth())
        return bool(self.average)

    def _loss_is_smooth(self) -> bool:
        return LOSSES[self.loss].smoothness is not None and self.loss != "huber"

    def _start(
        self, X: Any, y: Any, weight: Any, targets: Targets, n_epochs: int, tol: float | None, seed: int
    ) -> Trainer:
        """Everything that a fit needs, from the rows; the state is zero."""
        task = "regression" if targets.classes is None else "classification"
        loss = get_loss(self.loss, task, 0 if targets.classes is None else len(targets.classes), self.epsilon)
        rows = assembly.Rows.of(X, y, weight)
        holdout = Holdout.of_blocks(rows.blocks, self.validation_fraction if self.early_stopping else 0.0, seed)
        checkpoint = self._checkpoint(rows, targets, seed)
        start = checkpoint.read_start() if checkpoint is not None and self.resume else None
        if start is None:
            spectrum = assembly.measure_spectrum(
                rows, targets, loss, self.alpha * (1.0 - self._l1_ratio()), intercept=self.fit_intercept,
                directions=self._directions(loss), seed=seed,
            )  # fmt: skip
            if checkpoint is not None:
                checkpoint.write_start(spectrum.preconditioner, spectrum.constant)
        else:
            spectrum = assembly.Spectrum(*start)
        n = sum(holdout.usable(i, r) for i, r in enumerate(rows.blocks))
        round_rows = assembly.round_size(self.round_rows, n, spectrum.preconditioner)
        local = local_rows(round_rows) if self.distribution == "average" else 0
        parcel_rows = assembly.parcel_rows(rows.n_features)
        schedule = assembly.make_schedule(
            rows, holdout, round_rows, self.shuffle, seed, bool(local), parcel_rows
        )
        per_epoch = max(1, n // (local * AVERAGED_BLOCKS)) if local else schedule.count(0)
        whole = per_epoch == 1 and not local
        kinked = loss.smoothness is None or loss.name == "huber"
        stepper = Stepper(
            spectrum.preconditioner,
            self.learning_rate,
            None if self.eta0 is None else float(self.eta0),
            float(self.power_t),
            self._momentum(),
            self._averages(whole),
            float(self.alpha),
            self._l1_ratio(),
            self.fit_intercept,
            float(max(per_epoch, 1)) if kinked else None,
        )
        mean_weight = assembly.mean_weight(rows, targets)
        common = (targets, loss, spectrum.constant, seed, self.shuffle, holdout)
        work = LocalWork(*common, local, mean_weight) if local else SliceWork(*common)
        validation = [i for i, r in enumerate(rows.blocks) if r and holdout.usable(i, r) < r]
        P = rows.n_features + self.fit_intercept
        trainer = Trainer(
            _rounds(rows, work, stepper),
            schedule,
            stepper,
            State.zeros(P, targets.width),
            Rules(n_epochs, tol, int(self.n_iter_no_change), self.learning_rate == "adaptive", task[0] == "c"),
            whole,
            mean_weight,
            validation,
            checkpoint,
            local,
        )
        kept = checkpoint.read() if checkpoint is not None and start is not None else None
        if kept is not None:
            trainer.state = kept[0]
            trainer.progress = Progress(**kept[1])
            p = trainer.progress
            p.stopped = p.epoch >= n_epochs or (tol is not None and p.waited >= self.n_iter_no_change)
        return trainer

    def _checkpoint(self, rows: assembly.Rows, targets: Targets, seed: int) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        free = ("checkpoint", "checkpoint_every", "resume", "n_epochs", "warm_start", "random_state", "verbose")
        spec = {k: v for k, v in self.get_params(deep=False).items() if k not in free}
        spec["class_weight"] = None if targets.class_weight is None else targets.class_weight.tolist()
        spec |= {"blocks": list(rows.blocks), "n_features": rows.n_features, "seed": seed, "kind": "sgd"}
        spec["classes"] = None if targets.classes is None else targets.classes.tolist()
        spec["maps"] = [function.spec() for function in rows.maps]
        return Checkpoint(self.checkpoint, spec, int(self.checkpoint_every))

    def _fit(self, X: Any, y: Any, weight: Any, targets: Targets) -> None:
        self._check("classification" if targets.classes is not None else "regression")
        old = (self.coef_, self.intercept_) if self.warm_start and hasattr(self, "coef_") else None
        seed = draw_seed(self.random_state)
        trainer = self._start(X, y, weight, targets, int(self.n_epochs), self.tol, seed)
        if old is not None and not trainer.progress.history and trainer.state.t == 0:
            self._warm(trainer, *old, targets)
        self._train(trainer, targets)
        self.n_iter_ = len(self.history_)
        warn_unconverged(trainer.progress, type(self).__name__)
        self._trainer: Trainer | None = None

    def _warm(self, trainer: Trainer, coef: Any, intercept: Any, targets: Targets) -> None:
        W, coef = trainer.state.weights, np.atleast_2d(coef)
        if coef.shape != (W.shape[1], W.shape[0] - self.fit_intercept):
            raise InputError(
                f"warm_start continues from weights of shape {coef.shape}, but the data now need "
                f"{(W.shape[1], W.shape[0] - self.fit_intercept)}; use warm_start=False"
            )
        W[: coef.shape[1]] = coef.T
        if self.fit_intercept:
            W[-1] = (np.atleast_1d(intercept) - targets.centre) / trainer.rounds._work.constant

    def _train(self, trainer: Trainer, targets: Targets) -> None:
        try:
            trainer.run()
        finally:
            trainer.rounds.close()
        self._publish(trainer, targets)

    def _publish(self, trainer: Trainer, targets: Targets) -> None:
        W = trainer.stepper.solution(trainer.state)
        D = len(W) - self.fit_intercept
        self.coef_ = np.ascontiguousarray(W[:D].T)
        constant = trainer.rounds._work.constant
        self.intercept_ = constant * W[D] + targets.centre if self.fit_intercept else np.zeros(W.shape[1])
        self.history_ = trainer.progress.history
        self.t_ = trainer.state.t
        self.round_rows_ = trainer.schedule.round_rows

    def _partial_fit(self, X: Any, y: Any, weight: Any, targets: Targets) -> None:
        self._check("classification" if targets.classes is not None else "regression")
        seed = draw_seed(self.random_state)
        previous: Trainer | None = getattr(self, "_trainer", None)
        if previous is None:
            trainer = self._start(X, y, weight, targets, 1, None, seed)
            # What the next call brings need not be of the same kind as what rounds remember.
            trainer.stepper = replace(trainer.stepper, momentum=trainer.stepper.momentum or 0.0)
            if hasattr(self, "coef_"):
                self._warm(trainer, self.coef_, self.intercept_, targets)
                trainer.progress.history = list(getattr(self, "history_", []))
        else:
            trainer = self._continue(previous, X, y, weight, targets, seed)
        self._train(trainer, targets)
        self._trainer = trainer

    def _continue(self, previous: Trainer, X: Any, y: Any, weight: Any, targets: Targets, seed: int) -> Trainer:
        """The rounds of new rows, with the steps, the weights and the counters of the calls before."""
        rows = assembly.Rows.of(X, y, weight)
        work = previous.rounds._work
        round_rows = min(previous.schedule.round_rows, sum(rows.blocks))
        done = previous.progress.epoch
        trainer = Trainer(
            _rounds(rows, work, previous.stepper),
            assembly.make_schedule(
                rows,
                work.holdout,
                round_rows,
                self.shuffle,
                seed,
                bool(previous.local_rows),
                assembly.parcel_rows(rows.n_features),
            ),
            previous.stepper,
            previous.state,
            Rules(done + 1, None, 1, False, previous.rules.classes),
            False,
            assembly.mean_weight(rows, targets),
            [],
            local_rows=previous.local_rows,
        )
        trainer.progress = Progress(
            epoch=done, first_loss=previous.progress.first_loss, history=previous.progress.history
        )
        return trainer

    def __getstate__(self):
        state = super().__getstate__()
        trainer = state.get("_trainer")
        if trainer is not None:  # what holds rows or futures stays behind
            state = {k: v for k, v in state.items() if k != "_trainer"}
        return state


def _rounds(rows: assembly.Rows, work: SliceWork, stepper: Stepper) -> Any:
    return rows.rounds(work, (LocalStepper(stepper),) if isinstance(work, LocalWork) else ())


def _one_of(name: str, value: Any, known: tuple[Any, ...]) -> None:
    if value not in known:
        raise InputError(f"{name} is one of {', '.join(map(repr, known))}; got {value!r}")


def _number(name: str, value: Any, low: float, high: float = np.inf) -> None:
    if not isinstance(value, numbers.Real) or isinstance(value, bool) or not low <= float(value) <= high:
        bounds = f"at least {low:g}" if high == np.inf else f"between {low:g} and {high:g}"
        raise InputError(f"{name} must be a number {bounds}, got {value!r}")
