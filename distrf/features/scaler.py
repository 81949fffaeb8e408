"""Scaling of columns or rows, fitted in one pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from dask.base import is_dask_collection
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from ..blocks.moments import column_moments
from ..blocks.rows import check_dask_rows, map_rows
from ..errors import InputError
from ..maps import ScalingMap, map_from_spec, working_dtype
from ..maps.base import FeatureMap
from ..maps.scaling import METHODS, SHIFTING
from .base import FeatureEstimator, validate_rows

_BY_COLUMN = ("standard", "minmax", "maxabs")


class StreamingScaler(OneToOneFeatureMixin, FeatureEstimator):
    """Scale columns or rows of data larger than memory; one pass to fit, none for row norms.

    Parameters
    ----------
    method : "standard" (zero mean, unit variance) | "minmax" (to [0, 1]) | "maxabs" (to [-1, 1], keeps
        zeros) | "l1-rows", "l2-rows" (each row to unit norm) | "divide" (by `divisor`)
    divisor : the number that "divide" divides by, such as 255 for grey values

    Attributes
    ----------
    map_ : ScalingMap, with arrays `shift` and `scale` of shape (d,) where columns were learned
    n_features_in_ : int, d

    Notes
    -----
    A column without spread is shifted and not scaled. CSR blocks stay CSR; "standard" and "minmax"
    refuse them.
    """

    map_: ScalingMap

    def __init__(self, method: str = "standard", *, divisor: float = 1.0):
        self.method = method
        self.divisor = divisor

    def fit(self, X: Any, y: Any = None) -> StreamingScaler:
        """Learn the scaling from the rows of X (array, CSR or Dask array)."""
        X = validate_rows(self, X, reset=True)
        check_method(self.method)
        if sp.issparse(X) and self.method in SHIFTING:
            raise InputError(
                f"scaling {self.method!r} shifts columns and would fill a sparse matrix; use 'maxabs', 'l1-rows' or "
                "'l2-rows', or dense rows"
            )
        d = X.shape[1]
        shift = scale = None
        if self.method in _BY_COLUMN:
            moments = column_moments(X)
            size, spread = np.maximum(abs(moments.low), abs(moments.high)), moments.high - moments.low
            if self.method == "maxabs":
                shift, scale = np.zeros(d), size
            else:
                standard = self.method == "standard"
                shift = moments.mean if standard else moments.low
                # A spread of a few roundings is none; the variance of equal numbers need not come out as 0.
                varies = spread > 10 * np.finfo(np.float64).eps * size
                scale = np.where(varies, np.sqrt(moments.variance) if standard else spread, 0.0)
            scale = np.where(scale > 0, scale, 1.0)
        self.map_ = ScalingMap(d, d, self.method, float(self.divisor), shift, scale)
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.method not in SHIFTING
        return tags

    def inverse_transform(self, X: Any) -> Any:
        """Undo a column scaling; refuses row norms, which forget what they divided by."""
        check_is_fitted(self)
        inverse = self.map_.inverted()
        if is_dask_collection(X):
            return apply_scaling(inverse, check_dask_rows(X))
        return inverse(X if sp.issparse(X) else np.asarray(X))


def check_method(method: str) -> None:
    """Raise InputError for a scaling that does not exist."""
    if method not in METHODS:
        raise InputError(f"unknown scaling {method!r}; known: {', '.join(METHODS)}")


def scaler_from_spec(spec: Mapping[str, Any]) -> FeatureMap:
    """The frozen scaling that a store's `preprocessing` entry describes; arrays as JSON lists."""
    arrays = {name: np.asarray(values, dtype=np.float64) for name, values in spec.get("arrays", {}).items()}
    return map_from_spec(spec["map"], arrays)


def scaler_spec(map_: FeatureMap) -> dict[str, Any]:
    """The JSON of a frozen scaling for a store's `preprocessing` entry."""
    return {"map": map_.spec(), "arrays": {name: values.tolist() for name, values in map_.arrays.items()}}


def part_of_scaling(spec: Mapping[str, Any], columns: list[int]) -> dict[str, Any]:
    """The `preprocessing` entry for some of the columns; InputError for row norms, which take all of them."""
    map_ = scaler_from_spec(spec)
    assert isinstance(map_, ScalingMap)
    if map_.method not in ("divide", *_BY_COLUMN):
        raise InputError(
            f"the scaling {map_.method!r} of these rows takes all columns; leave out the choice of columns"
        )
    part = replace(map_, n_features_in=len(columns), n_components=len(columns))
    return scaler_spec(
        part.with_arrays({k: v[columns] for k, v in map_.arrays.items()}) if map_.arrays else part
    )


def apply_scaling(map_: FeatureMap, X: Any) -> Any:
    """A frozen scaling over a lazy Dask array."""
    return map_rows(map_, X, map_.n_components, working_dtype(X.dtype))
