"""States that say how large they are, so that Dask places, sends and spills them by their real size."""

from __future__ import annotations

from typing import Any


class SizedState:
    """Mixin of dataclasses of arrays: Dask asks an object that it does not know for `__sizeof__`."""

    def __sizeof__(self) -> int:
        held: Any = vars(self).values()
        return object.__sizeof__(self) + sum(getattr(value, "nbytes", 0) for value in held)
