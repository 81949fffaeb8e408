"""The command-line application: commands, and what an error prints."""

from __future__ import annotations

import sys

import typer

from .. import __version__
from ..errors import DistrfError
from . import compare, data, demo, jobs, models, tune
from .groups import grouped
from .session import UsageError

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
) -> None:
    pass


def run() -> None:
    """Run the command line; 0, 1 for a failure, 2 for wrong usage, 130 when interrupted."""
    code: int
    try:
        code = app(standalone_mode=True)
    except UsageError as error:
        _print("Usage error", str(error))
        code = 2
    except (DistrfError, OSError) as error:
        if not isinstance(error, DistrfError) and error.errno is None:
            raise
        _print(_title(error), str(error))  # of the system's: no such file, not permitted, no space left
        code = 1
    except SystemExit as left:
        if left.code == _INTERRUPTED:
            _print(
                "Interrupted",
                "ingest, featurize and predict resume when they are started again, train with --checkpoint when it "
                "gets --resume",
            )
        raise
    sys.exit(code)


def _print(title: str, text: str) -> None:
    from rich.console import Console
    from rich.markup import escape

    Console(stderr=True, highlight=False, soft_wrap=True).print(f"[red]{title}:[/red] {escape(text)}")


def _title(error: Exception) -> str:
    name = type(error).__name__.removesuffix("Error")
    return {"MemoryPlan": "Not enough memory", "SpecMismatch": "Spec mismatch"}.get(name, f"{name} error")
