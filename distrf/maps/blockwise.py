"""A fitted scikit-learn transformer as a frozen map; those of a list as plain data, the others as pickles.

What travels to a worker is `learned`, under one shared key. For the classes listed below it holds the fitted
arrays and `state` everything else, as JSON: that is also what is saved. Any other transformer travels as its
pickle between the processes of one job, and has no spec: loading a pickle from a file would run its code.
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
from typing import Any, ClassVar, NoReturn

import numpy as np
import scipy.sparse as sp

from ..errors import InputError, SpecMismatchError
from .base import FeatureMap, arrays_fingerprint, check_rows, working_dtype

#: Row-wise transformers whose parameters and fitted attributes are plain data, and where they live.
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
    """A fitted, row-wise transformer on one block.

    state : JSON with the class and, where it is listed, its parameters and fitted scalars
    learned : its fitted arrays, or its pickle as uint8
    """

    state: str
    learned: Mapping[str, np.ndarray] | None = field(default=None, compare=False, repr=False)

    kind: ClassVar[str] = "blockwise"
    whole_rows: ClassVar[bool] = True

    @classmethod
    def of_transformer(cls, transformer: Any, n_features_in: int, n_components: int) -> BlockwiseMap:
        """The map of a fitted transformer. Raises InputError where it can neither be described nor pickled."""
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
        return "pickled" not in json.loads(self.state)

    @property
    def transformer(self) -> Any:
        """The fitted transformer, made anew or taken from a few kept ones."""
        assert self.learned is not None
        if not self.savable:
            return _unpickled.get(self.state, self.learned[_PICKLE])
        return transformer_from_spec(json.loads(self.state), self.learned)

    def __call__(self, X):
        X = check_rows(X, self.n_features_in)
        dtype = working_dtype(X.dtype)
        if X.shape[0] == 0:  # scikit-learn refuses what a lazy array may well hold
            return np.empty((0, self.n_components), dtype=dtype)
        X = sp.csr_array(X, dtype=dtype) if sp.issparse(X) else np.ascontiguousarray(X, dtype=dtype)
        return as_rows(self.transformer.transform(X), dtype)

    def columns(self, X, start, stop):
        return self(X)[:, start:stop]

    def makes_csr(self, of_csr: bool) -> bool:
        """As the transformer does with a row of ones."""
        row = np.ones((1, self.n_features_in))
        try:
            return sp.issparse(self(sp.csr_array(row) if of_csr else row))
        except (TypeError, ValueError):  # it takes no CSR rows, which it will say itself
            return False

    @property
    def arrays(self):
        return {} if self.learned is None else dict(self.learned)

    def with_arrays(self, arrays):
        return replace(self, learned=dict(arrays))

    def without_arrays(self):
        # Nothing learned (Normalizer and the like) stays as it is: there is no key to fetch.
        return replace(self, learned=None) if self.learned else self

    def work(self):
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
        transformer_from_spec(spec["transformer"], arrays)  # refuses what the class cannot have
        state = json.dumps(spec["transformer"], sort_keys=True)
        return cls(int(spec["n_features_in"]), int(spec["n_components"]), state, dict(arrays))

    def __dask_tokenize__(self):
        return (
            type(self).__name__,
            self.n_features_in,
            self.n_components,
            self.state,
            arrays_fingerprint(self.arrays),
        )


def as_rows(made: Any, dtype: np.dtype) -> Any:
    """What a transformer returned as an array or CSR matrix of that dtype."""
    if sp.issparse(made):
        return sp.csr_array(made, dtype=dtype)
    return np.ascontiguousarray(made, dtype=dtype)


def listed_transformer(name: str) -> type | None:
    """The listed class of that name, imported on first use."""
    module = SAVABLE_TRANSFORMERS.get(name)
    return None if module is None else getattr(importlib.import_module(module), name)


def _describe(transformer: Any) -> tuple[str, dict[str, np.ndarray]] | None:
    """(state, arrays) of a transformer; None where it is not listed, or a parameter or attribute not plain data."""
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
    """JSON of nested plain values; tuples are marked. Raises TypeError for anything else."""
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


def transformer_spec(transformer: Any) -> dict[str, Any]:
    """The JSON of an unfitted transformer. Raises InputError for one that is not listed."""
    described = _describe(transformer)
    if described is None:
        _refuse(f"{type(transformer).__module__}.{type(transformer).__name__}")
    return json.loads(described[0])


def transformer_from_spec(state: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
    """A listed transformer from its JSON and fitted arrays.

    Raises SpecMismatchError for a class that is not listed, and for what its class cannot have.
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
        if attribute.startswith("__") or hasattr(cls, attribute):  # a method must not be replaced
            raise SpecMismatchError(f"a {name} has no fitted attribute {attribute!r}; the spec was edited")
        setattr(transformer, attribute, value)
    return transformer


class _Unpickled:
    """The last few transformers that arrived as pickles, so that not every task unpickles one."""

    def __init__(self, size: int = 8):
        self.size = size
        self._kept: OrderedDict[str, Any] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, state: str, data: np.ndarray) -> Any:
        key = hashlib.blake2b(state.encode(), digest_size=16).hexdigest()
        with self._lock:
            if key not in self._kept:
                self._kept[key] = pickle.loads(data.tobytes())
                if len(self._kept) > self.size:
                    self._kept.popitem(last=False)
            return self._kept[key]


_unpickled = _Unpickled()
