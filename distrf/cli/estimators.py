"""The map, the model and the scaling that options stand for: parameters by name, checked as their classes declare them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from ..features import StreamingScaler
from ..features.base import FeatureEstimator
from ..parameters import FLAG, check_parameters, one_of, whole
from ..pipeline.making import Options, model_name
from ..pipeline.rows import Rows
from ..pipeline.sample import see_target
from ..pipeline.tables import wants_numbers
from ..pipeline.target import Target
from ..registry import MAPS, load_plugins, make_map, named_model
from .values import check_name, checked, read, several

_STEPS = ("map", "model", "scale")
_CHOSEN = ("length_scale", "n_components")


class Parts:
    """What the command line says of the steps of a pipeline; the arguments are the options of its groups.

    given : {step: {parameter: text}}, those of --set and the common ones
    """

    def __init__(
        self,
        map: str = "auto",
        model: str = "auto",
        scale: str = "auto",
        raw_columns: str = "auto",
        random_state: str = "0",
        set: Mapping[str, str] | None = None,
        **common: str,
    ):
        load_plugins()
        check_name(map, [*MAPS, "none", "auto"], "--map")
        self.map, self.model, self.scale = map, model, scale
        self.raw_columns = checked("raw_columns", raw_columns, FLAG | one_of("auto"))
        self.seed = checked("random_state", random_state, whole(0))
        self.given: dict[str, dict[str, str]] = {step: {} for step in _STEPS}
        for name, text in (set or {}).items():
            step, mark, parameter = name.partition("__")
            if step not in _STEPS or not mark:
                raise typer.BadParameter(f"--set takes map__, model__ or scale__ and a parameter, got {name!r}")
            self.given[step][parameter] = text
        for name, text in common.items():
            given = self.given["model" if name == "alpha" else "map"]
            if name in given:
                raise typer.BadParameter(
                    f"--{name.replace('_', '-')} is given, and by --set too; leave one out"
                )
            given[name] = text
        for name in _CHOSEN:
            if self.given["map"].get(name, "").strip() == "auto":
                del self.given["map"][name]
        if map == "none" and self.given["map"]:
            raise typer.BadParameter(f"--map none has no parameters, got {', '.join(self.given['map'])}")

    @property
    def numbers(self) -> bool:
        """Whether columns of a table are numbers as they are: for a scaling, or a map without negative entries."""
        return self.scale != "auto" or bool(self.given["scale"]) or wants_numbers(self._map(None))

    def target(self, data: Rows, y: Any) -> Target:
        """What the target of rows is, of which a sample is read."""
        return see_target(y, self.seed, self.model, data.seen)[2]

    def options(self, data: Rows, target: Target) -> Options:
        """What `distrf.make_model` is asked for."""
        model, labels = self.learner(target), named_model(model_name(self.model, target)).classifier
        if (self.seed, self.model) in data.seen:  # as it was looked at by name
            data.seen[self.seed, labels] = data.seen[self.seed, self.model]
        map_ = self._map(labels)
        chosen: dict[str, Any] = dict.fromkeys(_CHOSEN, "auto")
        if map_ == "auto":
            rules = MAPS["fourier"].parameter_rules
            chosen |= {name: checked(name, text, rules[name]) for name, text in self.given["map"].items()}
        elif isinstance(map_, FeatureEstimator):  # which has what was said
            given = self.given["map"].keys()
            own = {"length_scale": {"length_scale", "base__length_scale"}, "n_components": {"n_components"}}
            chosen = {name: None if own[name] & given else "auto" for name in _CHOSEN}
        rest: dict[str, Any] = {"raw_columns": self.raw_columns, "random_state": self.seed}
        return Options(model, map_, self.scaler(), **chosen, **rest)

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

    def plain_map(self, d: int) -> Any:
        """The unfitted map for d columns; Fourier features where none is named, None for none."""
        made = None if self.map == "none" else self.made_map(None)
        if made is not None:
            made.planned_map(d)
        return made

    def _map(self, labels: bool | None) -> Any:
        """The unfitted map, or its name where no more is said of it than what a name can take."""
        given = self.given["map"].keys()
        return (
            self.map if not given or (self.map == "auto" and given <= set(_CHOSEN)) else self.made_map(labels)
        )

    def made_map(self, labels: bool | None, searched: dict[str, list[Any]] | None = None) -> Any:
        """The unfitted map; Fourier features where none is named.

        labels : whether the targets are; None where it does not matter
        searched : gets the values of parameters that have several; without it they have one
        """
        name, given, first = "fourier" if self.map == "auto" else self.map, self.given["map"], {}
        for needed in ("n_components", "transformer"):  # of which others follow: the size of a base
            if needed in given and (rule := MAPS[name].parameter_rules.get(needed)) is not None:
                values = several(needed, given[needed], rule) if searched is not None else []
                first[needed] = max(values) if values else checked(f"map__{needed}", given[needed], rule)
        made = make_map(name, **first, random_state=self.seed)
        if labels is not None:
            made.set_params(**{k: v for k, v in made.target_parameters(labels).items() if k not in given})
        _set(made, "map", given, searched)
        return made


def _set(
    estimator: Any, step: str, given: Mapping[str, str], searched: dict[str, list[Any]] | None = None
) -> None:
    """Set parameters by their names in `get_params`, a map below another one before its own; each by its rule.

    Those without a path, such as --kernel, are of the map below where the one above has none.
    """
    for name in sorted(given, key=lambda name: name.count("__")):
        *path, last = name.split("__")
        if (
            not path
            and last not in estimator.parameter_rules
            and hasattr(getattr(estimator, "base", None), last)
        ):
            path = ["base"]
        owner = estimator
        for part in path:
            check_name(part, owner.get_params(deep=False), type(owner).__name__)
            owner = getattr(owner, part)
        rules = getattr(owner, "parameter_rules", {})
        check_name(last, [n for n in rules if n not in _NOT_SET], f"{step} {type(owner).__name__}")
        if last == "base" and given[name] in MAPS:
            owner.set_params(base=_based(owner, given[name]))
        elif searched is None:
            owner.set_params(**{last: checked(f"{step}__{name}", given[name], rules[last])})
        else:
            values = several(f"{step}__{name}", given[name], rules[last])
            if len(values) > 1:
                searched["__".join([*path, last])] = values
            owner.set_params(**{last: max(values) if last == "n_components" else values[0]})
        _check_needed(owner, last, given, step)


#: What other options say, and the threads, which are Dask's.
_NOT_SET = ("n_jobs", "random_state", "checkpoint", "checkpoint_every", "resume", "warm_start")


def _based(owner: Any, name: str) -> Any:
    """The base of a map by its name, of the size that the map has by itself."""
    base = make_map(name)
    if "n_components" in base.parameter_rules.keys() & getattr(owner.base, "parameter_rules", {}).keys():
        base.set_params(n_components=owner.base.n_components)
    return base


def _check_needed(owner: Any, name: str, given: Mapping[str, str], step: str) -> None:
    """Raise for a parameter that would change nothing, as another one decides that is not given so."""
    needs = getattr(owner, "parameter_needs", {}).get(name, {})
    values = {n: read(given[n], owner.parameter_rules[n]) if n in given else getattr(owner, n) for n in needs}
    if needs and not any(values[other] in allowed for other, allowed in needs.items()):
        ways = " or ".join(f"{step}__{n}={' or '.join(map(str, allowed))}" for n, allowed in needs.items())
        raise typer.BadParameter(f"{step}__{name} needs {ways}, got {', '.join(map(repr, values.values()))}")
