"""Linear models by stochastic gradients in rounds: any loss, any number of rows, the same bits on any cluster."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from dask.base import is_dask_collection
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..blocks.rows import map_rows
from ..errors import InputError
from ..maps import working_dtype
from ..randomness import draw_seed
from . import assembly
from .base import LinearClassifier, LinearModel, LinearRegressor
from .checkpoints import Checkpoint
from .losses import LOSSES, Loss, get_loss
from .ridge import validate_fit
from .schedules import Holdout
from .slices import SliceWork
from .steps import PENALTIES, RATES, State, Stepper
from .targets import Targets, class_targets, regression_targets
from .training import Progress, Rules, Trainer, warn_unconverged


class _SGD(LinearModel):
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
        momentum: float = 0.0,
        average: bool | str = "auto",
        preconditioner: str | None = "auto",
        n_directions: int | None = None,
        round_rows: int | str = "auto",
        shuffle: bool = True,
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
        _one_of("preconditioner", self.preconditioner, ("auto", "subspace", None))
        _number("alpha", self.alpha, 0.0)
        _number("l1_ratio", self.l1_ratio, 0.0, 1.0)
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
            self.loss == "hinge" and self.penalty == "l2" and self.alpha > 0 and not self.momentum
        ):
            raise InputError(
                "learning_rate='pegasos' needs loss='hinge', penalty='l2', momentum=0 and alpha > 0, got "
                f"loss={self.loss!r}, penalty={self.penalty!r}, momentum={self.momentum}, alpha={self.alpha}"
            )

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
        schedule = assembly.make_schedule(rows, holdout, round_rows, self.shuffle, seed)
        per_epoch = schedule.count(0)
        kinked = loss.smoothness is None or loss.name == "huber"
        stepper = Stepper(
            spectrum.preconditioner,
            self.learning_rate,
            None if self.eta0 is None else float(self.eta0),
            float(self.power_t),
            float(self.momentum),
            self._averages(per_epoch == 1),
            float(self.alpha),
            self._l1_ratio(),
            self.fit_intercept,
            float(max(per_epoch, 1)) if kinked else None,
        )
        work = SliceWork(targets, loss, spectrum.constant, seed, self.shuffle, holdout)
        validation = [i for i, r in enumerate(rows.blocks) if r and holdout.usable(i, r) < r]
        P = rows.n_features + self.fit_intercept
        trainer = Trainer(
            rows.rounds(work),
            schedule,
            stepper,
            State.zeros(P, targets.width),
            Rules(n_epochs, tol, int(self.n_iter_no_change), self.learning_rate == "adaptive", task[0] == "c"),
            per_epoch == 1,
            assembly.mean_weight(rows, targets),
            validation,
            checkpoint,
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
            rows.rounds(work),
            assembly.make_schedule(rows, work.holdout, round_rows, self.shuffle, seed),
            previous.stepper,
            previous.state,
            Rules(done + 1, None, 1, False, previous.rules.classes),
            False,
            assembly.mean_weight(rows, targets),
            [],
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


class StreamingSGDRegressor(LinearRegressor, _SGD):
    """Linear regression by stochastic gradients in rounds.

    Minimises (1 / W) sum_i w_i loss(z_i.u + b, y_i) + penalty, W = sum_i w_i, b not penalised.

    Parameters
    ----------
    loss : "squared" (residual^2 / 2) | "huber" | "epsilon_insensitive"
    alpha : penalty alpha / 2 |u|^2 ("l2"), alpha |u|_1 ("l1"), or the mixture by l1_ratio ("elasticnet")
    penalty, l1_ratio : see alpha
    epsilon : of the Huber and the epsilon-insensitive loss
    fit_intercept : whether to fit b
    n_epochs : passes over the rows, at most
    tol, n_iter_no_change : stop when so many epochs in a row lower the loss (or with early stopping the
        error on held-out rows) by less than a share `tol`; None never stops early
    early_stopping, validation_fraction : hold out that share of the rows: whole blocks where there are many
    learning_rate : "auto": steps from the spectrum of a row sample, constant for smooth losses, falling as
        1 / sqrt(t) for others | "constant" eta0 | "inverse_scaling" eta0 / t^power_t | "adaptive": eta0,
        divided by 5 whenever progress stops | "pegasos": 1 / (alpha t) with projection (classifier, hinge)
    eta0 : first step; None takes it from the spectrum
    momentum : Nesterov's
    average : weights averaged over about the last tenth of the rounds; "auto": where steps do not vanish
    preconditioner : "subspace": the top directions of the features, from a seeded sample of 6,000 rows, are
        slowed down so that the others can be fast (EigenPro; see `preconditioner`) | None | "auto": wherever
        it applies (l2, not Pegasos)
    n_directions : of the preconditioner; None takes as many as the sample can tell, 512 where D > 1,536
    round_rows : rows of one step; "auto" from the spectrum. Never depends on the workers
    shuffle : permute blocks, and rows in blocks, anew each epoch
    warm_start : `fit` starts from the present weights
    checkpoint, checkpoint_every, resume : folder that keeps the state, every so many rounds and at the end of
        an epoch; with resume=True `fit` continues from it, to the bits it would have reached
    random_state : seed of the sample and of the permutations

    Attributes
    ----------
    coef_ : array of shape (D,) or (C, D); intercept_ : number or array of shape (C,)
    history_ : for each epoch {"epoch", "loss" (with penalty; while training), "validation_score", "seconds",
        "rows", "rounds"}
    n_iter_ : epochs; t_ : rounds; round_rows_ : rows of a round
    """

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
        momentum: float = 0.0,
        average: bool | str = "auto",
        preconditioner: str | None = "auto",
        n_directions: int | None = None,
        round_rows: int | str = "auto",
        shuffle: bool = True,
        warm_start: bool = False,
        checkpoint: str | None = None,
        checkpoint_every: int = 50,
        resume: bool = False,
        random_state: Any = 0,
    ):
        arguments = {k: v for k, v in locals().items() if k not in ("self", "__class__")}
        super().__init__(**arguments)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> StreamingSGDRegressor:
        """Fit to features X of shape (n, D) and targets y of shape (n,) or (n, C); Dask arrays out of core."""
        X, y, sample_weight = validate_fit(self, X, y, sample_weight, numeric=True)
        self._fit(X, y, sample_weight, self._targets(y, sample_weight))
        return self._flat(y)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> StreamingSGDRegressor:
        """The rounds of one epoch over these rows, from where the last call ended."""
        first = not hasattr(self, "coef_")
        X, y, sample_weight = validate_fit(self, X, y, sample_weight, numeric=True, reset=first)
        if first or not hasattr(self, "_centre"):
            self._centre = self._targets(y, sample_weight).centre
        self._partial_fit(X, y, sample_weight, Targets(None, self._centre))
        return self._flat(y)

    def _targets(self, y: Any, sample_weight: Any) -> Targets:
        targets = regression_targets(y, sample_weight)
        return targets if self.fit_intercept else Targets(None, np.zeros_like(targets.centre))

    def _flat(self, y: Any) -> StreamingSGDRegressor:
        if y.ndim == 1:
            self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class StreamingSGDClassifier(LinearClassifier, _SGD):
    """Linear classification by stochastic gradients in rounds; the largest score wins.

    Parameters
    ----------
    loss : "hinge" | "squared_hinge" | "logistic" | "multinomial" | "squared" (on targets -1, 1). All but
        "multinomial" are one-vs-rest, all classes in one product
    class_weight : None, "balanced" (n / (classes * count)), or {label: factor}
    alpha, ... : see StreamingSGDRegressor

    Attributes
    ----------
    classes_ : labels, shape (c,)
    coef_ : array of shape (c, D), or (1, D) for two classes; intercept_ : shape (c,) or (1,)
    history_, n_iter_, t_, round_rows_ : see StreamingSGDRegressor
    """

    def __init__(
        self,
        loss: str = "hinge",
        *,
        alpha: float = 1e-6,
        penalty: str = "l2",
        l1_ratio: float = 0.15,
        epsilon: float = 0.1,
        fit_intercept: bool = True,
        class_weight: Any = None,
        n_epochs: int = 20,
        tol: float | None = 1e-3,
        n_iter_no_change: int = 3,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        learning_rate: str = "auto",
        eta0: float | None = None,
        power_t: float = 0.5,
        momentum: float = 0.0,
        average: bool | str = "auto",
        preconditioner: str | None = "auto",
        n_directions: int | None = None,
        round_rows: int | str = "auto",
        shuffle: bool = True,
        warm_start: bool = False,
        checkpoint: str | None = None,
        checkpoint_every: int = 50,
        resume: bool = False,
        random_state: Any = 0,
    ):
        arguments = {k: v for k, v in locals().items() if k not in ("self", "__class__", "class_weight")}
        super().__init__(**arguments)
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> StreamingSGDClassifier:
        """Fit to features X of shape (n, D) and labels y of shape (n,); Dask arrays out of core."""
        X, y, sample_weight = validate_fit(self, X, y, sample_weight, numeric=False)
        targets = class_targets(y, sample_weight, self.class_weight)
        self.classes_ = np.asarray(targets.classes)
        self._fit(X, y, sample_weight, targets)
        return self

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> StreamingSGDClassifier:
        """The rounds of one epoch over these rows, from where the last call ended.

        classes : all labels there will be; needed at the first call
        """
        first = not hasattr(self, "classes_")
        if first and classes is None:
            raise InputError(
                "classes must be passed on the first call to partial_fit: all labels there will be"
            )
        if isinstance(self.class_weight, str):
            raise InputError("class_weight='balanced' needs all rows; give a dictionary to partial_fit")
        X, y, sample_weight = validate_fit(self, X, y, sample_weight, numeric=False, reset=first)
        if first:
            self.classes_ = np.unique(np.asarray(classes))
            if len(self.classes_) < 2:
                raise InputError(f"a classifier needs at least 2 classes, got {self.classes_.tolist()}")
        elif classes is not None and not np.array_equal(np.unique(np.asarray(classes)), self.classes_):
            raise InputError(
                f"classes={list(classes)} is not the same as on the last call to partial_fit, was {self.classes_}"
            )
        check_labels(y, self.classes_)
        factors = None
        if self.class_weight is not None:
            factors = np.array([float(self.class_weight.get(c, 1.0)) for c in self.classes_.tolist()])
        width = 1 if len(self.classes_) == 2 else len(self.classes_)
        self._partial_fit(X, y, sample_weight, Targets(self.classes_, np.zeros(width), factors))
        return self

    @available_if(lambda self: self._probabilistic())
    def predict_proba(self, X: Any) -> Any:
        """Class probabilities, shape (n, c), for the logistic and the multinomial loss; lazy for a Dask array."""
        check_is_fitted(self)
        from ..features.base import validate_rows

        X = validate_rows(self, X, reset=False)
        predictor = self._predictor(f"probability-{self.loss}")
        if is_dask_collection(X):
            return map_rows(predictor, X, len(self.classes_), working_dtype(X.dtype))
        return predictor(X)

    def _probabilistic(self) -> bool:
        if self.loss not in LOSSES or not LOSSES[self.loss].probabilistic:
            raise AttributeError(f"predict_proba needs loss='logistic' or 'multinomial', got {self.loss!r}")
        return True


def check_labels(y: Any, classes: np.ndarray) -> None:
    """Raise InputError for labels that are not among the classes; one pass over y."""
    from .targets import class_counts

    unknown = sorted(set(class_counts(y, None)) - set(classes.tolist()), key=str)
    if unknown:
        raise InputError(f"y has labels that classes lacks: {unknown}; classes: {classes.tolist()}")


def _one_of(name: str, value: Any, known: tuple[Any, ...]) -> None:
    if value not in known:
        raise InputError(f"{name} is one of {', '.join(map(repr, known))}; got {value!r}")


def _number(name: str, value: Any, low: float, high: float = np.inf) -> None:
    if not isinstance(value, numbers.Real) or isinstance(value, bool) or not low <= float(value) <= high:
        bounds = f"at least {low:g}" if high == np.inf else f"between {low:g} and {high:g}"
        raise InputError(f"{name} must be a number {bounds}, got {value!r}")


__all__ = ["StreamingSGDClassifier", "StreamingSGDRegressor"]
