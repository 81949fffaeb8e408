"""`make_model`: an unfitted pipeline for these rows, each choice made on a sample of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.pipeline import Pipeline

from ..errors import InputError
from ..features import StreamingScaler, WithColumns
from ..features.base import FeatureEstimator
from ..features.with_columns import column_scale
from ..maps.scaling import ROBUST
from ..parameters import ruled
from ..randomness import draw_seed
from ..record import Training
from ..registry import kind_for, make_map, named_model
from ..targets import Targets, class_targets, regression_targets
from . import deciding
from .deciding import Decisions
from .sample import Sample, as_rows, as_targets, look_at_target, read_sample
from .search import Verdict, judge_columns, judge_constant
from .target import Target, check_misread, check_target


@dataclass(frozen=True)
class Options:
    """What a user says of a model; see `make_model`."""

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

    @property
    def optional_map(self) -> bool:
        """Whether the columns alone may be taken."""
        return isinstance(self.map, str) and self.map == "auto" and self.raw_columns == "auto"


@ruled()
def make_model(
    X: Any,
    y: Any,
    *,
    model: Any = "auto",
    map: Any = "auto",
    scale: Any = "auto",
    length_scale: float | str | None = "auto",
    n_components: int | str | None = "auto",
    raw_columns: bool | str = "auto",
    random_state: Any = 0,
) -> Pipeline:
    """An unfitted pipeline for these rows: scaling where it helps, a random feature map, a linear model.

    What is "auto" is chosen on a seeded sample of at most 6,000 rows: ridge on a candidate's features of some of
    them, judged by the others. Of a Dask array only the blocks that hold sampled rows are read, and nothing of the
    array is kept. `pipeline.training_` says what was chosen and why; docs/choices.md has the rules and the figures.

    Parameters
    ----------
    X : array, CSR matrix or Dask array of shape (n, d); y : targets of shape (n,) or (n, C)
    model : "auto" (ridge: a classifier for labels, a regressor for numbers), a name ("ridge", "ridge-classifier",
        "sgd-regressor", "sgd-classifier", "svm", "logistic"), or an unfitted linear model, taken as it is but for alpha="auto" of ridge
    map : "auto" (Fourier features, or none where a linear model on the columns does better), None or "none", a
        name ("fourier", "laplace", "binning", "tensor-sketch", "maclaurin", "compact", "nystroem", "tefm", "cnm"),
        or an unfitted map, taken as it is but for what the next ones say
    scale : "auto" ("robust" units, linear ones where a linear model on these does better, or none), None or
        "none", a method of StreamingScaler, or an unfitted one
    length_scale : "auto" searches multiples of the map's rule; a number or a rule is taken; None leaves the map's
    n_components : "auto" from n, d and memory; a number is taken; None leaves the map's
    raw_columns : whether the columns stand beside the features; "auto": where held-out rows say so
    random_state : seed of the sample, the map and the model

    Returns
    -------
    Pipeline with the steps "scale", "map" (each where there is one) and "model", and the attribute
    `training_`, a `distrf.record.Training`

    Raises
    ------
    InputError : a classifier for a continuous target, a regressor for strings, rows that are not finite (the first
        found is named), unknown names
    """
    options = Options(model, map, scale, length_scale, n_components, raw_columns, random_state)
    return prepare(X, y, options).pipeline


@dataclass
class Prepared:
    """The pipeline, and what it was chosen by: the sample as the map sees it, and verdicts on it.

    verdicts : None where the sample cannot judge: too few rows, one class, a constant
    targets : the encoding of the sample's targets, None with the verdicts
    plain : whether `linear` is that of the columns in linear units, and not as the sample has them
    """

    pipeline: Pipeline
    sample: Sample
    machine: Verdict | None = None
    linear: Verdict | None = None
    constant: Verdict | None = None
    targets: Targets | None = None
    plain: bool = False


def prepare(
    X: Any,
    y: Any,
    options: Options,
    sample_weight: Any = None,
    target: Target | None = None,
    keep_state: Callable[[Any, Any], None] = lambda map_, model: None,
) -> Prepared:
    """`make_model`, with the evidence.

    sample_weight : rows of weight 0 are not looked at; target : what y is, where that is known; keep_state : called with
    map and model, unfitted, before rows are looked at
    """
    X = as_rows(X)
    y = as_targets(X, y)
    seed = draw_seed(options.random_state)
    target = target or look_at_target(y, seed)
    doubts = (target.why,) if target.doubtful and wants_labels(options.model) is None else ()
    learner, why = choose_learner(options.model, target, seed)
    wanted = _unfitted_map(options, is_classifier(learner), seed)
    keep_state(wanted, learner)
    sample = read_sample(X, y, seed, sample_weight)
    decisions = Decisions(X.shape[0], sample, _targets(sample, is_classifier(learner)), seed)
    decisions.note("model", _name(learner), why)
    if sample.copies:
        share = f"{100 * sample.copies:.3g} % of the sampled rows"
        decisions.note("copies", share, "each row and its copies are held out together")
    if wanted is not None and options.optional_map and deciding.all_equal(sample.X):
        wanted = None
        decisions.note("map", "none", "all sampled rows are equal")
    scaler = deciding.scaler(decisions, options.scale, wanted, options.optional_map)
    if scaler is not None:
        decisions.sample = sample.scaled(scaler)
    made = _with_features(decisions, options, wanted, scaler, learner)
    if options.scale == "auto" and scaler is not None and scaler.method in ROBUST and wanted is not None:
        made = _in_linear_units(made, decisions, options, sample, wanted)
    if getattr(learner, "compares_alphas", False) and isinstance(learner.alpha, str):
        deciding.penalty(decisions, learner, made.machine, "map" in made.pipeline.named_steps)
    made.pipeline.training_ = Training(tuple(decisions.choices), warnings=doubts)
    return made


def _with_features(
    decisions: Decisions,
    options: Options,
    wanted: Any,
    scaler: Any,
    learner: Any,
    linear: Verdict | None = None,
) -> Prepared:
    """What the learner stands behind: the features of `wanted`, the columns, or both, in the units of the sample.

    linear : the verdict on the columns, where it is known
    """
    sample, targets, seed = decisions.sample, decisions.targets, decisions.seed
    steps: list[tuple[str, Any]] = [] if scaler is None else [("scale", clone(scaler))]
    made = Prepared(Pipeline([*steps, ("model", learner)]), sample, targets=targets)
    if targets is not None:
        made.constant = judge_constant(sample, targets)
        made.machine = made.linear = linear or judge_columns(sample, targets, seed)
    if wanted is None:
        return made
    map_ = clone(wanted)
    if options.length_scale == "auto":
        deciding.length_scale(decisions, map_)
    if options.n_components == "auto":
        deciding.components(decisions, map_)
    kept, joined, made.machine = deciding.features(
        decisions, map_, made.linear, options.optional_map, options.raw_columns
    )
    if kept:
        if joined:
            map_ = WithColumns(map_, scale=column_scale(sample.X, seed), random_state=seed)
        made.pipeline = Pipeline([*steps, ("map", map_), ("model", learner)])
    return made


def _in_linear_units(
    made: Prepared, decisions: Decisions, options: Options, came: Sample, wanted: Any
) -> Prepared:
    """What was made in robust units, or the same in linear ones where a linear model on these beats it.

    Robust units bend the columns: what is linear in columns of heavy tails is lost in them, while standard units (of CSR
    rows, the largest entries) change a linear model by its penalty alone. came : the sample without scaling
    """
    if made.machine is None or made.linear is None or made.targets is None:
        return made
    scaler = StreamingScaler("maxabs" if sp.issparse(came.X) else "standard")
    sample = came.scaled(scaler)
    linear = judge_columns(sample, made.targets, decisions.seed)

    def wins(other: Verdict) -> bool:
        """One row of labels, or a few, are chance: of squared errors, a few far rows are what linear units are for."""
        return linear.beats(other) if linear.missed is None else linear.leads(other, 2.0) > 0

    if wins(made.machine):
        again = replace(decisions, sample=sample, choices=list(decisions.choices))
        why = f"{linear} of the columns in these units, {made.machine} of what else did best, {decisions.rows}"
        again.note("scale", scaler.method, why)
        other = _with_features(again, options, wanted, scaler, made.pipeline[-1], linear)
        if other.machine is not None and other.machine.better(made.machine):
            decisions.sample, decisions.choices = sample, again.choices
            return other
    return replace(made, linear=linear, plain=True) if wins(made.linear) else made


def choose_scaler(X: Any, y: Any, labels: bool, map_: Any, scale: Any, seed: int) -> Any:
    """The unfitted scaler of `make_model` for a map that is given, or None."""
    X = as_rows(X)
    sample = read_sample(X, as_targets(X, y), seed)
    return deciding.scaler(Decisions(X.shape[0], sample, _targets(sample, labels), seed), scale, map_)


def choose_learner(model: Any, target: Target, seed: int) -> tuple[Any, str]:
    """The unfitted linear model for a target, and why. Raises InputError where they do not go together."""
    asked = wants_labels(model)
    if not isinstance(model, str):
        check_target(type(model).__name__, bool(asked), target)
        return clone(model), f"as given; {target.why}"
    made = named_model(model_name(model, target)).make(random_state=seed)
    return made, target.why if asked is None else f"as asked; {target.why}"


def model_name(model: str, target: Target) -> str:
    """The name of a model that goes with a target, as asked or for "auto". Raises InputError where they do not go together."""
    if model == "auto":
        check_misread(target)
        model = kind_for(target.labels)
    check_target(model, named_model(model).classifier, target)
    return model


def wants_labels(model: Any) -> bool | None:
    """Whether the model is a classifier; None for "auto". Raises InputError for an unknown name."""
    if isinstance(model, str):
        return None if model == "auto" else named_model(model).classifier
    if not isinstance(model, BaseEstimator):
        raise InputError(f"model is a name or an unfitted linear model, got {type(model).__name__}")
    return bool(is_classifier(model))


def _unfitted_map(options: Options, labels: bool, seed: int) -> Any:
    """The map as an unfitted estimator that may be changed, or None, with the numbers that were asked for."""
    map_ = "fourier" if isinstance(options.map, str) and options.map == "auto" else options.map
    if map_ is None or (isinstance(map_, str) and map_ == "none"):
        return None
    if isinstance(map_, str):
        made = make_map(map_, random_state=seed)
        made.set_params(**made.target_parameters(labels))
    elif isinstance(map_, FeatureEstimator):
        made = clone(map_)
    else:
        raise InputError(
            f"map is a name or an unfitted map of distrf, got {type(map_).__name__}; wrap a transformer of scikit-learn in "
            "Blockwise"
        )
    if options.length_scale not in ("auto", None):
        name = made.scale_parameter()
        if name is None:
            raise InputError(
                f"length_scale={options.length_scale!r} is for maps with one, and without gamma; got {made!r}"
            )
        made.set_params(**{name: options.length_scale})
    if options.n_components not in ("auto", None):
        made.set_params(n_components=options.n_components)
    return made


def _name(learner: Any) -> str:
    loss = getattr(learner, "loss", None)
    return type(learner).__name__ + (f", {loss} loss" if loss else "")


def _targets(sample: Sample, labels: bool) -> Targets | None:
    """The encoding of the sample's targets; None where they cannot judge anything."""
    if not sample.splits or deciding.all_equal(sample.y):
        return None
    if labels:
        return class_targets(sample.y, None, None)
    found, spread = regression_targets(sample.y, None), sample.y.std(axis=0)
    # Each of several targets counts in its own units: squared errors of the largest would decide alone.
    varies = spread > 1e-12 * np.abs(sample.y).max(axis=0)  # more than rounding leaves
    return found if sample.y.ndim == 1 else replace(found, units=1.0 / np.where(varies, spread, 1.0))


__all__ = ["Options", "Prepared", "choose_scaler", "make_model", "prepare"]
