"""A fitted scikit-learn transformer as a map.

It travels to the workers as its pickle, once, within one job. No file has a pickle, since loading it would run the code in it: a saved
`Blockwise` holds its transformer as plain data (`distrf.maps.transformers`), or refuses.
"""

from __future__ import annotations

import json
import pickle
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import _check_feature_names, check_non_negative

from ..errors import InputError, SpecMismatchError, input_errors, reworded
from ..execution.labelled import frame_blocks, has_frames, is_frame, is_lazy_frame
from ..execution.row_blocks import blocks_are_csr, check_dask_rows, map_rows
from ..execution.sampling import sampled_rows, take_rows
from ..parameters import SEED, Rule, check_parameters, estimator, learned, name_in, param, whole
from ..randomness import draw_seed
from ..targets import as_columns
from ..typing import ArrayLike, RandomState, Rows
from .base import FeatureMap, arrays_fingerprint, check_rows, dense, working_dtype
from .estimator import FeatureEstimator, in_memory, positive_only, validate_rows
from .transformers import CODEC, TRANSFORMERS, listed_transformer


@dataclass(frozen=True)
class BlockwiseMap(FeatureMap):
    """A fitted transformer that treats each row by itself, applied to one block.

    Parameters
    ----------
    n_features_in : d
    n_components : D
    fingerprint : str, of the transformer
    names : tuple of str, columns of the data frames that the transformer takes; none if it takes arrays
    csr : bool, whether the features of data frames, which are float64, are CSR
    pickled : the transformer, as an array of bytes
    """

    fingerprint: str
    names: tuple[str, ...] = ()
    csr: bool = False
    pickled: np.ndarray | None = field(default=None, compare=False, repr=False)

    kind: ClassVar[str] = "blockwise"
    whole_rows: ClassVar[bool] = True

    @classmethod
    def of_transformer(
        cls,
        transformer: Any,
        n_features_in: int,
        n_components: int,
        names: Sequence[str] = (),
        csr: bool = False,
    ) -> BlockwiseMap:
        """The map of a fitted transformer.

        Parameters
        ----------
        transformer : a fitted transformer that treats each row by itself
        n_features_in, n_components : d and D
        names, csr : of one that takes data frames: their columns, and whether it makes CSR

        Raises
        ------
        InputError : the transformer cannot be pickled
        """
        what = f"a transformer travels to the workers as a pickle, but this {type(transformer).__name__} cannot be pickled"
        with reworded(lambda error: InputError(f"{what}: {error}; use functions that are defined in a module")):
            pickled = np.frombuffer(pickle.dumps(transformer), dtype=np.uint8)
        data: dict[str, np.ndarray] = {}
        try:
            text = json.dumps(CODEC.encode(transformer, "", data), sort_keys=True)
            data["state"] = np.frombuffer(text.encode(), dtype=np.uint8)
        except InputError:
            data = {"pickled": pickled}
        return cls(n_features_in, n_components, arrays_fingerprint(data), tuple(names), csr, pickled)

    @property
    def transformer(self) -> Any:
        """The fitted transformer, from its pickle where it is not one of the last few."""
        return _unpickled(self)

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
        return as_rows(self.transformer.transform(X[list(self.names)]), np.dtype(np.float64))

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

    def work(self) -> tuple[float, float]:
        return 2.0 * self.n_features_in * self.n_components, float(
            0 if self.pickled is None else self.pickled.nbytes
        )

    def spec(self) -> dict[str, Any]:
        CODEC.encode(self.transformer, "", {})  # an error that says why no spec can tell it from others
        return FeatureMap.spec(self.without_arrays())

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> BlockwiseMap:
        raise SpecMismatchError(
            "a spec names a transformer, but does not hold it: save a Pipeline in which Blockwise is a step of its own"
        )


@lru_cache(maxsize=8)
def _unpickled(map_: BlockwiseMap) -> Any:
    assert map_.pickled is not None
    return pickle.loads(map_.pickled.tobytes())


def takes_missing(transformer: Any) -> bool:
    """Whether NaN may stand in the rows of a transformer, as in those of an imputer."""
    if isinstance(transformer, Pipeline):  # scikit-learn's tags do not look inside
        steps = [step for _, step in transformer.steps if step is not None and step != "passthrough"]
        return not steps or takes_missing(steps[0])
    if isinstance(transformer, ColumnTransformer | FeatureUnion):  # each part refuses what it cannot take
        return True
    return bool(get_tags(transformer).input_tags.allow_nan)


def as_rows(features: Any, dtype: np.dtype) -> Rows:
    """Rows, or what a transformer made of them, as a CSR array or a C-contiguous array of that dtype."""
    if sp.issparse(features):
        return sp.csr_array(features, dtype=dtype)
    return np.ascontiguousarray(features, dtype=dtype)


