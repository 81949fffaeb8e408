"""Save and load fitted models: a folder of JSON and `.npz`, never pickle.

Only the classes registered here can be saved, so that loading an untrusted folder cannot run code.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from . import __version__
from .errors import InputError, SpecMismatchError, StoreError, reworded
from .kernels import get_kernel
from .kernels.base import AnyKernel
from .maps import FeatureMap, map_from_spec
from .maps.base import arrays_fingerprint
from .maps.transformers import CODEC as TRANSFORMER_CODEC
from .plain_data import Codec, array_name
from .record import Training
from .registry import SAVABLE, load_plugins
from .ridge.kept_state import KeptState
from .store import existing_model_folder, read_model_folder, write_model_folder


def save_model(
    model: BaseEstimator, path: str | os.PathLike[str], *, overwrite: bool = False, **details: Any
) -> None:
    """Save a fitted estimator or Pipeline; predictions of the loaded one are equal to the bit.

    Parameters
    ----------
    model : estimator or Pipeline
        A fitted estimator of distrf, a transformer of scikit-learn that is listed in
        `distrf.maps.transformers.SAVABLE_TRANSFORMERS`, or a Pipeline of them.
    path : str or PathLike
        Folder or URL. It appears whole or not at all.
    overwrite : bool, default=False
        Whether to replace a model with another spec.
    **details : JSON values
        Kept beside the model: provenance, how its input was prepared.

    Raises
    ------
    InputError
        A class is not registered, an estimator is not fitted, or a parameter or a fitted attribute is not plain data.
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
    spec = {"distrf": __version__, "model": _encode_model(model, arrays), **details}
    write_model_folder(path, spec, arrays, overwrite)


def check_output(path: str | os.PathLike[str], overwrite: bool) -> None:
    """Refuse early, before training, a path that holds something else or, without `overwrite`, a model."""
    if existing_model_folder(path) is not None and not overwrite:
        raise SpecMismatchError(
            f"{os.fspath(path)!r} holds a model already; choose another path, or pass overwrite=True"
        )


def load_model(path: str | os.PathLike[str]) -> BaseEstimator:
    """Load the estimator or Pipeline that `save_model` wrote; nothing is unpickled.

    Classes of plug-ins are known too: what installed packages name in the group "distrf" of their entry points is imported.

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

    Warns
    -----
    UserWarning
        Another minor release of scikit-learn saved a transformer.
    """
    spec, arrays = read_model_folder(path)
    load_plugins()  # whose classes the model may name
    what = f"{os.fspath(path)!r} is not a valid model"
    with reworded(lambda error: StoreError(f"{what}: {error!r}; restore it or train again")):
        model = _CODEC.decode(spec["model"], arrays)
        _check_fitted(model)
        return model


def model_identity(model: BaseEstimator) -> dict[str, Any]:
    """JSON that two fitted models share only where they predict the same."""
    arrays: dict[str, np.ndarray] = {}
    return {"model": _encode_model(model, arrays), "arrays": arrays_fingerprint(arrays)}


def _encode_model(model: Any, arrays: dict[str, np.ndarray], where: str = "model") -> Any:
    with reworded(lambda error: InputError(f"only fitted models are saved: {error}")):
        _check_fitted(model)
    if not isinstance(model, Pipeline):
        return _CODEC.encode(model, where, arrays)
    steps = [[name, _encode_model(step, arrays, f"{where}.{name}")] for name, step in model.steps]
    training = getattr(model, "training_", None)  # of those that distrf.train made
    record = {} if training is None else {"training": training.to_dict()}
    return {"$pipeline": steps, **record}


def _check_fitted(model: Any) -> None:
    for step in model if isinstance(model, Pipeline) else [model]:
        if step != "passthrough":
            check_is_fitted(step)


def _encode_part(value: Any, where: str, arrays: dict[str, np.ndarray], codec: Codec) -> Any:
    """JSON of an estimator, alone or inside another such as the base of a TEFM, of a map, a kernel, or sums of ridge."""
    if isinstance(value, FeatureMap):
        names = {}
        if any(name.endswith(".pickled") for name in value.arrays):
            raise InputError(
                f"{where} is a map over a Blockwise, and no map holds a transformer as data; make Blockwise a step of its own "
                "before it"
            )
        for name, array in value.arrays.items():
            names[name] = array_name(f"{where}.{name}", arrays)
            arrays[names[name]] = array
        return {"$map": value.spec(), "arrays": names}
    if isinstance(value, KeptState):
        return {"$state": codec.encode(value.parts(), where, arrays)}
    if isinstance(value, AnyKernel):
        return {"$kernel": value.spec()}
    name = type(value).__name__
    if SAVABLE.get(name) is type(value):
        fitted = {k: v for k, v in vars(value).items() if k.endswith("_") and not k.startswith("_")}
        parts = {"parameters": value.get_params(deep=False)} | ({"fitted": fitted} if fitted else {})
        encoded = {
            part: {k: codec.encode(v, f"{where}.{k}", arrays) for k, v in values.items()}
            for part, values in parts.items()
        }
        return {"$estimator": name, **encoded}
    return NotImplemented


def _pipeline(steps: Any, entry: dict[str, Any], arrays: Any, codec: Codec) -> Pipeline:
    pipeline = Pipeline([(name, codec.decode(step, arrays)) for name, step in steps])
    if "training" in entry:
        pipeline.training_ = Training.from_dict(entry["training"])
    return pipeline


#: All that a model folder may hold: ours first, then scikit-learn's.
_CODEC = Codec(
    [_encode_part, *TRANSFORMER_CODEC.encoders],
    TRANSFORMER_CODEC.decoders
    | {
        "$map": lambda spec, entry, arrays, codec: map_from_spec(
            spec, {n: arrays[k] for n, k in entry["arrays"].items()}
        ),
        "$state": lambda parts, entry, arrays, codec: KeptState.of(codec.decode(parts, arrays)),
        "$kernel": lambda spec, entry, arrays, codec: get_kernel(spec),
        "$estimator": lambda name, entry, arrays, codec: _restore(name, entry, arrays),
        "$pipeline": _pipeline,
    },
)


def _restore(name: str, spec: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
    """An estimator of ours, fitted if the spec holds what it learned."""
    if name not in SAVABLE:
        raise StoreError(
            f"the model names the class {name!r}; this release loads {', '.join(sorted(SAVABLE))}; if it is none of distrf, "
            "import the module that registers it before"
        )
    model = SAVABLE[name](**{k: _CODEC.decode(v, arrays) for k, v in spec["parameters"].items()})
    for attribute, value in spec.get("fitted", {}).items():
        # A method of the class must not be replaced.
        if not attribute.endswith("_") or attribute.startswith("_"):
            raise KeyError(f"fitted attribute {attribute!r}")
        setattr(model, attribute, _CODEC.decode(value, arrays))
    return model
