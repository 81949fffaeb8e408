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
from ..parameters import check_known, check_parameters, checked, one_of, read
from ..randomness import draw_seed
from ..registry import MAPS, kind_for, load_plugins, make_map, named_map, named_model
from ..ridge.alphas import ALPHAS, given_alphas
from ..tables.encoder import TableEncoder
from .target import Target, wants_labels

#: Rows beyond which more than 2,048 features may pay.
MOST_FEATURES_ROWS = 20_000


#: The steps whose parameters are set.
STEPS = ("map", "model", "scale", "table")
#: What other options say, and the threads, which are Dask's.
NOT_SET = ("n_jobs", "random_state", "checkpoint", "resume")
#: Parameters of steps that are options of their own.
OWN = {"map__n_components": "n_components", "model__alpha": "alpha"}


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
        wants_labels(self.model)
        asked_scaler(self)
        if unfitted_map(self, None, 0) is None and self.of("map"):
            raise InputError(
                f"map={self.map!r} has no features and no parameters; leave {next(iter(self.of('map')))} out"
            )
        if self.n_components == "auto" and _is_set(self.map, "n_components", "base__n_components"):
            object.__setattr__(self, "n_components", None)  # which is that of the map

    def of(self, step: str) -> dict[str, Any]:
        """What was said of a step: {parameter: value, or the text of one}. Raises ParameterError for what is no parameter."""
        said = {full: getattr(self, name) for full, name in OWN.items()}
        given = {full: value for full, value in said.items() if _is_said(value)}
        for name, value in (self.set or {}).items():
            owner, _, parameter = str(name).partition("__")
            if owner not in STEPS or not parameter or name in OWN:
                ways = ", ".join(f"{one}__NAME" for one in STEPS)
                rule = f"parameters of steps, {ways}; n_components and alpha have no step"
                raise ParameterError("set or grid", rule, repr(name))
            given[name] = value
        return {name.partition("__")[2]: v for name, v in given.items() if name.startswith(f"{step}__")}

    def with_encoder(self, encoder: TableEncoder | None) -> Options:
        """The same options for the coded rows of a table, which the encoder reads; None where there is no table."""
        given = self.of("table")
        if encoder is not None:
            return replace(self, scale=set_parameters(clone(encoder), "table", given))
        if given:
            raise InputError(
                f"table__{next(iter(given))} is of a table whose columns are encoded; these rows are numbers"
            )
        return self

    @property
    def searches_length(self) -> bool:
        """Whether the length scale is searched: not where the map has none, or one that was set."""
        map_ = unfitted_map(self, None, 0)
        name = map_ and map_.scale_parameter()
        return bool(name) and name not in self.of("map") and not _is_set(self.map, name)

    @property
    def alphas(self) -> list[float] | None:
        """The penalties that were given, by the model itself too; None where they are chosen."""
        alpha = self.alpha if _is_said(self.alpha) else getattr(self.model, "alpha", None)
        return given_alphas("auto" if alpha is None else read(alpha, ALPHAS))

    @property
    def optional_map(self) -> bool:
        """Whether the columns alone may be taken: not where a parameter of the map was set."""
        return is_word(self.map, "auto") and not self.of("map").keys() - {"n_components"}

    @property
    def numbers(self) -> bool:
        """Whether columns of a table are numbers as they are: for a scaling, or a map without negative entries."""
        asked = not is_word(self.scale, "auto") or bool(self.of("scale"))
        return asked or positive_only(unfitted_map(self, None, 0))


def is_word(value: Any, *words: str) -> bool:
    """Whether an option is one of some words; it may be an array or an estimator."""
    return isinstance(value, str) and value in words


def _is_said(value: Any) -> bool:
    return value is not None and not is_word(value, "auto")


def _is_set(map_: Any, *names: str) -> bool:
    """Whether a parameter of a map, or of its base, was set: it is neither None nor the default."""
    known = map_.get_params() if isinstance(map_, FeatureEstimator) else {}
    for name in names:
        owner = known.get("base") if name.startswith("base__") else map_
        if (value := known.get(name)) is not None:
            default = signature(type(owner)).parameters[name.removeprefix("base__")].default
            if not np.array_equal(value, default):
                return True
    return False


def asked_scaler(options: Options) -> Any:
    """The unfitted scaler, or encoder, that the option `scale` names; None for none, and where "auto" chooses it later."""
    asked, given = options.scale, options.of("scale")
    if isinstance(asked, TableEncoder):
        return clone(asked)
    if asked is None or is_word(asked, "none", "auto"):
        if given:
            raise InputError(
                f"scale__{next(iter(given))} needs a scaling, such as scale='divide'; got scale={asked!r}"
            )
        return None
    scaler = clone(asked) if isinstance(asked, StreamingScaler) else StreamingScaler(asked)
    (StreamingScaler.parameter_rules["method"] | one_of("auto", "none")).check("scale", scaler.method)
    check_parameters(set_parameters(scaler, "scale", given))
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
    model, labels = options.model, wants_labels(options.model)
    target.check(model, target.labels if labels is None else labels)
    why = target.why if labels is None else f"as given; {target.why}"
    if not isinstance(model, str):
        return set_parameters(clone(model), "model", options.of("model")), why
    kind = named_model(kind_for(target.labels) if labels is None else model)
    learner = kind.make(random_state=options.random_state)
    set_parameters(learner, "model", options.of("model"))
    if kind.losses:
        one_of(*kind.losses).check("model__loss", learner.loss)
    return learner, why


def unfitted_map(options: Options, labels: bool | None, seed: int) -> Any:
    """The map as an unfitted estimator that may be changed, or None, with the parameters that were set.

    labels : whether the targets are; None where there are none
    """
    choice, given = options.map, options.of("map")
    if choice is None or is_word(choice, "none"):
        return None
    if isinstance(choice, FeatureEstimator):
        return set_parameters(clone(choice), "map", given)
    if not isinstance(choice, str):
        raise InputError(
            f"map is a name or an unfitted map of distrf, got {type(choice).__name__}; wrap a transformer of scikit-learn "
            "in Blockwise"
        )
    name = "fourier" if choice == "auto" else choice
    rules = named_map(name).parameter_rules
    first = given.keys() & rules.keys() & {"n_components", "transformer"}  # of which others follow
    map_ = make_map(name, **{n: checked(n, given[n], rules[n]) for n in first}, random_state=seed)
    if labels is not None:
        map_.set_params(**{n: v for n, v in map_.target_parameters(labels).items() if n not in given})
    return set_parameters(map_, "map", given)


def named(learner: Any) -> str:
    loss = getattr(learner, "loss", None)
    return type(learner).__name__ + (f", {loss} loss" if loss else "")


def set_parameters(estimator: Any, step: str, given: Mapping[str, Any]) -> Any:
    """Set parameters by their names in `get_params`, those of a map below another one last; each by its rule.

    Returns the estimator.
    """
    for name in sorted(given, key=lambda name: name.count("__")):
        owner, said, value = estimator, f"{step}__{name}", given[name]
        *path, last = name.split("__")
        for part in path:
            check_known("set", part, owner.get_params(deep=False), f"what {type(owner).__name__} has")
            owner = getattr(owner, part)
        known = [n for n in getattr(owner, "parameter_rules", {}) if n not in NOT_SET]
        check_known("set", last, known, f"parameters that the {step}, {type(owner).__name__}, has")
        if last == "base" and isinstance(value, str) and value in MAPS:
            value = make_map(value)
        owner.set_params(**{last: checked(OWN.get(said, said), value, owner.parameter_rules[last])})
    return estimator