@estimator
class Blockwise(FeatureEstimator):
    """A scikit-learn transformer, fitted on a sample of rows and applied block by block.

    For transformers whose output for a row depends on that row alone, and on what `fit` learned.

    Parameters
    ----------
    transformer : scikit-learn transformer or str
        Its clone is fitted. A name, such as "AdditiveChi2Sampler", is one of the listed transformers (see Notes)
        with its defaults.
    n_sample : int, default=10000
        Rows to fit on; all of them where X has no more. A transformer that says it needs no fit
        (Normalizer, AdditiveChi2Sampler) reads none.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the sample. None draws one seed.

    Attributes
    ----------
    map_ : BlockwiseMap
        The frozen map. Its transformer travels to the workers once, under one shared key.
    transformer_ : scikit-learn transformer
        The fitted transformer.
    width_ : int
        D, the number of features.
    frames_ : dict
        Of a transformer that takes data frames, their columns, and whether it makes CSR.
    n_features_in_ : int
        Number of input columns, d.

    Notes
    -----
    `distrf.save_model` saves the transformers listed in `distrf.maps.transformers.SAVABLE_TRANSFORMERS`, as plain
    data. CSR blocks stay sparse where the transformer keeps them so.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.kernel_approximation import AdditiveChi2Sampler
    >>> from distrf import Blockwise
    >>> X = np.random.default_rng(0).uniform(size=(100, 5))
    >>> Blockwise(AdditiveChi2Sampler(sample_steps=2)).fit_transform(X).shape
    (100, 15)
    """

    transformer_: Any = learned()
    width_: int = learned()
    frames_: dict[str, Any] = learned()

    joins_columns: ClassVar[bool] = False
    transformer: BaseEstimator | str = param(
        rule=name_in(TRANSFORMERS)
        | Rule(
            ("a scikit-learn transformer, such as AdditiveChi2Sampler()",),
            lambda value: isinstance(value, BaseEstimator) and hasattr(value, "transform"),
        ),
        kw_only=False,
    )
    n_sample: int = param(default=10_000, rule=whole())
    random_state: RandomState = param(default=None, rule=SEED)

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Blockwise:
        """Fit a clone of the transformer on sampled rows, and on their targets where these are given.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, d)
            Input rows. A Dask array is read block by block.
        y : array or Dask array of shape (n,), default=None
            Targets, for transformers that learn from them.

        Returns
        -------
        Blockwise
            The fitted estimator itself.

        Raises
        ------
        InputError
            The output for a row depends on the other rows; or the transformer needs y, y has another length
            than X, or sparse rows do not suit the transformer.
        """
        check_parameters(self)
        inner = self._unfitted()
        tags, frame = get_tags(inner), is_frame(X) and (_takes_columns(inner) or not _all_numbers(X))
        if frame:
            with input_errors():
                _check_feature_names(self, getattr(X, "_meta", X), reset=True)
            if not hasattr(self, "feature_names_in_"):
                raise InputError("columns of a data frame must have names that are text; rename them")
            self.n_features_in_ = X.shape[1]
            X = frame_blocks(X) if is_lazy_frame(X) else X
        else:
            X = validate_rows(self, X, reset=True, missing=takes_missing(inner))
            if positive_only(inner) and in_memory(X):
                check_non_negative(X, f"Blockwise({type(inner).__name__})")
            if blocks_are_csr(X) and not tags.input_tags.sparse:
                raise InputError(
                    f"a {type(inner).__name__} with these parameters does not take sparse rows; choose others, "
                    "or pass dense rows"
                )
        d, targets = X.shape[1], None
        if not (frame or tags.requires_fit or tags.target_tags.required):
            # Three unlike rows of positive numbers: a stateless transformer only learns the width.
            rows = np.multiply.outer(np.array([1, 2, 3]), np.ones(d))
        else:
            chosen = sampled_rows(X.shape[0], int(self.n_sample), draw_seed(self.random_state), "blockwise")
            rows = take_rows(X, chosen)
            if y is not None or tags.target_tags.required:
                targets = _take_targets(X, y, chosen, X.shape[0])
        rows = rows if frame else rows.astype(working_dtype(X.dtype), copy=False)
        with input_errors():
            inner = inner.fit(rows) if targets is None else inner.fit(rows, targets)
        features = _check_row_wise(inner, rows[:3], np.dtype(np.float64) if frame else rows.dtype)
        names = self.feature_names_in_.tolist() if frame else []
        return self._publish(inner, d, features.shape[1], names, frame and bool(sp.issparse(features)))

    def _publish(self, transformer: Any, d: int, width: int, names: list[str], csr: bool = False) -> Blockwise:
        self._map = BlockwiseMap.of_transformer(transformer, d, width, names, csr)
        self.transformer_, self.n_features_in_, self.width_ = transformer, d, width
        self.frames_ = {"names": names, "csr": csr}
        return self

    @property
    def map_(self) -> BlockwiseMap:  # type: ignore[override]
        if "_map" not in vars(self):  # of a loaded one
            self._publish(self.transformer_, self.n_features_in_, self.width_, **self.frames_)
        return self._map

    def _checked(self, X: Any) -> Any:
        if self.map_.names:  # which the map itself looks for
            return frame_blocks(X) if is_lazy_frame(X) else X
        return validate_rows(self, X, reset=False, missing=takes_missing(self.map_.transformer))

    def _mapped(self, X: Any) -> Any:
        if not self.map_.names:
            return super()._mapped(X)
        if not has_frames(X):
            raise InputError(
                f"the transformer takes data frames with the columns {', '.join(self.map_.names[:10])}, got a Dask array; "
                "give a Dask DataFrame"
            )
        return map_rows(self.map_, X, self.map_.n_components, np.dtype(np.float64))

    @classmethod
    def of_fitted(cls, transformer: Any) -> Blockwise:
        """A transformer that is fitted, applied block by block to lazy rows too.

        Parameters
        ----------
        transformer : scikit-learn transformer
            Its output for a row depends on that row alone.

        Returns
        -------
        Blockwise
            Fitted.
        """
        d = transformer.n_features_in_
        try:
            width = len(transformer.get_feature_names_out())
        except (AttributeError, ValueError):  # of a function that names no features
            width = transformer.transform(np.ones((1, d))).shape[1]
        names = getattr(transformer, "feature_names_in_", ()) if _takes_columns(transformer) else ()
        return cls(transformer)._publish(transformer, d, width, list(names))

    def _unfitted(self) -> Any:
        listed = listed_transformer(self.transformer) if isinstance(self.transformer, str) else None
        return clone(self.transformer) if listed is None else listed()

    def _planned_map(self, d: int) -> BlockwiseMap:
        """A map of the right width: the transformer is fitted on random positive rows."""
        n = min(2 * d + 10, max(3, 2**22 // d))  # more rows than columns, where they are not too many
        rows = np.random.default_rng(0).uniform(0.5, 2.0, size=(n, d))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about so few rows
            inner = self._unfitted().fit(rows)
        return BlockwiseMap.of_transformer(inner, d, inner.transform(rows[:1]).shape[1])

    def __sklearn_tags__(self) -> Tags:
        tags, inner = super().__sklearn_tags__(), get_tags(self._unfitted())
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = takes_missing(self._unfitted())
        tags.input_tags.positive_only = positive_only(self._unfitted())
        tags.target_tags.required = inner.target_tags.required
        return tags


def _take_targets(X: Any, y: Any, chosen: np.ndarray, n: int) -> np.ndarray:
    """The targets of the rows `chosen` of n. Raises InputError if y is missing or has another length."""
    if y is None:
        raise InputError("the transformer requires y to be passed, but the target y is None")
    y = as_columns(y)
    if y.shape[0] != n:
        raise InputError(f"y must have as many rows as X, got {y.shape[0]} and {n}")
    if not in_memory(y):
        y = check_dask_rows(y, "y")
        return take_rows(y[:, None] if y.ndim == 1 else y, chosen).squeeze(axis=1)
    return y[chosen]


def _takes_columns(transformer: Any) -> bool:
    """Whether a transformer, or one inside it, chooses columns of a data frame."""
    parts = [transformer, *transformer.get_params(deep=True).values()]
    return any(isinstance(part, ColumnTransformer) for part in parts)


def _all_numbers(frame: Any) -> bool:
    dtypes = frame.dtypes
    return all(getattr(dtype, "kind", "O") in "fiub" for dtype in dtypes)


def _check_row_wise(transformer: Any, rows: np.ndarray, dtype: np.dtype) -> Any:
    """The features of these rows. Raises InputError if each row alone gives other numbers than all together."""
    together = as_rows(transformer.transform(rows), dtype)
    if together.shape[0] == len(rows):
        each = [transformer.transform(rows[i : i + 1]) for i in range(len(rows))]
        alone, all_ = np.concatenate([dense(as_rows(one, dtype)) for one in each]), dense(together)
        if np.allclose(all_, alone, 1e-3, 1e-5 * np.nanmax(abs(all_), initial=0), equal_nan=True):
            return together
    raise InputError(
        f"Blockwise needs a transformer that treats every row on its own, but {type(transformer).__name__} gives "
        f"{len(rows)} rows other values together than one by one; fit what it learns in `fit`, not in `transform`"
    )
