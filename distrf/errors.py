"""Errors a user can act on: each message states the rule, the values received and the remedy."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from .typing import Rows


class DistrfError(Exception):
    """Base of every error that distrf raises on purpose."""

    def __str__(self) -> str:
        return re.sub(
            r"\s*\n\s*", " ", super().__str__()
        ).strip()  # libraries, whose words we pass on, write several lines


class InputError(DistrfError, ValueError):
    """Data or parameters that break a stated rule (wrong width, NaN, unknown kernel, ...)."""


class RowError(InputError):
    """A row that breaks a rule: its number `row` stands at "{row}" in `text`."""

    def __init__(self, text: str, row: int):
        super().__init__(text, row)  # so that it travels from a worker
        self.text, self.row = text, row

    def __str__(self) -> str:
        return self.text.replace("{row}", str(self.row))


@contextmanager
def rows_from(first: int) -> Iterator[None]:
    """Around work on the rows first, first + 1, ... of others, cut for threads or for memory: errors name the row there."""
    try:
        yield
    except RowError as error:
        error.row += first
        raise


def brief(error: Exception) -> str:
    """What a library raised, and the beginning of its words in one line: of damaged files it may quote whole arrays."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def warn(text: str, category: type[Warning]) -> None:
    """Warn at the line outside of this package that called it: Python shows a warning once for each line."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("distrf."):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


@contextmanager
def reworded(explain: Callable[[Exception], Exception]) -> Iterator[None]:
    """Raise what `explain` makes of whatever a library raises.

    Our own errors pass, and MemoryError: where memory lacks, nothing is damaged.
    """
    try:
        yield
    except (DistrfError, MemoryError):
        raise
    except Exception as error:
        raise explain(error) from error


def input_errors() -> AbstractContextManager[None]:
    """Around the checks and the fits of scikit-learn, which raise errors for data that break a rule: InputError of the same text."""
    return reworded(lambda error: InputError(str(error)))


class ParameterError(InputError):
    """A parameter that is not what its class declares; `parameter`, `rule` and `value` in words."""

    def __init__(self, parameter: str, rule: str, value: str):
        super().__init__(parameter, rule, value)  # so that it travels from a worker
        self.parameter, self.rule, self.value = parameter, rule, value

    def __str__(self) -> str:
        return f"{self.parameter} must be {self.rule}, got {self.value}"


class StoreError(DistrfError, OSError):
    """A store that is missing, incomplete, corrupt, misaligned or of an unknown format."""


class SpecMismatchError(DistrfError, ValueError):
    """An existing output was made with another spec; it is never overwritten silently."""


class InUseError(DistrfError):
    """An output that another job is writing."""


class MemoryPlanError(DistrfError, MemoryError):
    """A job whose planned peak does not fit the memory of one worker; refused before it starts."""


class ClusterError(DistrfError, ConnectionError):
    """A Dask cluster that cannot be reached or started."""


def did_you_mean(unknown: object, known: Iterable[object]) -> str:
    """What follows an unknown name, or a list of them, in a message: the nearest known one; nothing where none is near.

    >>> did_you_mean("LenghtScale", ["length_scale", "alpha"])
    " (did you mean 'length_scale'?)"
    """
    import difflib  # on first use, as few runs have errors

    names = {name.casefold(): name for name in islice(known, 10_000) if isinstance(name, str)}
    received = [unknown] if isinstance(unknown, str) else unknown if isinstance(unknown, (list, tuple)) else []
    near = [
        repr(names[match])
        for name in received[:10]
        for match in difflib.get_close_matches(str(name).casefold(), names, 1)
    ]
    return f" (did you mean {', '.join(dict.fromkeys(near))}?)" if near else ""


def first_entry(X: Rows, where: np.ndarray) -> tuple[int, int, Any]:
    """Row, column and value of the first entry of X at which `where` is true, for the message of an error.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    where : booleans of shape (n, d); of a CSR matrix, one for each entry that it stores
    """
    at = int(where.ravel().argmax())
    stored: Any = X
    if where.ndim == 1:
        return int(stored.indptr.searchsorted(at, side="right")) - 1, int(stored.indices[at]), stored.data[at]
    row, column = divmod(at, X.shape[1])
    return row, column, X[row, column]


def first_not_finite(X: Rows) -> tuple[int, int, Any] | None:
    """Row, column and value of the first entry that is NaN or infinite; None if there is none.

    Parameters
    ----------
    X : array of shape (n,) or (n, d), or CSR matrix of shape (n, d), of any dtype
    """
    from numpy import isfinite  # on first use: errors are imported before NumPy

    values: Any = X.data if hasattr(X, "indptr") else X if X.ndim == 2 else X[:, None]
    if values.dtype.kind != "f" or (finite := isfinite(values)).all():
        return None
    return first_entry(X if values.ndim == 1 else values, ~finite)
