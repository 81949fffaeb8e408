"""The unfitted map, model and scaling that options stand for: parameters by name, each checked by the rule of its class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer
from sklearn.base import clone, is_classifier

from ..features import StreamingScaler
from ..features.base import FeatureEstimator
from ..parameters import check_parameters, whole
from ..pipeline.options import model_name
from ..pipeline.rows import wants_numbers
from ..pipeline.target import Target
from ..registry import MAPS, load_plugins, make_map, named_model
from ..ridge.alphas import ALPHA
from .options import check_name, checked, read, several

#: What other options say, and the threads, which are Dask's.
NOT_SET = ("n_jobs", "random_state", "checkpoint", "resume")
#: Options of `make_model` that have none on the command line.
_MORE = ("length_scale", "raw_columns")
#: What `tune` searches where nothing is said.
_ALPHAS, _SIZES = "1e-8,1e-7,1e-6,1e-5,1e-4,1e-3", [1024, 4096]


class Steps:
    """What the options of a command say of the steps of a pipeline."""

    def __init__(self, given: Mapping[str, Any]):
        load_plugins()
        self.map, self.model, self.scale = (given.get(name, "auto") for name in ("map", "model", "scale"))
        check_name(self.map, [*MAPS, "none", "auto"], "--map")
        self.seed = checked("random_state", given.get("random_state", 0), whole(0))
        self.more: dict[str, Any] = {}
        self.given: dict[str, dict[str, str]] = {"map": {}, "model": {}, "scale": {}}
        for name, text in given.get("set", {}).items():
            step, _, parameter = name.partition("__")
            if step in self.given and parameter:
                self.given[step][parameter] = text
            elif name in _MORE:
                self.more[name] = read(text)
            else:
                raise typer.BadParameter(f"--set takes map__, model__ or scale__ and a parameter, got {name!r}")
        if "alpha" in given:
            self.given["model"]["alpha"] = given["alpha"]
        self.size: Any = given.get("n_components", "auto")
        if self.map == "none" and (self.given["map"] or self.size != "auto"):
            raise typer.BadParameter("--map none has no features and no parameters; leave these out")
        rule = MAPS.get(self.map, MAPS["fourier"]).parameter_rules.get("n_components")
        if self.size != "auto" and rule is not None:
            self.size = checked("n_components", self.size, rule)

    def refuse_choices(self) -> None:
        """Raise for what `train` alone chooses by."""
        if self.more:
            name = next(iter(self.more))
            raise typer.BadParameter(f"--set {name} is of train; give --set map__{name}, or leave it out")

    @property
    def numbers(self) -> bool:
        """Whether columns of a table are numbers as they are: for a scaling, or a map without negative entries."""
        return self.scale != "auto" or bool(self.given["scale"]) or wants_numbers(self._named_map())

    def options(self, target: Target) -> dict[str, Any]:
        """What `distrf.make_model` is asked for."""
        map_, given = self._named_map(named_model(model_name(self.model, target)).classifier), self.given["map"]
        sizes = {"n_components": self.size, "length_scale": "auto"}
        if isinstance(map_, FeatureEstimator):  # which has what was said
            own = {"n_components": "n_components", map_.scale_parameter() or "": "length_scale"}
            sizes |= {option: None for name, option in own.items() if name in given}
        steps = {"model": self.learner(target), "map": map_, "scale": self.scaler()}
        return steps | sizes | self.more | {"random_state": self.seed}

    def learner(self, target: Target) -> Any:
        """The unfitted model, or its name where nothing else is said of it."""
        if not self.given["model"]:
            return self.model
        kind = named_model(model_name(self.model, target))
        model = kind.make(random_state=self.seed)
        _set(model, "model", self.given["model"])
        if kind.losses and model.loss not in kind.losses:
            known = ", ".join(kind.losses)
            raise typer.BadParameter(f"model__loss of {self.model} is one of {known}, got {model.loss!r}")
        model.check()
        return model

    def scaler(self) -> Any:
        """An unfitted scaler, or "auto" or "none"."""
        if self.scale in ("auto", "none"):
            if self.given["scale"]:
                raise typer.BadParameter("scale__ parameters need a scaling, such as --scale divide")
            return self.scale
        scaler = StreamingScaler(checked("scale", self.scale, StreamingScaler.parameter_rules["method"]))
        _set(scaler, "scale", self.given["scale"])
        check_parameters(scaler)
        return scaler

    def transformers(self, d: int) -> list[tuple[str, Any]]:
        """The unfitted scaling and map for d columns; Fourier features of the columns as they are, where nothing is said."""
        self.refuse_choices()
        made, scaler = self.made_map(), self.scaler()
        if made is None:
            raise typer.BadParameter("featurize needs a map; --map none has no features")
        made.planned_map(d)
        return [*([] if isinstance(scaler, str) else [("scale", scaler)]), ("map", made)]

    def _named_map(self, labels: bool | None = None) -> Any:
        """The unfitted map, or its name where no more is said of it."""
        return self.made_map(labels) if self.given["map"] else self.map

    def made_map(self, labels: bool | None = None) -> Any:
        """The unfitted map; Fourier features where none is named, None for none.

        labels : whether the targets are; None where it does not matter
        """
        if self.map == "none":
            return None
        name, given = "fourier" if self.map == "auto" else self.map, dict(self.given["map"])
        if self.size != "auto":
            given.setdefault("n_components", self.size)
        rules = MAPS[name].parameter_rules
        first = {
            n: given[n] for n in ("n_components", "transformer") if n in given and n in rules
        }  # of which others follow
        first = {n: checked(n, value, rules[n]) for n, value in first.items()}
        made = make_map(name, **first, random_state=self.seed)
        if labels is not None:
            made.set_params(**{n: v for n, v in made.target_parameters(labels).items() if n not in given})
        _set(made, "map", given)
        return made

    def searched(
        self, target: Target, grid: Mapping[str, str], d: int
    ) -> tuple[Any, Any, dict[str, Any], list[float]]:
        """The unfitted model and map, the values of the parameters of the map, or a rule for its length scale, and the alphas.

        Raises for values that the map, or rows of d columns, do not take.
        """
        learner, rest = self.learner(target), dict(grid)
        if isinstance(learner, str):
            learner = named_model(model_name(learner, target)).make(random_state=self.seed)
        self.refuse_choices()
        said = self.given["model"].get("alpha", "auto")
        alphas = several("alpha", rest.pop("alpha", _ALPHAS if said == "auto" else said), ALPHA)
        made = self.made_map(is_classifier(learner))
        found: dict[str, Any] = {}
        if made is None and rest:
            raise typer.BadParameter(f"--grid of --map none takes alpha alone, got {', '.join(rest)}")
        for name, text in rest.items():
            owner, last = owner_of(made, name.removeprefix("map__"), "map")
            found[name.removeprefix("map__")] = several(name, text, owner.parameter_rules[last])
        if made is None:
            return learner, None, {}, alphas
        if self.size == "auto" and hasattr(made, "n_components"):
            found.setdefault("n_components", _SIZES)
        scale = made.scale_parameter()
        if scale is not None and scale not in found:
            value = made.get_params()[scale]
            found[scale] = value if isinstance(value, str) else [value]
        for size in found.get("n_components", ()):
            clone(made).set_params(n_components=size).planned_map(d)  # odd or too large, before anything runs
        return learner, made, found, alphas


def owner_of(estimator: Any, name: str, step: str) -> tuple[Any, str]:
    """The estimator, of a map that lies on another the lower one, and its parameter that `name` stands for."""
    *path, last = name.split("__")
    for part in path:
        check_name(part, estimator.get_params(deep=False), type(estimator).__name__)
        estimator = getattr(estimator, part)
    rules = getattr(estimator, "parameter_rules", {})
    check_name(last, [n for n in rules if n not in NOT_SET], f"{step} {type(estimator).__name__}")
    return estimator, last


def _set(estimator: Any, step: str, given: Mapping[str, Any]) -> None:
    """Set parameters by their names in `get_params`, a map below another one before its own; each by its rule."""
    for name in sorted(given, key=lambda name: name.count("__")):
        owner, last = owner_of(estimator, name, step)
        value = given[name]
        if last == "base" and value in MAPS:
            value = make_map(value)
        owner.set_params(**{last: checked(f"{step}__{name}", value, owner.parameter_rules[last])})
        _check_needed(owner, last, given, step)


def _check_needed(owner: Any, name: str, given: Mapping[str, Any], step: str) -> None:
    """Raise for a parameter that would change nothing, as another one decides that is not given so."""
    needs = getattr(owner, "parameter_needs", {}).get(name, {})
    values = {n: read(given[n], owner.parameter_rules[n]) if n in given else getattr(owner, n) for n in needs}
    if needs and not any(values[other] in allowed for other, allowed in needs.items()):
        ways = " or ".join(f"{step}__{n}={' or '.join(map(str, allowed))}" for n, allowed in needs.items())
        raise typer.BadParameter(f"{step}__{name} needs {ways}, got {', '.join(map(repr, values.values()))}")
