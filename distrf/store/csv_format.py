"""How CSV is read, in the words of pandas: declared here for every function and command that reads it."""

from __future__ import annotations

import codecs
import functools
import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ..errors import InputError
from ..parameters import FLAG, NONE, Rule, one_of, ruled
from . import files


@dataclass(frozen=True)
class CsvFormat:
    """What a user says of CSV; the parameters are those of `csv_format`."""

    sep: str | None = None
    encoding: str = "utf-8"
    na_values: tuple[str, ...] = ()
    keep_default_na: bool = True
    header: bool | None = None
    decimal: str | None = None
    thousands: str | None = None
    comment: str | None = None
    scratch: str | None = None
    out: str | None = field(default=None, compare=False)  # what the function writes that runs


#: The separator of text in columns: runs of blanks and tabs.
BLANKS = r"\s+"
#: What is said where nothing is.
USUAL = CsvFormat()
_CURRENT: ContextVar[CsvFormat] = ContextVar("csv_format", default=USUAL)


def current_format() -> CsvFormat:
    """What the function that runs was told of CSV."""
    return _CURRENT.get()


def said_format() -> dict[str, Any]:
    """What was said of the text that is not usual, as JSON: part of the spec of what is made from rows."""
    now = {name: list(v) if isinstance(v, tuple) else v for name, v in vars(current_format()).items()}
    return {n: v for n, v in now.items() if v != getattr(USUAL, n) and v != [] and n not in ("scratch", "out")}


def set_format(wanted: CsvFormat) -> None:
    """Read CSV so until the `reading` around the call ends, through the same folder."""
    now = _CURRENT.get()
    _CURRENT.set(replace(wanted, scratch=now.scratch, out=now.out))


@contextmanager
def reading(wanted: CsvFormat) -> Iterator[None]:
    """Read CSV so, in this thread."""
    token = _CURRENT.set(wanted)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def _is_sep(value: Any) -> bool:
    return isinstance(value, str) and (
        value in (r"\t", BLANKS) or (len(value) == 1 and value.isascii() and value not in '"\r\n')
    )


def _is_encoding(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(codecs.lookup(value))
    except LookupError:
        return False


def _are_texts(value: Any) -> bool:
    if isinstance(value, str):
        return "," not in value
    return isinstance(value, (list, tuple)) and all(isinstance(one, (str, int, float)) for one in value)


@ruled(
    sep=Rule((r"a character such as ';', '|' or '\t'",), _is_sep) | NONE,
    encoding=Rule(("the name of an encoding, such as 'latin-1'",), _is_encoding),
    na_values=Rule(("a list of texts",), _are_texts),
    keep_default_na=FLAG,
    header=FLAG | NONE,
    decimal=one_of(".", ",") | NONE,
    thousands=one_of(",", ".", "'", " ", "_") | NONE,
    comment=Rule(("a mark such as '#'",), lambda value: isinstance(value, str) and len(value) > 0) | NONE,
    scratch=Rule(("a folder",), lambda value: isinstance(value, (str, os.PathLike))) | NONE,
)
def csv_format(
    *,
    sep: str | None = None,
    encoding: str = "utf-8",
    na_values: Sequence[str] = (),
    keep_default_na: bool = True,
    header: bool | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    comment: str | None = None,
    scratch: str | os.PathLike[str] | None = None,
) -> CsvFormat:
    r"""How CSV is read.

    Parameters
    ----------
    sep : str or None, default=None
        CSV: the character between values, or ``\s+`` for runs of blanks. None takes a comma, semicolon, tab or ``|`` that the
        first row has; of .tsv a tab.
    encoding : str, default="utf-8"
        CSV: the encoding of the text, such as "latin-1".
    na_values : sequence of str, default=()
        CSV: texts that are missing values too, such as "?".
    keep_default_na : bool, default=True
        CSV: the words of pandas (NA, NaN, null, ...) are missing values; false where NA is a class.
    header : bool or None, default=None
        CSV: whether the first row has the names of the columns. None sees it by the row, and refuses one that tells
        neither.
    decimal : {".", ","} or None, default=None
        CSV: what stands before the fraction of a number. None sees it where semicolons separate values.
    thousands : {",", ".", "'", " ", "_"} or None, default=None
        CSV: what stands between the thousands of a number.
    comment : str or None, default=None
        CSV: lines that begin with this are left out.
    scratch : str, PathLike or None, default=None
        CSV: the folder, or URL, in which CSV becomes Parquet, once, where all workers see it. It is kept there, and found again.
        None takes a folder for temporary files, which ends with the process; beside the output where workers are on other
        machines.

    Returns
    -------
    CsvFormat
    """
    if decimal is not None and decimal == thousands:
        raise InputError(f"decimal= and thousands= are two marks; received {decimal!r} for both; leave one out")
    texts = [na_values] if isinstance(na_values, str) else na_values
    sep = "\t" if sep == r"\t" else sep
    return CsvFormat(
        sep, codecs.lookup(encoding).name, tuple(map(str, texts)), keep_default_na, header, decimal, thousands, comment,
        None if scratch is None else files.normalise(scratch),
    )  # fmt: skip


_PARAMETERS = dict(inspect.signature(csv_format).parameters)
#: What functions call the rows.
_PLACES = ("X", "data", "path", "source")
_Function = TypeVar("_Function", bound=Callable[..., Any])


def reads_csv(function: _Function) -> _Function:
    """Let a public function take the parameters of `csv_format` too: they hold for all CSV that it reads."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def reading_so(*given: Any, **named: Any) -> Any:
        said = {name: named.pop(name) for name in _PARAMETERS if name in named}
        out = signature.bind_partial(*given, **named).arguments.get("out")
        out = str(out) if isinstance(out, (str, os.PathLike)) else current_format().out
        if not said:
            with reading(replace(current_format(), out=out)):  # a model may set its own: `formats.read_as`
                return function(*given, **named)
        places = (*given[:2], *(named.get(name) for name in _PLACES))
        if not any(isinstance(value, (str, os.PathLike)) for value in places):
            raise InputError(
                f"{', '.join(f'{name}=' for name in said)} say how CSV at a path is read; received a "
                f"{type(given[0]).__name__ if given else 'call'} without a path; leave them out"
            )
        with reading(replace(csv_format(**said), out=out)):
            return function(*given, **named)

    own = list(signature.parameters.values())
    last = [own.pop()] if own and own[-1].kind is inspect.Parameter.VAR_KEYWORD else []
    reading_so.__signature__ = signature.replace(parameters=[*own, *_PARAMETERS.values(), *last])  # type: ignore[attr-defined]
    entries = inspect.getdoc(csv_format).partition("Parameters\n----------\n")[2].partition("\n\nReturns")[0]  # type: ignore[union-attr]
    at = f"\n    **{last[0].name} :" if last else "\n\n    Returns\n    -------"
    before, next_one, after = (function.__doc__ or "").partition(at)
    reading_so.__doc__ = before + ("\n" + entries).replace("\n", "\n    ") + next_one + after
    return reading_so  # type: ignore[return-value]
