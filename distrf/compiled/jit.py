"""How every loop is compiled: it holds no global lock, runs on one core, and is kept on disk."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numba


def jit(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a function, on its first call, so that it holds no global lock while it runs.

    The machine code is kept on disk wherever a cache can be written. Of the liberties that a compiler can take with
    floating-point numbers it has one alone, to make a product and a sum one fused operation. NaN and infinity keep
    their meaning. Importing Numba takes long: what runs loops imports them in its functions, so that other runs do without.
    """
    loop: Any = partial(numba.njit, nogil=True, fastmath={"contract"}, error_model="numpy", **options)
    try:
        return loop(cache=True)(function)
    except RuntimeError:  # no cache can be written anywhere, as in a read-only container
        return loop()(function)
