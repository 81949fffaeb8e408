"""Transformers of scikit-learn as JSON and arrays, and back.

What `vars` of a fitted transformer holds is its parameters and what it learned. Both are plain data for the classes listed
here, also those of transformers inside a `ColumnTransformer`, a `FeatureUnion` or a `Pipeline`. Loading makes objects of
these classes alone. Functions are no data: a `FunctionTransformer` of one is not saved.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import sklearn
from sklearn.base import BaseEstimator

from ..errors import InputError, SpecMismatchError, reworded, warn
from ..plain_data import Arrays, Codec

_MODULES = {
    "sklearn.decomposition": "PCA TruncatedSVD",
    "sklearn.feature_selection": "VarianceThreshold",
    "sklearn.impute": "MissingIndicator SimpleImputer",
    "sklearn.kernel_approximation": "AdditiveChi2Sampler PolynomialCountSketch RBFSampler SkewedChi2Sampler",
    "sklearn.preprocessing": "Binarizer FunctionTransformer KBinsDiscretizer MaxAbsScaler MinMaxScaler Normalizer OneHotEncoder "
    "OrdinalEncoder PolynomialFeatures PowerTransformer QuantileTransformer RobustScaler StandardScaler TargetEncoder",
    "sklearn.random_projection": "GaussianRandomProjection",
}
#: Transformers by name: their module. Each treats a row by itself, and has defaults for all parameters.
TRANSFORMERS = {name: module for module, names in _MODULES.items() for name in names.split()}
#: Those that can be saved: also those made of others.
SAVABLE_TRANSFORMERS = TRANSFORMERS | {
    "ColumnTransformer": "sklearn.compose",
    "FeatureUnion": "sklearn.pipeline",
    "Pipeline": "sklearn.pipeline",
}


def listed_transformer(name: str) -> type | None:
    """The class of that name in `SAVABLE_TRANSFORMERS`, imported on first use; None for any other name."""
    module = SAVABLE_TRANSFORMERS.get(name)
    return None if module is None else getattr(importlib.import_module(module), name)


def restore_transformer(
    entry: Any, arrays: Mapping[str, np.ndarray], codec: Codec | None = None
) -> BaseEstimator:
    """The transformer of the JSON that `CODEC` made.

    Raises
    ------
    SpecMismatchError : its class is not listed, an array is missing, or the JSON names what the class cannot have

    Warns
    -----
    UserWarning : another minor release of scikit-learn made it
    """
    wrong = "the spec of a transformer is not one of this release, or its arrays are missing"
    with reworded(lambda error: SpecMismatchError(f"{wrong} ({error!r}); save it again")):
        transformer: BaseEstimator = (codec or CODEC).decode(entry, arrays)
        return transformer


def _warn_of_release(name: str, made: str) -> None:
    if made.split(".")[:2] != sklearn.__version__.split(".")[:2]:
        warn(
            f"the {name} was saved with scikit-learn {made}, and {sklearn.__version__} loads it: its numbers may differ; "
            "compare some, or fit and save it again",
            UserWarning,
        )


def _encode(value: Any, where: str, arrays: Arrays, codec: Codec) -> Any:
    """JSON of an estimator, or of what one may hold beside plain data."""
    kind: Any = type(value)
    name: str = kind.__name__
    if isinstance(value, BaseEstimator):
        if listed_transformer(name) is not kind:
            raise InputError(
                f"{where or 'it'} is a {kind.__module__}.{name}, which cannot be saved without running its code on load; "
                f"savable: models and maps of distrf and, of scikit-learn, {', '.join(sorted(SAVABLE_TRANSFORMERS))}"
            )
        values = dict(vars(value))
        if name == "Pipeline":
            values["memory"] = None  # a folder of pickles, and no part of the model
        parts = {k: codec.encode(v, f"{where}.{k}" if where else k, arrays) for k, v in values.items()}
        known = value.get_params(deep=False)
        return {
            "$sklearn": name,
            "scikit_learn": sklearn.__version__,
            "parameters": {k: v for k, v in parts.items() if k in known},
            "fitted": {k: v for k, v in parts.items() if k not in known},
        }
    return NotImplemented


def _restore(name: Any, entry: Mapping[str, Any], arrays: Mapping[str, np.ndarray], codec: Codec) -> Any:
    cls = listed_transformer(name)
    if cls is None:
        raise SpecMismatchError(
            f"the spec names the transformer {name!r}; this release loads {', '.join(sorted(SAVABLE_TRANSFORMERS))}"
        )
    if set(entry) != {"$sklearn", "scikit_learn", "parameters", "fitted"}:
        raise KeyError(*entry)
    _warn_of_release(name, entry["scikit_learn"])
    parameters = {k: codec.decode(v, arrays) for k, v in entry["parameters"].items()}
    if parameters.get("memory") is not None:
        raise SpecMismatchError("the spec names a cache of pickles; the spec was edited")
    what = f"this scikit-learn's {name} does not take the stored parameters"
    with reworded(lambda error: SpecMismatchError(f"{what}: {error}")):
        transformer = cls(**parameters)
    for attribute, value in entry["fitted"].items():
        if attribute.startswith("__") or hasattr(cls, attribute):  # an edited spec must not replace a method
            raise SpecMismatchError(f"a {name} has no fitted attribute {attribute!r}; the spec was edited")
        setattr(transformer, attribute, codec.decode(value, arrays))
    return transformer


#: What encodes transformers alone; `persistence` adds our own estimators.
CODEC = Codec([_encode], {"$sklearn": _restore})
