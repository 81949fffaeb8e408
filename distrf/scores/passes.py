"""Sums over the rows of lazy or in-memory arrays, in one pass. Graph code."""

from __future__ import annotations

import copy
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
    """The reduction whose state is a copy of `empty`; its `add` takes the blocks by these names, its `merge` another state."""

    empty: Any
    nbytes: int
    flops_per_row: float = ROW_FLOPS
    names: tuple[str, ...] = ()

    def initial(self) -> Any:
        return copy.deepcopy(self.empty)

    def update(self, state: Any, first_row: int, *blocks: Any) -> Any:
        state.add(**dict(zip(self.names, blocks, strict=True)))
        return state

    def combine(self, left: Any, right: Any) -> Any:
        left.merge(right)
        return left


def sum_pass(empty: State, *, flops_per_row: float = ROW_FLOPS, **arrays: Any) -> State:
    """The sums of all rows.

    Parameters
    ----------
    empty : state without rows, with `add`, `merge` and `nbytes`
    flops_per_row : float
        Operations for a row, those of its features included.
    **arrays : arrays of shape (n, ...), lazy or in memory, or None
        What `add` takes: targets, then predictions, whose blocks the others follow. Those that are None are left out.

    Returns
    -------
    state
    """
    given = {name: as_array(array) for name, array in arrays.items() if array is not None}
    first, second, *others = given.values()
    base = next((a for a in (second, first, *others) if is_dask_collection(a)), None)
    if base is not None:
        given = {name: a if a is base else align_rows(base, a, name) for name, a in given.items()}
    reduction = SumsReduction(empty, empty.nbytes, flops_per_row, tuple(given))  # type: ignore[attr-defined]
    return run_pass(reduction, [*given.values()], label="score", block_rows=1 << 20)


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
