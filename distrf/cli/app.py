"""The command line: where it starts, and how it ends."""

from __future__ import annotations

import sys

import typer

from .. import __version__
from . import data, models, tune  # noqa: F401  their commands
from .command import app
from .errors import print_line, report, set_debug

_INTERRUPTED = 130  # what Typer makes of Ctrl-C


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
    set_debug(debug)


def main() -> None:
    """Run the command line; leaves with 0, 1 for a failure, 2 for wrong usage, 130 when interrupted."""
    code: int
    try:
        code = app(standalone_mode=True)
    except SystemExit as left:
        if left.code == _INTERRUPTED:
            print_line(
                "interrupted",
                "start the command again: ingest, featurize and predict go on where they were, and training of a model of "
                "many passes (SGD, TEFM, conjugate gradients) that has a --checkpoint, with --resume; ridge starts anew",
            )
        raise
    except Exception as error:
        code = report(error)
    sys.exit(code)
