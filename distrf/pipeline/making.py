"""`make_model`: an unfitted pipeline for these rows, each choice made on a sample of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.pipeline import Pipeline, make_pipeline

from ..errors import InputError
from ..execution.labelled import plain_rows
from ..features import StreamingScaler, WithColumns
from ..features.base import FeatureEstimator
from ..features.with_columns import column_scale
from ..maps.scaling import ROBUST
from ..parameters import ruled
from ..randomness import draw_seed
from ..record import Training
from ..registry import kind_for, make_map, named_model
from ..splits import SPLIT, Split, check_split, hold_copies_together, make_split
from ..tables.encoder import TableEncoder
from ..targets import Targets, class_targets, regression_targets
from . import deciding
from .deciding import Decisions
from .sample import (
    Sample,
    as_rows,
    as_targets,
    look_at_target,
    numbers_of,
    read_sample,
    wants_labels,
    weigh_classes,
)
from .search import Verdict, judge_columns, judge_constant
from .target import Target, check_target
from .whole_numbers import tell_apart


@dataclass(frozen=True)
class Options:
    """The options of `make_model`, which documents them."""

    model: Any = "auto"
    map: Any = "auto"
    scale: Any = "auto"
    length_scale: float | str | None = "auto"
    n_components: int | str | None = "auto"
    raw_columns: bool | str = "auto"
    random_state: Any = 0

    def __post_init__(self) -> None:
        if self.raw_columns not in (True, False, "auto"):
            raise InputError(f"raw_columns is True, False or 'auto', got {self.raw_columns!r}")
        if isinstance(self.map, FeatureEstimator):
            scale = self.map.scale_parameter()
            of_map = {
                "n_components": ["n_components", "base__n_components"],
                "length_scale": [scale] if scale else [],
            }
            for option, names in of_map.items():
                if getattr(self, option) == "auto" and any(_is_set(self.map, name) for name in names):
                    object.__setattr__(self, option, None)

    @property
    def optional_map(self) -> bool:
        """Whether the columns alone may be taken."""
        return isinstance(self.map, str) and self.map == "auto" and self.raw_columns == "auto"


def _is_set(map_: Any, name: str) -> bool:
    """Whether a parameter of a map, or of its base, was set: it is there, and is neither None nor what it is by itself."""
    of, _, parameter = name.rpartition("__")
    step = getattr(map_, of, None) if of else map_
    value = getattr(step, parameter, None)
    usual = getattr(map_.named_base(getattr(map_, "n_components", 0)), parameter, None) if of else None
    return value is not None and value not in (usual, signature(type(step)).parameters[parameter].default)


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
    length_scale: float | str | None = "auto",
    n_components: int | str | None = "auto",
    raw_columns: bool | str = "auto",
    random_state: Any = 0,
) -> Pipeline:
    """Choose an unfitted pipeline for these rows: a scaling where it helps, a random feature map, a linear model.

    Options that are "auto" are chosen on a seeded sample of at most 6,000 rows: ridge is fitted to the features of some
    of them, for each candidate, and judged by the others. Of a Dask array only the blocks that hold sampled rows are
    read, and the array is not kept in memory. docs/guide/choices_rules.md has the rules.

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
        "auto" is the best of no scaling, robust units, and linear units if a linear model does better in these. None
        or "none" is no scaling. Or a method of StreamingScaler, or an unfitted one.
    length_scale : float, str or None, default="auto"
        "auto" searches multiples of the rule of the map, unless an unfitted map has another than its default. A number or a
        rule is taken. None leaves that of the map.
    n_components : int, str or None, default="auto"
        Number of features. "auto" takes it from n, d and the memory of a worker, unless an unfitted map has another than its
        default. None leaves that of the map.
    raw_columns : bool or {"auto"}, default="auto"
        Whether the linear model gets the columns beside the features. "auto" does so if held-out rows are for it.
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
        A classifier is given for numbers that are no labels, or a regressor for text; sampled rows hold NaN or
        infinity, of which the first is named; or a name is not known.
    """
    options = Options(model, map, scale, length_scale, n_components, raw_columns, draw_seed(random_state))
    y, form = (y, "") if y is None else numbers_of(y, options.random_state, options.model)
    made = split_for(X, y, options, split, by)
    pipeline = prepare(X, y, options, plain_rows(sample_weight, "sample_weight"), split=made).pipeline
    pipeline.training_ = replace(pipeline.training_, form=form)
    return pipeline


def split_for(
    X: Any,
    y: Any,
    options: Options,
    split: str,
    by: Any = None,
    name: str | None = None,
    dates: bool = False,
) -> Split | None:
    """The split of the rows of a training, None for "random"; arguments as of `distrf.splits.make_split`."""
    check_split(split, by)
    if split == "random":
        return None
    X, seed = as_rows(X), int(options.random_state)
    y = as_targets(X, y)
    labels = split != "stratified" or is_classifier(
        choose_learner(options.model, look_at_target(y, seed), seed)[0]
    )
    return make_split(split, X, y, by, name=name, labels=labels, dates=dates, seed=seed)


@dataclass(frozen=True)
class Verdicts:
    """How ridge does on held-out rows of the sample.

    Attributes
    ----------
    machine : Verdict, with what the pipeline gives to its linear model
    linear : Verdict, with the columns
    constant : Verdict, of the constant in place of ridge
    plain : bool, whether `linear` is that of the columns in linear units, and not as the sample has them
    """

    machine: Verdict
    linear: Verdict
    constant: Verdict
    plain: bool = False


@dataclass(frozen=True)
class Prepared:
    """An unfitted pipeline, and the evidence by which it was chosen.

    Attributes
    ----------
    pipeline : Pipeline
    decisions : Decisions, with the sample in the units of the pipeline
    verdicts : Verdicts; None if the sample cannot judge: too few rows, one class, a constant
    rows : the sampled rows as they were read
    split : Split by which rows are held out; None is at random
    """

    pipeline: Pipeline
    decisions: Decisions
    verdicts: Verdicts | None
    rows: Any = None
    split: Split | None = None


def prepare(
    X: Any,
    y: Any,
    options: Options,
    sample_weight: Any = None,
    target: Target | None = None,
    keep_state: Callable[[Any, Any], None] = lambda map_, model: None,
    split: Split | None = None,
) -> Prepared:
    """`make_model`, with the evidence.

    Parameters
    ----------
    X, y : as `make_model` takes them
    options : Options
    sample_weight : shape (n,), by which rows are judged; those of weight 0 are not looked at
    target : Target, what y is, if that is known
    keep_state : callable, called with map and model, unfitted, before rows are looked at
    split : Split by which rows are held out; None is at random
    """
    X = as_rows(X)
    y = as_targets(X, y)
    seed = draw_seed(options.random_state)
    target = target or look_at_target(y, seed)
    reading = partial(read_sample, X, y, seed, sample_weight, isinstance(options.scale, TableEncoder), split)
    sample = None
    if target.either and wants_labels(options.model) is None and (split is None or split.kind != "stratified"):
        sample = reading()
        target = tell_apart(target, sample, options.scale, _unfitted_map(options, True, seed), seed)
    learner, why = choose_learner(options.model, target, seed)
    map_ = _unfitted_map(options, is_classifier(learner), seed)
    if split is not None:
        check_takes_folds(learner, map_)
    keep_state(map_, learner)
    sample = sample or reading()
    sample = weigh_classes(sample, getattr(learner, "class_weight", None))
    decisions = Decisions(X.shape[0], sample, _encode_targets(sample, is_classifier(learner)), seed)
    decisions.note("model", _name(learner), why)
    if split is not None:
        decisions.note("split", split.kind, split.why)
    if sample.copies:
        share = f"{100 * sample.copies:.3g} % of the sampled rows"
        decisions.note("copies", share, "each row and its copies are held out together")
        # Rows that are added to kept sums later have no folds of this kind.
        if split is None and not getattr(learner, "keep_state", False):
            split = hold_copies_together(X, seed)
    if map_ is not None and options.optional_map and deciding.all_equal(sample.X):  # no kernel tells them apart
        map_ = None
        decisions.note("map", "none", "all sampled rows are equal")
    # The scaling first: all that follows is judged in its units.
    scaler = deciding.choose_scaler(decisions, options.scale, map_, options.optional_map)
    if scaler is not None:
        decisions.sample = sample.scaled(scaler)
    prepared = _choose_features(decisions, options, map_, scaler, learner)
    # Trials of robust units do not see what they take from a linear model, see `_try_linear_units`.
    if options.scale == "auto" and getattr(scaler, "method", "") in ROBUST and map_ is not None:
        prepared = _try_linear_units(prepared, options, map_, sample)
    if getattr(learner, "compares_alphas", False) and isinstance(learner.alpha, str):
        mapped = "map" in prepared.pipeline.named_steps
        verdict = None if prepared.verdicts is None else prepared.verdicts.machine
        deciding.set_penalty(prepared.decisions, learner, verdict, mapped)
    warnings = (target.why,) if target.doubtful and wants_labels(options.model) is None else ()
    prepared.pipeline.training_ = Training(tuple(prepared.decisions.choices), warnings=warnings)
    return replace(prepared, rows=sample.X, split=split)


def planned_pipeline(data: Any, options: Options, target: Target) -> Pipeline:
    """What `train` would fit to the rows of an Input, unfitted, for a plan, which puts the size that is chosen later.

    Raises ParameterError or InputError for what these rows or each other do not take.
    """
    learner = choose_learner(options.model, target, options.random_state)[0]
    map_ = _unfitted_map(options, is_classifier(learner), options.random_state)
    scaler = getattr(data, "encoder", None) or deciding.asked_scaler(options.scale)
    if map_ is not None:
        if options.n_components == "auto":
            map_.take_size(deciding.auto_components(data.n, 0))
        map_.planned_map(data.d)
    return chained(scaler, map_, learner)


def chained(*steps: Any) -> Pipeline:
    """The pipeline of steps, without those that are none, or chosen later."""
    return make_pipeline(*(step for step in steps if step is not None and not isinstance(step, str)))


def takes_folds(step: Any) -> bool:
    """Whether the `fit` of an estimator takes the fold of each row."""
    return "folds" in signature(step.fit).parameters


def check_takes_folds(learner: Any, map_: Any) -> None:
    """Raise InputError where a model, or a map that stops early, would hold out rows in its own way."""
    inner = [] if map_ is None or takes_folds(map_) else list(map_.get_params(deep=True).values())
    own = [step for step in inner if getattr(step, "early_stopping", False) is True]
    for step in [*own, *([] if takes_folds(learner) else [learner])]:
        raise InputError(
            f"split= says which rows are held out, and {type(step).__name__} would hold out others: its `fit` gets no folds; "
            "take split='random', another model, or early_stopping=False"
        )


def _choose_features(
    decisions: Decisions, options: Options, map_: Any, scaler: Any, learner: Any, linear: Verdict | None = None
) -> Prepared:
    """The pipeline whose learner gets the features of the map, the columns, or both, in the units of the sample.

    Parameters
    ----------
    decisions : Decisions, to which those about the map are added
    options : Options
    map_, scaler : unfitted, each None if there is none; both are cloned
    learner : the unfitted linear model
    linear : Verdict on the columns, if it is known
    """
    sample, targets, seed = decisions.sample, decisions.targets, decisions.seed
    verdicts = None
    if targets is not None:
        linear = linear or judge_columns(sample, targets, seed)
        verdicts = Verdicts(linear, linear, judge_constant(sample, targets))
    first = "table" if isinstance(scaler, TableEncoder) else "scale"
    steps: list[tuple[str, Any]] = [] if scaler is None else [(first, clone(scaler))]
    columns_alone = Pipeline([*steps, ("model", learner)])
    if map_ is None:
        return Prepared(columns_alone, decisions, verdicts)
    map_ = clone(map_)
    if options.n_components == "auto":
        deciding.set_components(decisions, map_)
    if options.length_scale == "auto":
        deciding.set_length_scale(decisions, map_)
    features, machine = deciding.choose_features(
        decisions, map_, linear, options.optional_map, options.raw_columns
    )
    if features == "columns":
        return Prepared(columns_alone, decisions, verdicts)
    if options.length_scale == "auto":  # after the trials, which shorter ones would mislead
        deciding.shorten_length_scale(decisions, map_)
    if verdicts is not None and machine is not None:
        verdicts = replace(verdicts, machine=machine)
    if features == "columns and map":
        map_ = WithColumns(map_, scale=column_scale(sample.X, seed), random_state=seed)
    pipeline = Pipeline([*steps, ("map", map_), ("model", learner)])
    return Prepared(pipeline, decisions, verdicts)


def _try_linear_units(prepared: Prepared, options: Options, map_: Any, unscaled: Sample) -> Prepared:
    """Choose features in linear units too, if a linear model on the columns in these beats what was chosen in robust ones.

    Robust units bend the columns: what is linear in columns of heavy tails is lost in them, while standard units (of CSR
    rows, the largest entries) change a linear model by its penalty alone.

    Parameters
    ----------
    prepared : Prepared, in robust units
    options : Options
    map_ : unfitted map, as it was before `prepared` was chosen
    unscaled : Sample, the sample as it was read

    Returns
    -------
    Prepared
        The better of the two. If the columns alone do better in linear units, `linear` is the verdict on those.
    """
    verdicts, targets = prepared.verdicts, prepared.decisions.targets
    if verdicts is None or targets is None:
        return prepared
    machine = verdicts.machine
    scaler = StreamingScaler("maxabs" if sp.issparse(unscaled.X) else "standard")
    decisions = replace(prepared.decisions, sample=unscaled.scaled(scaler))
    linear = judge_columns(decisions.sample, targets, decisions.seed)
    if _clearly_beats(linear, machine):
        why = f"{linear} of the columns in these units, {machine} of what else did best, {decisions.rows}"
        decisions.note("scale", scaler.method, why)
        other = _choose_features(decisions, options, map_, scaler, prepared.pipeline[-1], linear)
        if other.verdicts is not None and other.verdicts.machine.better(machine):
            return other
    if _clearly_beats(linear, verdicts.linear):
        return replace(prepared, verdicts=replace(verdicts, linear=linear, plain=True))
    return prepared


def _clearly_beats(linear: Verdict, other: Verdict) -> bool:
    """Whether the lead of a linear model in other units is no chance.

    One row of labels, or a few, are chance. But of squared errors, a few far rows are what linear units are for.
    """
    return linear.beats(other) if linear.missed is None else linear.leads(other, 2.0) > 0


def scaler_for_map(
    X: Any,
    y: Any,
    labels: bool,
    map_: Any,
    scale: Any,
    seed: int,
    weight: Any = None,
    split: Split | None = None,
) -> Any:
    """The unfitted scaler that `make_model` chooses for a given map, or None.

    Parameters
    ----------
    X, y : as `make_model` takes them
    labels : bool, whether y are labels
    map_ : unfitted map, or None
    scale : as the option of `make_model`
    seed : int, of the sample
    weight : of the rows, shape (n,), or None
    split : Split by which rows are held out; None is at random
    """
    X = as_rows(X)
    sample = read_sample(X, as_targets(X, y), seed, weight, split=split)
    decisions = Decisions(X.shape[0], sample, _encode_targets(sample, labels), seed)
    return deciding.choose_scaler(decisions, scale, map_)


def choose_learner(model: Any, target: Target, seed: int) -> tuple[Any, str]:
    """The unfitted linear model for a target, and why. Raises InputError where they do not go together."""
    labels = wants_labels(model)
    if not isinstance(model, str):
        check_target(type(model).__name__, bool(labels), target)
        return clone(model), f"as given; {target.why}"
    learner = named_model(model_name(model, target)).make(random_state=seed)
    return learner, target.why if labels is None else f"as asked; {target.why}"


def model_name(model: str, target: Target) -> str:
    """The name of a model that goes with a target, as asked or for "auto". Raises InputError where they do not go together."""
    if model == "auto":
        model = kind_for(target.labels)
    check_target(model, named_model(model).classifier, target)
    return model


def _unfitted_map(options: Options, labels: bool, seed: int) -> Any:
    """The map as an unfitted estimator that may be changed, or None, with the numbers that the options name."""
    choice = "fourier" if isinstance(options.map, str) and options.map == "auto" else options.map
    if choice is None or (isinstance(choice, str) and choice == "none"):
        return None
    if isinstance(choice, str):
        map_ = make_map(choice, random_state=seed)
        map_.set_params(**map_.target_parameters(labels))
    elif isinstance(choice, FeatureEstimator):
        map_ = clone(choice)
    else:
        raise InputError(
            f"map is a name or an unfitted map of distrf, got {type(choice).__name__}; wrap a transformer of scikit-learn "
            "in Blockwise"
        )
    if options.length_scale not in ("auto", None):
        name = map_.scale_parameter()
        if name is None:
            raise InputError(
                f"length_scale={options.length_scale!r} is for maps with one, and without gamma; got {map_!r}"
            )
        map_.set_params(**{name: options.length_scale})
    if options.n_components not in ("auto", None):
        map_.set_params(n_components=options.n_components)
    return map_


def _name(learner: Any) -> str:
    loss = getattr(learner, "loss", None)
    return type(learner).__name__ + (f", {loss} loss" if loss else "")


def _encode_targets(sample: Sample, labels: bool) -> Targets | None:
    """The encoding of the sample's targets; None where they cannot judge anything."""
    if not sample.splits or deciding.all_equal(sample.y):
        return None
    if labels:
        return class_targets(sample.y, sample.weight, None)
    targets, spread = regression_targets(sample.y, sample.weight), sample.y.std(axis=0)
    # Each of several targets counts in its own units: squared errors of the largest would decide alone.
    varies = spread > 1e-12 * np.abs(sample.y).max(axis=0)  # more than rounding leaves
    return targets if sample.y.ndim == 1 else replace(targets, units=1.0 / np.where(varies, spread, 1.0))


__all__ = ["Options", "Prepared", "make_model", "prepare", "scaler_for_map", "split_for"]
