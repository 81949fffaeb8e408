"""What the SGD estimators share: parameters and their rules, the trainer of a fit and `partial_fit`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import is_regressor

from ..checkpoint import Checkpoint
from ..errors import InputError
from ..execution.planned import Costs, PlannedRows
from ..folds import given_folds
from ..losses import Loss, Squared
from ..parameters import FLAG, FOLDER, NONE, SEED, check_parameters, estimator, number, one_of, param, whole
from ..randomness import draw_seed
from ..ridge.alphas import ALPHA
from ..ridge.gram import FIRST_GIVEN
from ..ridge.normal_equations import Solution
from ..sgd.batch_plan import check_batches, fit_costs
from ..sgd.batch_work import BatchWork
from ..sgd.optimizer import MOMENTUM, SQUARED_MOMENTUM, PreconditionedSGD, SGDState
from ..sgd.rows import Rows, open_checkpoint
from ..sgd.schedules import Schedule, choose_batch_size, count_epochs, microbatch_rows, patience
from ..sgd.spectrum import Spectrum, measure_spectrum
from ..sgd.trainer import Rules, Trainer, TrainerState, warn_unconverged
from ..targets import Targets
from ..typing import ArrayLike, RandomState
from .base import LinearModel, loss_of
from .calibration import learn_calibration
from .held_out import calibration_costs, fold_scores
from .validation import validate_fit

#: A loss counts as kinked if steps are made for less than this share of its smoothness, see `_optimizer`.
_NARROW = 0.5
#: Parameters that do not determine the numbers, or of which more than the parameter counts.
_FREE = ("checkpoint", "checkpoint_every", "n_epochs", "random_state", "class_weight")
#: Decaying steps of `partial_fit` decay over at least this many batches.
_STREAM_DECAY = 30


@dataclass(frozen=True)
class Stream:
    """What `partial_fit` carries from one call to the next. It is pickled with the estimator.

    alpha : an automatic penalty times the rows it was chosen on, since it falls as one over the rows seen; else None
    rows, weight : number and total weight of the rows of all calls; batch_rows : rows of a batch
    null_loss : mean loss of the constant on the rows of the first call
    """

    work: BatchWork
    optimizer: PreconditionedSGD
    state: SGDState
    training: TrainerState
    alpha: float | None
    rows: int
    weight: float
    batch_rows: int
    null_loss: float


@estimator
class BaseSGD(LinearModel):
    """What the classifier and the regressor share.

    Parameters
    ----------
    alpha : float or {"auto"}, default="auto"
        Strength of the penalty (alpha / 2) |u|^2. "auto" takes the one of least loss on held-out rows of a sample, extrapolated
        to the number of all rows (see `distrf.sgd.alpha`).
    fit_intercept : bool, default=True
        Whether to fit the intercept b, which has no penalty.
    n_epochs : int or {"auto"}, default="auto"
        Most passes over the rows. "auto" is 40, or as many as make 600 batches.
    tol : float or None, default=0.0001
        Training stops when `n_iter_no_change` epochs in a row lower the loss (with early stopping, that
        of held-out rows) by less than this share. None never stops early.
    n_iter_no_change : int, default=3
        See `tol`. With n_epochs="auto" it is more where an epoch has few batches.
    early_stopping : bool, default=False
        Hold out rows and judge each epoch by them. Each epoch then reads all blocks once more.
    validation_fraction : float, default=0.1
        Share of the rows that early stopping and `calibrate` hold out, rounded to one of 2, 3, ... neighbouring rows.
    n_directions : int or None, default=None
        Directions of the preconditioner. None takes as many as the sample supports, at most 512 where D > 1,536; 0 is plain SGD.
    batch_size : int or {"auto"}, default="auto"
        Rows of one step. "auto" comes from the spectrum. It never depends on the workers.
    checkpoint : str, PathLike or None, default=None
        Folder or URL that keeps the state of training; the same call resumes from it, and ends with the same bits.
    checkpoint_every : int, default=50
        Batches from one saved state to the next; the end of an epoch is saved too.
    random_state : int, Generator, RandomState or None, default=0
        Seed of all draws. None draws one seed.

    Attributes
    ----------
    alpha_ : float
        The strength of the penalty in use.
    history_ : list of dict
        For each epoch "epoch", "loss" (with penalty, while training), "validation_loss", "seconds", "rows"
        and "batches". If targets were scaled to like spreads (see Notes), the loss is that of the scaled targets.
    n_iter_ : int
        Epochs.
    best_epoch_ : int
        The epoch that was kept, counted from 1; 0 for the constant prediction.
    t_ : int
        Batches.
    batch_size_ : int
        Rows of a batch.
    n_features_in_ : int
        Number of input columns, D.
    """

    #: Subfolder of the checkpoint of a training for the state of training.
    checkpoint_folder: ClassVar[str] = "sgd"

    alpha: float | str = param(default="auto", rule=ALPHA | one_of("auto"))
    fit_intercept: bool = param(default=True, rule=FLAG)
    n_epochs: int | str = param(default="auto", rule=whole() | one_of("auto"))
    tol: float | None = param(default=1e-4, rule=number(0) | NONE)
    n_iter_no_change: int = param(default=3, rule=whole())
    early_stopping: bool = param(default=False, rule=FLAG)
    validation_fraction: float = param(default=0.1, rule=number(1e-6, 0.5))
    calibrate: bool = param(default=False, rule=FLAG)
    n_directions: int | None = param(default=None, rule=whole(0) | NONE)
    batch_size: int | str = param(default="auto", rule=whole() | one_of("auto"))
    checkpoint: str | None = param(default=None, rule=FOLDER)
    checkpoint_every: int = param(default=50, rule=whole())
    random_state: RandomState = param(default=0, rule=SEED)

    def facts(self) -> dict[str, Any]:
        last = self.history_[-1] if self.history_ else {"loss": None, "validation_loss": None}
        return {
            "alpha": self.alpha_,
            "loss": self.loss,
            "epochs": self.n_iter_,
            "batches": self.t_,
            "batch_size": self.batch_size_,
            "final_loss": last["loss"],
            "validation_loss": last["validation_loss"],
            "history": self.history_,
        }

    def _start(self, rows: Rows, targets: Targets, seed: int, stream: bool = False) -> Trainer:
        """The trainer of a fit: measures the spectrum, then sets schedule, optimizer and work, and resumes a checkpoint.

        stream : whether `partial_fit` calls: one epoch, and more rows will follow
        """
        checkpoint = open_checkpoint(
            None if stream else self.checkpoint, self._job, rows, targets, seed,
        )  # fmt: skip
        spectrum = self._spectrum(checkpoint, rows, targets, seed, stream)
        loss = replace(loss_of(self.loss, targets, self._epsilon), epsilon=spectrum.epsilon)
        targets = replace(targets, units=spectrum.target_units)
        rows = rows.holding_out(0.0 if stream else self.held_out_share, seed)
        n = sum(trained := rows.trained)
        batch_size = choose_batch_size(self.batch_size, n, rows.n_features, spectrum.preconditioner, stream)
        schedule = self._schedule(rows, trained, batch_size, seed)
        check_batches(rows, schedule, targets.width)
        per_epoch = schedule.count(0)
        whole = per_epoch == 1 and not stream
        optimizer = self._optimizer(loss, spectrum, per_epoch, whole, stream)
        work = BatchWork(targets, loss, spectrum.constant, seed, spectrum.start, spectrum.shift)
        first = np.zeros((rows.n_features + self.fit_intercept, targets.width))
        if self.fit_intercept:
            first[-1] = spectrum.start / spectrum.constant
        n_epochs = 1 if stream else count_epochs(self.n_epochs, per_epoch)
        waits = patience(int(self.n_iter_no_change), self.n_epochs, n_epochs)
        rules = Rules(n_epochs, None if stream else self.tol, waits, keep_best=not stream, guarded=True)
        trainer = Trainer(
            rows.batches(work), schedule, optimizer, optimizer.start(first),
            rules, targets.mean_weight,
            rows, bool(self.early_stopping) and n < sum(rows.blocks), whole, checkpoint, int(self.checkpoint_every),
            null_loss=spectrum.null_loss,
        )  # fmt: skip
        trainer.resume()
        return trainer

    def _job(self) -> dict[str, Any]:
        """The parameters that determine the numbers."""
        known = self.get_params(deep=False).items()
        return {name: value for name, value in known if name not in _FREE} | {"kind": "sgd"}

    def _spectrum(
        self, checkpoint: Checkpoint, rows: Rows, targets: Targets, seed: int, stream: bool
    ) -> Spectrum:
        """The spectrum, measured on a sample of the rows or read from the checkpoint."""
        loss = loss_of(self.loss, targets, self._epsilon)

        def measure(_: Any) -> dict[str, np.ndarray]:
            return measure_spectrum(
                rows, targets, loss, alpha=None if self.alpha == "auto" else float(self.alpha),
                choose_epsilon=self._epsilon == "auto", intercept=self.fit_intercept, directions=self.n_directions,
                stream=stream, seed=seed,
            ).arrays  # fmt: skip

        return Spectrum.of(checkpoint.run(measure))

    def _schedule(self, rows: Rows, trained: tuple[int, ...], batch_size: int, seed: int) -> Schedule:
        return Schedule(trained, max(1, batch_size), rows.block_bytes, seed, microbatch_rows(rows.n_features))

    def _optimizer(
        self, loss: Loss, spectrum: Spectrum, per_epoch: int, whole: bool, stream: bool
    ) -> PreconditionedSGD:
        # Steps must decay if the loss has a kink. A Huber loss much narrower than the spread of the targets acts like one.
        kinked = loss.smoothness is None or spectrum.preconditioner.smoothness < _NARROW * loss.smoothness
        decay = float(max(per_epoch, _STREAM_DECAY if stream else 1)) if kinked else None
        # The rows of the next call of `partial_fit` may differ from these, so it has no momentum.
        momentum = 0.0 if stream else SQUARED_MOMENTUM if isinstance(loss, Squared) else MOMENTUM
        return PreconditionedSGD(
            spectrum.preconditioner, spectrum.alpha, self.fit_intercept, momentum,
            kinked or not whole, decay,
        )  # fmt: skip

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        folds: ArrayLike | None = None,
    ) -> Self:
        """Fit to features and labels, or numbers.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, D)
            Features. A Dask array is read block by block, out of core.
        y : array or Dask array of shape (n,) or (n, C)
            Labels of a classifier: numbers or text, shape (n,). Numbers of a regressor, one or C for each row.
        sample_weight : array or Dask array of shape (n,), default=None
            Weight of each row. None weighs all alike.
        folds : array or Dask array of shape (n,) of int, default=None
            Fold of each row, from 0 on; -1 for rows that are never held out (as scikit-learn's PredefinedSplit). Where
            rows are held out, for `early_stopping` or `calibrate`, these are the rows of fold 0, whatever
            `validation_fraction` is; alpha="auto" is chosen by the folds of sampled rows. None draws them.

        Returns
        -------
        Self
            The fitted estimator itself.

        Raises
        ------
        InputError
            A parameter breaks a rule, or the data do: NaN or infinity, another length of y, text for
            numbers.
        MemoryPlanError
            The job cannot fit into memory.
        SpecMismatchError
            The checkpoint belongs to another fit.
        """
        self.check()
        X, y, weight = validate_fit(self, X, y, sample_weight, numeric=is_regressor(self))
        targets, folds = self._encoded(y, weight), given_folds(X, folds)
        if targets.classes is not None:
            self.classes_ = np.asarray(targets.classes)
        self.__dict__.pop("calibration_", None)
        rows, seed = Rows.of(X, y, weight, folds), draw_seed(self.random_state)
        trainer = self._start(rows, targets, seed)
        self._train(trainer)
        if self._calibrates:
            solution = Solution(self.alpha_, self.coef_.T, self.intercept_ - targets.centre)
            held = fold_scores(trainer.rows, targets, FIRST_GIVEN, [solution, None], seed)
            self.calibration_ = learn_calibration(held, targets.classes)
        self.n_iter_ = len(self.history_)
        warn_unconverged(trainer, type(self).__name__, stacklevel=4)
        self._stream: Stream | None = None
        self._finish(targets, y.ndim == 1)
        return self

    def _warm(self, trainer: Trainer, coef: Any, intercept: Any) -> None:
        """Start from these weights."""
        W, coef, targets = trainer.state.weights, np.atleast_2d(coef), trainer.batches.work.targets
        W[: coef.shape[1]] = coef.T
        if self.fit_intercept:
            shift = trainer.batches.work.shift
            moved = 0.0 if shift is None else shift @ coef.T
            W[-1] = (np.atleast_1d(intercept) + moved - targets.centre) / trainer.batches.work.constant
        if targets.units is not None:
            W *= targets.units

    def _train(self, trainer: Trainer) -> None:
        try:
            trainer.run()
        finally:
            trainer.batches.close()
        self._publish(trainer)

    def _publish(self, trainer: Trainer) -> None:
        W, work = trainer.solution, trainer.batches.work
        if not np.isfinite(W).all():
            raise InputError("the weights are no longer numbers; scale the rows")
        W = work.targets.decode(W)
        U = W[: len(W) - self.fit_intercept]
        self.coef_ = np.ascontiguousarray(U.T)
        self.intercept_ = np.zeros(W.shape[1])
        if self.fit_intercept:
            moved = 0.0 if work.shift is None else work.shift @ U
            self.intercept_ = work.constant * W[-1] + work.targets.centre - moved
        self.history_ = trainer.training.history
        self.alpha_ = trainer.optimizer.alpha
        chosen = self._epsilon == "auto" and work.loss.epsilon_in_spreads is not None
        self.epsilon_ = (
            work.targets.decode(work.loss.epsilon)
            if chosen
            else loss_of(self.loss, work.targets, self._epsilon).epsilon
        )
        self.t_ = trainer.state.t
        self.best_epoch_ = trainer.epoch_of_solution
        self.batch_size_ = trainer.schedule.batch_size

    def _partial_fit(self, X: Any, y: Any, weight: Any, targets: Targets) -> None:
        """One call of `partial_fit`. The first measures steps, alpha and epsilon on its rows; later ones go on from the one before."""
        self.check()
        rows, seed = Rows.of(X, y, weight), draw_seed(self.random_state)
        if not targets.mean_weight > 0:  # rows without weight teach nothing
            if not hasattr(self, "coef_"):
                raise InputError("sample_weight must not be zero everywhere")
            return
        self.__dict__.pop("calibration_", None)  # of other weights
        n, before = sum(rows.blocks), getattr(self, "_stream", None)
        if before is None:
            trainer = self._start(rows, targets, seed, stream=True)
            if hasattr(self, "coef_"):
                self._warm(trainer, self.coef_, self.intercept_)
            trainer.training.history = list(getattr(self, "history_", []))
            optimizer: Any = trainer.optimizer
            alpha = n * optimizer.alpha if self.alpha == "auto" else None
            stream = Stream(
                trainer.batches.work, optimizer, trainer.state, trainer.training, alpha, n, n * targets.mean_weight,
                trainer.schedule.batch_size, trainer.null_loss,
            )  # fmt: skip
        else:
            more = n * targets.mean_weight * targets.weight_unit / before.work.targets.weight_unit
            stream = replace(before, rows=before.rows + n, weight=before.weight + more)
            trainer = self._continue(stream, rows, seed)
        self._train(trainer)
        self._stream = replace(stream, state=trainer.state, training=trainer.training)

    def _continue(self, stream: Stream, rows: Rows, seed: int) -> Trainer:
        """The trainer of a later call, with the spectrum, weights and counters of the calls before."""
        optimizer, done = stream.optimizer, stream.training.epoch
        if stream.alpha is not None:
            optimizer = replace(optimizer, alpha=stream.alpha / stream.rows)
        schedule = self._schedule(rows, rows.blocks, min(stream.batch_rows, sum(rows.blocks)), seed)
        training = TrainerState(
            epoch=done, first_ratio=stream.training.first_ratio, history=stream.training.history
        )
        return Trainer(
            rows.batches(stream.work), schedule, optimizer, stream.state,
            Rules(done + 1, None, 1, guarded=True), stream.weight / stream.rows, rows,
            training=training, null_loss=stream.null_loss,
        )  # fmt: skip

    @property
    def _epsilon(self) -> Any:
        """The width of the loss, which a classifier has no parameter for."""
        return getattr(self, "epsilon", "auto")

    @property
    def held_out_share(self) -> float:
        """The share of the rows that `fit` does not train on."""
        return float(self.validation_fraction) if self.early_stopping or self._calibrates else 0.0

    def planned_costs(self, rows: PlannedRows) -> Costs:
        check_parameters(self)
        held = round(rows.n * self.held_out_share) if self._calibrates else 0
        return fit_costs(self, rows) + (calibration_costs(rows, held) if held else Costs())
