"""The command-line application: commands, each imported when it is used, and what an error prints."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from .. import __version__
from ..errors import InputError
from . import compare, data, demo, faults, jobs, models, tune
from .groups import grouped

_INTERRUPTED = 130  # what Typer makes of Ctrl-C

COMMANDS: dict[str, Callable[..., None]] = {
    command.__name__: command
    for command in (
        demo.demo,
        data.ingest,
        models.plan,
        data.featurize,
        models.train,
        models.add,
        models.predict,
        models.evaluate,
        models.importance,
        data.inspect,
        compare.compare,
        tune.tune,
        jobs.run,
    )
}


@functools.cache
def load_plugins() -> None:
    """Import what installed packages name in the group "distrf" of their entry points: it registers itself.

    Raises InputError for what cannot be imported.
    """
    for entry in entry_points(group="distrf"):
        try:
            entry.load()
        except Exception as error:  # whatever its module does
            raise InputError(
                f"the plugin {entry.name!r} cannot be imported: {error!r}; mend or uninstall the package that names it"
            ) from error


def get_command(name: str) -> Any:
    """The command of that name as it is parsed; its options follow what is registered now."""
    load_plugins()
    text = (inspect.getdoc(COMMANDS[name]) or "").split("\n\nParameters\n")[0]
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(name, cls=_Command, help=text)(grouped(COMMANDS[name]))
    return typer.main.get_command(single)


class _Command(TyperCommand):
    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            text = parameter.get_help_record(ctx)
            if text is not None:
                argument = parameter.param_type_name == "argument"
                panel = getattr(parameter, "rich_help_panel", None) or ("Arguments" if argument else "Options")
                sections.setdefault(panel, []).append(text)
        for title, texts in sections.items():
            with formatter.section(title):
                formatter.write_dl(texts)


class _Commands(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return get_command(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        rows = [(name, (command.__doc__ or "").split("\n")[0]) for name, command in COMMANDS.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


app = typer.Typer(
    name="distrf",
    cls=_Commands,
    help="Kernel machines on data larger than memory.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit()


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", help="Print the version and stop.", is_eager=True, callback=_version
    ),
    debug: bool = typer.Option(False, "--debug", help="Show where an error arose; before the command."),
) -> None:
    if debug:  # a job file, which comes here again, leaves it as it is
        faults.set_debug(True)


def run() -> None:
    """Run the command line; 0, 1 for a failure, 2 for wrong usage, 130 when interrupted."""
    code: int
    faults.set_debug(False)
    try:
        code = app(standalone_mode=True)
    except SystemExit as left:
        if left.code == _INTERRUPTED:
            faults.print_error(
                "Interrupted",
                "ingest, featurize and predict resume when they are started again, train with --checkpoint when it "
                "gets --resume",
            )
        raise
    except Exception as error:
        code = faults.report(error)
    sys.exit(code)
