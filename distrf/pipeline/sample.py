"""The rows that choices are judged on: a seeded sample over all rows, split into training and held-out ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from dask.base import is_dask_collection
from sklearn.base import clone
from sklearn.utils.validation import check_array

from ..errors import InputError, input_errors
from ..execution.row_blocks import check_dask_rows
from ..execution.sampling import neighbours, sampled_rows, take_aligned, take_rows
from ..maps import working_dtype
from ..randomness import permutation
from ..targets import as_columns

#: Rows of a sample; fewer of wide rows, whose n x n systems grow with the cube.
_ROWS, _WIDE_ROWS, _WIDE = 6000, 3000, 1000
_BYTES = 2**28
#: Up to so many rows each is held out once, in five or three folds; above, a quarter is, once.
_FIVE_FOLDS, _THREE_FOLDS = 500, 2000
_FEWEST = 10


@dataclass(frozen=True)
class Sample:
    """X : dense or CSR, y : their targets; splits : (training rows, held-out rows), none where rows are too few."""

    X: Any
    y: np.ndarray
    splits: tuple[tuple[np.ndarray, np.ndarray], ...]

    @property
    def judged(self) -> int:
        return sum(len(held) for _, held in self.splits)

    def scaled(self, scaler: Any) -> Sample:
        """The same rows after a scaler that is fitted to them."""
        return replace(self, X=clone(scaler).fit(self.X).transform(self.X))


def as_rows(X: Any) -> Any:
    """X as an array, CSR matrix or Dask array of two dimensions."""
    if is_dask_collection(X):
        return check_dask_rows(X)
    if sp.issparse(X):
        X = X.tocsr()
    elif hasattr(X, "columns"):  # a data frame; nullable columns become floats
        with input_errors():
            X = check_array(
                X, dtype="numeric", ensure_all_finite=False, ensure_min_samples=0, ensure_min_features=0
            )
    else:
        X = np.asarray(X)
    if X.ndim != 2:
        raise InputError(f"Expected 2D array: X must have 2 dimensions (rows, columns), got shape {X.shape}")
    if X.shape[1] == 0:
        raise InputError(f"X must have at least one column, got shape {X.shape}")
    working_dtype(X.dtype)
    return X


def as_targets(X: Any, y: Any) -> Any:
    """y as an array or Dask array with as many rows as X."""
    if y is None:
        raise InputError("training needs a target, but y is None")
    y = as_columns(y)
    if not is_dask_collection(y) and y.dtype.kind == "O":
        y = np.asarray(y.tolist())  # numbers in an array of objects
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.shape[:1] != X.shape[:1]:
        raise InputError(f"y must have as many rows as X, got {y.shape[0] if y.ndim else 1} and {X.shape[0]}")
    if X.shape[0] == 0:
        raise InputError("Found array with 0 sample(s), at least 1 is required")
    return y


def sample_targets(y: Any, seed: int, rows: int = 10_000) -> np.ndarray:
    """Seeded targets, in the order of the rows."""
    return take_rows(y, sampled_rows(y.shape[0], rows, seed, "target"))


def read_sample(X: Any, y: Any, seed: int) -> Sample:
    """At most 6,000 seeded rows. Raises InputError for a sampled row that is not finite, and names it."""
    n, d = X.shape
    size = min(n, _ROWS if d <= _WIDE else _WIDE_ROWS)
    sparse = sp.issparse(X._meta if is_dask_collection(X) else X)
    if not sparse:
        size = max(100, min(size, _BYTES // (8 * d)))
    rows = sampled_rows(n, size, seed, "choices")
    taken, targets = take_aligned([X, y], rows, sparse=sparse)
    _check_finite(taken, rows)
    return Sample(taken.astype(working_dtype(taken.dtype)), targets, _splits(len(rows), neighbours(n), seed))


def _check_finite(X: Any, rows: np.ndarray) -> None:
    values = X.data if sp.issparse(X) else X
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return
    if sp.issparse(X):
        at = int(np.argmin(np.isfinite(values)))
        row, column = int(np.searchsorted(X.indptr, at, side="right") - 1), int(X.indices[at])
    else:
        row, column = (int(i) for i in np.argwhere(~np.isfinite(values))[0])
    raise InputError(
        f"X must be finite, but row {rows[row]}, column {column} is {X[row, column]}; impute or drop such rows"
    )


def _splits(n: int, together: int, seed: int) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Neighbours that were sampled together are on one side."""
    if n < _FEWEST:
        return ()
    groups = permutation(seed, "choices order", 0, n // together)
    order = (groups[:, None] * together + np.arange(together)).ravel()
    if n > _THREE_FOLDS:
        held = n // 4 // together * together
        return ((np.sort(order[held:]), np.sort(order[:held])),)
    parts = np.array_split(order, 5 if n <= _FIVE_FOLDS else 3)
    return tuple((np.sort(np.setdiff1d(order, part)), np.sort(part)) for part in parts)
