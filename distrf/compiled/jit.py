"""How every loop is compiled: it holds no global lock, runs on one core, and is kept on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


def jit(function: F) -> F:
    """Compile a function so that it holds no global lock while it runs.

    The machine code is kept on disk wherever a cache can be written. Of the liberties that a compiler can take with
    floating-point numbers it has one alone, to make a product and a sum one fused operation. NaN and infinity keep
    their meaning.
    """
    options: dict[str, Any] = {"nogil": True, "fastmath": {"contract"}, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no cache can be written anywhere, as in a read-only container
        return numba.njit(**options)(function)
