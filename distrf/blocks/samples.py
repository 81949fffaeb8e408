"""A few seeded rows of an array, without pulling the array in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from dask.base import is_dask_collection

from ..randomness import sample_indices
from .passes import run_pass
from .rows import check_dask_rows

#: Above this many rows, sampled rows come in groups of eight neighbours, to touch fewer blocks.
_GROUPED_ABOVE = 64_000
_GROUP = 8


def neighbours(n: int) -> int:
    """How many neighbouring rows of n are sampled together: they are no independent draws."""
    return 1 if n <= _GROUPED_ABOVE else _GROUP


def sampled_rows(n: int, size: int, seed: int, stream: str) -> np.ndarray:
    """Sorted indices of about `size` seeded rows of n: a function of its arguments alone."""
    if n <= _GROUPED_ABOVE:
        return sample_indices(seed, stream, n, size)
    groups = sample_indices(seed, stream, n // _GROUP, size // _GROUP)
    return (groups[:, None] * _GROUP + np.arange(_GROUP)).ravel()


def take_rows(X: Any, rows: np.ndarray) -> np.ndarray:
    """X[rows] for sorted row indices, dense, shape (len(rows), d); reads only the blocks they lie in."""
    if not is_dask_collection(X):
        return _dense(X[rows])
    X = check_dask_rows(X)
    starts = np.concatenate([[0], np.cumsum(X.chunks[0])])
    block = np.searchsorted(starts, rows, side="right") - 1
    used = np.unique(block)
    subset = X.blocks[used.tolist()]
    packed = np.concatenate([[0], np.cumsum(subset.chunks[0])])[:-1]  # first rows of the blocks kept
    local = rows - starts[block] + packed[np.searchsorted(used, block)]
    parts = run_pass(_TakeFold(local), [subset], label="sample rows")
    return np.concatenate(parts)


def _dense(X: Any) -> np.ndarray:
    return X.toarray() if sp.issparse(X) else np.asarray(X)


@dataclass(frozen=True)
class _TakeFold:
    """Takes the rows of these sorted indices; they go to each worker once, not with every run."""

    rows: np.ndarray | None
    nbytes: int = 0
    flops_per_row: float = 0.0

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return {} if self.rows is None else {"rows": self.rows}

    def without_arrays(self) -> _TakeFold:
        return replace(self, rows=None)

    def with_arrays(self, arrays: Mapping[str, np.ndarray]) -> _TakeFold:
        return replace(self, rows=arrays["rows"])

    def start(self) -> list[np.ndarray]:
        return []

    def add(self, state, first_row, X):
        assert self.rows is not None
        first, last = np.searchsorted(self.rows, [first_row, first_row + X.shape[0]])
        return [*state, _dense(X[self.rows[first:last] - first_row])]

    def merge(self, left, right):
        return left + right
