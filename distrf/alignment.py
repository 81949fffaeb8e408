"""Arrays as number code wants them: on an address that their type asks for.

An array that came over a network lies at any byte offset, and one that was a view has become contiguous. NumPy
multiplies unaligned arrays and views on other paths, with other rounding: the same values, other last bits, and results
that depend on what travelled. Every task passes what it was given through `aligned` before it computes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp


def aligned(value: Any) -> Any:
    """The value with every array in it aligned and contiguous, copied where it must be; lists, tuples, dictionaries and CSR included."""
    if isinstance(value, np.ndarray):
        if not value.flags.forc:
            return np.ascontiguousarray(value)
        return value if value.flags.aligned else value.copy(order="K")
    if sp.issparse(value):
        parts = (value.data, value.indices, value.indptr)
        if all(part.flags.aligned for part in parts):
            return value
        return type(value)(tuple(aligned(part) for part in parts), shape=value.shape, copy=False)
    if type(value) is tuple or type(value) is list:
        items = [aligned(item) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else type(value)(items)
    if type(value) is dict:
        return {key: aligned(item) for key, item in value.items()}
    return value
