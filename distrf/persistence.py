"""Save and load fitted models: a folder of JSON and Zarr, never pickle.

Only the classes registered here can be saved, so that loading an untrusted folder cannot run code.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline

from . import __version__
from .errors import DistrfError, InputError, SpecMismatchError, StoreError
from .kernels import get_kernel
from .kernels.base import AnyKernel
from .maps import FeatureMap, map_from_spec
from .maps.base import arrays_fingerprint
from .maps.blockwise import BlockwiseMap, transformer_from_spec, transformer_spec
from .record import Training
from .registry import SAVABLE
from .ridge.kept_state import KeptState
from .store import existing_model_folder, read_model_folder, read_spec, write_model_folder

#: Columns of the rows that a saved map takes; loading makes some weights of each.
MAX_WIDTH = 2**26


def save_model(
    model: BaseEstimator, path: str | os.PathLike[str], *, overwrite: bool = False, **details: Any
) -> None:
    """Save a fitted estimator or Pipeline; predictions of the loaded one are equal to the bit.

    Parameters
    ----------
    model : estimator or Pipeline
        A fitted estimator of distrf, or a scikit-learn Pipeline of them.
    path : str or PathLike
        Folder or URL. It appears whole or not at all.
    overwrite : bool, default=False
        Whether to replace a model with another spec.
    **details : JSON values
        Kept beside the model: provenance, how its input was prepared.

    Raises
    ------
    InputError
        A class is not registered, an estimator is not fitted, or weights are not finite.
    SpecMismatchError
        `path` holds a model with another spec.

    Examples
    --------
    >>> import tempfile
    >>> from distrf import StreamingRidge, load_model, save_model
    >>> model = StreamingRidge(alpha=0.1).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, f"{folder}/model")
    ...     loaded = load_model(f"{folder}/model")
    >>> bool((loaded.coef_ == model.coef_).all())
    True
    """
    arrays: dict[str, np.ndarray] = {}
    spec = {"distrf": __version__, "model": _encode_model(model, "model", arrays), **details}
    write_model_folder(path, spec, arrays, overwrite)


def check_output(path: str | os.PathLike[str], overwrite: bool) -> None:
    """Refuse early, before training, a path that holds something else or, without `overwrite`, a model."""
    if existing_model_folder(path) is not None and not overwrite:
        raise SpecMismatchError(
            f"{os.fspath(path)!r} holds a model already; choose another path, or --overwrite"
        )


def load_model(path: str | os.PathLike[str]) -> BaseEstimator:
    """Load the estimator or Pipeline that `save_model` wrote; nothing is unpickled.

    Parameters
    ----------
    path : str or PathLike
        Folder or URL of the model.

    Returns
    -------
    estimator or Pipeline
        The fitted model.

    Raises
    ------
    StoreError
        There is no model, its format is newer, a class is not registered, or an array is damaged.
    SpecMismatchError
        This release makes other weights from the seed.
    """
    spec, arrays = read_model_folder(path)
    try:
        return _decode_model(spec["model"], arrays)
    except (DistrfError, MemoryError):
        raise
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise StoreError(
            f"{os.fspath(path)!r} is not a valid model: {error!r}; restore it or train again"
        ) from error


def model_details(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The JSON of a saved model without its arrays."""
    return read_spec(path)


def model_identity(model: BaseEstimator) -> dict[str, Any]:
    """JSON that two fitted models share only where they predict the same."""
    arrays: dict[str, np.ndarray] = {}
    return {"model": _encode_model(model, "model", arrays), "arrays": arrays_fingerprint(arrays)}


