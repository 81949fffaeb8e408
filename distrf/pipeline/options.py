"""The options of `make_model`, and the unfitted steps that they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline

from ..errors import InputError, ParameterError
from ..execution.memory import PROCESS_BYTES
from ..maps.estimator import FeatureEstimator, positive_only
from ..maps.scaling import StreamingScaler
from ..parameters import check_known, check_parameters, checked, name_in, one_of, read
from ..randomness import draw_seed
from ..registry import MAPS, MODELS, kind_for, load_plugins, make_map, named_map, named_model
from ..ridge.alphas import ALPHAS
from ..tables.encoder import TableEncoder
from .sample import Target, check_target, wants_labels

#: Rows beyond which more than 2,048 features may pay.
MOST_FEATURES_ROWS = 20_000


#: The steps whose parameters are set.
STEPS = ("map", "model", "scale", "table")
#: What other options say, and the threads, which are Dask's.
NOT_SET = ("n_jobs", "random_state", "checkpoint", "resume")
#: Those that are options of their own: their names in messages.
_SHORT = {"map__n_components": "n_components", "model__alpha": "alpha"}
#: Parameters of steps that are options of their own.
_OF_STEPS = (("map", "n_components"), ("model", "alpha"))


@dataclass(frozen=True)
class Options:
    """The options of `make_model`, which documents them."""

    model: Any = "auto"
    map: Any = "auto"
    scale: Any = "auto"
    n_components: int | str | None = "auto"
    alpha: Any = "auto"
    set: Mapping[str, Any] | None = None
    random_state: Any = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "random_state", draw_seed(self.random_state))
        if not isinstance(self.set, Mapping | None):
            raise InputError(f"set has parameters by name, {{'map__length_scale': 2.0}}, got {self.set!r}")
        load_plugins()
        for name, known in (
            ("map", name_in(MAPS) | one_of("auto", "none")),
            ("model", name_in(MODELS) | one_of("auto")),
        ):
            if isinstance(value := getattr(self, name), str):
                known.check(name, value)
        if self.scale is None or isinstance(self.scale, str):
            asked_scaler(self)
        said = by_step(self.set or {})
        for step, name in _OF_STEPS:
            if _is_said(getattr(self, name)) and name in said[step]:
                raise InputError(f"{name} and {step}__{name} of set are one option; leave one out")
        of_map = self.of("map")
        if of_map and not _has_map(self.map):
            raise InputError(
                f"map={self.map!r} has no features and no parameters; leave {next(iter(of_map))} out"
            )
        if "n_components" in said["map"] or (
            self.n_components == "auto" and _is_set(self.map, "n_components", "base__n_components")
        ):
            object.__setattr__(self, "n_components", None)  # which is that of the map

    def of(self, step: str) -> dict[str, Any]:
        """What was said of a step: {parameter: value, or the text of one}."""
        short = {name: getattr(self, name) for owner, name in _OF_STEPS if owner == step}
        return by_step(self.set or {})[step] | {name: value for name, value in short.items() if _is_said(value)}

    def with_encoder(self, encoder: TableEncoder | None) -> Options:
        """The same options for the coded rows of a table, which the encoder reads; None where there is no table."""
        given = self.of("table")
        if encoder is None:
            if given:
                raise InputError(
                    f"table__{next(iter(given))} is of a table whose columns are encoded; these rows are numbers"
                )
            return self
        encoder = clone(encoder)
        set_parameters(encoder, "table", given)
        return replace(self, scale=encoder)

    @property
    def searches_length(self) -> bool:
        """Whether the length scale is searched: not where the map has none, or one that was set."""
        map_ = unfitted_map(self, None, 0)
        name = map_ and map_.scale_parameter()
        return bool(name) and name not in self.of("map") and not _is_set(self.map, name)

    @property
    def raw_columns(self) -> bool:
        """Whether the model may get the columns beside the features: those of a map that is chosen or named."""
        return isinstance(self.map, str)

    @property
    def alphas(self) -> list[float] | None:
        """The penalties that were given, by the model itself too; None where they are chosen."""
        given = read(self.of("model").get("alpha", getattr(self.model, "alpha", None)), ALPHAS)
        return None if given is None or isinstance(given, str) else np.ravel(given).tolist()

    @property
    def optional_map(self) -> bool:
        """Whether the columns alone may be taken: not where a parameter of the map was set."""
        return isinstance(self.map, str) and self.map == "auto" and not by_step(self.set or {})["map"]

    @property
    def numbers(self) -> bool:
        """Whether columns of a table are numbers as they are: for a scaling, or a map without negative entries."""
        return (
            _is_said(self.scale)
            or self.scale is None
            or bool(self.of("scale"))
            or positive_only(unfitted_map(self, None, 0))
        )


def _has_map(choice: Any) -> bool:
    return choice is not None and not (isinstance(choice, str) and choice == "none")


def _is_said(value: Any) -> bool:
    return value is not None and not (isinstance(value, str) and value == "auto")


def _is_set(map_: Any, *names: str) -> bool:
    """Whether a parameter of a map, or of its base, was set: it is there, and is neither None nor what it is by itself."""
    for name in names if isinstance(map_, FeatureEstimator) else ():
        of, _, parameter = name.rpartition("__")
        step = getattr(map_, of, None) if of else map_
        value = getattr(step, parameter, None)
        usual = getattr(map_.named_base(getattr(map_, "n_components", 0)), parameter, None) if of else None
        if value is not None and value not in (usual, signature(type(step)).parameters[parameter].default):
            return True
    return False


def asked_scaler(options: Options) -> Any:
    """The unfitted scaler, or encoder, that the option `scale` names; None for none, and where "auto" chooses it later."""
    requested, given = options.scale, options.of("scale")
    if isinstance(requested, TableEncoder):
        return clone(requested)
    if requested is None or (isinstance(requested, str) and requested in ("none", "auto")):
        if given:
            raise InputError(
                f"scale__{next(iter(given))} needs a scaling, such as scale='divide'; got scale={requested!r}"
            )
        return None
    if isinstance(requested, str):
        (StreamingScaler.parameter_rules["method"] | one_of("auto", "none")).check("scale", requested)
    scaler = clone(requested) if isinstance(requested, StreamingScaler) else StreamingScaler(requested)
    set_parameters(scaler, "scale", given)
    check_parameters(scaler)
    return scaler


def auto_components(n: int, memory: int) -> int:
    """Features at most: 4,096 beyond 20,000 rows, 2,048 from 5,000, else 1,024; at most twice the rows, and as memory allows.

    Parameters
    ----------
    n : int, rows of the data
    memory : int, bytes of a worker; 0 if they are unknown

    Returns
    -------
    int
        A power of two, at least 256.
    """
    components = 4096 if n > MOST_FEATURES_ROWS else 2048 if n >= 5000 else 1024
    while components > max(256, 2 * n):
        components //= 2
    left = max(memory - PROCESS_BYTES, memory // 4)
    # Half a float64 Gram matrix for each fold, of which some six meet on a worker.
    while memory and components > 256 and 6 * (5 if components <= 2048 else 2) * 4 * components**2 > left:
        components //= 2
    return components


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


def choose_learner(options: Options, target: Target) -> tuple[Any, str]:
    """The unfitted linear model for a target, and why. Raises InputError where they do not go together."""
    model = options.model
    losses: tuple[str, ...] = ()
    labels, given = wants_labels(model), options.of("model")
    if isinstance(model, str):
        kind = named_model(model_name(model, target))
        learner, losses = kind.make(random_state=options.random_state), kind.losses
        why = target.why if labels is None else f"as asked; {target.why}"
    else:
        check_target(type(model).__name__, bool(labels), target)
        learner, why = clone(model), f"as given; {target.why}"
    set_parameters(learner, "model", given)
    if losses and learner.loss not in losses:
        one_of(*losses).check("model__loss", learner.loss)
    if given and hasattr(learner, "check"):
        learner.check()
    return learner, why


def model_name(model: str, target: Target) -> str:
    """The name of a model that goes with a target, as asked or for "auto". Raises InputError where they do not go together."""
    if model == "auto":
        if target.written:
            raise InputError(
                f"the target is {target.written}: make numbers of it (decimal=',' reads those of CSV), or give "
                "model='ridge-classifier' to take it for labels"
            )
        model = kind_for(target.labels)
    check_target(model, named_model(model).classifier, target)
    return model


def unfitted_map(options: Options, labels: bool | None, seed: int) -> Any:
    """The map as an unfitted estimator that may be changed, or None, with the parameters that were set.

    labels : whether the targets are; None where there are none
    """
    if not _has_map(options.map):
        return None
    choice = "fourier" if isinstance(options.map, str) and options.map == "auto" else options.map
    given = options.of("map")
    if isinstance(choice, str):
        rules = named_map(choice).parameter_rules
        first = [
            n for n in ("n_components", "transformer") if n in given and n in rules
        ]  # of which others follow
        map_ = make_map(choice, **{n: checked(n, given[n], rules[n]) for n in first}, random_state=seed)
        if labels is not None:
            map_.set_params(**{n: v for n, v in map_.target_parameters(labels).items() if n not in given})
    elif isinstance(choice, FeatureEstimator):
        map_ = clone(choice)
    else:
        raise InputError(
            f"map is a name or an unfitted map of distrf, got {type(choice).__name__}; wrap a transformer of scikit-learn "
            "in Blockwise"
        )
    set_parameters(map_, "map", given)
    return map_


def named(learner: Any) -> str:
    loss = getattr(learner, "loss", None)
    return type(learner).__name__ + (f", {loss} loss" if loss else "")


def by_step(given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """{step: {parameter: value}} of {"step__parameter": value}. Raises ParameterError for what is none."""
    found: dict[str, dict[str, Any]] = {step: {} for step in STEPS}
    for name, value in given.items():
        step, _, parameter = str(name).partition("__")
        if step not in found or not parameter:
            ways = ", ".join(f"{step}__NAME" for step in STEPS)
            raise ParameterError("set", f"parameters of steps, {ways}", repr(name))
        found[step][parameter] = value
    return found


def owner_of(estimator: Any, name: str, step: str) -> tuple[Any, str]:
    """The estimator, of a map that lies on another the lower one, and its parameter that `name` stands for."""
    *path, last = name.split("__")
    for part in path:
        check_known("set", part, estimator.get_params(deep=False), f"what {type(estimator).__name__} has")
        estimator = getattr(estimator, part)
    known = [n for n in getattr(estimator, "parameter_rules", {}) if n not in NOT_SET]
    check_known("set", last, known, f"parameters that the {step}, {type(estimator).__name__}, has")
    return estimator, last


def set_parameters(estimator: Any, step: str, given: Mapping[str, Any]) -> None:
    """Set parameters by their names in `get_params`, a map below another one before its own; each by its rule."""
    for name in sorted(given, key=lambda name: name.count("__")):
        owner, last = owner_of(estimator, name, step)
        value = given[name]
        if last == "base" and isinstance(value, str) and value in MAPS:
            value = make_map(value)
        said = f"{step}__{name}"
        owner.set_params(**{last: checked(_SHORT.get(said, said), value, owner.parameter_rules[last])})
        _check_needed(owner, last, given, step)


def _check_needed(owner: Any, name: str, given: Mapping[str, Any], step: str) -> None:
    """Raise for a parameter that would change nothing, as another one decides that is not given so."""
    needs = getattr(owner, "parameter_needs", {}).get(name, {})
    values = {n: read(given[n], owner.parameter_rules[n]) if n in given else getattr(owner, n) for n in needs}
    if needs and not any(values[other] in allowed for other, allowed in needs.items()):
        ways = " or ".join(f"{step}__{n}={' or '.join(map(str, allowed))}" for n, allowed in needs.items())
        raise ParameterError(f"{step}__{name}", f"given with {ways}", ", ".join(map(repr, values.values())))
