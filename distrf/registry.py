"""The maps and models that have a name: one line each, or a call from outside the package.

From here `--map`, `--model` and `make_model` take their names, and models their folders.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, TypeVar

from sklearn.base import BaseEstimator, is_classifier

from .errors import InputError, reworded
from .lazy import Registry
from .maps import MAPS as FROZEN
from .maps import FeatureMap
from .maps.base import FAMILIES
from .maps.estimator import FeatureEstimator
from .parameters import name_in, one_of

T = TypeVar("T")
#: Estimators beside the frozen maps, by the kind of the map: their place.
_FAMILIES = {
    kind: f"distrf.maps.{file}:{estimator}" for kind, (file, _, estimator) in FAMILIES.items() if estimator
}
_MAPS = {kind: place for kind, place in _FAMILIES.items() if kind not in ("scaling", "with-columns")} | {
    "cnm": "distrf.learned.estimators:CompactNonlinearMap",
    "learned": "distrf.learned.metric:LearnedMetric",
}
_OTHERS = (
    "distrf.tables.encoder:TableEncoder",
    "distrf.learned.estimators:CompactNonlinearClassifier",
    "distrf.learned.estimators:CompactNonlinearRegressor",
    "distrf.linear_model.ridge:StreamingRidge",
    "distrf.linear_model.ridge:StreamingRidgeClassifier",
    "distrf.linear_model.linear:StreamingLinearClassifier",
    "distrf.linear_model.linear:StreamingLinearRegressor",
    "distrf.linear_model.sgd:StreamingSGDClassifier",
    "distrf.linear_model.sgd:StreamingSGDRegressor",
)
#: Estimators of maps by name.
MAPS: Registry[type[FeatureEstimator]] = Registry(_MAPS)
#: Classes that a model folder may name; loading makes objects of no others.
SAVABLE: Registry[type[BaseEstimator]] = Registry(
    {place.partition(":")[2]: place for place in (*(_FAMILIES | _MAPS).values(), *_OTHERS)}
)


@dataclass(frozen=True)
class Kind:
    """What the name of a model stands for: the name of an estimator, and the losses it may have, the first by default."""

    name: str
    losses: tuple[str, ...] = ()

    @property
    def estimator(self) -> type[BaseEstimator]:
        return SAVABLE[self.name]

    @property
    def classifier(self) -> bool:
        """Whether it takes labels."""
        return bool(is_classifier(self.estimator()))

    def make(self, **parameters: Any) -> Any:
        """The unfitted estimator, which calibrates itself if it can: its files are read where it cannot be fitted again."""
        usual: dict[str, Any] = {"loss": self.losses[0]} if self.losses else {}
        if "calibrate" in getattr(self.estimator, "parameter_rules", {}):
            usual["calibrate"] = True
        return self.estimator(**usual | parameters)


MODELS: dict[str, Kind] = {
    "ridge": Kind("StreamingRidge"),
    "ridge-classifier": Kind("StreamingRidgeClassifier"),
    "sgd-regressor": Kind("StreamingSGDRegressor"),
    "sgd-classifier": Kind("StreamingSGDClassifier"),
    "logistic": Kind("StreamingLinearClassifier", ("multinomial", "logistic")),
    "svm": Kind("StreamingLinearClassifier", ("squared_hinge",)),
    "huber": Kind("StreamingLinearRegressor", ("huber",)),
}


def register_map(name: str, estimator: type[FeatureEstimator], *maps: type[FeatureMap]) -> None:
    """Make a map known by name: to `train`, the command line, plans and model folders.

    Parameters
    ----------
    name : str
        Of `--map` and of `make_model(map=...)`.
    estimator : subclass of FeatureEstimator
        What its `parameter_rules` name can be set by `--set map__NAME=VALUE` too.
    *maps : subclasses of FeatureMap
        Frozen maps of its own, by which a spec is read.

    Raises
    ------
    InputError
        The name, the class or the kind of a map is taken by another.
    """
    for frozen in maps:
        _enter(FROZEN, frozen.kind, frozen)
    _enter(SAVABLE, estimator.__name__, estimator)
    _enter(MAPS, name, estimator)


def register_model(name: str, estimator: type[BaseEstimator], losses: tuple[str, ...] = ()) -> None:
    """Make a linear model known by name, as `register_map` does a map.

    Parameters
    ----------
    name : str
        Of `--model` and of `make_model(model=...)`.
    estimator : class
        A scikit-learn classifier or regressor with `parameter_rules`.
    losses : tuple of str, default=()
        Where the name stands for a part of what the estimator can do: its values of `loss`, the first by default.

    Raises
    ------
    InputError
        The name or the class is taken by another.
    """
    _enter(SAVABLE, estimator.__name__, estimator)
    _enter(MODELS, name, Kind(estimator.__name__, losses))


def _enter(registry: MutableMapping[str, Any], name: str, entry: Any) -> None:
    if name in registry and registry[name] != entry:
        raise InputError(f"{name!r} is registered already, as {registry[name]!r}; give {entry!r} another name")
    registry[name] = entry


@functools.cache
def load_plugins() -> None:
    """Import what installed packages name in the group "distrf" of their entry points: it registers itself.

    Raises InputError for what cannot be imported.
    """
    for entry in entry_points(group="distrf"):
        what = f"the plugin {entry.name!r} cannot be imported"
        with reworded(
            lambda error: InputError(f"{what}: {error!r}; mend or uninstall the package that names it")  # noqa: B023
        ):
            entry.load()


def _named(what: str, registry: Mapping[str, T], name: str, *others: str) -> T:
    if name not in registry:
        load_plugins()
    (name_in(registry) | one_of(*others)).check(what, name)
    return registry[name]


def named_map(name: str) -> type[FeatureEstimator]:
    """The class of a map. Raises ParameterError for an unknown name."""
    return _named("map", MAPS, name, "auto", "none")


def make_map(name: str, **parameters: Any) -> Any:
    """The unfitted map of a name; one that takes features of another gets its usual base where none is given.

    Raises InputError for an unknown name, for a parameter that has no default and is not given, and for a size that is none.
    """
    cls = named_map(name)
    for needed, parameter in inspect.signature(cls).parameters.items():
        if parameter.default is parameter.empty and needed not in parameters:
            raise InputError(f"map {name!r} needs {needed}=; give {cls.__name__}({needed}=...) as map")
    map_ = cls(**parameters)
    if "base" not in parameters:
        for name in {"n_components"} & cls.parameter_rules.keys():  # from which the size of the base follows
            cls.parameter_rules[name].check(name, map_.n_components)
        base = map_.named_base(getattr(map_, "n_components", 0))
        if base is not None:
            map_.set_params(base=base)
    return map_


def named_model(name: str) -> Kind:
    """The kind of a model. Raises ParameterError for an unknown name."""
    return _named("model", MODELS, name, "auto")


def kind_for(labels: bool) -> str:
    """The model of "auto"."""
    return "ridge-classifier" if labels else "ridge"
