"""What the SGD estimators share: parameters and their rules, the trainer of a fit, warm starts and `partial_fit`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..checkpoint import Checkpoint
from ..errors import InputError
from ..execution.planned import Costs, PlannedRows
from ..folds import GivenFolds
from ..losses import LOSSES, Loss, get_loss, loss_rule
from ..parameters import FLAG, FOLDER, NONE, SEED, Rule, check_parameters, number, one_of, whole
from ..randomness import draw_seed
from ..ridge.alphas import ALPHA
from ..ridge.normal_equations import Solution
from ..sgd.batch_plan import check_batches, fit_costs
from ..sgd.batch_sizes import choose_batch_size, count_epochs, make_schedule, patience
from ..sgd.batch_work import BatchWork
from ..sgd.fit_checkpoint import job_of, open_checkpoint
from ..sgd.given_rows import GivenRows
from ..sgd.learning_rates import RATES, LearningRate
from ..sgd.optimizer import PreconditionedSGD
from ..sgd.penalties import Penalty
from ..sgd.rows import Rows, Weights, batches_of, measure_weights
from ..sgd.schedules import Holdout, microbatch_rows
from ..sgd.spectrum import Requested, Spectrum, in_target_units, measure_spectrum
from ..sgd.trainer import Rules, Trainer, TrainerState, warn_unconverged
from ..targets import Targets, weight_unit
from ..typing import RandomState
from .base import LinearModel
from .calibration import learn_calibration
from .held_out import calibration_costs, holdout_scores
from .lasso import check_lasso, fit_lasso, lasso_of
from .sgd_stream import ENOUGH, Call, Sample, Seen, Stream, newest_rows
from .validation import validate_given

#: A loss counts as kinked if steps are made for less than this share of its smoothness, see `_optimizer`.
_NARROW = 0.5
#: If the best constant scores do not single out the most frequent class, those of the other classes are lowered by this.
_TIE = 1e-5
#: `partial_fit` measures the length of rows in every epoch, and its decaying steps decay over at least this many batches.
_ALWAYS, _STREAM_DECAY = 1 << 62, 30


class BaseSGD(LinearModel):
    """Base of the classifier and the regressor, which document the parameters."""

    loss: str
    history_: list[dict[str, Any]]
    t_: int

    #: Subfolder of the command line's --checkpoint for the state of training.
    checkpoint_folder: ClassVar[str] = "sgd"
    #: Parameters that are read only if another parameter, or one of several, has one of these values.
    parameter_needs: ClassVar[dict[str, dict[str, tuple[Any, ...]]]] = {
        "epsilon": {"loss": ("huber", "epsilon_insensitive")},
        "validation_fraction": {"early_stopping": (True,), "calibrate": (True,)},
        "power_t": {"learning_rate": ("inverse_scaling",)},
        "n_directions": {"preconditioner": ("auto", "subspace")},
    }
    parameter_rules: ClassVar[dict[str, Rule]] = {
        "loss": loss_rule("regression"),
        "alpha": ALPHA | one_of("auto"),
        "penalty": one_of("l2", "l1"),
        "epsilon": number(0) | one_of("auto"),
        "fit_intercept": FLAG,
        "n_epochs": whole() | one_of("auto"),
        "tol": number(0) | NONE,
        "n_iter_no_change": whole(),
        "early_stopping": FLAG,
        "validation_fraction": number(1e-6, 0.9),
        "calibrate": FLAG,
        "learning_rate": one_of(*RATES),
        "eta0": number(above=0) | NONE,
        "power_t": number(0),
        "momentum": number(0, 0.999) | one_of("auto"),
        "average": FLAG | one_of("auto"),
        "preconditioner": one_of("auto", "subspace") | NONE,
        "n_directions": whole(0) | NONE,
        "batch_size": whole() | one_of("auto"),
        "shuffle": FLAG,
        "warm_start": FLAG,
        "checkpoint": FOLDER,
        "checkpoint_every": whole(),
        "resume": FLAG,
        "random_state": SEED,
    }

    def __init__(
        self,
        loss: str = "squared",
        *,
        alpha: float | str = "auto",
        penalty: str = "l2",
        epsilon: float | str = "auto",
        fit_intercept: bool = True,
        n_epochs: int | str = "auto",
        tol: float | None = 1e-4,
        n_iter_no_change: int = 3,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        calibrate: bool = False,
        learning_rate: str = "auto",
        eta0: float | None = None,
        power_t: float = 0.5,
        momentum: float | str = "auto",
        average: bool | str = "auto",
        preconditioner: str | None = "auto",
        n_directions: int | None = None,
        batch_size: int | str = "auto",
        shuffle: bool = True,
        warm_start: bool = False,
        checkpoint: str | None = None,
        checkpoint_every: int = 50,
        resume: bool = False,
        random_state: RandomState = 0,
    ):
        self.loss = loss
        self.alpha = alpha
        self.penalty = penalty
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.n_epochs = n_epochs
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.calibrate = calibrate
        self.learning_rate = learning_rate
        self.eta0 = eta0
        self.power_t = power_t
        self.momentum = momentum
        self.average = average
        self.preconditioner = preconditioner
        self.n_directions = n_directions
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.resume = resume
        self.random_state = random_state

    def _rate(self) -> LearningRate:
        return RATES[self.learning_rate](None if self.eta0 is None else float(self.eta0), float(self.power_t))

    def _directions(self) -> int | None:
        """The number of directions of the preconditioner; None: as many as the sample supports, 0: no preconditioner."""
        if self.preconditioner is None:
            return 0
        fits = self._rate().preconditions
        if self.preconditioner == "subspace" and not fits:
            raise InputError(
                f"preconditioner='subspace' does not go with learning_rate={self.learning_rate!r}; use preconditioner=None"
            )
        return self.n_directions if fits else 0

    def facts(self) -> dict[str, Any]:
        last = self.history_[-1] if self.history_ else {"loss": None, "validation_score": None}
        return {
            "alpha": self.alpha_,
            "loss": self.loss,
            "epochs": self.n_iter_,
            "batches": self.t_,
            "batch_size": self.batch_size_,
            "final_loss": last["loss"],
            "validation_score": last["validation_score"],
            "history": self.history_,
        }

    def check(self) -> None:
        super().check()
        if self.resume and self.checkpoint is None:
            raise InputError("resume=True continues from checkpoint=, which is None; give its folder")
        self._rate().check(LOSSES[self.loss], self.alpha, self.momentum)
        if self.penalty == "l1":
            check_lasso(self)

    def _momentum(self) -> float | None:
        """Nesterov's momentum; None takes it from the curvature of the batches."""
        if self.momentum == "auto":
            return None if self._rate().follows_curvature else 0.0
        return float(self.momentum)

    def _averages(self, whole: bool) -> bool:
        if self.average == "auto":
            return self._rate().averages and not (whole and LOSSES[self.loss].is_smooth())
        return bool(self.average)

    def _start(
        self,
        rows: Rows,
        weights: Weights,
        targets: Targets,
        seed: int,
        stream: bool = False,
        sample: Rows | None = None,
        given: GivenRows | None = None,
    ) -> Trainer:
        """The trainer of a fit: measures the spectrum, then sets schedule, optimizer and work, and resumes a checkpoint.

        stream : whether `partial_fit` calls: one epoch, and more rows will follow
        sample : rows on which to measure the spectrum in place of these; None takes these
        given : validation rows in place of held-out ones, or None
        """
        share = 0.0 if stream or (given is not None and not self._calibrates) else self.held_out_share
        holdout = Holdout.of(share, seed, rows.folds is not None)
        checkpoint = open_checkpoint(
            None if stream else self.checkpoint, partial(job_of, self.get_params(deep=False)), rows, targets, seed,
            bool(self.resume), given,
        )  # fmt: skip
        measured = (rows, weights) if sample is None else (sample, measure_weights(sample, targets))
        spectrum = self._spectrum(checkpoint, *measured, targets, seed, stream)
        loss = replace(self._loss(targets), epsilon=spectrum.epsilon, factors=spectrum.factors)
        targets = replace(targets, units=spectrum.target_units)
        n = sum(trained := rows.trained(holdout))
        batch_size = choose_batch_size(self.batch_size, n, rows.n_features, spectrum.preconditioner, stream)
        memory = check_batches(self, rows, targets.width, batch_size)
        schedule = make_schedule(
            rows, trained, batch_size, self.shuffle, seed, microbatch_rows(rows.n_features)
        )
        per_epoch = schedule.count(0)
        whole = per_epoch == 1 and not stream
        optimizer = self._optimizer(loss, spectrum, per_epoch, whole)
        work = BatchWork(
            targets, loss, spectrum.constant, seed, self.shuffle, holdout, spectrum.start,
            probed=0 if spectrum.preconditioner.certain else (_ALWAYS if stream else 1),
            shift=spectrum.shift, units=spectrum.units,
        )  # fmt: skip
        first, constant = self._constant_weights(rows.n_features, spectrum, targets)
        trainer = Trainer(
            batches_of(rows, work, optimizer), schedule, optimizer, optimizer.start(first),
            self._rules(per_epoch, targets, stream), weights.mean,
            rows.held_blocks(trained) if self.early_stopping and given is None else [], whole, checkpoint, int(self.checkpoint_every),
            first=constant, null_loss=spectrum.null_loss, memory=memory,
            given=given, given_work=replace(work, probed=0, holdout=Holdout(0.0, seed)),
        )  # fmt: skip
        trainer.resume()
        return trainer

    def _constant_weights(
        self, n_features: int, spectrum: Spectrum, targets: Targets
    ) -> tuple[np.ndarray, np.ndarray]:
        """The weights of the best constant prediction: those that training starts from, and those of the model if
        training fails, which predict the most frequent class also where its score ties with another."""
        first = np.zeros((n_features + self.fit_intercept, targets.width))
        if not self.fit_intercept:
            return first, first.copy()
        first[-1] = spectrum.start / spectrum.constant
        fallback = first.copy()
        if targets.shares is not None and not spectrum.says_most_frequent(targets):
            fallback[-1, np.arange(targets.width) != targets.shares.argmax()] -= _TIE / spectrum.constant
        return first, fallback

    def _spectrum(
        self, checkpoint: Checkpoint, rows: Rows, weights: Weights, targets: Targets, seed: int, stream: bool
    ) -> Spectrum:
        """The spectrum, measured on a sample of the rows or read from the checkpoint."""
        loss = self._loss(targets)
        choose_epsilon = self.epsilon == "auto" and loss.epsilon_in_spreads is not None
        alpha = None if self.alpha == "auto" else float(self.alpha)
        epsilon = None if choose_epsilon else loss.epsilon
        requested = Requested(alpha, epsilon, self.fit_intercept, self._directions())

        def measure(_: Any) -> dict[str, np.ndarray]:
            return measure_spectrum(rows, targets, loss, weights, requested, stream=stream, seed=seed).arrays

        return Spectrum.of(checkpoint.run(measure))

    def _rules(self, per_epoch: int, targets: Targets, stream: bool) -> Rules:
        n_epochs = 1 if stream else count_epochs(self.n_epochs, per_epoch)
        waits = patience(int(self.n_iter_no_change), self.n_epochs, n_epochs)
        tol, classes = None if stream else self.tol, targets.classes is not None
        return Rules(n_epochs, tol, waits, classes, keep_best=not stream, guarded=True)

    def _loss(self, targets: Targets) -> Loss:
        task = "regression" if targets.classes is None else "classification"
        epsilon = 0.1 if self.epsilon == "auto" else float(self.epsilon)
        return get_loss(self.loss, task, 0 if targets.classes is None else len(targets.classes), epsilon)

    def _optimizer(self, loss: Loss, spectrum: Spectrum, per_epoch: int, whole: bool) -> PreconditionedSGD:
        rate, penalty = self._rate(), Penalty(spectrum.alpha)
        penalty = in_target_units(penalty, loss, self.alpha != "auto", spectrum.target_units)
        if spectrum.units is not None:
            penalty = replace(penalty, units=spectrum.units[:, None])
        # Steps must decay if the loss has a kink. A Huber loss much narrower than the spread of the targets acts like one.
        kinked = loss.smoothness is None or spectrum.preconditioner.smoothness < _NARROW * loss.smoothness
        options: dict[str, Any] = {
            "preconditioner": spectrum.preconditioner,
            "rate": rate.falling(float(max(per_epoch, 1))) if kinked else rate,
            "penalty": penalty,
            "momentum": self._momentum(),
            "average": self._averages(whole),
            "intercept": self.fit_intercept,
        }
        return PreconditionedSGD(**options)

    def _fit(
        self, X: Any, y: Any, weight: Any, targets: Targets, given: Sequence[Any], folds: GivenFolds | None
    ) -> None:
        self.check()
        self.__dict__.pop("calibration_", None)
        if self.penalty == "l1":
            if any(part is not None for part in given):
                raise InputError("X_val and y_val judge epochs, and penalty='l1' has none; leave them out")
            return fit_lasso(self, X, y, weight, targets, folds)
        validation = validate_given(self, given, targets)
        old = (self.coef_, self.intercept_) if self.warm_start and hasattr(self, "coef_") else None
        rows, seed = Rows.of(X, y, weight, folds), draw_seed(self.random_state)
        trainer = self._start(rows, measure_weights(rows, targets), targets, seed, given=validation)
        if old is not None and not trainer.training.history and trainer.state.t == 0:
            self._warm(trainer, *old)
        self._train(trainer)
        if self._calibrates:
            solution = Solution(self.alpha_, self.coef_.T, self.intercept_ - targets.centre)
            held = holdout_scores(rows, targets, trainer.batches.work.holdout, solution, seed)
            self.calibration_ = learn_calibration(held, targets.classes)
        self.n_iter_ = len(self.history_)
        warn_unconverged(trainer, type(self).__name__, stacklevel=5)
        self._stream: Stream | None = None

    def _warm(self, trainer: Trainer, coef: Any, intercept: Any) -> None:
        W, coef, targets = trainer.state.weights, np.atleast_2d(coef), trainer.batches.work.targets
        if coef.shape != (W.shape[1], W.shape[0] - self.fit_intercept):
            raise InputError(
                f"warm_start continues from weights of shape {coef.shape}, but the data now need "
                f"{(W.shape[1], W.shape[0] - self.fit_intercept)}; use warm_start=False"
            )
        units = trainer.batches.work.units
        W[: coef.shape[1]] = coef.T if units is None else coef.T / units[:, None]
        if self.fit_intercept:
            shift = trainer.batches.work.shift
            moved = 0.0 if shift is None else shift @ coef.T
            W[-1] = (np.atleast_1d(intercept) + moved - targets.centre) / trainer.batches.work.constant
        if targets.units is not None:
            W *= targets.units

    def _train(self, trainer: Trainer) -> None:
        try:
            with nullcontext() if trainer.memory is None else trainer.memory.explains("the fit"):
                trainer.run()
        finally:
            trainer.batches.close()
        self._publish(trainer)

    def _publish(self, trainer: Trainer) -> None:
        W, work = trainer.solution, trainer.batches.work
        D = len(W) - self.fit_intercept
        if not np.isfinite(W).all():
            raise InputError("the weights are no longer numbers; scale the rows, or leave learning_rate='auto'")
        W = work.targets.decode(W)
        U = W[:D] if work.units is None else W[:D] * work.units[:, None]
        self.coef_ = np.ascontiguousarray(U.T)
        self.intercept_ = np.zeros(W.shape[1])
        if self.fit_intercept:
            moved = 0.0 if work.shift is None else work.shift @ U
            self.intercept_ = work.constant * W[D] + work.targets.centre - moved
        self.history_ = trainer.training.history
        self.alpha_ = trainer.optimizer.penalty.alpha  # type: ignore[attr-defined]
        chosen = self.epsilon == "auto" and work.loss.epsilon_in_spreads is not None
        self.epsilon_ = work.targets.decode(work.loss.epsilon) if chosen else self._loss(work.targets).epsilon
        self.t_ = trainer.state.t
        self.best_epoch_ = 0 if trainer.training.fell_back else trainer.epoch_of_solution
        self.batch_size_ = trainer.schedule.batch_size

    def _partial_fit(self, X: Any, y: Any, weight: Any, targets: Targets) -> Targets:
        """One call of `partial_fit`. Returns the targets with the centre in use."""
        self.check()
        rows, seed = Rows.of(X, y, weight), draw_seed(self.random_state)
        weights = measure_weights(rows, targets, refuse=not hasattr(self, "coef_"))
        if not weights.mean > 0:  # rows without weight teach nothing
            return targets
        self.__dict__.pop("calibration_", None)  # of other weights
        stream: Stream | None = getattr(self, "_stream", None)
        unit = weight_unit(weights.mean) if stream is None else stream.work.targets.weight_unit
        targets = replace(targets, weight_unit=unit)
        weights = Weights(weights.mean / unit, weights.largest / unit)
        call = Call(rows, weights, targets, newest_rows(rows, seed), seed)
        seen = Seen.of(call, None if stream is None else stream.seen)
        if stream is None:
            trainer, stream = self._first_call(call, seen)
        elif (sample := stream.sample_to_measure(call.newest, seen)) is not None:
            trainer, stream = self._measure_again(stream, sample, call, seen)
        else:
            trainer, stream = self._continue(stream, call, seen)
        self._train(trainer)
        self._stream = replace(stream, state=trainer.state, training=trainer.training)
        self._stream.warn_forgotten(type(self).__name__, stacklevel=4)
        return stream.work.targets

    def _first_call(self, call: Call, seen: Seen) -> tuple[Trainer, Stream]:
        """Measure the spectrum on the rows of the call. Training starts from the weights of `fit` if there are any."""
        trainer = self._start(call.rows, call.weights, call.targets, call.seed, stream=True)
        if hasattr(self, "coef_"):
            self._warm(trainer, self.coef_, self.intercept_)
        trainer.training.history = list(getattr(self, "history_", []))
        return trainer, self._new_stream(trainer, seen, call.count)

    def _measure_again(self, stream: Stream, sample: Sample, call: Call, seen: Seen) -> tuple[Trainer, Stream]:
        """Measure the spectrum on `sample`, or on the rows of the call if they are enough; keep the weights if they fit."""
        offset = stream.intercept_offset(sample, seen.window)
        if offset is None or (stream.measured < ENOUGH and offset.any()):  # the first rows were in another unit
            seen = seen.without_past(call)
        if offset is None and stream.measured >= ENOUGH:
            warnings.warn(
                f"{type(self).__name__}: the weights predict new rows far worse than a constant, as if these were in "
                "another unit or order; training starts anew. Give all rows in the same units, shuffled",
                ConvergenceWarning,
                stacklevel=4,
            )
        targets = call.targets
        if self.fit_intercept and targets.classes is None:
            targets = replace(targets, centre=sample.centre())
        few = Rows.of(*sample) if call.count < ENOUGH else None
        trainer = self._start(call.rows, call.weights, targets, call.seed, stream=True, sample=few)
        if offset is not None:
            self._warm(trainer, self.coef_, self.intercept_ + offset)
            trainer.state.t = stream.state.t
        done = stream.training.epoch
        trainer.rules = replace(trainer.rules, n_epochs=done + 1)
        trainer.training.epoch, trainer.training.history = done, list(self.history_)
        measured = call.count if few is None else sum(few.blocks)
        renewed = self._new_stream(trainer, replace(seen, window=sample), measured)
        if renewed.penalty is not None:
            trainer.mean_weight = seen.weight / seen.rows
            penalty = renewed.penalty.times(1.0 / seen.rows)
            renewed.optimizer = trainer.optimizer = replace(renewed.optimizer, penalty=penalty)
        return trainer, renewed

    def _new_stream(self, trainer: Trainer, seen: Seen, measured: int) -> Stream:
        """What the next call gets from a trainer whose spectrum was measured on so many rows."""
        optimizer: Any = trainer.optimizer
        penalty = optimizer.penalty.times(measured) if self.alpha == "auto" else None
        # The rows of the next call may differ from these, so an automatic momentum is 0.
        rate = optimizer.rate.for_stream(_STREAM_DECAY)
        optimizer = trainer.optimizer = replace(optimizer, momentum=optimizer.momentum or 0.0, rate=rate)
        work = trainer.batches.work
        if work.targets.classes is None and not seen.window.varies:  # equal targets tell no scale
            measured = 0
        return Stream(
            work, optimizer, trainer.state, trainer.training, seen, trainer.schedule.batch_size, penalty,
            trainer.null_loss, measured,
        )  # fmt: skip

    def _continue(self, stream: Stream, call: Call, seen: Seen) -> tuple[Trainer, Stream]:
        """Continue with the spectrum, weights and counters of the calls before."""
        rows, optimizer, done = call.rows, stream.optimizer, stream.training.epoch
        if stream.penalty is not None:
            optimizer = replace(optimizer, penalty=stream.penalty.times(1.0 / seen.rows))
        schedule = make_schedule(
            rows, rows.trained(stream.work.holdout), min(stream.batch_rows, call.count), self.shuffle, call.seed,
            microbatch_rows(rows.n_features),
        )  # fmt: skip
        trainer = Trainer(
            batches_of(rows, stream.work, optimizer), schedule, optimizer, stream.state,
            Rules(done + 1, None, 1, call.targets.classes is not None, guarded=True), seen.weight / seen.rows, [],
            null_loss=stream.null_loss,
        )  # fmt: skip
        trainer.training = TrainerState(
            epoch=done, first_ratio=stream.training.first_ratio, history=stream.training.history
        )
        return trainer, replace(stream, optimizer=optimizer, seen=seen)

    @property
    def _calibrates(self) -> bool:
        return bool(self.calibrate) and not LOSSES[self.loss].probabilistic

    @property
    def held_out_share(self) -> float:
        """The share of the rows of every block that `fit` does not train on."""
        return float(self.validation_fraction) if self.early_stopping or self._calibrates else 0.0

    def planned_costs(self, rows: PlannedRows) -> Costs:
        check_parameters(self)
        if self.penalty == "l1":
            return lasso_of(self).planned_costs(rows)
        held = round(rows.n * self.held_out_share) if self._calibrates else 0
        return fit_costs(self, rows) + (calibration_costs(rows, held) if held else Costs())
