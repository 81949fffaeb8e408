"""A fitted scikit-learn transformer as a frozen map.

What was fitted travels to the workers as `learned`, under one shared key. For the classes in
`SAVABLE_TRANSFORMERS` it holds the fitted arrays, and `state` everything else, as JSON; the same is written
when the map is saved. Any other transformer travels as its pickle, within one job. It has no spec and cannot be
saved, because loading a pickle from a file would run the code in it.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import pickle
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
import scipy.sparse as sp

from ..errors import InputError, SpecMismatchError
from ..typing import Rows
from .base import FeatureMap, arrays_fingerprint, check_rows, working_dtype

#: Transformers that treat each row by itself and whose parameters and fitted attributes are plain data, by
#: name: their module.
SAVABLE_TRANSFORMERS: dict[str, str] = {
    "AdditiveChi2Sampler": "sklearn.kernel_approximation",
    "Binarizer": "sklearn.preprocessing",
    "GaussianRandomProjection": "sklearn.random_projection",
    "MaxAbsScaler": "sklearn.preprocessing",
    "MinMaxScaler": "sklearn.preprocessing",
    "Normalizer": "sklearn.preprocessing",
    "PCA": "sklearn.decomposition",
    "PolynomialCountSketch": "sklearn.kernel_approximation",
    "PolynomialFeatures": "sklearn.preprocessing",
    "QuantileTransformer": "sklearn.preprocessing",
    "RBFSampler": "sklearn.kernel_approximation",
    "RobustScaler": "sklearn.preprocessing",
    "SkewedChi2Sampler": "sklearn.kernel_approximation",
    "StandardScaler": "sklearn.preprocessing",
    "TruncatedSVD": "sklearn.decomposition",
    "VarianceThreshold": "sklearn.feature_selection",
}
#: The entry of `learned` that holds a pickle.
_PICKLE = "pickle"


@dataclass(frozen=True)
class BlockwiseMap(FeatureMap):
    """A fitted transformer that treats each row by itself, applied to one block.

    Parameters
    ----------
    n_features_in : d
    n_components : D
    state : str, JSON: the class, and for a class in `SAVABLE_TRANSFORMERS` its parameters and what was fitted
        beside arrays
    learned : the fitted arrays by name, or the pickle of the transformer as an array of bytes
    """

    state: str
    learned: Mapping[str, np.ndarray] | None = field(default=None, compare=False, repr=False)

    kind: ClassVar[str] = "blockwise"
    whole_rows: ClassVar[bool] = True

    @classmethod
    def of_transformer(cls, transformer: object, n_features_in: int, n_components: int) -> BlockwiseMap:
        """The map of a fitted transformer.

        Raises
        ------
        InputError : the transformer is neither in `SAVABLE_TRANSFORMERS` nor can it be pickled
        """
        name = type(transformer).__name__
        described = _describe(transformer)
        if described is not None:
            return cls(n_features_in, n_components, *described)
        try:
            data = np.frombuffer(pickle.dumps(transformer), dtype=np.uint8)
        except Exception as error:
            raise InputError(
                f"a transformer travels to the workers as a pickle, but this {name} cannot be pickled: {error}; "
                "use functions that are defined in a module"
            ) from error
        learned = {_PICKLE: data}
        state = {"pickled": f"{type(transformer).__module__}.{name}", "digest": arrays_fingerprint(learned)}
        return cls(n_features_in, n_components, json.dumps(state), learned)

    @property
    def savable(self) -> bool:
        """Whether the map has a spec, so that it can be saved."""
        return "pickled" not in json.loads(self.state)

    @property
    def transformer(self) -> Any:
        """The fitted transformer: made from its data, or one of the last few that were unpickled."""
        assert self.learned is not None
        if not self.savable:
            return _unpickled.get(self.state, self.learned[_PICKLE])
        return transformer_from_spec(json.loads(self.state), self.learned)

    def __call__(self, X: Rows) -> Rows:
        X = check_rows(X, self.n_features_in)
        dtype = working_dtype(X.dtype)
        if X.shape[0] == 0:  # blocks of a Dask array may be empty, but scikit-learn refuses them
            return np.empty((0, self.n_components), dtype=dtype)
        return as_rows(self.transformer.transform(as_rows(X, dtype)), dtype)

    def columns(self, X: Rows, start: int, stop: int) -> Rows:
        return self(X)[:, start:stop]

    def makes_csr(self, of_csr: bool) -> bool:
        """Whether the transformer makes CSR of a row of ones, itself CSR (`of_csr`) or an array."""
        row = np.ones((1, self.n_features_in))
        try:
            return sp.issparse(self(sp.csr_array(row) if of_csr else row))
        except (TypeError, ValueError):  # it takes no CSR rows; its own error will say so
            return False

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return {} if self.learned is None else dict(self.learned)

    def with_arrays(self, arrays: Mapping[str, np.ndarray]) -> Self:
        return replace(self, learned=dict(arrays))

    def without_arrays(self) -> Self:
        # A map that learned no arrays keeps its empty mapping: there is nothing to fetch for it.
        return replace(self, learned=None) if self.learned else self

    def work(self) -> tuple[float, float]:
        size = sum(a.nbytes for a in (self.learned or {}).values())
        return 2.0 * self.n_features_in * self.n_components, float(size)

    def spec(self) -> dict[str, Any]:
        state = json.loads(self.state)
        if "pickled" in state:
            _refuse(state["pickled"])
        return {
            "map": self.kind,
            "n_features_in": self.n_features_in,
            "n_components": self.n_components,
            "transformer": state,
        }

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> BlockwiseMap:
        transformer_from_spec(
            spec["transformer"], arrays
        )  # raises where the spec is not that of a listed transformer
        state = json.dumps(spec["transformer"], sort_keys=True)
        return cls(int(spec["n_features_in"]), int(spec["n_components"]), state, dict(arrays))

    def __dask_tokenize__(self) -> tuple[object, ...]:
        return (
            type(self).__name__,
            self.n_features_in,
            self.n_components,
            self.state,
            arrays_fingerprint(self.arrays),
        )


def as_rows(features: Any, dtype: np.dtype) -> Rows:
    """Rows, or what a transformer made of them, as a CSR array or a C-contiguous array of that dtype."""
    if sp.issparse(features):
        return sp.csr_array(features, dtype=dtype)
    return np.ascontiguousarray(features, dtype=dtype)


def listed_transformer(name: str) -> type | None:
    """The class of that name in `SAVABLE_TRANSFORMERS`, imported on first use; None for any other name."""
    module = SAVABLE_TRANSFORMERS.get(name)
    return None if module is None else getattr(importlib.import_module(module), name)


def _describe(transformer: Any) -> tuple[str, dict[str, np.ndarray]] | None:
    """The state and the arrays of a transformer, as `BlockwiseMap` holds them.

    None where its class is not listed, or where a parameter or a fitted attribute is not plain data.
    """
    kind: Any = type(transformer)
    if listed_transformer(kind.__name__) is not kind:
        return None
    parameters = transformer.get_params(deep=False)
    fitted: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    for name, value in vars(transformer).items():
        if name in parameters or name == "feature_names_in_":
            continue
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
            arrays[name] = np.ascontiguousarray(value)
        else:
            fitted[name] = value
    try:
        plain = {"parameters": _plain(parameters), "fitted": _plain(fitted)}
    except TypeError:
        return None
    state = {"class": type(transformer).__name__, **plain, "arrays": sorted(arrays)}
    return json.dumps(state, sort_keys=True), arrays


def _plain(value: Any) -> Any:
    """A nested value of numbers, words, lists and dictionaries as JSON holds it; tuples are marked.

    Raises TypeError for others.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        return {"$tuple": [_plain(v) for v in value]}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    raise TypeError(type(value).__name__)


