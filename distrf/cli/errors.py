"""What an error prints and the exit code: one line, a traceback with --debug alone."""

from __future__ import annotations

import sys
import traceback

from ..errors import DistrfError, ParameterError
from .options import OPTIONS

_MOST = 400  # letters of a message that others wrote
_debug = False


def set_debug(wanted: bool) -> None:
    """Whether errors print where they arose, and workers log them."""
    global _debug
    _debug = wanted


def debugging() -> bool:
    return _debug


def report(error: Exception) -> int:
    """Print what went wrong; the exit code, 2 for a value that breaks the rule of a parameter and else 1."""
    if _debug:
        traceback.print_exception(error)
    if isinstance(error, ParameterError):
        name = error.parameter
        print_line(
            "error",
            f"--{name.replace('_', '-')} must be {error.rule}, got {error.value}"
            if name in OPTIONS
            else str(error),
        )
        return 2
    if isinstance(error, DistrfError) or (isinstance(error, OSError) and error.errno is not None):
        print_line("error", str(error))  # of the system: no such file, not permitted, no space left
    elif isinstance(error, MemoryError):
        print_line(
            "error", f"not enough memory: {error}; `distrf plan` says what a job needs; use smaller blocks"
        )
    else:
        text = " ".join(str(error).split())
        text = text if len(text) <= _MOST else text[:_MOST] + " ..."
        print_line(
            "error",
            f"unexpected {type(error).__name__}: {text}. This is a fault of distrf or of its input; `distrf --debug ...` shows "
            "where it arose",
        )
    return 1


def print_line(title: str, text: str) -> None:
    """A title and a text on standard error."""
    text = " ".join(text.split()).encode(errors="backslashreplace").decode()  # names of files may be any bytes
    print(f"{title}: {text}", file=sys.stderr, flush=True)
