"""A fitted scikit-learn transformer as a frozen map.

What was fitted travels to the workers as `learned`, under one shared key. For the classes in
`SAVABLE_TRANSFORMERS` it holds the fitted arrays, and `state` everything else, as JSON; the same is written
when the map is saved. If the JSON is long, it is an array of bytes of `learned` too. Any other transformer travels as its
pickle, within one job. It has no spec and cannot be saved, because loading a pickle from a file would run the code in it.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import get_tags

from ..errors import InputError, SpecMismatchError, reworded
from ..typing import Rows
from .base import FeatureMap, arrays_fingerprint, check_rows, working_dtype
from .transformers import SAVABLE_TRANSFORMERS, describe_transformer, restore_transformer, warn_of_release

#: Entries of `learned`: of a pickle, and of JSON that is too long to go with every task.
_PICKLE, _STATE = "pickle", "state"
_LONG = 512


@dataclass(frozen=True)
class BlockwiseMap(FeatureMap):
    """A fitted transformer that treats each row by itself, applied to one block.

    Parameters
    ----------
    n_features_in : d
    n_components : D
    state : str, JSON: what `describe_transformer` says, or the class and a fingerprint of what `learned` says
    learned : the fitted arrays by name, and the long JSON or the pickle of the transformer as an array of bytes
    names : columns of the data frames that the transformer takes; empty if it takes arrays
    dtype : of the features of data frames; "" is what the transformer makes
    csr : bool, whether the features of data frames are CSR
    """

    state: str
    names: tuple[str, ...] = ()
    dtype: str = ""
    csr: bool = False
    learned: Mapping[str, np.ndarray] | None = field(default=None, compare=False, repr=False)

    kind: ClassVar[str] = "blockwise"
    whole_rows: ClassVar[bool] = True

    @classmethod
    def of_transformer(
        cls, transformer: object, n_features_in: int, n_components: int, **frames: Any
    ) -> BlockwiseMap:
        """The map of a fitted transformer.

        Parameters
        ----------
        transformer : a fitted transformer that treats each row by itself
        n_features_in, n_components : d and D
        **frames : `names`, `dtype` and `csr` of one that takes data frames

        Raises
        ------
        InputError : the transformer is neither in `SAVABLE_TRANSFORMERS` nor can it be pickled
        """
        name = type(transformer).__name__
        arrays: dict[str, np.ndarray] = {}
        try:
            entry = describe_transformer(transformer, "", arrays)
        except InputError:
            pass
        else:
            text, arrays = _stated(entry, arrays)
            return cls(n_features_in, n_components, text, learned=arrays, **frames)
        with reworded(
            lambda error: InputError(
                f"a transformer travels to the workers as a pickle, but this {name} cannot be pickled: {error}; "
                "use functions that are defined in a module"
            )
        ):
            data = np.frombuffer(pickle.dumps(transformer), dtype=np.uint8)
        learned = {_PICKLE: data}
        state = {"pickled": f"{type(transformer).__module__}.{name}", "digest": arrays_fingerprint(learned)}
        return cls(n_features_in, n_components, json.dumps(state), learned=learned, **frames)

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
        return restore_transformer(self._entry(), self.learned)

    def _entry(self) -> dict[str, Any]:
        """What `describe_transformer` said."""
        entry = json.loads(self.state)
        if _STATE not in entry:
            return entry
        assert self.learned is not None
        return json.loads(self.learned[_STATE].tobytes())

    def __call__(self, X: Rows) -> Rows:
        if self.names:
            return self._of_frame(X)
        transformer = self.transformer
        X = check_rows(X, self.n_features_in, missing=takes_missing(transformer))
        dtype = working_dtype(X.dtype)
        if X.shape[0] == 0:  # blocks of a Dask array may be empty, but scikit-learn refuses them
            return np.empty((0, self.n_components), dtype=dtype)
        return as_rows(transformer.transform(as_rows(X, dtype)), dtype)

    def _of_frame(self, X: Any) -> Rows:
        missing = [name for name in self.names if name not in getattr(X, "columns", ())]
        if missing:
            got = (
                "columns " + ", ".join(map(str, X.columns[:10])) if hasattr(X, "columns") else type(X).__name__
            )
            raise InputError(
                f"the transformer was fitted to data frames with the columns {', '.join(missing[:10])}, got {got}; give such "
                "a data frame, of pandas or of Dask"
            )
        if len(X) == 0:
            made = np.empty((0, self.n_components))
            return sp.csr_array(made) if self.csr else made
        features = self.transformer.transform(X[list(self.names)])
        return as_rows(features, np.dtype(self.dtype) if self.dtype else frame_dtype(features))

    def columns(self, X: Rows, start: int, stop: int) -> Rows:
        return self(X)[:, start:stop]

    def makes_csr(self, of_csr: bool) -> bool:
        """Whether the transformer makes CSR of a row of ones, itself CSR (`of_csr`) or an array."""
        if self.names:
            return self.csr
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
        if not self.savable:
            try:
                describe_transformer(self.transformer, "", {})
            except InputError as error:
                name = json.loads(self.state)["pickled"]
                raise InputError(
                    f"a {name} cannot be saved without running its code on load: {error}; Blockwise saves, with "
                    f"parameters that are plain data: {', '.join(sorted(SAVABLE_TRANSFORMERS))}"
                ) from None
        frames = {"names": list(self.names), "dtype": self.dtype, "csr": self.csr} if self.names else {}
        return (
            {
                "map": self.kind,
                "n_features_in": self.n_features_in,
                "n_components": self.n_components,
                "transformer": json.loads(self.state),
            }
            | frames
            | ({"digest": arrays_fingerprint(self.arrays)} if self.arrays else {})
        )

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> BlockwiseMap:
        state = json.dumps(spec["transformer"], sort_keys=True)
        frames = (
            {"names": tuple(spec["names"]), "dtype": spec["dtype"], "csr": spec["csr"]}
            if "names" in spec
            else {}
        )
        map_ = cls(int(spec["n_features_in"]), int(spec["n_components"]), state, learned=dict(arrays), **frames)
        if not isinstance(spec["transformer"], dict) or not map_.savable:
            raise SpecMismatchError("the spec names a pickle, which is not loaded; the spec was edited")
        _ = map_.transformer  # raises where the spec is not that of a listed transformer
        warn_of_release(map_._entry())
        return map_

    def __dask_tokenize__(self) -> tuple[object, ...]:
        return (
            type(self).__name__,
            self.n_features_in,
            self.n_components,
            self.state,
            self.names,
            self.dtype,
            arrays_fingerprint(self.arrays),
        )


def takes_missing(transformer: Any) -> bool:
    """Whether NaN may stand in the rows of a transformer, as in those of an imputer."""
    if isinstance(transformer, Pipeline):  # scikit-learn's tags do not look inside
        steps = [step for _, step in transformer.steps if step is not None and step != "passthrough"]
        return not steps or takes_missing(steps[0])
    if isinstance(transformer, ColumnTransformer | FeatureUnion):  # each part refuses what it cannot take
        return True
    return bool(get_tags(transformer).input_tags.allow_nan)


def frame_dtype(features: Any) -> np.dtype:
    """The dtype of features made from a data frame: float32 or float64, also of objects that are numbers."""
    dtype = getattr(features, "dtype", None)
    return np.dtype(np.float64) if dtype is None or dtype.kind == "O" else working_dtype(dtype)


def as_rows(features: Any, dtype: np.dtype) -> Rows:
    """Rows, or what a transformer made of them, as a CSR array or a C-contiguous array of that dtype."""
    if sp.issparse(features):
        return sp.csr_array(features, dtype=dtype)
    return np.ascontiguousarray(features, dtype=dtype)


def _stated(entry: dict[str, Any], arrays: dict[str, np.ndarray]) -> tuple[str, dict[str, np.ndarray]]:
    """`state` and `learned` of a map."""
    text = json.dumps(entry, sort_keys=True)
    if len(text) > _LONG:
        arrays = arrays | {_STATE: np.frombuffer(text.encode(), dtype=np.uint8)}
        digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        text = json.dumps({"class": entry["class"], _STATE: digest}, sort_keys=True)
    return text, arrays


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
