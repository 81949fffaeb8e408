"""A fitted scikit-learn transformer as a frozen map.

What was fitted travels to the workers as `learned`, under one shared key. For the classes in `SAVABLE_TRANSFORMERS` it holds the fitted arrays
and, as an array of bytes, all else as JSON; the same is written when the map is saved. Any other transformer travels as its
pickle, within one job. It has no spec and cannot be saved, because loading a pickle from a file would run the code in it.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
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

#: Entries of `learned`: a pickle, and JSON.
_PICKLE, _STATE = "pickle", "state"


@dataclass(frozen=True)
class BlockwiseMap(FeatureMap):
    """A fitted transformer that treats each row by itself, applied to one block.

    Parameters
    ----------
    n_features_in : d
    n_components : D
    digest : str, fingerprint of `learned`
    columns_of_frames : str, JSON of the names of the columns of the data frames that the transformer takes; empty if it takes arrays
    dtype : of the features of data frames; "" is what the transformer makes
    csr : bool, whether the features of data frames are CSR
    learned : the JSON and the fitted arrays by name, or the pickle of the transformer
    """

    digest: str
    columns_of_frames: str = ""
    dtype: str = ""
    csr: bool = False
    learned: Mapping[str, np.ndarray] | None = field(default=None, compare=False, repr=False)

    kind: ClassVar[str] = "blockwise"
    whole_rows: ClassVar[bool] = True

    @classmethod
    def of_transformer(
        cls,
        transformer: Any,
        n_features_in: int,
        n_components: int,
        names: Sequence[str] = (),
        dtype: str = "",
        csr: bool = False,
    ) -> BlockwiseMap:
        """The map of a fitted transformer.

        Parameters
        ----------
        transformer : a fitted transformer that treats each row by itself
        n_features_in, n_components : d and D
        names, dtype, csr : of one that takes data frames: their columns, and what it makes

        Raises
        ------
        InputError : the transformer is neither in `SAVABLE_TRANSFORMERS` nor can it be pickled
        """
        learned: dict[str, np.ndarray] = {}
        try:
            text = json.dumps(describe_transformer(transformer, "", learned), sort_keys=True)
            learned[_STATE] = np.frombuffer(text.encode(), dtype=np.uint8)
        except InputError:
            what = f"a transformer travels to the workers as a pickle, but this {type(transformer).__name__} cannot be pickled"
            with reworded(
                lambda error: InputError(f"{what}: {error}; use functions that are defined in a module")
            ):
                learned = {_PICKLE: np.frombuffer(pickle.dumps(transformer), dtype=np.uint8)}
        columns = json.dumps(list(names)) if names else ""
        return cls(n_features_in, n_components, arrays_fingerprint(learned), columns, dtype, csr, learned)

    @property
    def names(self) -> list[str]:
        """Columns of the data frames that the transformer takes; none if it takes arrays."""
        return json.loads(self.columns_of_frames or "[]")

    @property
    def savable(self) -> bool:
        """Whether the map has a spec, so that it can be saved."""
        return _PICKLE not in self.arrays

    @property
    def transformer(self) -> Any:
        """The fitted transformer, made from its data where it is not one of the last few."""
        return _transformer_of(self)

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
        names = self.names
        missing = [name for name in names if name not in getattr(X, "columns", ())]
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
        features = self.transformer.transform(X[names])
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
        return replace(self, learned=dict(arrays) or None)

    def work(self) -> tuple[float, float]:
        size = sum(a.nbytes for a in self.arrays.values())
        return 2.0 * self.n_features_in * self.n_components, float(size)

    def spec(self) -> dict[str, Any]:
        if not self.savable:
            name = f"{type(self.transformer).__module__}.{type(self.transformer).__name__}"
            try:
                describe_transformer(self.transformer, "", {})
            except InputError as error:
                raise InputError(
                    f"a {name} cannot be saved without running its code on load: {error}; Blockwise saves, with "
                    f"parameters that are plain data: {', '.join(sorted(SAVABLE_TRANSFORMERS))}"
                ) from None
        return super().spec()

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> BlockwiseMap:
        map_ = cls(**cls._read_fields(spec, arrays), learned=dict(arrays))
        if _STATE not in arrays:
            raise SpecMismatchError("the spec names a pickle, which is not loaded; the spec was edited")
        _ = map_.transformer  # raises where the spec is not that of a listed transformer
        warn_of_release(json.loads(arrays[_STATE].tobytes()))
        return map_


@lru_cache(maxsize=8)
def _transformer_of(map_: BlockwiseMap) -> Any:
    assert map_.learned is not None
    if not map_.savable:
        return pickle.loads(map_.learned[_PICKLE].tobytes())
    return restore_transformer(json.loads(map_.learned[_STATE].tobytes()), map_.learned)


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
