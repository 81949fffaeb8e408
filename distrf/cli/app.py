"""The command-line application: commands, and what an error prints."""

from __future__ import annotations

import sys

import typer

from .. import __version__
from . import compare, data, demo, faults, jobs, models, tune
from .groups import grouped

_INTERRUPTED = 130  # what Typer makes of Ctrl-C

app = typer.Typer(
    name="distrf",
    help="Kernel machines on data larger than memory.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)
for command in (
    demo.demo,
    data.ingest,
    models.plan,
    data.featurize,
    models.train,
    models.predict,
    models.evaluate,
    data.inspect,
    compare.compare,
    tune.tune,
    jobs.run,
):
    app.command()(grouped(command))


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
