"""States of reductions: those that say how large they are, and counts of rows."""

from __future__ import annotations

from typing import Any


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