def _unplain(value: Any) -> Any:
    """The value that `_plain` was given, with its tuples."""
    if isinstance(value, list):
        return [_unplain(v) for v in value]
    if isinstance(value, dict):
        if set(value) == {"$tuple"}:
            return tuple(_unplain(v) for v in value["$tuple"])
        return {k: _unplain(v) for k, v in value.items()}
    return value


def _refuse(name: str) -> NoReturn:
    raise InputError(
        f"a {name} cannot be saved without running its code on load; Blockwise saves, with parameters that are "
        f"plain data: {', '.join(sorted(SAVABLE_TRANSFORMERS))}"
    )


def transformer_spec(transformer: object) -> dict[str, Any]:
    """The JSON of an unfitted transformer.

    Raises
    ------
    InputError : the transformer is not in `SAVABLE_TRANSFORMERS`, or a parameter is not plain data
    """
    described = _describe(transformer)
    if described is None:
        _refuse(f"{type(transformer).__module__}.{type(transformer).__name__}")
    return json.loads(described[0])


def transformer_from_spec(state: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
    """A transformer from its JSON and its fitted arrays.

    Parameters
    ----------
    state : what `transformer_spec` returned, or the state of a `BlockwiseMap`
    arrays : the fitted arrays by name

    Returns
    -------
    An instance of a class in `SAVABLE_TRANSFORMERS`.

    Raises
    ------
    SpecMismatchError : the class is not listed, an array is missing, or the state names what the class cannot have
    """
    name = state.get("class")
    if set(state) != {"class", "parameters", "fitted", "arrays"} or name not in SAVABLE_TRANSFORMERS:
        raise SpecMismatchError(
            f"the spec names the transformer {name!r}; this release loads {', '.join(sorted(SAVABLE_TRANSFORMERS))}"
        )
    missing = sorted(set(state["arrays"]) - set(arrays))
    if missing:
        raise SpecMismatchError(f"the arrays {missing} of the {name} are missing; save the map again")
    cls = listed_transformer(name)
    assert cls is not None
    try:
        transformer = cls(**_unplain(state["parameters"]))
    except TypeError as error:
        raise SpecMismatchError(
            f"this scikit-learn's {name} does not take the stored parameters: {error}"
        ) from None
    for attribute, value in [*_unplain(state["fitted"]).items(), *((a, arrays[a]) for a in state["arrays"])]:
        if attribute.startswith("__") or hasattr(cls, attribute):  # an edited spec must not replace a method
            raise SpecMismatchError(f"a {name} has no fitted attribute {attribute!r}; the spec was edited")
        setattr(transformer, attribute, value)
    return transformer


class _Unpickled:
    """The last few transformers that arrived as pickles, so that not every task unpickles one.

    Parameters
    ----------
    size : how many are kept
    """

    def __init__(self, size: int = 8) -> None:
        self.size = size
        self._kept: OrderedDict[str, Any] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, state: str, data: np.ndarray) -> Any:
        """The transformer with that `state`, unpickled from `data` where it is not kept."""
        key = hashlib.blake2b(state.encode(), digest_size=16).hexdigest()
        with self._lock:
            if key not in self._kept:
                self._kept[key] = pickle.loads(data.tobytes())
                if len(self._kept) > self.size:
                    self._kept.popitem(last=False)
            return self._kept[key]


_unpickled = _Unpickled()
