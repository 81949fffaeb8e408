"""What every command does around its work: cluster, progress, warnings, report, result; errors and exit codes; plain tables."""

from __future__ import annotations

import gc
import json
import logging
import os
import shlex
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from ..errors import DistrfError, ParameterError

_LOG = logging.getLogger(__name__)
_MOST = 400  # letters of a message that others wrote
_ROWS = 50  # of a table that are printed
#: Whether errors print where they arose, and workers log them.
debug = False


class Session:
    """One command's surroundings; the arguments are its options that all commands have.

    Progress and remarks go to standard error; the result goes to standard output, as JSON with `--json`.
    """

    def __init__(self, *, quiet: bool = False, json: bool = False, **where: str):
        self.started = time.perf_counter()
        self.quiet, self.json = quiet, json
        self.data: Any = None
        self.report: str | None = None
        self.warnings: list[str] = []
        self.peaks: dict[str, int] = {}
        self.where: dict[str, Any] = {"cluster": None, "memory_limit": None, "tls": None} | where

    def say(self, text: str) -> None:
        """A remark on standard error, unless quiet, and in Python's log."""
        _LOG.info(text)
        if not (self.json or self.quiet):
            print(text, file=sys.stderr, flush=True)

    @contextmanager
    def hearing(self) -> Iterator[None]:
        """Warnings of the rows inside are printed behind the result, one line each, and stand in the JSON."""
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, *more, **others: self.warnings.append(str(message))
            try:
                yield
            except BaseException:
                self._print_warnings(self.warnings)
                raise

    def report_to(self, path: str | None, *sources: str | None) -> None:
        """Write a page about this command at its end; a place where that fails, or that is a source, is an error now."""
        if path is not None:
            from ..plot.report import check_report

            check_report(path, *sources)
            self.report = path

    def opened(self, data: Any) -> None:
        """These are the Rows: run in threads of this process where they are small, and nothing was said of where to run."""
        from ..execution.scheduler import SMALL_ROWS

        self.data = data
        if not any(self.where.values()) and data.info.nbytes <= SMALL_ROWS:
            self.where["cluster"] = "none"

    @contextmanager
    def connected(self, job: str, pipeline: Any, data: Any, **more: Any) -> Iterator[None]:
        """The cluster for a job on Rows. Raises MemoryPlanError before anything runs, or starts.

        pipeline : or a function that makes it, for the plan; None is not planned
        more : of `distrf.plan`
        """
        from ..planning import plan

        self.opened(data)
        pipeline = pipeline() if callable(pipeline) else pipeline
        if pipeline is not None and "://" not in os.fspath(self.where["cluster"] or ""):
            plan(pipeline, data, job=job, **more, **self.where).check()
        with self.on_cluster():
            if pipeline is not None and self.where["cluster"] != "none":
                plan(pipeline, data, job=job, **more).check()
            yield

    def plan_jobs(self) -> None:
        """From here on what `around_job` is put around is planned, and runs on the cluster."""
        from ..pipeline.rows import around_job

        around_job.set(self.connected)

    @contextmanager
    def on_cluster(self) -> Iterator[None]:
        """The cluster, with a progress bar for every pass that runs on it."""
        if self.where["cluster"] == "none":  # without distributed, whose import takes as long as a small job
            import dask
            from dask.threaded import get

            self.say("threads of this process; --cluster local starts workers")
            with dask.config.set(scheduler=get), self.progress():
                yield
            return
        from ..cluster import connect
        from ..execution.workers import peak_memory

        if not debug:
            quieten()
        with connect(**self.where) as client:
            workers = client.scheduler_info(n_workers=-1)["workers"]
            self.say(f"{len(workers)} workers, dashboard {client.dashboard_link}")
            with self.progress():
                yield
            self.peaks = peak_memory(client)

    def progress(self) -> Any:
        """Bars for the passes inside, where the work begins; nothing when quiet or writing JSON."""
        gc.freeze()
        gc.enable()
        if self.quiet or self.json:
            return nullcontext()
        from ..progress import show_progress

        return show_progress()

    def finish(self, result: dict[str, Any], shown: str, about: Any = None, title: str = "") -> None:
        """Print the result: one JSON object, or the text; then warnings, which are in the object, even if quiet.

        about, title : of the report, if there is to be one: what `distrf.plot.write_report` takes
        """
        result["seconds"] = round(time.perf_counter() - self.started, 3)
        if texts := list(dict.fromkeys([*result.get("warnings", ()), *self.warnings])):
            result["warnings"] = texts
        if self.peaks:
            result["peak_bytes_per_worker"] = self.peaks
        result |= {} if self.report is None else {"report": self.report}
        if self.json:
            print(json.dumps(result, indent=2, default=str))
        else:
            if not self.quiet:
                peaks = ", ".join(f"{bytes_ / 2**20:,.0f} MiB" for bytes_ in self.peaks.values())
                more = [f"peak memory per worker: {peaks}"] if peaks else []
                print(shown, *more, f"seconds: {result['seconds']}", sep="\n")
            self._print_warnings(texts)
        if self.report is not None:  # behind the result of what may have taken hours: it may fail
            from ..plot import write_report

            # A model that was done long ago knows how long it took.
            facts = {n: value for n, value in result.items() if not (result.get("done") and n == "seconds")}
            known = self.data and {"from": self.data.path} | self.data.description
            command = shlex.join(["distrf", *sys.argv[1:]])
            write_report(about, self.report, title=title, facts=facts, data=known, command=command)

    def _print_warnings(self, texts: list[str]) -> None:
        for text in dict.fromkeys(texts):
            print_line("warning", text)


