"""The models and maps that have a name, as unfitted estimators with their defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.base import BaseEstimator, clone, is_classifier

from ..errors import InputError
from ..features import (
    TEFM,
    CompactRandomFeatures,
    NystroemFeatures,
    RandomBinningFeatures,
    RandomFourierFeatures,
    RandomLaplaceFeatures,
    RandomMaclaurinFeatures,
    TensorSketchFeatures,
)
from ..kernels.shift_invariant import KERNELS, Kernel
from ..learned import CompactNonlinearMap
from ..linear_model import (
    StreamingRidge,
    StreamingRidgeClassifier,
    StreamingSGDClassifier,
    StreamingSGDRegressor,
)
from .kinds import KINDS


def named_model(name: str, seed: int) -> Any:
    """The unfitted linear model of that name with its own defaults."""
    kind = KINDS[name]
    if not kind.losses:
        return (StreamingRidgeClassifier if kind.classifier else StreamingRidge)(random_state=seed)
    cls = StreamingSGDClassifier if kind.classifier else StreamingSGDRegressor
    return cls(kind.losses[0], random_state=seed)


#: Maps by name. Those with a length scale can be searched.
MAPS: dict[str, Callable[[], Any]] = {
    "fourier": RandomFourierFeatures,
    "laplace": RandomLaplaceFeatures,
    "binning": RandomBinningFeatures,
    "tensor-sketch": TensorSketchFeatures,
    "maclaurin": RandomMaclaurinFeatures,
    "compact": CompactRandomFeatures,
    "nystroem": NystroemFeatures,
    "tefm": lambda: TEFM(RandomFourierFeatures()),
    "cnm": CompactNonlinearMap,
}


def wants_labels(model: Any) -> bool | None:
    """Whether the model is a classifier; None for "auto". Raises InputError for an unknown name."""
    if not isinstance(model, str):
        if not isinstance(model, BaseEstimator):
            raise InputError(f"model is a name or an unfitted linear model, got {type(model).__name__}")
        return bool(is_classifier(model))
    if model == "auto":
        return None
    if model not in KINDS:
        raise InputError(f"unknown model {model!r}; known: auto, {', '.join(KINDS)}")
    return KINDS[model].classifier


def named_map(name: str, labels: bool, seed: int) -> Any:
    """The unfitted map of that name. Raises InputError for an unknown one."""
    if name not in MAPS:
        raise InputError(f"unknown map {name!r}; known: auto, none, {', '.join(MAPS)}")
    made = MAPS[name]().set_params(random_state=seed)
    if name == "cnm":
        made.set_params(objective="multinomial" if labels else "squared")
    return made


def scale_parameter(estimator: Any) -> str | None:
    """Name of the parameter that holds the length scale of a map or of its base; None without one."""
    known = estimator.get_params(deep=True)
    for prefix in ("", "base__"):
        if f"{prefix}length_scale" in known and known.get(f"{prefix}gamma") is None:
            return f"{prefix}length_scale"
    return None


def scout(estimator: Any, D: int, seed: int) -> Any:
    """What stands for a map in trials on a sample: the Fourier features of its kernel, or itself, with D features."""
    owner = getattr(estimator, "base", None) if isinstance(estimator, TEFM) else estimator
    kernel = getattr(owner, "kernel", None)
    fourier = isinstance(owner, (RandomFourierFeatures, NystroemFeatures, CompactNonlinearMap))
    if fourier and (isinstance(kernel, Kernel) or kernel in KERNELS):
        known = owner.get_params(deep=False)  # type: ignore[union-attr]
        parts = {
            name: known[name] for name in ("kernel", "nu", "whiten", "length_scale", "gamma") if name in known
        }
        return RandomFourierFeatures(**parts, n_components=D, random_state=seed)
    made = clone(estimator)
    known = made.get_params(deep=False)
    if "n_components" in known:
        made.set_params(n_components=min(D, made.n_components or D))
    return made
