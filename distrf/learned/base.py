"""What the estimators of learned maps share: parameters and their rules, training in batches, the learned map."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from dask.base import is_dask_collection
from sklearn.exceptions import ConvergenceWarning

from ..checkpoint import Checkpoint
from ..errors import InputError
from ..execution.planned import Costs, PlannedRows
from ..execution.row_blocks import map_rows, rows_per_block, split_rows
from ..execution.sampling import sampled_rows
from ..features.base import apply_map
from ..features.fourier import GAMMA, KERNEL, NU, PROJECTION, RandomFourierFeatures
from ..features.length_scale import LENGTH_SCALE, rule_costs
from ..folds import GivenFolds
from ..linear_model.base import LinearModel
from ..linear_model.validation import validate_given
from ..losses import Loss, get_loss
from ..maps import FourierMap, working_dtype
from ..maps.fourier import PHASES, count_frequencies
from ..maps.frequencies import STRUCTURES
from ..maps.learned import LearnedFourierMap
from ..parameters import (  # fmt: skip
    FLAG,
    FOLDER,
    JOBS,
    NONE,
    SEED,
    Rule,
    check_parameters,
    instance,
    number,
    one_of,
    whole,
)
from ..randomness import draw_seed
from ..ridge.alphas import ALPHA
from ..sgd.batch_sizes import make_schedule
from ..sgd.fit_checkpoint import open_checkpoint
from ..sgd.given_rows import GivenRows
from ..sgd.rows import Rows, measure_weights
from ..sgd.schedules import Holdout, Schedule
from ..sgd.spectrum import with_epsilon
from ..sgd.trainer import Rules, Trainer
from ..targets import Targets, float_columns, target_phase, weight_unit
from .objectives import CompactWork, CosineFeatures, KernelWork, Layout
from .optimizer import RULES, Adam, MapOptimizer, Rates
from .start import (
    SAMPLE,
    Start,
    centred,
    learning_batch_size,
    learning_epochs,
    less_means,
    reach,
    start_parameters,
)

#: First steps of Adam: the most that one batch may move the phase of an average row, in radians, and its score, in
#: standard deviations of the target.
_PHASE_STEP = 0.3
_SCORE_STEP = 0.5
#: Frequencies have diverged if the phases of two average rows differ by more than this many radians.
_MOST_PHASE = 1e9
#: Placeholder for alpha with objective="kernel", which has no linear model.
_NO_ALPHA = 1e-6
#: objective="kernel" learns from pairs of sampled rows: at most this many rows, and this many bytes.
_PAIR_ROWS = 16_384
_PAIR_BYTES = 128 * 2**20


def pair_rows(d: int) -> int:
    """The number of sampled rows, with d columns, from which objective="kernel" learns."""
    return max(2, min(_PAIR_ROWS, _PAIR_BYTES // (8 * max(1, d))))


BATCHES = Rule(
    ("(T1, T2), batches of w and of Theta",),
    lambda value: isinstance(value, (tuple, list)) and len(value) == 2 and all(map(whole().allows, value)),
)


class MapLearner:
    """Mixin of the estimators of learned maps. It reads parameters that the public classes document."""

    n_components: int
    structure: str
    phase: str
    init: Any
    kernel: Any
    length_scale: float | str
    gamma: float | None
    nu: float
    theta_l2: float | str
    theta_l1: float
    theta_learning_rate: str
    eta0: float | None
    n_epochs: int | str
    batch_size: int | str
    checkpoint_every: int
    random_state: Any
    map_: LearnedFourierMap
    history_: list[dict[str, Any]]

    parameter_rules: ClassVar[dict[str, Rule]] = {
        "n_components": whole(),
        "structure": one_of(*STRUCTURES),
        "phase": one_of(*PHASES),
        "init": PROJECTION | instance(RandomFourierFeatures, "a RandomFourierFeatures") | NONE,
        "kernel": KERNEL,
        "length_scale": LENGTH_SCALE,
        "gamma": GAMMA,
        "nu": NU,
        "alpha": ALPHA,
        "theta_l2": number(0) | one_of("auto"),
        "theta_l1": number(0),
        "fit_intercept": FLAG,
        "learning_rate": one_of(*RULES),
        "theta_learning_rate": one_of(*RULES),
        "eta0": number(above=0) | NONE,
        "alternate": BATCHES | NONE,
        "n_epochs": whole() | one_of("auto"),
        "batch_size": whole() | one_of("auto"),
        "early_stopping": FLAG,
        "validation_fraction": number(1e-6, 0.9),
        "n_iter_no_change": whole(),
        "checkpoint": FOLDER,
        "checkpoint_every": whole(),
        "resume": FLAG,
        "n_jobs": JOBS,
        "random_state": SEED,
    }

    def _check_together(self) -> None:
        """Raise InputError for parameters that do not go together."""
        est: Any = self
        if self.structure == "circulant" and isinstance(est.init, str) and est.init != "circulant":
            raise InputError(
                f"structure='circulant' starts from circulant blocks alone, got projection {est.init!r}; leave it "
                "out, or take structure='dense'"
            )
        count_frequencies(self.phase, int(self.n_components))
        if est.resume and est.checkpoint is None:
            raise InputError("resume=True continues from checkpoint=, which is None; give its folder")
        for rule in (est.learning_rate, self.theta_learning_rate):
            RULES[rule].check(est.alpha)

    def _start(self, X: Any, seed: int) -> FourierMap:
        return Start(
            self.init,
            self.structure,
            self.phase,
            int(self.n_components),
            self.kernel,
            self.length_scale,
            self.gamma,
            self.nu,
        ).fitted(X, seed)

    def _layout(self, start: FourierMap, n_outputs: int, intercept: bool) -> Layout:
        d, D = start.n_features_in, start.n_components
        return Layout(d, D, self.phase, self.structure, start.seed, n_outputs, intercept)

    def _optimizer(
        self, layout: Layout, sample: np.ndarray, batches: int, scores: np.ndarray, prior: float, **model: Any
    ) -> MapOptimizer:
        """The optimizer, with the length of steps set from the rows of `sample`.

        batches : of all epochs; scores : standard deviation of each target; prior : the value of theta_l2="auto"
        model : further arguments of MapOptimizer: the step rules, and the parameters of the linear model
        """
        factor = 1.0 if self.eta0 is None else float(self.eta0)
        D = layout.n_components
        theta, w = _PHASE_STEP / reach(sample), _SCORE_STEP * scores
        of_w = np.tile(factor * w / np.sqrt(D), D)
        of_c = factor * w / D if layout.intercept else np.zeros(0)
        return MapOptimizer(
            layout,
            rates=Rates(factor * theta, factor * _PHASE_STEP, of_w, of_c),
            batches=batches,
            l2=prior if self.theta_l2 == "auto" else float(self.theta_l2),
            l1=float(self.theta_l1),
            most=_MOST_PHASE / reach(sample),
            **model,
        )

    def _learn(
        self,
        X: Any,
        y: Any,
        weight: Any,
        targets: Targets,
        loss_name: str,
        given: Sequence[Any],
        folds: GivenFolds | None,
    ) -> tuple[Layout, np.ndarray]:
        """Learn the map together with a linear model, and set the fitted attributes of the map.

        given : validation rows, their targets and weights, as `fit` was given them; each may be None
        folds : of which fold 0 is held out in place of drawn rows; None draws them

        Returns the vector of everything that is learned, after its layout.
        """
        self._check_together()
        est: Any = self
        validation = validate_given(self, given, targets)
        classes = targets.classes is not None
        auto_epsilon = getattr(est, "epsilon", "auto") == "auto"
        loss = get_loss(
            loss_name, "classification" if classes else "regression",
            0 if targets.classes is None else len(targets.classes), 0.1 if auto_epsilon else est.epsilon,
        )  # fmt: skip
        seed = draw_seed(self.random_state)
        rows = Rows.of(X, y, weight, folds)
        sample, y_sample, v = rows.sample(min(SAMPLE, sum(rows.blocks)), seed)
        X, sample, shift = centred(X, sample)
        Y, v = targets.encode(y_sample, v)
        v = v if v is None or v.any() else None
        if auto_epsilon:
            loss = with_epsilon(loss, Y, v)
        if shift is not None:
            rows = Rows.of(X, y, weight, folds)
            validation = None if validation is None else validation.moved(lambda Z: less_means(Z, shift))
        start = self._start(X, seed)
        layout = self._layout(start, targets.width, bool(est.fit_intercept))
        checkpoint = self._checkpoint(rows, targets, start, seed, validation)
        held = est.validation_fraction if est.early_stopping and validation is None else 0.0
        holdout = Holdout.of(held, seed, folds is not None)
        trained = rows.trained(holdout)
        usable = sum(trained)
        schedule = make_schedule(rows, trained, learning_batch_size(self.batch_size, usable), True, seed)
        per_epoch = schedule.count(0)
        n_epochs = learning_epochs(self.n_epochs, per_epoch)
        spreads, unit = (np.ones(targets.width), 1.0) if classes else _units(loss, y_sample)
        alpha = float(est.alpha)
        optimizer = self._optimizer(
            layout, sample, per_epoch * n_epochs, spreads, unit * start.length_scale**2 / max(usable, 1),
            model=RULES[est.learning_rate](alpha, unit / float(spreads.min())),
            map=RULES[self.theta_learning_rate](alpha, unit),
            alpha=alpha, alternate=None if est.alternate is None else tuple(est.alternate),
        )  # fmt: skip
        work = CompactWork(targets, loss, 0.0, seed, True, holdout, layout=layout)
        validates = bool(rows.held_blocks(trained)) or (validation is not None and validation.stops)
        rules = Rules(n_epochs, 0.0 if validates else None, int(est.n_iter_no_change), classes, validates)
        p = self._train(rows, schedule, optimizer, work, rules, checkpoint, start, validation)
        _compare_with_constant(work, p, sample, Y, v, unit)
        return layout, self._keep(layout, p, shift, None, None)

    def _checkpoint(
        self, rows: Rows, targets: Targets, start: FourierMap, seed: int, given: GivenRows | None = None
    ) -> Checkpoint:
        est: Any = self
        free = (
            "checkpoint", "checkpoint_every", "resume", "n_jobs", "random_state", "init", "kernel", "length_scale",
            "nu", "class_weight",
        )  # fmt: skip

        def job() -> dict[str, Any]:
            options = {k: v for k, v in est.get_params(deep=False).items() if k not in free}
            return options | {"kind": "learned map", "start": start.spec()}

        return open_checkpoint(est.checkpoint, job, rows, targets, seed, bool(est.resume), given)

    def _learn_kernel(self, X: Any, weight: Any) -> None:
        """Learn the map without a linear model, from pairs of sampled rows (Yu et al. 2015, Section 5)."""
        self._check_together()
        seed = draw_seed(self.random_state)
        whole = Rows.of(X, np.zeros(X.shape[0]), weight)
        size = min(pair_rows(X.shape[1]), X.shape[0])
        sample, _, sample_weight = whole.sample(size, seed)
        near, sample, shift = centred(X, sample)
        start = self._start(near, seed)
        layout = self._layout(start, 0, False)
        unit = 1.0 if sample_weight is None else weight_unit(float(sample_weight.mean()))
        targets = Targets(None, np.zeros(1), weight_unit=unit)
        checkpoint = self._checkpoint(whole, targets, start, seed)
        missing = len(sampled_rows(X.shape[0], size, seed, "sgd sample")) - len(sample)
        if missing:
            raise InputError(f"X must be finite, but {missing} sampled rows are not; impute or drop such rows")
        rows = Rows.of(sample, np.zeros(len(sample)), sample_weight)
        holdout = Holdout(0.0, seed)
        schedule = make_schedule(
            rows, rows.blocks, learning_batch_size(self.batch_size, len(sample)), True, seed
        )
        n_epochs = learning_epochs(self.n_epochs, schedule.count(0))
        rule = RULES[self.theta_learning_rate](_NO_ALPHA)
        batches = schedule.count(0) * n_epochs
        optimizer = self._optimizer(
            layout, sample[:SAMPLE], batches, np.ones(0), 0.0, model=Adam(_NO_ALPHA), map=rule
        )
        none: Any = None
        work = KernelWork(
            targets, none, 0.0, seed, True, holdout, layout=layout, kernel=start.kernel,
            length_scale=start.length_scale,
        )  # fmt: skip
        rules = Rules(n_epochs, None, n_epochs, False)
        p = self._train(rows, schedule, optimizer, work, rules, checkpoint, start)
        self._keep(layout, p, shift, start.kernel, start.length_scale)

    def _train(
        self,
        rows: Rows,
        schedule: Schedule,
        optimizer: MapOptimizer,
        work: CompactWork | KernelWork,
        rules: Rules,
        checkpoint: Checkpoint,
        start: FourierMap,
        given: GivenRows | None = None,
    ) -> np.ndarray:
        """Train from the start or the checkpoint, set the attributes that describe training, and return the vector."""
        trainer = Trainer(
            rows.batches(work),
            schedule,
            optimizer,
            optimizer.start(start_parameters(work.layout, start)),
            rules,
            measure_weights(rows, work.targets).mean,
            rows.held_blocks(schedule.rows),
            checkpoint=checkpoint,
            every=int(self.checkpoint_every),
            given=given,
            given_work=work,
        )
        trainer.resume()
        try:
            trainer.run()
        finally:
            trainer.batches.close()
        self.length_scale_ = start.length_scale
        self.history_ = trainer.training.history
        self.n_iter_ = len(self.history_)
        self.t_ = trainer.state.t
        self.best_epoch_ = trainer.epoch_of_solution
        self.batch_size_ = trainer.schedule.batch_size
        return trainer.solution

    def _keep(
        self, layout: Layout, p: np.ndarray, shift: np.ndarray | None, kernel: Any, length_scale: float | None
    ) -> np.ndarray:
        """Set `map_` and return the vector p, both converted from rows minus `shift` to the original rows."""
        p = p if shift is None else layout.moved(p, shift)
        learned = layout.split(p)
        self.map_ = LearnedFourierMap(
            layout.n_features_in,
            layout.n_components,
            layout.phase,
            layout.structure,
            layout.seed,
            kernel,
            length_scale,
            learned.theta.copy(),
            (learned.b / (2.0 * np.pi)) % 1.0 if len(learned.b) else None,
        )
        return p


def _units(loss: Loss, y: np.ndarray) -> tuple[np.ndarray, float]:
    """The standard deviations of the targets, and the unit of the loss, in which theta_l2="auto" is measured.

    That is twice the loss of a residual of one standard deviation; of several targets, the smallest one.
    """
    spreads = np.std(float_columns(y), axis=0)
    spreads = np.where(spreads > 0, spreads, spreads.max() or 1.0)
    return spreads, 2.0 * float(loss(np.zeros((1, 1)), np.full((1, 1), spreads.min()))[0][0]) or 1.0


def _compare_with_constant(
    work: CompactWork, p: np.ndarray, X: Any, Y: np.ndarray, weight: np.ndarray | None, unit: float
) -> None:
    """Warn if the learned model has a larger loss than weights of zero, on sampled rows X with targets Y."""
    features = CosineFeatures(work.layout, p, X.dtype)
    scores = features.scores(features.forward(X)[0])
    loss, null = (float(np.average(work.loss(S, Y)[0], weights=weight)) for S in (scores, np.zeros_like(Y)))
    if not loss <= 1.01 * null + 0.01 * unit:
        warnings.warn(
            f"the map and its linear model were learned to a loss of {loss:.3g}, and a constant has {null:.3g}: steps are "
            "too long, or too few; take learning_rate='adam' and theta_learning_rate='adam', a larger alpha for "
            "'pegasos', another eta0, or more epochs",
            ConvergenceWarning,
            stacklevel=6,
        )


class CompactModel(MapLearner, LinearModel):
    """Base of the classifier and the regressor, which document the parameters."""

    n_jobs: int | None

    def _fit(
        self,
        X: Any,
        y: Any,
        weight: Any,
        targets: Targets,
        loss: str,
        given: Sequence[Any],
        folds: GivenFolds | None,
    ) -> None:
        layout, p = self._learn(X, y, weight, targets, loss, given, folds)
        learned = layout.split(p)
        self.coef_ = np.ascontiguousarray(layout.interleaved(learned.w).T)
        self.intercept_ = (learned.c if len(learned.c) else np.zeros(targets.width)) + targets.centre

    def planned_costs(self, rows: PlannedRows) -> Costs:
        from .plan import planned_learning

        check_parameters(self)
        self._check_together()
        rule = rule_costs(rows, self.kernel, self.length_scale, self.gamma)
        written = 8 * int(self.n_components) * (rows.d + rows.outputs)
        return rule + Costs((target_phase(rows.n, rows.blocks),), written) + planned_learning(self, rows)

    def _features(self, X: Any) -> Any:
        if not is_dask_collection(X):
            return apply_map(self.map_, X, self.n_jobs)
        dtype = working_dtype(X.dtype)
        widest = max(self.map_.n_components, X.shape[1]) * dtype.itemsize
        return map_rows(self.map_, split_rows(X, rows_per_block(widest)), self.map_.n_components, dtype)