# ---- errors ----


def _no_traceback(record: logging.LogRecord) -> bool:
    """Dask logs no traceback: the error itself arrives where it is reported."""
    return not (record.exc_info or "Traceback" in record.getMessage())


def quieten() -> None:
    """Log no traceback of Dask in this process, and none but what ends a worker in those that it starts."""
    os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "critical")
    names = [n for n in logging.root.manager.loggerDict if n.split(".")[0] in ("distributed", "tornado")]
    loggers = [logging.getLogger(name) for name in ("asyncio", *names)]  # asyncio has no handler of its own
    for place in {*loggers, *(h for logger in loggers for h in logger.handlers)}:
        place.addFilter(_no_traceback)


def print_error(error: Exception) -> int:
    """Print what went wrong; the exit code, 2 for a value that breaks the rule of a parameter and else 1."""
    if debug:
        traceback.print_exception(error)
    if isinstance(error, DistrfError) or (isinstance(error, OSError) and error.errno is not None):
        print_line("error", str(error))  # of the system: no such file, not permitted, no space left
    elif isinstance(error, MemoryError):
        remedy = "`distrf plan` says what a job needs; use smaller blocks"
        print_line("error", f"not enough memory: {error}; {remedy}")
    else:
        text = " ".join(str(error).split())
        text = text if len(text) <= _MOST else text[:_MOST] + " ..."
        fault = "This is a fault of distrf or of its input; `distrf --debug ...` shows where it arose"
        print_line("error", f"unexpected {type(error).__name__}: {text}. {fault}")
    return 2 if isinstance(error, ParameterError) else 1


def print_line(title: str, text: str) -> None:
    """A title and a text on standard error."""
    text = " ".join(text.split()).encode(errors="backslashreplace").decode()  # names of files may be any bytes
    print(f"{title}: {text}", file=sys.stderr, flush=True)


# ---- plain text ----


def facts(title: str, values: Mapping[str, Any]) -> str:
    """Names and values, one a line; lists and what is not there are left out."""
    plain = {n.replace("_", " "): v for n, v in values.items() if not isinstance(v, dict | list | tuple | None)}
    width = max(map(len, plain), default=0)
    return "\n".join([title, *(f"  {name:<{width}}  {_cell(value)}" for name, value in plain.items())])


def table(title: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Records of equal keys as a table, with what names them first, as given: the label 2019 is not 2,019."""
    names = [name for name in rows[0] if any(row[name] not in (None, "") for row in rows)] if rows else []
    cells = [[str(row[names[0]]), *(_cell(row[name]) for name in names[1:])] for row in rows[:_ROWS]]
    cells = [[name.replace("_", " ") for name in names], *cells]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in cells]
    more = [str(row[names[0]]) for row in rows[_ROWS:]]
    lines += [f"and {len(more):,} more, of which --json has all: {', '.join(more)}"] if more else []
    return "\n".join(["", f"{title}:", *(f"  {line}" for line in lines)])


def _cell(value: Any) -> str:
    from ..plain_data import shown

    return "" if value is None else shown(value)


def document(value: Any) -> str:
    """Nested JSON as YAML."""
    import yaml

    plain = json.loads(json.dumps(value, default=str))  # without tuples and numbers of NumPy
    said: str = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None)
    return said.rstrip()


def store(info: Any) -> str:
    """A store in short."""
    from ..plain_data import shown

    return facts(f"{info.kind} in {info.path}", {name: shown(value) for name, value in info.facts()})


def training(title: str, result: dict[str, Any]) -> str:
    """Facts of a trained model, its columns and choices."""
    from ..record import Training

    columns = [{"column": c["name"], "taken for": c["kind"], "since": c["why"], "encoding": c["encoding"],
                "missing": f"{100 * c['missing']:.3g} %" if c["missing"] else ""} for c in result.get("columns", ())]  # fmt: skip
    parts = [facts(title, result)]
    parts += [table("columns", columns)] if columns else []
    return "\n".join([*parts, "", str(Training.from_dict(result | {"warnings": []}))])


def scores(title: str, found: Any) -> str:
    """The scores of a model, the first one first, and a table by class."""
    parts, classes = [title, str(found)], found.get("classes", ())
    parts += [table("by class", classes)] if 0 < len(classes) <= _ROWS else []
    return "\n".join(parts)
