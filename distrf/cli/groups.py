"""Commands as Typer takes them: their arguments and options are those of their signature and of the groups in it."""

from __future__ import annotations

import builtins
import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, get_args

from typer.models import ArgumentInfo

from .signatures import Options, PathMark, parameters_of
from .usage import UsageError, flag


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options of its groups as parameters of their own.

    A parameter that is annotated with a dataclass, or with a class that has `options()`, stands for a group: the command
    gets the instance. Others are places and options themselves; what is not typed has the default of the signature.
    """
    groups: dict[str, tuple[Any, list[str]]] = {}
    parameters: dict[str, inspect.Parameter] = {}
    for parameter in parameters_of(command).values():
        kind = _group(command, parameter.annotation)
        options = {parameter.name: parameter.spelled("Options")} if kind is None else _options(kind)
        if kind is not None:
            groups[parameter.name] = kind, list(options)
        for name, (annotation, default) in options.items():
            if name in parameters:
                raise TypeError(f"{command.__name__} has two parameters named {name!r}")
            parameters[name] = inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
            )

    @functools.wraps(command)
    def called(**given: Any) -> None:
        for name, value in given.items():
            if isinstance(value, str) and (not value.strip() or "\0" in value):
                argument = any(isinstance(m, ArgumentInfo) for m in get_args(parameters[name].annotation))
                raise UsageError(
                    f"{name if argument else flag(name)} must not be empty, got {value!r}; give a value, or leave it out"
                )
        given = {name: value for name, value in given.items() if value is not None}
        made = {
            name: kind(**{option: given.pop(option) for option in options if option in given})
            for name, (kind, options) in groups.items()
        }
        command(**given, **made)

    called.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
    called.__annotations__ = {name: p.annotation for name, p in parameters.items()}
    return called


def _group(command: Any, annotation: str) -> Any:
    """The class of options that an annotation names, or None; those of estimators take seconds to import."""
    kind = command.__globals__.get(annotation)
    if kind is None and annotation.isidentifier() and not hasattr(builtins, annotation):
        from . import estimator_options, search_options

        kind = (vars(estimator_options) | vars(search_options))[annotation]
    return kind if hasattr(kind, "options") or dataclasses.is_dataclass(kind) else None


def _options(kind: Any) -> Options:
    """{option: (annotation, default)} of a group."""
    if hasattr(kind, "options"):
        return kind.options()
    return {name: parameter.spelled(kind.panel) for name, parameter in parameters_of(kind).items()}


def path_parameters(command: Any) -> set[str]:
    """Names of the parameters of a parsed command that are marked as paths."""
    return {
        name
        for name, p in inspect.signature(command.callback).parameters.items()
        if any(isinstance(mark, PathMark) for mark in get_args(p.annotation)[1:])
    }
