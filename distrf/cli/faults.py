"""What an error prints and the exit code: one or a few lines, a traceback with --debug alone."""

from __future__ import annotations

import logging
import re
import shlex
import sys
import traceback

from ..errors import DistrfError
from .kept_options import group_options
from .signatures import SPELLED
from .spelling import Options
from .usage import UsageError, flag

_TITLES = {
    "InUse": "Output in use", "MemoryPlan": "Not enough memory", "SpecMismatch": "Spec mismatch", "Parameter": "Input error",
}  # fmt: skip
_MOST = 400  # letters of a message that others wrote

#: A parameter with its value or a list of names, as messages write it for Python; one of several words; what stands in quotes, and stays.
_PYTHON = re.compile(
    r"""\b(?P<given>[a-z]\w*)=(?:(?P<quote>['"])(?P<text>[\w.-]+)(?P=quote)|(?P<word>[\d.e+-]*\d|\w+)(?![\w(])"""
    r"""|\[(?P<listed>'[^'\n]*'(?:, '[^'\n]*')*)\]"""
    r"""|(?=[\s;,.:)]|$))"""
    r"""|(?<!\w)(?P<quoted>'[^'\n]*'|"[^"\n]*")"""
    r"""|(?<![\w./-])(?P<alone>[a-z][a-z0-9]*(?:_[a-z0-9]+)+)(?![\w/]|\.\w)"""
)

_debug = False
_options: Options = {}


def set_debug(wanted: bool) -> None:
    """Whether errors print where they arose, and workers log them."""
    global _debug
    _debug = wanted


def name_options(options: Options) -> None:
    """Which options the command that runs has: messages name them so."""
    global _options
    _options = options


def in_options(text: str) -> str:
    """A message with the parameters of the command, and of a training, named as the options that they are."""
    if not _options:
        return text  # no command has started
    known = dict(_options)
    if "distrf.registry" in sys.modules:  # a model was read or made: messages may speak of its training
        known = group_options("TrainMapOptions") | group_options("ModelOptions") | known

    def spelled(found: re.Match[str]) -> str:
        name = found["given"] or found["alone"]
        spelling = known.get(name)
        if spelling is None or spelling.is_argument:
            return found[0]
        value = found["text"] or found["word"] or ""
        if found["listed"]:
            value = shlex.quote(found["listed"][1:-1].replace("', '", ","))
        if spelling.is_flag and value in ("True", "False"):
            return flag(name) if value == "True" else f"--no-{flag(name)[2:]}"
        return f"{flag(name)} {SPELLED.get(value, value)}".rstrip()

    return _PYTHON.sub(spelled, text)


def debugging() -> bool:
    return _debug


def report(error: Exception) -> int:
    """Print what went wrong; the exit code, 2 for wrong usage and else 1."""
    if _debug:
        traceback.print_exception(error)
    if isinstance(error, UsageError):
        print_error("Usage error", str(error))
        return 2
    if isinstance(error, DistrfError):
        name = type(error).__name__.removesuffix("Error")
        print_error(_TITLES.get(name, f"{name} error"), str(error))
    elif isinstance(error, OSError) and error.errno is not None:
        print_error("OS error", str(error))  # no such file, not permitted, no space left
    elif isinstance(error, MemoryError):
        print_error("Not enough memory", f"{error}; `distrf plan` says what a job needs; use smaller blocks")
    else:
        text = " ".join(str(error).split())
        text = text if len(text) <= _MOST else text[:_MOST] + " ..."
        print_error(
            "Unexpected error",
            f"{type(error).__name__}: {text}. This is a fault of distrf or of its input; "
            "`distrf --debug ...` shows where it arose",
        )
    return 1


def print_error(title: str, text: str) -> None:
    """A title in red and a text, on standard error; parameters are named as the options that they are here."""
    from rich.console import Console
    from rich.markup import escape

    text = (
        in_options(text).strip().encode(errors="backslashreplace").decode()
    )  # names of files may be any bytes
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"[red]{title}:[/red] {escape(text)}")


class _NoTracebacks(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info or "Traceback" in record.getMessage())


def quieten() -> None:
    """Dask logs no traceback in this process: the error itself arrives where it is reported."""
    import distributed  # noqa: F401  sets up the handlers

    loggers = [logging.getLogger("asyncio")]  # has no handler of its own
    loggers += [
        logging.getLogger(name)
        for name in logging.root.manager.loggerDict
        if name.split(".")[0] in ("distributed", "tornado")
    ]
    for place in {*loggers, *(h for logger in loggers for h in logger.handlers)}:
        if not any(isinstance(f, _NoTracebacks) for f in place.filters):
            place.addFilter(_NoTracebacks())


def quieten_workers(client: object) -> None:
    """The same in the workers of a cluster of our own, those that come later too."""
    from distributed import WorkerPlugin

    from ..execution.workers import register

    class Quiet(WorkerPlugin):
        name = "distrf-quiet"

        def setup(self, worker: object) -> None:
            quieten()

    register(client, Quiet(), Quiet.name)
