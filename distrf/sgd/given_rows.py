"""Rows that are given to judge epochs by, in place of held-out ones: one pass over them for each epoch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import InputError, first_not_finite
from ..execution.passes import run_pass
from ..execution.row_blocks import row_bytes
from ..execution.sampling import sampled_rows, take_rows
from ..maps import check_rows
from ..maps.base import arrays_fingerprint
from ..targets import checked_weights
from .batch_work import BatchWork
from .rows import two_dimensional

#: Bytes of rows in memory that are scored at a time.
_BLOCK_BYTES = 2**25
#: Rows by which a checkpoint knows them.
_COMPARED = 200


@dataclass(frozen=True)
class _ScoreReduction:
    """Adds up the score sums of rows, see `score_sums`. Each worker gets the weights once."""

    work: BatchWork
    weights: np.ndarray | None
    nbytes: int
    flops_per_row: float

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return {} if self.weights is None else {"weights": self.weights}

    def without_arrays(self) -> _ScoreReduction:
        return replace(self, weights=None)

    def with_arrays(self, arrays: Mapping[str, np.ndarray]) -> _ScoreReduction:
        return replace(self, weights=arrays["weights"])

    def initial(self) -> np.ndarray:
        return np.zeros((5, self.work.targets.width))

    def update(self, state: np.ndarray, first_row: int, X: Any, y: Any, weight: Any = None) -> np.ndarray:
        assert self.weights is not None
        X, y = check_rows(X, X.shape[1]), np.asarray(y)
        if bad := first_not_finite(y):
            raise InputError(f"y_val must be finite, but row {first_row + bad[0]} is not")
        weight = None if weight is None else checked_weights(weight, y, first_row)
        return state + self.work.score_block((X, y, weight), (), 0, self.weights, held=False)

    def combine(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return left + right


@dataclass(frozen=True)
class GivenRows:
    """Validation rows that `fit` was given.

    arrays : (X, y) or (X, y, weight), in memory or aligned lazy arrays; X are what the weights are trained on
    stops : whether they decide when training ends and which epoch is kept; else their scores are noted
    """

    arrays: tuple[Any, ...]
    stops: bool

    def sums(self, work: BatchWork, weights: np.ndarray) -> np.ndarray:
        """Score sums of all rows.

        Parameters
        ----------
        work : BatchWork that holds no rows out and measures no lengths
        weights : array, those that are trained

        Returns
        -------
        Array of shape (5, outputs), see `score_sums`.
        """
        X = self.arrays[0]
        reduction = _ScoreReduction(work, weights, 40 * work.targets.width, 4.0 * weights.size)
        block_rows = max(1, int(_BLOCK_BYTES / row_bytes(X)))
        return run_pass(reduction, self.arrays, label="validation", block_rows=block_rows)

    def moved(self, move: Callable[[Any], Any]) -> GivenRows:
        """The same rows with other features, in the units in which the weights are trained."""
        return replace(self, arrays=(move(self.arrays[0]), *self.arrays[1:]))

    def identity(self) -> dict[str, Any]:
        """JSON that tells these rows from others, by a sample."""
        n, some = self.arrays[0].shape[0], {}
        for name, array in zip(("X", "y", "weight"), self.arrays, strict=False):
            rows = sampled_rows(n, min(n, _COMPARED), 0, "validation identity")
            taken = take_rows(two_dimensional(array), rows)
            some[name] = np.char.encode(taken, "utf-8") if taken.dtype.kind == "U" else taken
        return {"rows": int(n), "sample": arrays_fingerprint(some), "stops": self.stops}


def given_rows(arrays: Sequence[Any], stops: bool) -> GivenRows | None:
    """The validation rows (X, y, weight); None if X is None."""
    present = tuple(array for array in arrays if array is not None)
    return GivenRows(present, stops) if present else None
