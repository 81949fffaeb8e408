"""How every loop is compiled: without the GIL, on one core, cached on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def jit(function: Callable) -> Callable:
    """Compile without the GIL, cached on disk wherever some cache folder can be written.

    The only liberty taken is contraction to fused multiply-add: NaN and infinity keep their meaning.
    """
    options: dict[str, Any] = {"nogil": True, "fastmath": {"contract"}, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no writable cache location at all: a read-only container
        return numba.njit(**options)(function)
