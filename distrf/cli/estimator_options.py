"""The options of maps and models: those of the constructors that have a name, and the estimators they stand for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

from ..errors import did_you_mean
from ..features import StreamingScaler
from ..features.base import FeatureEstimator
from ..parameters import FLAG, check_parameters, one_of, whole
from ..pipeline.deciding import auto_components
from ..pipeline.making import model_name
from ..pipeline.tables import wants_numbers
from ..pipeline.target import Target
from ..registry import MAPS, MODELS, make_map, named_map, named_model
from .signatures import Parameter, Typed, arguments, merged, option, parameters_of, read
from .spelling import Options, Spelling
from .usage import UsageError, checked, flag

_SEEDS, _RAW_COLUMNS = whole(0), FLAG | one_of("auto")
_CHOSEN = ("length_scale", "n_components")
_MAP_PREFIX, _BASE_PREFIX = "map_", "base_"


class MapOptions(Typed):
    """What the command line says about the map."""

    #: The map where none is named, and what else the option may say.
    usual: ClassVar[str] = "fourier"
    others: ClassVar[str] = "or none for the columns as they are"

    def __init__(self, map: str | None = None, random_state: int | str = 0, **given: Any):
        super().__init__(**given)
        self.map, self.seed = map or self.usual, read(str(random_state), _SEEDS)
        checked(lambda: _SEEDS.check("random_state", self.seed), lambda _: "--random-state (--seed)")
        if {"gamma", "length_scale"} <= self.typed.keys():
            raise UsageError(
                "--gamma and --length-scale exclude each other: gamma sets the length scale; leave one out"
            )

    @classmethod
    def options(cls) -> Options:
        names = (*MAPS, "none") if cls.usual in MAPS else (*MAPS, "none", "auto")
        named = Parameter("map", f"{', '.join(MAPS)}, {cls.others}.", cls.usual, listed=names)
        found: Options = {"map": named.spelled("Map")}
        for name, by_map in _map_parameters().items():
            panel = f"Map: {min(by_map)}" if len(by_map) == 1 else "Map"
            found[name] = option(name, by_map, panel, "" if len(by_map) == len(MAPS) else "map")
        return found | {"random_state": _SEED.spelled("Map")}

    @property
    def said(self) -> bool:
        return bool(self.typed) or self.map != self.usual or self.seed != 0

    def place(self, name: str) -> str:
        """The parameter of the estimator that an option sets."""
        own, _ = _split({name: None}, named_map(self.map))
        return next(
            (parameters_of(MAPS[self.map])[n].name for n in own), f"base__{name.removeprefix(_BASE_PREFIX)}"
        )

    def make(self, d: int | None = None) -> Any:
        """The unfitted estimator, checked against d columns where they are known; None for no map.

        Raises UsageError for an unknown name or value, and for an option that would change nothing.
        """
        if self.map != "none" and self.map not in MAPS:
            raise UsageError(
                f"unknown --map {self.map!r}{did_you_mean(self.map, (*MAPS, 'none'))}; known: {', '.join(MAPS)}, none"
            )
        cls = None if self.map == "none" else named_map(self.map)
        own, base = _split(self.typed, cls)
        if base and (cls is None or not takes_map(cls)):
            name = next(iter(base))
            owners = ", ".join(_map_parameters()[name])
            raise UsageError(f"{flag(name)} is for --map {owners}; this is --map {self.map}")
        if cls is None:
            return None
        for name, parameter in parameters_of(cls).items():
            if parameter.default is Parameter.empty and name not in own:
                raise UsageError(f"--map {self.map} needs {flag(name)}: {parameter.rule}")
        named = own.pop("base", None) if takes_map(cls) else None

        def build() -> Any:
            made = make_map(self.map, **arguments(cls, own), random_state=self.seed)
            if takes_map(cls):
                _set_base(made, named, base)
            check_parameters(made) if d is None else made.planned_map(d)
            return made

        return checked(build, _flag_of_map)

    def follow_target(self, estimator: Any, labels: bool) -> None:
        """Give a map that learns from targets what these ask for, where nothing else is said."""
        if estimator is not None:
            asked = estimator.target_parameters(labels)
            estimator.set_params(**{k: v for k, v in asked.items() if _on_map(k) not in self.typed})


class TrainMapOptions(MapOptions):
    """The options of the map of a model: what is not said is chosen from a sample of rows."""

    usual = "auto"
    others = "none for the columns as they are, auto for fourier or none, whichever does better"

    @classmethod
    def options(cls) -> Options:
        text = "Whether the columns stand beside the features: auto, yes or no."
        values = ("auto", "yes", "no")
        beside = Parameter("raw_columns", text, "auto", listed=values).spelled("Map")
        found = super().options() | {"raw_columns": beside}
        return found | {name: _chosen_by_default(found[name]) for name in _CHOSEN}

    def __init__(self, raw_columns: str = "auto", **given: Any):
        super().__init__(**given)
        self.raw_columns: Any = read(raw_columns, _RAW_COLUMNS)
        checked(lambda: _RAW_COLUMNS.check("raw_columns", self.raw_columns))

    @property
    def free(self) -> bool:
        """Whether nothing is said of the map, so that the columns may do without."""
        return self.map == "auto" and self.typed.keys() <= set(_CHOSEN)

    @property
    def chosen_later(self) -> list[str]:
        """The parameters that are chosen by a sample."""
        return [name for name in _CHOSEN if self.typed.get(name, "auto") == "auto"]

    @property
    def size(self) -> str | None:
        """Of `distrf.plan`: whether the number of features is chosen later."""
        return "auto" if "n_components" in self.chosen_later else None

    @property
    def takes_numbers(self) -> bool:
        """Whether the map is for rows without negative entries: the columns of a table are then numbers as they are."""
        said = {name: value for name, value in self.typed.items() if name not in self.chosen_later}
        named = "fourier" if self.map == "auto" else self.map
        return wants_numbers(MapOptions(named, self.seed, **said).make())

    def planned(self, d: int, n: int) -> Any:
        """The unfitted map with numbers for what is chosen later; None for no map."""
        said = {name: value for name, value in self.typed.items() if name not in self.chosen_later}
        plain = MapOptions("fourier" if self.map == "auto" else self.map, self.seed, **said)
        sized = "n_components" not in self.chosen_later
        made = plain.make(d if sized else None)
        if made is not None and not sized:
            made.take_size(auto_components(n, 0))
            checked(lambda: made.planned_map(d), _flag_of_map)
        return made

    def chosen(self, estimator: Any) -> dict[str, Any]:
        """What `distrf.make_model` is to choose and what it is given; `estimator` is of `planned`."""
        given = {name: getattr(estimator, name) if self.free else None for name in _CHOSEN}
        return {
            "map": "auto" if self.free else estimator,
            **given | dict.fromkeys(self.chosen_later, "auto"),
            "raw_columns": self.raw_columns,
            "random_state": self.seed,
        }


class FourierOptions(MapOptions):
    """The options of Fourier features whose projection and number of features are compared."""

    @classmethod
    def options(cls) -> Options:
        found = parameters_of(MAPS["fourier"])
        fixed = {name: found[name] for name in found if name not in ("n_components", "projection")}
        return {name: p.spelled("Map") for name, p in (fixed | {"random_state": _SEED}).items()}


class ModelOptions(Typed):
    """What the command line says about the model."""

    def __init__(self, model: str = "auto", **given: Any):
        super().__init__(**given)
        if model not in ("auto", *MODELS):
            near = did_you_mean(model, MODELS)
            raise UsageError(f"--model is one of auto, {', '.join(MODELS)}, got {model!r}{near}")
        self.model = model

    @classmethod
    def options(cls) -> Options:
        text = f"{', '.join(MODELS)}; auto is ridge or ridge-classifier, as the target is."
        named = Parameter("model", text, "auto", listed=("auto", *MODELS))
        found: Options = {"model": named.spelled("Model")}
        for name, by_kind in _model_parameters().items():
            common = len(by_kind) == len(MODELS)
            panel = "Model" if common else f"Model: {', '.join(by_kind)}"
            found[name] = option(name, by_kind, panel, "" if common else "model")
        return found

    @property
    def asked(self) -> bool:
        """Whether anything was typed about the model."""
        return self.said or self.model != "auto"

    def for_target(self, target: Target) -> Self:
        """The options with a model that goes with the target. Raises InputError for one that does not."""
        return type(self)(model=model_name(self.model, target), **self.typed)

    def make(self, *, seed: int) -> Any:
        """The unfitted linear model.

        Raises UsageError for a value that breaks a rule, and for an option that the model does not have, or that needs
        another one.
        """
        kind = named_model(self.model)
        known = parameters_of(kind.estimator)
        for name in self.typed:
            if name not in known:
                others = [n for n, other in MODELS.items() if name in parameters_of(other.estimator)]
                raise UsageError(
                    f"{flag(name)} is for --model {', '.join(others)}; this is --model {self.model}"
                )
        loss = self.typed.get("loss")
        if kind.losses and loss not in (None, *kind.losses):
            near = did_you_mean(loss, kind.losses)
            raise UsageError(f"--loss of {self.model} is one of {', '.join(kind.losses)}, got {loss!r}{near}")

        def build() -> Any:
            made = kind.make(**arguments(kind.estimator, self.typed), random_state=seed)
            made.check()
            return made

        made = checked(build, flag)
        _check_needs(made, list(self.typed))
        return made


class ScaleOptions(Typed):
    """How columns are scaled; part of the model."""

    usual: ClassVar[str] = "auto"
    others: ClassVar[str] = "or none; auto takes robust or none, whichever does better on held-out rows"

    @classmethod
    def options(cls) -> Options:
        of_scaler = parameters_of(StreamingScaler)
        methods = of_scaler["method"].values
        listed = tuple(dict.fromkeys([*methods, "none", cls.usual]))
        scale = Parameter("scale", f"{', '.join(methods)}, {cls.others}.", cls.usual, listed=listed)
        return {"scale": scale.spelled("Map"), "divisor": of_scaler["divisor"].spelled("Map")}

    @property
    def asked(self) -> bool:
        """Whether a scaling other than "auto" is asked for, or none."""
        return bool(self.typed) and self.make() != "auto"

    def make(self) -> Any:
        """An unfitted scaler, "auto" or None. Raises UsageError for an unknown method and a divisor without use."""
        method, divisor = self.typed.get("scale", self.usual), arguments(StreamingScaler, self.typed)
        if divisor:
            if method not in (self.usual, "none", "divide"):
                raise UsageError("--scale and --divisor exclude each other")
            scaler = StreamingScaler("divide", **divisor)
        elif method in ("auto", "none"):
            return None if method == "none" else "auto"
        else:
            scaler = StreamingScaler(method)
        checked(lambda: check_parameters(scaler), lambda name: "--scale" if name == "method" else flag(name))
        return scaler


class PlainScaleOptions(ScaleOptions):
    """Scaling only where it is asked for."""

    usual = "none"
    others = "or none"


_SEED = Parameter("random_state", "Seed of the map, the folds and the order of rows.", 0, "int")


def _chosen_by_default(spelling: Spelling) -> Spelling:
    """The option with "auto" in place of the default of an estimator."""

    def said(text: str) -> str:
        return re.sub(r" \[default: .*\]$", "", text) + " [default: auto, by a sample of rows]"

    owners = {owner: said(text) for owner, text in spelling.owners.items()}
    return replace(spelling, text=said(spelling.text), owners=owners, values=(*spelling.values, "auto"))


def takes_map(cls: type[FeatureEstimator]) -> bool:
    """Whether the parameter `base` of a map is another map."""
    rule = cls.parameter_rules.get("base")
    return rule is not None and rule.allows(FeatureEstimator())


def _on_map(name: str) -> str:
    """The option of a parameter of a map: with a prefix where models have one of that name."""
    return _MAP_PREFIX + name if name in _model_parameters() else name


def _flag_of_map(name: str) -> str:
    return flag(_on_map(name))


def _model_parameters() -> dict[str, dict[str, Parameter]]:
    """{option: {model: parameter}} of all models."""
    return merged({name: kind.estimator for name, kind in MODELS.items()})


def _map_parameters() -> dict[str, dict[str, Parameter]]:
    """{option: {map: parameter}} of all maps, and of bases below one that has a parameter of the same name."""
    of_maps, of_models = merged(MAPS), _model_parameters()
    found = {(_MAP_PREFIX + name if name in of_models else name): by_map for name, by_map in of_maps.items()}
    outer = {kind: cls for kind, cls in MAPS.items() if takes_map(cls)}
    for name in merged(outer):
        below = {kind: p for kind, p in of_maps[name].items() if kind not in outer}
        if below and name != "base":
            found[_BASE_PREFIX + name] = {kind: next(iter(below.values())) for kind in outer}
    return found


def _split(typed: Mapping[str, Any], cls: type | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """{parameter: text} of a map, and {option: text} of the map below it: those with the prefix, or that it has not."""
    own: dict[str, Any] = {}
    base: dict[str, Any] = {}
    known = {} if cls is None else parameters_of(cls)
    for name, text in typed.items():
        parameter = name.removeprefix(_MAP_PREFIX)
        if parameter in known:
            own[parameter] = text
        else:
            base[name] = text
    return own, base


def _set_base(made: Any, named: str | None, typed: Mapping[str, Any]) -> None:
    """Give a map its base: as named, with what was typed of it, else of the size that it has by name."""
    if named is not None:
        if named not in MAPS or takes_map(MAPS[named]):
            bases = [name for name, cls in MAPS.items() if not takes_map(cls)]
            raise UsageError(f"--base is one of {', '.join(bases)}, got {named!r}{did_you_mean(named, bases)}")
        usual, base = made.base, named_map(named)()
        if {"n_components"} <= base.parameter_rules.keys() & usual.parameter_rules.keys():
            base.set_params(n_components=usual.n_components)
        made.set_params(base=base)
    cls = type(made.base)
    below = {name.removeprefix(_BASE_PREFIX).removeprefix(_MAP_PREFIX): text for name, text in typed.items()}
    for option_, name in zip(typed, below, strict=True):
        if name not in parameters_of(cls):
            raise UsageError(
                f"{flag(option_)} is for other maps; this is a {type(made).__name__} on {cls.__name__}"
            )
    made.base.set_params(**arguments(cls, below))
    checked(lambda: check_parameters(made.base), lambda name: flag(_BASE_PREFIX + name))


def _check_needs(made: Any, given: Iterable[str]) -> None:
    """Raise UsageError for a parameter that was given and would change nothing: another one decides."""
    for name in given:
        needs = getattr(made, "parameter_needs", {}).get(name, {})
        if needs and not any(getattr(made, other) in values for other, values in needs.items()):
            ways = (
                flag(other) if values == (True,) else f"{flag(other)} {' or '.join(map(str, values))}"
                for other, values in needs.items()
            )
            got = ", ".join(repr(getattr(made, other)) for other in needs)
            raise UsageError(f"{flag(name)} needs {' or '.join(ways)}, got {got}")
