"""The maps and models that have a name: one line each, or a call from outside the package.

From here `--map`, `--model` and `make_model` take their names, and models their folders.
"""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from sklearn.base import BaseEstimator, is_classifier

from .errors import InputError, did_you_mean, reworded
from .features import (
    TEFM,
    Blockwise,
    NystroemFeatures,
    RandomBinningFeatures,
    RandomFourierFeatures,
    RandomLaplaceFeatures,
    StreamingScaler,
    TensorSketchFeatures,
    WithColumns,
)
from .features.base import FeatureEstimator
from .learned import CompactNonlinearClassifier, CompactNonlinearMap, CompactNonlinearRegressor, LearnedMetric
from .linear_model import (
    StreamingLinearClassifier,
    StreamingLinearRegressor,
    StreamingRidge,
    StreamingRidgeClassifier,
    StreamingSGDClassifier,
    StreamingSGDRegressor,
)
from .maps import MAPS as FROZEN
from .maps import FeatureMap
from .tables.encoder import TableEncoder

#: Estimators of maps by name.
MAPS: dict[str, type[FeatureEstimator]] = {}
#: Classes that a model folder may name; loading makes objects of no others.
SAVABLE: dict[str, type[BaseEstimator]] = {}


@dataclass(frozen=True)
class Kind:
    """What the name of a model stands for: an estimator, and the losses it may have, the first by default."""

    estimator: type[BaseEstimator]
    losses: tuple[str, ...] = ()

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


MODELS: dict[str, Kind] = {}


def register_map(name: str, estimator: type[FeatureEstimator], *maps: type[FeatureMap]) -> None:
    """Make a map known by name: to `train`, the command line and its job files, plans and model folders.

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
    _enter(MODELS, name, Kind(estimator, losses))


def _enter(registry: dict[str, Any], name: str, entry: Any) -> None:
    if registry.setdefault(name, entry) != entry:
        raise InputError(f"{name!r} is registered already, as {registry[name]!r}; give {entry!r} another name")


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


for _name, _map in {
    "fourier": RandomFourierFeatures,
    "laplace": RandomLaplaceFeatures,
    "binning": RandomBinningFeatures,
    "tensor-sketch": TensorSketchFeatures,
    "nystroem": NystroemFeatures,
    "tefm": TEFM,
    "cnm": CompactNonlinearMap,
    "learned": LearnedMetric,
    "blockwise": Blockwise,
}.items():
    register_map(_name, _map)

register_model("ridge", StreamingRidge)
register_model("ridge-classifier", StreamingRidgeClassifier)
register_model("sgd-regressor", StreamingSGDRegressor)
register_model("sgd-classifier", StreamingSGDClassifier)
register_model("logistic", StreamingLinearClassifier, ("multinomial", "logistic"))
register_model("svm", StreamingLinearClassifier, ("squared_hinge",))
register_model("huber", StreamingLinearRegressor, ("huber",))

for _class in (
    StreamingScaler,
    TableEncoder,
    WithColumns,
    CompactNonlinearClassifier,
    CompactNonlinearRegressor,
):
    _enter(SAVABLE, _class.__name__, _class)


def named_map(name: str) -> type[FeatureEstimator]:
    """The class of a map. Raises InputError for an unknown name."""
    if name not in MAPS:
        load_plugins()
    if name not in MAPS:
        raise InputError(
            f"unknown map {name!r}{did_you_mean(name, MAPS)}; known: auto, none, {', '.join(MAPS)}"
        )
    return MAPS[name]


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
    """The kind of a model. Raises InputError for an unknown name."""
    if name not in MODELS:
        load_plugins()
    if name not in MODELS:
        raise InputError(
            f"unknown model {name!r}{did_you_mean(name, MODELS)}; known: auto, {', '.join(MODELS)}"
        )
    return MODELS[name]


def kind_for(labels: bool) -> str:
    """The model of "auto"."""
    return "ridge-classifier" if labels else "ridge"
