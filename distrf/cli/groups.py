"""Commands as Typer takes them: their arguments and options are those of their signature and of the groups in it."""

from __future__ import annotations

import builtins
import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from typing import Any

from . import faults
from .function_options import CsvOptions
from .kept_options import group_class, group_options
from .signatures import listed_names, parameters_of
from .spelling import Options, Spelling
from .usage import UsageError, flag

#: Arguments that are rows, which may be CSV.
_ROWS = ("X", "source", "path")


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options of its groups as parameters of their own; `spellings` of it are {parameter: spelling}.

    A parameter that is annotated with a dataclass, or with a class that has `options()`, stands for a group: the command
    gets the instance. Others are places and options themselves; what is not typed has the default of the signature.
    """
    groups: dict[str, tuple[Callable[[], Any], list[str]]] = {}
    spellings: Options = {}
    for parameter in parameters_of(command).values():
        group = _group(command, parameter.annotation)
        if group is None:
            options = {parameter.name: parameter.spelled("Options")}
        else:
            options, kind = group
            groups[parameter.name] = kind, list(options)
        for name, spelling in options.items():
            if name in spellings:
                raise TypeError(f"{command.__name__} has two parameters named {name!r}")
            spellings[name] = spelling
    if any(spelling.is_argument and name in _ROWS for name, spelling in spellings.items()):
        spellings |= CsvOptions.options()
    spellings = {name: _naming_options(spelling, spellings) for name, spelling in spellings.items()}

    @functools.wraps(command)
    def called(**given: Any) -> None:
        faults.name_options(spellings)
        for name, value in given.items():
            if isinstance(value, str) and (not value.strip() or "\0" in value):
                raise UsageError(
                    f"{name if spellings[name].is_argument else flag(name)} must not be empty, got {value!r}; give a "
                    "value, or leave it out"
                )
        given = {name: value for name, value in given.items() if value is not None}
        csv = {name: given.pop(name) for name in CsvOptions.parameters() if name in given}
        with CsvOptions(**csv).reading() if csv else nullcontext():
            given |= _names(given, spellings)
        made = {
            name: kind()(**{option: given.pop(option) for option in options if option in given})
            for name, (kind, options) in groups.items()
        }
        with CsvOptions(**csv).reading() if csv else nullcontext():
            command(**given, **made)

    parameters = []
    for name, spelling in spellings.items():
        annotation, default = spelling.annotated()
        parameters.append(
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=annotation,
                default=default,
            )
        )
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {p.name: p.annotation for p in parameters}
    called.spellings = spellings  # type: ignore[attr-defined]
    return called


def _names(given: Mapping[str, Any], spellings: Options) -> dict[str, list[str]]:
    """The lists of columns that commas alone do not tell, by the columns of the rows."""
    texts = {
        name: text
        for name, text in given.items()
        if spellings[name].is_list and isinstance(text, str) and (text != text.strip() or set(text) & set(',"'))
    }
    if not texts:
        return {}
    from ..errors import DistrfError
    from ..store import formats

    known: set[str] = set()
    with suppress(DistrfError, OSError):  # told when the rows are read
        known = formats.column_names(next(given[name] for name in _ROWS if name in given))
    found = {name: listed_names(text, known) for name, text in texts.items()}
    return {name: names for name, names in found.items() if names is not None}


def _group(command: Any, annotation: str) -> tuple[Options, Callable[[], Any]] | None:
    """The options of the class that an annotation names, and what gives the class; None for what is no group."""
    if (
        annotation.isidentifier()
        and annotation not in command.__globals__
        and not hasattr(builtins, annotation)
    ):
        return group_options(annotation), lambda: group_class(
            annotation
        )  # not imported before the command runs
    kind: Any = command.__globals__.get(annotation)
    if hasattr(kind, "options"):
        return kind.options(), lambda: kind
    grouping: bool = dataclasses.is_dataclass(kind)
    if grouping:
        panel = kind.panel
        return {name: p.spelled(panel) for name, p in parameters_of(kind).items()}, lambda: kind
    return None


def _naming_options(spelling: Spelling, known: Options) -> Spelling:
    """The option whose text names others as they are typed, in place of parameters: `l1_ratio` is --l1-ratio."""

    def said(text: str) -> str:
        return re.sub(r"`(\w+)`", named, text)

    def named(found: re.Match[str]) -> str:
        names = (f"{spelling.noun}_{found[1]}", found[1])  # of a map first, where a model has one of that name
        return next((flag(name) for name in names if name in known and known[name].names), found[0])

    owners = {owner: said(text) for owner, text in spelling.owners.items()}
    return dataclasses.replace(spelling, text=said(spelling.text), owners=owners)


def path_parameters(command: Any) -> set[str]:
    """Names of the parameters of a parsed command that are paths."""
    return {name for name, spelling in command.spellings.items() if spelling.is_path}
