"""What every command does with what was typed: options by their groups, values, columns, CSV, a session around the work."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, get_type_hints

import typer
from typer.core import TyperCommand

from . import job_file
from .options import OPTIONS, RUN
from .session import Session
from .values import column_names, csv_reading, pairs, read

app = typer.Typer(
    name="distrf",
    help="Kernel machines on data larger than memory.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": 100},
)
_panels: dict[Any, str] = {}


class Grouped(TyperCommand):
    """A command whose help has its options in groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[Any]] = {}
        for one in self.get_params(ctx):
            panel = "Arguments" if one.param_type_name == "argument" else _panels.get(one.name, "Options")
            panels.setdefault(panel, []).append(one.get_help_record(ctx))
        for panel, records in panels.items():
            with formatter.section(panel):
                formatter.write_dl(records)


def command(
    options: str = "", **groups: dict[str, Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function a command.

    It gets the Session and its arguments, and as keywords {option: value} of those that were typed: `given` are the `options`
    that the command has beside those of all commands, and others are its groups.
    """
    groups = {"given": {name: OPTIONS[name] for name in options.split()}, **groups}
    _panels.update(
        {
            name: title.capitalize().replace("_", "-")
            for title, group in groups.items()
            if title != "given"
            for name in group
        }
    )
    _panels.update(dict.fromkeys(RUN, "Run"))

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        hints, signature = get_type_hints(function, include_extras=True), inspect.signature(function)
        arguments = [name for name in list(signature.parameters)[1:] if name not in groups]
        named = {name.lower(): name for name in arguments}  # as Typer before 0.27 calls them
        declared = {"ctx": typer.Context} | {lower: hints[name] for lower, name in named.items()}
        declared |= {name: option for group in groups.values() for name, option in group.items()} | RUN

        @functools.wraps(function)
        def called(ctx: Any, **typed: Any) -> None:
            said = _given(ctx, typed)
            csv = said.pop("csv", {})
            session = Session(ctx, **{name: said.pop(name) for name in RUN if name in said})
            taken = {title: {n: said.pop(n) for n in group if n in said} for title, group in groups.items()}
            said = {named.get(name, name): value for name, value in said.items()}
            said |= {name: taken[name] for name in taken if name in signature.parameters}
            with csv_reading(csv), session.hearing():
                copy_context().run(function, session, **said)  # a model may set how its CSV is read

        made = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=_default(kind))
            for name, kind in declared.items()
        ]
        called.__signature__ = inspect.Signature(made)  # type: ignore[attr-defined]
        called.__annotations__ = declared
        return app.command(cls=Grouped)(called)

    return decorate


def _default(kind: Any) -> Any:
    """False of a flag, None of another option; arguments have none."""
    typed = getattr(kind, "__origin__", str)
    if typed is str or kind is typer.Context:
        return inspect.Parameter.empty
    return False if typed is bool else None


def _given(ctx: Any, typed: dict[str, Any]) -> dict[str, Any]:
    """{parameter: value} of what was typed or stands in the job file; lists of columns, and pairs as dictionaries."""
    given = {}
    for name, value in typed.items():
        if isinstance(value, str) and (not value.strip() or "\0" in value):
            raise typer.BadParameter(f"{name} must not be empty, got {value!r}; give a value, or leave it out")
        if name in ("csv", "set"):
            value = pairs(name, [*job_file.pairs(ctx, name), *(value or ())])
        elif isinstance(value, (list, tuple)) and value:
            value = column_names(name, value)
        if (value and name != "job") or (value == 0 and value is not False):
            given[name] = read(value) if name == "impute" else value  # a word or a number
    return given
