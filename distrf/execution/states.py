"""States of reductions: sums of them, those that say how large they are, and counts of rows."""

from __future__ import annotations

import copy
from typing import Any


def add_states(reduction: Any, left: Any, right: Any) -> Any:
    """The sum of two neighbouring states; the task of a pass for each of its sums.

    Both states are left as they are, like the inputs of every task. Dask hands the data of a worker that retires to others
    while its tasks still run, and then runs these again: a `left` that had `right` added to it in place would count twice.

    Parameters
    ----------
    reduction : Reduction
    left, right : object
        States.

    Returns
    -------
    object
        A state that shares no memory with `left`.
    """
    return reduction.combine(copy.deepcopy(left), right)


class SizedState:
    """Mixin of dataclasses of arrays. Dask asks a state for `__sizeof__`, and places, sends and spills it by that size."""

    def __sizeof__(self) -> int:
        held: Any = vars(self).values()
        return object.__sizeof__(self) + sum(getattr(value, "nbytes", 0) for value in held)


class RowCount:
    """Mixin of reductions whose state is the number of rows that they have dealt with."""

    nbytes = 0
    flops_per_row = 1.0

    def initial(self) -> int:
        return 0

    def combine(self, left: int, right: int) -> int:
        return left + right
