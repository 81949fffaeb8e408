"""Sums over the rows of lazy or in-memory arrays, in one pass. Graph code."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from dask.base import is_dask_collection

from ..errors import InputError
from ..execution.labelled import plain_rows
from ..execution.passes import run_pass
from ..execution.row_blocks import align_rows
from .labels import check_kinds

#: Operations of products that take as long as one score of a row takes to be sorted into bins: 0.2 microseconds.
ROW_FLOPS = 1e4

State = TypeVar("State")


@dataclass(frozen=True)
class SumsReduction:
    """The reduction whose state is a copy of `empty`; its `add` takes the blocks, its `merge` another state."""

    empty: Any
    nbytes: int
    flops_per_row: float = ROW_FLOPS

    def initial(self) -> Any:
        return copy.deepcopy(self.empty)

    def update(self, state: Any, first_row: int, *blocks: Any) -> Any:
        state.add(*blocks)
        return state

    def combine(self, left: Any, right: Any) -> Any:
        left.merge(right)
        return left


def sum_pass(empty: State, arrays: Sequence[Any], *, flops_per_row: float = ROW_FLOPS) -> State:
    """The sums of all rows.

    Parameters
    ----------
    empty : state without rows, with `add`, `merge` and `nbytes`
    arrays : sequence of arrays of shape (n, ...), lazy or in memory, or None
        What `add` takes: targets, then predictions, whose blocks the others follow. Those that are None are left out.
    flops_per_row : float
        Operations for a row, those of its features included.

    Returns
    -------
    state
    """
    arrays = [as_array(array) for array in arrays if array is not None]
    base = next((a for a in (arrays[1], *arrays) if is_dask_collection(a)), None)
    if base is not None:
        names = ("y", "predictions", *["weight"] * len(arrays))
        arrays = [a if a is base else align_rows(base, a, name) for a, name in zip(arrays, names, strict=False)]
    reduction = SumsReduction(empty, empty.nbytes, flops_per_row)  # type: ignore[attr-defined]
    return run_pass(reduction, arrays, label="score", block_rows=1 << 20)


def as_array(values: Any) -> Any:
    """An array; a Dask array as it is."""
    values = plain_rows(values, "y")
    return values if is_dask_collection(values) else np.asarray(values)


def check_targets(y: Any, classes: np.ndarray | None) -> None:
    """Raise InputError for targets of another kind than a model predicts: its classes, or numbers where it has none."""
    if classes is not None:
        check_kinds(y, classes)
    elif y.dtype.kind in "US":
        raise InputError(
            f"the errors of a regressor are of numbers; the target holds text ({y.dtype}); give another target, or a "
            "classifier"
        )
