"""How CSV is read, in the words of pandas: declared here for every function and command that reads it."""

from __future__ import annotations

import codecs
import functools
import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeVar

from ..errors import InputError
from ..parameters import FLAG, NONE, PLACE, Rule, check_fields, one_of, param
from . import files

#: The separator of text in columns: runs of blanks and tabs.
BLANKS = r"\s+"


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


@dataclass(frozen=True)
class CsvFormat:
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
        CSV: what stands before the fraction of a number. None is a point. Text such as "1,5" or "1,000" is read as numbers too where
        columns are encoded.
    comment : str or None, default=None
        CSV: lines that begin with this are left out.
    scratch : str, PathLike or None, default=None
        CSV: the folder, or URL, in which CSV becomes Parquet, once, where all workers see it. It is kept there, and found again.
        None takes a folder for temporary files, which ends with the process, where all workers are on this machine.

    Raises
    ------
    ParameterError
        A parameter breaks its rule.
    """

    sep: str | None = param(
        default=None, rule=Rule((r"a character such as ';', '|' or '\t', or '\s+' for blanks",), _is_sep) | NONE
    )
    encoding: str = param(
        default="utf-8", rule=Rule(("the name of an encoding, such as 'latin-1'",), _is_encoding)
    )
    na_values: Sequence[str] = param(default=(), rule=Rule(("a list of texts",), _are_texts))
    keep_default_na: bool = param(default=True, rule=FLAG)
    header: bool | None = param(default=None, rule=FLAG | NONE)
    decimal: str | None = param(default=None, rule=one_of(".", ",") | NONE)
    comment: str | None = param(
        default=None,
        rule=Rule(("a mark such as '#'",), lambda mark: isinstance(mark, str) and mark != "") | NONE,
    )
    scratch: str | None = param(default=None, rule=PLACE | NONE)

    parameter_rules: ClassVar[dict[str, Rule]] = {}

    def __post_init__(self) -> None:
        check_fields(self)
        texts = [self.na_values] if isinstance(self.na_values, str) else self.na_values
        plain = {
            "sep": "\t" if self.sep == r"\t" else self.sep, "encoding": codecs.lookup(self.encoding).name,
            "na_values": tuple(map(str, texts)), "scratch": None if self.scratch is None else files.normalise(self.scratch),
        }  # fmt: skip
        for name, value in plain.items():
            object.__setattr__(self, name, value)


CsvFormat.parameter_rules.update((one.name, one.metadata["rule"]) for one in fields(CsvFormat))
#: What is said where nothing is.
USUAL = CsvFormat()
_CURRENT: ContextVar[CsvFormat] = ContextVar("csv_format", default=USUAL)


def current_format() -> CsvFormat:
    """What the function that runs was told of CSV."""
    return _CURRENT.get()


def said_format() -> dict[str, Any]:
    """What was said of the text that is not usual, as JSON: part of the spec of what is made from rows."""
    now = {name: value for name, value in vars(current_format()).items() if value != getattr(USUAL, name)}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in now.items() if name != "scratch"}


def set_format(wanted: CsvFormat) -> None:
    """Read CSV so until the `reading` around the call ends, through the same folder."""
    _CURRENT.set(replace(wanted, scratch=_CURRENT.get().scratch))


@contextmanager
def reading(wanted: CsvFormat) -> Iterator[None]:
    """Read CSV so, in this thread."""
    token = _CURRENT.set(wanted)
    try:
        yield
    finally:
        _CURRENT.reset(token)


#: What functions call the rows.
_PLACES = ("X", "data", "path", "source")
_Function = TypeVar("_Function", bound=Callable[..., Any])


def reads_csv(function: _Function) -> _Function:
    """Let a public function take the parameters of `CsvFormat` too: they hold for all CSV that it reads. Its docstring says {csv} for them."""

    @functools.wraps(function)
    def reading_so(*given: Any, **named: Any) -> Any:
        said = {name: named.pop(name) for name in CsvFormat.parameter_rules if name in named}
        places = (*given[:2], *(named.get(name) for name in _PLACES))
        if said and not any(isinstance(value, (str, os.PathLike)) for value in places):
            raise InputError(
                f"{', '.join(f'{name}=' for name in said)} say how CSV at a path is read; received a "
                f"{type(given[0]).__name__ if given else 'call'} without a path; leave them out"
            )
        # A model sets its own: `formats.read_as`.
        with reading(CsvFormat(**said) if said else current_format()):
            return function(*given, **named)

    signature, ours = inspect.signature(function), inspect.signature(CsvFormat).parameters.values()
    own = list(signature.parameters.values())
    last = [own.pop()] if own and own[-1].kind is inspect.Parameter.VAR_KEYWORD else []
    reading_so.__signature__ = signature.replace(parameters=[*own, *ours, *last])  # type: ignore[attr-defined]
    entries = (inspect.getdoc(CsvFormat) or "").partition("----------\n")[2].partition("\n\nRaises")[0]
    reading_so.__doc__ = (function.__doc__ or "").replace("{csv}", entries.replace("\n", "\n    "))
    return reading_so  # type: ignore[return-value]
