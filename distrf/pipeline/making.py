"""`make_model`: an unfitted pipeline for these rows, each choice made on a sample of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.pipeline import Pipeline

from ..execution.labelled import plain_rows
from ..execution.memory import Workers
from ..execution.scheduler import current_client
from ..learned.metric import LearnedMetric
from ..linear_model.linear import StreamingLinearClassifier
from ..maps.estimator import positive_only
from ..maps.scaling import StreamingScaler
from ..maps.with_columns import WithColumns
from ..parameters import ruled
from ..record import Choice, Comparison, Training
from ..ridge.normal_equations import is_short
from ..splits import SPLIT, Split, hold_copies_together, make_split
from ..tables.encoder import TableEncoder
from .judge import Judged
from .options import (
    Options,
    asked_scaler,
    auto_components,
    chained,
    check_takes_folds,
    choose_learner,
    is_word,
    named,
    takes_folds,
    unfitted_map,
)
from .race import Candidate, Outcome, Race
from .sample import Sample, all_equal, as_rows, read_sample, weigh_classes
from .target import Target, as_targets, look_at_target, wants_labels

#: Encodings of numbers that are compared. Not "common": it was taken by chance on two sets of heavy tails.
NUMBERS_TRIED = ("robust", "standard", "quantile", "piecewise", "both")
#: Columns up to which a linear model takes the solver that it takes, and beyond which ridge is fitted by passes.
_GRAM_COLUMNS = 4096
#: Times the energy of the columns: the penalty of a constant, and the least one, below which rounding of float32 may spoil a factorisation.
_CONSTANT, _LEAST_ALPHA = 1e9, 3e-9
#: By which a length scale is multiplied if the data have so many times the rows that a candidate is trained on; one in a metric.
_SHORTER, _SHORTER_METRIC, _MANY_ROWS = 0.6, 0.8, 3
#: Rows and features at most by which a metric of coded columns is learned.
_METRIC_ROWS, _METRIC_FEATURES = 8000, 512
#: Features of a fit by passes at most.
_PASS_FEATURES = 1024
#: Rows from which one fifth compares the last penalties.
_HOLDOUT_ROWS = 2000


@ruled(split=SPLIT)
def make_model(
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    split: str = "random",
    by: Any = None,
    model: Any = "auto",
    map: Any = "auto",
    scale: Any = "auto",
    n_components: int | str | None = "auto",
    alpha: Any = "auto",
    set: Mapping[str, Any] | None = None,
    random_state: Any = 0,
) -> Pipeline:
    """Choose an unfitted pipeline for these rows: a scaling where it helps, a random feature map, a linear model.

    Options that are "auto" are chosen on a seeded sample of at most 6,000 rows: ridge is fitted to the features of some
    of them, for each candidate, and judged by the others. Of a Dask array only the blocks that hold sampled rows are
    read, and the array is not kept in memory. docs/guide/choices.md has the rules.

    Parameters
    ----------
    X : {array, CSR matrix, Dask array} of shape (n, d)
        Input rows.
    y : array or Dask array of shape (n,) or (n, C)
        Targets: labels, or numbers, one or C for each row.
    sample_weight : array or Dask array of shape (n,), default=None
        Weight of each row, by which the candidates are fitted and judged. Rows of weight 0 are not looked at.
    split : {"random", "stratified", "group", "time", "blocks"}, default="random"
        How rows of the sample are held out, as of `distrf.train`.
    by : array or Dask array of shape (n,), default=None
        Of "group" the group of each row, of "time" its time: numbers, text (groups) or dates.
    model : str or estimator, default="auto"
        "auto" is ridge, a classifier for labels and a regressor for numbers. Or a name: "ridge", "ridge-classifier",
        "logistic", "svm", "huber", "sgd-regressor", "sgd-classifier". An unfitted linear model is taken as it is, except that
        alpha="auto" of ridge may be chosen.
    map : str, estimator or None, default="auto"
        "auto" is Fourier features, or no map if a linear model on the columns does better. None or "none" is no map.
        Or a name: "fourier", "laplace", "binning", "tensor-sketch", "nystroem", "tefm", "cnm", "learned".
        An unfitted map is taken as it is, but for a length scale and a number of features that are at their defaults.
    scale : str, StreamingScaler or None, default="auto"
        "auto" is the best of no scaling, robust and standard units; of a table, of encodings of its numbers. None
        or "none" is no scaling. Or a method of StreamingScaler, or an unfitted one.
    n_components : int, str or None, default="auto"
        Number of features. "auto" takes it from n, d and the memory of a worker. None leaves that of the map.
    alpha : float, list of float or "auto", default="auto"
        Penalty of the model, or those that it compares. "auto" takes it from the race.
    set : mapping of str to object or None, default=None
        Other parameters of the steps: {"map__length_scale": 2.0, "model__cv": 5, "scale__divisor": 255}, of a table
        "table__numbers"; a text stands for its value. What is set is not searched.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the sample, the map and the model. None draws one seed.

    Returns
    -------
    Pipeline
        Not fitted, with the steps "scale" and "map", if there are such, and "model". Its attribute `training_`, a
        `distrf.record.Training`, tells what was chosen and why.

    Raises
    ------
    InputError
        A classifier is given for numbers, or a regressor for text; a sampled row holds NaN or infinity; a name is not known.
    """
    options = Options(model, map, scale, n_components, alpha, set, random_state).with_encoder(None)
    known = look(X, y, options, plain_rows(sample_weight, "sample_weight"), {"split": split, "by": by})
    return prepare(known, options)[0]


@dataclass(frozen=True)
class Known:
    """What is known of rows before anything is chosen for them.

    X : checked
    target : what y is
    split : by which rows are held out; None is at random
    sample : some of the rows
    """

    X: Any
    target: Target
    split: Split | None
    sample: Sample


def look(
    X: Any, y: Any, options: Options, sample_weight: Any, held: Mapping[str, Any], target: Target | None = None
) -> Known:
    """Look at a sample of rows, after the options.

    Parameters
    ----------
    X, y, sample_weight : as `make_model` takes them
    options : Options
    held : how rows are held out, split and by among them: what `distrf.splits.make_split` takes
    target : what y is, if that is known
    """
    X, seed = as_rows(X), options.random_state
    y = as_targets(X, y)
    target = target or look_at_target(y, seed)
    labels = is_classifier(choose_learner(options, target)[0])
    split = make_split(X=X, y=y, labels=labels, seed=seed, **held)
    sample = read_sample(X, y, seed, sample_weight, isinstance(options.scale, TableEncoder), split)
    return Known(X, told_apart(target, sample, options, split), split, sample)


def prepare(known: Known, options: Options, as_asked: bool = False) -> tuple[Pipeline, dict[str, Any]]:
    """The unfitted pipeline, and the folds that its `fit` takes, by the names of parameters of its steps.

    as_asked : whether the best is judged by the map itself, and as many features as were asked for
    """
    X, split = known.X, known.split
    learner, why = choose_learner(options, known.target)
    map_ = unfitted_map(options, is_classifier(learner), options.random_state)
    sample = weigh_classes(known.sample, getattr(learner, "class_weight", None))
    making = _Making(X.shape[0], options, learner, map_, as_asked, sample)
    making.note("model", named(learner), why)
    if split is not None:
        check_takes_folds(learner, map_)
        making.note("split", split.kind, split.why)
    together = None
    if sample.copies:
        if split is None or split.kind == "stratified":
            together = hold_copies_together(X, options.random_state)
        # Rows that are added to stored sums later have no folds of this kind.
        if split is None and not getattr(learner, "keep_state", False):
            split = together
        share = f"{100 * sample.copies:.3g} % of the sampled rows"
        held = "are held out together" if split is not None and split is together else "may be held out apart"
        making.note("copies", share, f"each row and its copies {held}")
    pipeline = making.judged() if can_judge(sample) else making.simplest()
    pipeline.training_ = Training(
        tuple(making.choices), tuple(making.compared), tuple(making.warnings), candidates=making.table
    )
    folds = {name: split for name, step in pipeline.steps if split is not None and takes_folds(step)}
    if together is not None and isinstance(pipeline[0], TableEncoder):  # no copy of a row tells its target
        folds[pipeline.steps[0][0]] = together
    return pipeline, {f"{name}__folds": one.folds.values for name, one in folds.items()}


def can_judge(sample: Sample) -> bool:
    """Whether rows can be held out, and their targets differ."""
    return bool(sample.splits) and not all_equal(sample.y)


def told_apart(target: Target, sample: Sample, options: Options, split: Split | None) -> Target:
    """Whole numbers that may be labels or numbers, as held-out rows say; what else a target is."""
    asked = wants_labels(options.model) is not None or (split is not None and split.kind == "stratified")
    if asked or not target.either or not can_judge(sample):
        return target
    nats = []
    for labels in (True, False):  # short races in one kind of units
        map_ = unfitted_map(options, labels, options.random_state)
        units = _units_tried(sample, options, map_, labels)
        name = "robust" if "robust" in units else next(reversed(units))
        nats.append(_race(sample, options, labels, {name: units[name]}, map_).nats())
    return target.told(nats[0], nats[1], sample.judged)


def _race(sample: Sample, options: Options, labels: bool, units: dict[str, Any], map_: Any) -> Race:
    asked = None if options.n_components == "auto" else getattr(map_, "n_components", None)
    search, joined = options.searches_length, isinstance(options.map, str)
    return Race(sample, labels, options.random_state, units, map_, search, joined, asked, options.alphas)


def _units_tried(sample: Sample, options: Options, map_: Any, labels: bool) -> dict[str, Any]:
    """The scalings or encodings that are tried, by name, unfitted; the one that was asked for."""
    X = sample.X
    if isinstance(options.scale, TableEncoder):
        encoder = clone(options.scale)
        if encoder.target_type == "auto":
            encoder.set_params(target_type="labels" if labels else "numbers")
        if encoder.numbers != "auto":
            return {encoder.numbers: encoder}
        columns = dict(encoder.columns or {}) if encoder.schema is not None else {"": "number"}
        plain = not {"number", "code"} & {*columns.values()}
        tried = {
            name: clone(encoder).set_params(numbers=name) for name in NUMBERS_TRIED[: 1 if plain else None]
        }
        codes = ((name, x) for (name, kind), x in zip(columns.items(), X.T, strict=False) if kind == "code")
        if levels := {name: "category" for name, x in codes if len(np.unique(x)) <= encoder.max_levels}:
            # A level may change what another column does.
            tried["robust, codes as levels"] = clone(tried["robust"]).set_params(columns=columns | levels)
        return tried
    if not _chooses_units(options):
        scaler = asked_scaler(options)
        return {"none" if scaler is None else scaler.method: scaler}
    methods = ["robust", "standard"]
    if all_equal(X) or (positive_only(map_) and not sp.issparse(X)):
        methods = []
    elif sp.issparse(X):  # those that keep zeros; equal entries stand for levels or words
        alike = X.nnz and (X.data == X.data[0]).all()
        methods = ["l2-rows"] if alike else ["robust-zeros", "l2-rows", "maxabs"]
    return {"none": None} | {method: StreamingScaler(method) for method in methods}


def _chooses_units(options: Options) -> bool:
    return is_word(options.scale.numbers if isinstance(options.scale, TableEncoder) else options.scale, "auto")


@dataclass
class _Making:
    """The choices made for rows, each with its reason: `judged` or `simplest` makes the unfitted pipeline."""

    n: int
    options: Options
    learner: Any
    map_: Any
    as_asked: bool
    sample: Sample
    choices: list[Choice] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    compared: list[Comparison] = field(default_factory=list)
    table: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        self.labels = is_classifier(self.learner)
        self.units = _units_tried(self.sample, self.options, self.map_, self.labels)
        self.most = auto_components(self.n, Workers.of_client(current_client()).memory_limit)

    def note(self, what: str, value: Any, why: str) -> None:
        self.choices.append(Choice(what, value, why))

    def simplest(self) -> Pipeline:
        """Where the sample cannot judge."""
        y, what = self.sample.y, "label" if self.labels else "number"
        why = f"{len(y):,} rows are too few rows to hold any out"
        if all_equal(y):
            why = f"the target is one {what} ({y[0]}) in all rows looked at"
        self.warnings.append(f"{why}: nothing is judged, and the simplest is taken")
        map_ = None if self.options.optional_map else self.map_
        if map_ is not None:
            self._size(map_, self.most, why)
        robust = [name for name in self.units if name in ("robust", "robust-zeros")]
        return self._steps((robust or [*self.units])[0], map_, why)

    def judged(self) -> Pipeline:
        """What a race over the sample delivers."""
        race = _race(self.sample, self.options, self.labels, self.units, self.map_)
        free = self.options.model == "auto" and not self.options.of("model")
        passes = self.labels and free and self._chooses_penalty
        optional = self.options.optional_map or self.map_ is None
        # Plain features say nothing of a metric that is learned.
        as_asked = self.as_asked or isinstance(self.map_, LearnedMetric)
        outcome = race.run(optional, self._chooses_penalty, self.most, self._plenty, passes, as_asked)
        self._compare(outcome)
        best, found = outcome.best, outcome.passes or outcome.found
        why = (
            f"{'log loss' if self.labels else 'squared error over variance'} {found.loss:.4g}, {outcome.linear.loss:.4g} of "
            f"{'ridge on ' if outcome.passes else ''}the columns alone, {outcome.constant.loss:.4g} of a constant, "
            f"on {self.sample.judged:,} held-out rows"
        )
        name, mapped = best.units if best else next(iter(race.units)), bool(best and best.mapped)
        joined = "columns and map" if best and best.joined else "map"
        self.note("features", joined if mapped else "columns" if best else "constant", why)
        map_ = self._map(best, race.scales[name], outcome, self.units[name]) if best and mapped else None
        self._set_penalty(outcome, 1.0 if mapped else race.scales[name] ** 2)
        return self._steps(name, map_, why)

    def _map(self, best: Candidate, scale: float, outcome: Outcome, scaler: Any) -> Any:
        """The map of the best candidate. `scale` : of the columns beside it"""
        map_, learned = clone(self.map_), bool(best.metrics)
        D = outcome.components if outcome.passes is None else min(outcome.components, _PASS_FEATURES)
        self._size(map_, D, f"twice as many while held-out rows gain by it, up to {self.most:,}")
        if best.length is not None:
            # Columns of all rows are not those of the sample.
            more = self.n > len(self.sample.y) or self.sample.copies > 0
            table = learned and isinstance(scaler, TableEncoder) and more
            own = replace(best, metrics=()) if table else best
            near = own.near if own.metrics else 1.0
            length, why = near * best.length, f"{near * (best.multiple or 1.0):.3g} times the rule"
            if self._plenty:
                times = _SHORTER_METRIC if learned else _SHORTER
                length, why = times * length, f"{times:g} x {why}, since {self.n:,} rows tell finer"
            length = float(f"{length:.6g}")
            map_.set_params(**replace(own, length=length, near=1.0).settings(map_.scale_parameter()))
            if not table:  # whose metric takes a length of its own
                self.note("length_scale", length, why)
        if learned:
            why, D, seed = "the sample", map_.n_components, self.options.random_state
            alpha = max(outcome.found.alpha, 10 * _LEAST_ALPHA)
            kind = "diagonal" if best.metrics[0].ndim == 1 else "full"
            if table:
                why = f"at most {_METRIC_ROWS:,} rows"
                map_ = LearnedMetric(
                    map_.set_params(n_components=min(D, _METRIC_FEATURES)), metric=kind, n_components=D, n_rounds=best.rounds, n_rows=_METRIC_ROWS,
                    labels=self.labels, alpha=[alpha / 10, alpha], length_scales=(1.0,) if best.near == 1.0 else (0.7, 1.0),
                    random_state=seed,
                )  # fmt: skip
            why = f"average outer product of gradients, from {why}; better on held-out rows of the sample"
            self.note("metric", f"{kind}, learned", why)
        return WithColumns(map_, scale=scale, random_state=self.options.random_state) if best.joined else map_

    @property
    def _plenty(self) -> bool:
        """Whether the rows are some times those that a candidate is trained on."""
        return self.n >= _MANY_ROWS * len(self.sample.splits[0][0])

    def _size(self, map_: Any, D: int, why: str) -> None:
        if self.options.n_components == "auto" and "n_components" in map_.parameter_rules:
            map_.take_size(D)
            self.note("n_components", map_.n_components, why)

    def _steps(self, units: str, map_: Any, why: str) -> Pipeline:
        name = "table" if isinstance(self.options.scale, TableEncoder) else "scale"
        chosen = why if _chooses_units(self.options) else "as given"
        self.note("numbers" if name == "table" else name, units, chosen)
        steps = [(n, clone(step)) for n, step in ((name, self.units[units]), ("map", map_)) if step is not None]
        return Pipeline([*steps, ("model", self.learner)])

    @property
    def _chooses_penalty(self) -> bool:
        """Whether the model is ridge, and its penalty was not given."""
        return getattr(self.learner, "compares_alphas", False) and isinstance(self.learner.alpha, str)

    def _set_penalty(self, outcome: Outcome, unit: float) -> None:
        """Give ridge with alpha="auto" few penalties around the best of the race; of a constant a huge one.

        Many columns without a map are fitted by passes: the Gram matrix of d columns takes minutes from
        d = 5,000 on. Not if its sums are to wait for more rows.
        """
        learner, best, d, alpha = self.learner, outcome.best, self.sample.X.shape[1], outcome.found.alpha
        if not getattr(learner, "compares_alphas", False):
            return
        mapped = best is not None and best.mapped
        asked = learner.keep_state or learner.solver != "auto"
        if not (mapped or asked or d <= _GRAM_COLUMNS or is_short(self.n, d)):
            learner.set_params(solver="passes")
        if not self._chooses_penalty:
            return
        if best is not None and outcome.passes is not None:
            self._take_passes(outcome.passes, unit)
            return
        tried, why = [_CONSTANT * unit], "so large that only the mean is left"
        if best is not None:
            tried = sorted({float(f"{max(alpha * t, _LEAST_ALPHA) * unit:.3g}") for t in (0.1, 1)})
            why = "around the best on held-out rows"
        _compare_penalties(learner, tried, self.n, self.sample.folds is None)
        self.note("alpha", tried, why)

    def _take_passes(self, judged: Judged, unit: float) -> None:
        """Logistic or multinomial regression in place of ridge. Its penalty per row of the data is that per row of the sample."""
        rows = len(self.sample.splits[0][0])
        alpha = float(f"{judged.alpha * unit * min(1.0, rows / self.n):.3g}")
        loss = "logistic" if judged.scores.shape[1] == 1 else "multinomial"
        self.learner = StreamingLinearClassifier(loss, alpha=alpha, random_state=self.options.random_state)
        why = f"log loss {judged.loss:.4g} on held-out rows, less than that of calibrated ridge"
        self.choices[0] = Choice("model", named(self.learner), f"{why}; {self.choices[0].why}")
        self.note("alpha", alpha, "best on held-out rows, in proportion to the rows")

    def _compare(self, outcome: Outcome) -> None:
        """What the candidates reached, and what is to be told of it."""
        found, linear, constant = outcome.passes or outcome.found, outcome.linear, outcome.constant
        self.table = tuple((name, float(f"{loss:.4g}")) for name, loss in outcome.table)
        each = [judged.loss for judged in (found, linear, constant)]
        scores = each if self.labels else [1.0 - loss / (constant.loss or 1.0) for loss in each]
        rows = f"{self.sample.judged:,} held-out rows of a sample" + " (ridge)" * (outcome.passes is None)
        comparison = Comparison("log loss (less is better)" if self.labels else "R²", rows, *scores)
        self.compared.append(comparison)
        given = found.scores[:, 0] > 0 if found.scores.shape[1] == 1 else found.scores.argmax(axis=1)
        if not any(judged.beats(constant) for judged in (found, linear)):
            delivered = ", which is delivered" * (outcome.best is None)
            self.warnings.append(
                f"no candidate beats a constant by a standard error{delivered} ({comparison}); "
                "these columns may not tell the target, rows may be too few, or another scaling or map may be needed"
            )
        elif self.labels and len(np.unique(given)) == 1:
            rare = np.unique(self.sample.y)[int(given[0])]
            self.warnings.append(
                f"all {len(given):,} held-out rows of a sample are given the label {rare!s}: others are too rare for what tells "
                "them apart; rank rows by their probability, or give the label more often by set={'model__class_weight': 'balanced'}"
            )
        elif linear.beats(found):
            self.warnings.append(
                f"the features do not beat a linear model on the same columns ({comparison}); take map='none', or another map"
            )


def _compare_penalties(learner: Any, alphas: list[float], n: int, at_random: bool) -> None:
    """Let ridge compare penalties, of many rows that are held out at random by one fifth of them."""
    holdout = at_random and n >= _HOLDOUT_ROWS and learner.cv == "auto" and not learner.keep_state
    learner.set_params(alpha=alphas, cv="holdout" if holdout else learner.cv)


def planned_pipeline(data: Any, options: Options, target: Target) -> Pipeline:
    """What `train` would fit to the rows of an Input, unfitted, for a plan, which puts the size that is chosen later.

    Raises ParameterError or InputError for what these rows or each other do not take.
    """
    learner = choose_learner(options, target)[0]
    if getattr(learner, "compares_alphas", False) and isinstance(learner.alpha, str):  # as `train` leaves them
        _compare_penalties(learner, [1e-6, 1e-5], data.n, data.split == "random")
    map_ = unfitted_map(options, is_classifier(learner), options.random_state)
    scaler = asked_scaler(options.with_encoder(data.encoder))
    if map_ is not None:
        if options.n_components == "auto":
            map_.take_size(auto_components(data.n, 0))
        map_.planned_map(data.d)
    return chained(scaler, map_, learner)


__all__ = ["can_judge", "look", "make_model", "planned_pipeline", "prepare"]
