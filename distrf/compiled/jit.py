"""How every loop is compiled: it holds no global lock, runs on one core, and is kept on disk."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any


class Loop:
    """A function that Numba compiles when it is called first: what runs no loop does without Numba, whose import takes long."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        functools.update_wrapper(self, function)
        self.function, self.options = function, options

    @functools.cached_property
    def compiled(self) -> Any:
        import numba

        _teach_numba()
        options: dict[str, Any] = {"nogil": True, "fastmath": {"contract"}, "error_model": "numpy"}
        options |= self.options
        try:
            return numba.njit(cache=True, **options)(self.function)
        except RuntimeError:  # no cache can be written anywhere, as in a read-only container
            return numba.njit(**options)(self.function)

    def __reduce__(self) -> str:
        return self.function.__qualname__  # pickled by name, as functions are

    def __call__(self, *args: Any) -> Any:
        return self.compiled(*args)


def jit(function: Callable[..., Any]) -> Any:
    """Compile a function so that it holds no global lock while it runs.

    The machine code is kept on disk wherever a cache can be written. Of the liberties that a compiler can take with
    floating-point numbers it has one alone, to make a product and a sum one fused operation. NaN and infinity keep
    their meaning.
    """
    loop = Loop(function)
    if "distributed" in sys.modules:  # threads of a worker do not import Numba amid tasks
        loop.compiled  # noqa: B018
    return loop


@functools.cache
def _teach_numba() -> None:
    """Let loops call each other: to Numba one is what it is compiled to."""
    from numba.extending import typeof_impl

    typeof_impl.register(Loop)(lambda loop, context: typeof_impl(loop.compiled, context))
