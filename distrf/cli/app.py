"""The command-line application: commands, each imported when it is used, and what an error prints."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

from .. import __version__
from ..errors import did_you_mean
from . import compare, data, demo, faults, jobs, models, tune
from .groups import grouped
from .help import HelpfulCommand, name_near_option
from .kept_options import load_plugins

_INTERRUPTED = 130  # what Typer makes of Ctrl-C
_WIDEST = 100  # letters of a line of help, in a terminal that is wider

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


def get_command(name: str) -> Any:
    """The command of that name as it is parsed; its options follow what is registered now."""
    load_plugins()
    text = (inspect.getdoc(COMMANDS[name]) or "").split("\n\nParameters\n")[0].split("\n\nExamples\n")[0]
    made: Any = grouped(COMMANDS[name])
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(name, cls=HelpfulCommand, help=text, context_settings={"max_content_width": _WIDEST})(made)
    command: Any = typer.main.get_command(single)
    command.tell(name, COMMANDS[name], made.spellings)
    return command


class _Commands(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return get_command(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        rows = [(name, _first_line(command)) for name, command in COMMANDS.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            name_near_option(error, self.get_params(ctx))
            raise

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            ctx.fail(
                f"No such command: {args[0]}{did_you_mean(args[0], COMMANDS)}; commands: {', '.join(COMMANDS)}"
            )
        return super().resolve_command(ctx, args)


def _first_line(command: Any) -> str:
    return (command.__doc__ or "").split("\n")[0]


app = typer.Typer(
    name="distrf",
    cls=_Commands,
    help="Kernel machines on data larger than memory.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"max_content_width": _WIDEST},
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
    faults.name_options({})
    try:
        code = app(standalone_mode=True)
    except SystemExit as left:
        if left.code == _INTERRUPTED:
            faults.print_error(
                "Interrupted",
                "start the command again: ingest, featurize and predict go on where they were, and training of a model of "
                "many passes (SGD, TEFM, conjugate gradients) that has a --checkpoint, with --resume; ridge starts anew",
            )
        raise
    except Exception as error:
        code = faults.report(error)
    sys.exit(code)
