"""Groups of options that commands share: a dataclass each, whose fields are the options, or a class that lists them."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, get_args, get_type_hints

from .usage import UsageError


class PathMark:
    """Marks an argument or an option that names a file, a folder or a URL: job files make it relative to them."""


PATH = PathMark()


def grouped(command: Callable[..., None], names: dict[str, Any] | None = None) -> Callable[..., None]:
    """A command with the fields of its option groups as parameters of their own.

    A parameter annotated with a dataclass becomes that dataclass's fields, one annotated with a class that has
    `options()` becomes these; the command gets the instance.

    names : what the annotations of the command mean, beside what stands in its module
    """
    groups: dict[str, tuple[Any, list[str]]] = {}
    parameters: dict[str, inspect.Parameter] = {}
    hints = get_type_hints(command, localns=names, include_extras=True)
    for parameter in inspect.signature(command).parameters.values():
        kind = hints[parameter.name]
        options = _options(kind)
        if options is None:
            parameters[parameter.name] = _keyword(parameter.name, kind, parameter.default)
            continue
        groups[parameter.name] = kind, list(options)
        for name, (annotation, default) in options.items():
            if name in parameters:
                raise TypeError(f"{command.__name__} has two parameters named {name!r}")
            parameters[name] = _keyword(name, annotation, default)

    @functools.wraps(command)
    def called(**given: Any) -> None:
        for name, value in given.items():
            if isinstance(value, str) and (not value.strip() or "\0" in value):
                raise UsageError(
                    f"{_typed(parameters[name])} must not be empty, got {value!r}; give a value, or leave it out"
                )
        made = {
            name: kind(**{option: given.pop(option) for option in options})
            for name, (kind, options) in groups.items()
        }
        command(**given, **made)

    called.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
    called.__annotations__ = {name: p.annotation for name, p in parameters.items()}
    return called


def _options(kind: Any) -> dict[str, tuple[Any, Any]] | None:
    """{option: (annotation, default)} of a group; None for what is no group."""
    if hasattr(kind, "options"):
        return kind.options()
    if not dataclasses.is_dataclass(kind):
        return None
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: (hints[field.name], field.default) for field in dataclasses.fields(kind)}


def _typed(parameter: inspect.Parameter) -> str:
    """The option of a parameter as it is typed, or the name of an argument."""
    for mark in get_args(parameter.annotation)[1:]:
        # Typer takes the first name of an annotation for the default of the option.
        for name in (getattr(mark, "default", None), *(getattr(mark, "param_decls", None) or ())):
            if isinstance(name, str) and name.startswith("--"):
                return name
    return parameter.name


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    empty = default is dataclasses.MISSING or default is inspect.Parameter.empty
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        annotation=annotation,
        default=inspect.Parameter.empty if empty else default,
    )


def path_parameters(command: Any) -> set[str]:
    """Names of the parameters of a parsed command that are marked as paths."""
    return {
        name
        for name, p in inspect.signature(command.callback).parameters.items()
        if any(isinstance(mark, PathMark) for mark in get_args(p.annotation)[1:])
    }