def _encode_model(model: Any, where: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    if isinstance(model, Pipeline):
        steps = [[name, _encode_model(step, f"{where}.{name}", arrays)] for name, step in model.steps]
        training = getattr(model, "training_", None)  # of those that distrf.train made
        record = {} if training is None else {"training": training.to_dict()}
        return {"class": "Pipeline", "steps": steps, **record}
    name = type(model).__name__
    if SAVABLE.get(name) is not type(model):
        raise InputError(
            f"{where} is a {type(model).__module__}.{name}, which cannot be saved without running its code on load; "
            f"savable: {', '.join(sorted(SAVABLE))} and Pipelines of them"
        )
    fitted = {k: v for k, v in vars(model).items() if k.endswith("_") and not k.startswith("_")}
    if not fitted:
        raise InputError(f"{where} ({name}) is not fitted; call fit before saving")
    for attribute, value in fitted.items():
        _refuse_lost(f"{where}.{attribute}", attribute, value)
    return {
        "class": name,
        "parameters": _parameters(model, where, arrays),
        "fitted": {k: _encode(v, f"{where}.{k}", arrays) for k, v in fitted.items()},
    }


def _refuse_lost(where: str, attribute: str, value: Any) -> None:
    """Raise InputError for weights, or numbers of a map, that are NaN or infinite: such a model predicts nothing."""
    arrays: dict[str, Any] = {}
    if attribute in ("coef_", "intercept_"):
        arrays = {"": np.asarray(value)}
    elif isinstance(value, FeatureMap) and not isinstance(value, BlockwiseMap):  # whose NaN are scikit-learn's
        arrays = dict(value.arrays)
    for name, array in arrays.items():
        if array.dtype.kind in "fc" and not np.isfinite(array).all():
            raise InputError(
                f"{where}{name and '.'}{name} holds NaN or infinity, so the model predicts nothing and is not saved; "
                "scale rows and targets, or take a larger alpha or shorter steps, and fit again"
            )


def _parameters(model: Any, where: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    return {k: _encode(v, f"{where}.{k}", arrays) for k, v in model.get_params(deep=False).items()}


def _encode(value: Any, where: str, arrays: dict[str, np.ndarray]) -> Any:
    """Plain JSON; arrays, maps and kernels as marked entries."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, os.PathLike):  # the folder of a checkpoint
        return os.fspath(value)
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "O":
            return {"$names": [str(v) for v in value]}
        arrays[where] = value
        return {"$array": where}
    if isinstance(value, FeatureMap):
        for name, array in value.arrays.items():
            arrays[f"{where}.{name}"] = array
        return {"$map": value.spec(), "arrays": {name: f"{where}.{name}" for name in value.arrays}}
    if isinstance(value, KeptState):
        names = {name: f"{where}.{name}" for name in value.arrays}
        arrays |= {names[name]: array for name, array in value.arrays.items()}
        return {"$state": value.spec(), "arrays": names}
    if isinstance(value, AnyKernel):
        return {"$kernel": value.spec()}
    if isinstance(value, BaseEstimator):  # a parameter, such as the base of a compact map
        if SAVABLE.get(type(value).__name__) is type(value):
            return {"$estimator": type(value).__name__, "parameters": _parameters(value, where, arrays)}
        return {"$transformer": transformer_spec(clone(value))}
    if isinstance(value, (list, tuple)):
        items = [_encode(v, f"{where}.{i}", arrays) for i, v in enumerate(value)]
        return {"$tuple": items} if isinstance(value, tuple) else items
    if isinstance(value, dict):
        return {"$pairs": [[_encode(k, where, arrays), _encode(v, where, arrays)] for k, v in value.items()]}
    raise InputError(f"{where} is a {type(value).__name__}, which is not plain data and cannot be saved")


_DECODERS: dict[str, Callable[[Any, dict[str, Any], dict[str, np.ndarray]], Any]] = {
    "$names": lambda value, entry, arrays: np.array(value, dtype=object),
    "$array": lambda value, entry, arrays: arrays[value],
    "$map": lambda value, entry, arrays: _map(value, {n: arrays[k] for n, k in entry["arrays"].items()}),
    "$state": lambda value, entry, arrays: KeptState.of(
        value, {n: arrays[k] for n, k in entry["arrays"].items()}
    ),
    "$kernel": lambda value, entry, arrays: get_kernel(value),
    "$estimator": lambda value, entry, arrays: _construct(value, entry["parameters"], arrays),
    "$transformer": lambda value, entry, arrays: transformer_from_spec(value, {}),
    "$tuple": lambda value, entry, arrays: tuple(_decode(v, arrays) for v in value),
    "$pairs": lambda value, entry, arrays: {_decode(k, arrays): _decode(v, arrays) for k, v in value},
}


def _map(spec: dict[str, Any], arrays: dict[str, np.ndarray]) -> FeatureMap:
    """The map of a spec. Its checksum is of weights as wide as the rows: a few bytes must not make many."""
    nested = [spec]
    while nested:
        entry = nested.pop()
        width = entry.get("n_features_in", 0)
        if not isinstance(width, int) or not 0 <= width <= MAX_WIDTH:
            raise StoreError(
                f"a saved map takes rows of at most {MAX_WIDTH:,} columns; this one declares {width!r}; restore the "
                "model, or train on fewer columns"
            )
        nested += [value for value in entry.values() if isinstance(value, dict)]
    return map_from_spec(spec, arrays)


def _decode(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, list):
        return [_decode(v, arrays) for v in value]
    if isinstance(value, dict):
        kind = next((k for k in value if k.startswith("$")), "")
        return _DECODERS[kind](value[kind], value, arrays)
    return value


def _decode_model(spec: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    if spec["class"] == "Pipeline":
        pipeline = Pipeline([(name, _decode_model(step, arrays)) for name, step in spec["steps"]])
        if "training" in spec:
            pipeline.training_ = Training.from_dict(spec["training"])
        return pipeline
    model = _construct(spec["class"], spec["parameters"], arrays)
    for name, value in spec["fitted"].items():
        if not name.endswith("_") or name.startswith("_"):  # a method of the class must not be replaced
            raise KeyError(f"fitted attribute {name!r}")
        setattr(model, name, _decode(value, arrays))
    _check_widths(model)
    return model


def _check_widths(model: Any) -> None:
    """Raise StoreError for weights or a map of another width than the estimator states."""
    map_ = getattr(model, "map_", None)
    features = model.n_features_in_ if map_ is None else map_.n_components
    if (map_ is not None and map_.n_features_in != model.n_features_in_) or (
        hasattr(model, "coef_") and np.shape(model.coef_)[-1:] != (features,)
    ):
        raise StoreError(
            f"the {type(model).__name__} of the model says n_features_in_={model.n_features_in_}, and its arrays are of "
            "another width; restore the model or train again"
        )


#: Parameters, and values of them, that older model folders call by another name.
_RENAMED = {"round_rows": "batch_size", "alphas": "alpha"}
_RENAMED_VALUES = {("distribution", "average"): "local_sgd"}


def _construct(name: str, parameters: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """An unfitted estimator of a registered class."""
    if name not in SAVABLE:
        raise StoreError(f"the model names the class {name!r}; this release loads {', '.join(sorted(SAVABLE))}")
    values = {_RENAMED.get(k, k): _decode(v, arrays) for k, v in parameters.items()}
    renamed = {k: new for (k, old), new in _RENAMED_VALUES.items() if values.get(k) == old}
    return SAVABLE[name](**values | renamed)
