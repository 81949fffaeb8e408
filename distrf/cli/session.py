"""What every command does around its work: console, progress, cluster, result, exit code."""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..planning.workers import running
from .faults import print_error
from .options import RunOptions
from .usage import checked

if TYPE_CHECKING:
    from rich.console import Console

    from ..execution.memory_trace import MemoryTrace
    from ..planning.summary import Plan

_LOG = logging.getLogger(__name__)
#: Bytes of rows up to which a command needs no processes of its own. They take seconds to start, and threads are no slower:
#: with two workers for two threads, ridge at D = 2,048 took 20.1 s for 13.9, and 5 epochs of a support vector machine
#: 204.8 s for 38.5.
_SMALL = 64 * 2**20


@dataclass
class Session:
    """One command's surroundings.

    Progress and remarks go to standard error; the result goes to standard output, as JSON with `--json`.
    """

    run: RunOptions = field(default_factory=RunOptions)
    started: float = field(default_factory=time.perf_counter)
    peaks: dict[str, int] = field(default_factory=dict)
    noted: list[str] = field(default_factory=list)
    report: str | None = None
    heard: list[str] = field(default_factory=list)
    plan: Plan | None = None
    trace: MemoryTrace | None = None

    def __post_init__(self) -> None:
        from rich.console import Console

        self.errors = Console(stderr=True, quiet=self.run.quiet, highlight=False)
        self.output = Console(highlight=False)
        if self.run.memory_limit is None and self.run.tls is None:
            return
        from ..cluster import check_memory_limit, tls_settings  # half a second, which most commands never need

        checked(lambda: check_memory_limit(self.run.memory_limit, self.run.cluster))
        checked(lambda: tls_settings(self.run.tls))

    def say(self, text: str) -> None:
        """A remark on standard error, unless quiet, and in Python's log."""
        _LOG.info(text)
        if not self.run.json:
            self.errors.print(text, markup=False)

    def report_to(self, path: str | None, *sources: str | None) -> None:
        """Write a page about this command at its end; a place where that fails is an error now.

        sources : places that it must not lie in
        """
        if path is not None:
            from ..plot.report import check_report

            checked(lambda: check_report(path, *sources))
            self.report = path

    def planned(self, job: str, pipeline: Any, data: Any, **more: Any) -> Plan:
        """The plan of a job where it will run: on small data in threads of this process.

        more : of `distrf.plan`
        """
        from ..planning.job import plan

        if not more.get("workers"):
            self.need_no_workers(data)
        self.plan = plan(pipeline, data, job=job, **more, **self.run.where)
        return self.plan

    def need_no_workers(self, data: Any) -> None:
        """Run in threads of this process where the Input `data` is small, and the command line says nothing of where to run."""
        run = self.run
        if not (run.cluster or run.memory_limit or run.tls) and data.info.nbytes <= _SMALL:
            self.run = replace(run, cluster="none")

    def refuse_if_too_big(
        self, job: str, pipeline: Any, data: Any, *, connected: bool = False, **more: Any
    ) -> None:
        """Raise MemoryPlanError before anything starts, where the size of the cluster is known in advance.

        connected : whether it has been reached; more : of `distrf.plan`
        """
        from ..planning.job import plan

        if connected and self.run.cluster != "none":
            self.plan = plan(pipeline, data, job=job, **more)
            self.plan.check()
        elif not connected and not running(self.run.cluster):
            self.planned(job, pipeline, data, **more).check()

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """The cluster, with a progress bar for every pass that runs on it."""
        from ..cluster import connect
        from ..execution.workers import peak_memory
        from .faults import debugging, quieten, quieten_workers

        if not debugging():
            quieten()
        with connect(**self.run.where) as client:
            if client is None:
                self.say("threads of this process; --cluster local starts workers")
                with self.progress(), self._observed(None):
                    yield None
                return
            if not debugging() and not running(self.run.cluster):
                quieten_workers(client)
            workers = client.scheduler_info(n_workers=-1)["workers"]
            self.say(f"{len(workers)} workers, dashboard {client.dashboard_link}")
            with self.progress(), self._observed(client):
                yield client
            self.peaks = peak_memory(client)

    @contextmanager
    def _observed(self, client: Any) -> Iterator[None]:
        """Memory and warnings of the rows inside, for the report; nothing without one."""
        if self.report is None:
            yield
            return
        from ..plot import tracing_memory

        with warnings.catch_warnings(), tracing_memory(client) as self.trace:
            show = warnings.showwarning

            def hear(message: Any, category: Any, *where: Any, **more: Any) -> None:
                self.heard.append(str(message))
                show(message, category, *where, **more)

            warnings.showwarning = hear
            yield

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Warnings of the rows inside come with the result."""
        from ..tables.drift import DriftWarning
        from ..tables.kinds import ColumnWarning

        noted = DriftWarning, ColumnWarning
        with warnings.catch_warnings(record=True) as caught:
            for category in noted:
                warnings.simplefilter("always", category)
            yield
        for one in caught:
            if issubclass(one.category, noted):
                self.noted.append(str(one.message))
            else:
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)

    @contextmanager
    def progress(self) -> Iterator[None]:
        """Bars for the passes inside; nothing when quiet or writing JSON."""
        if self.run.quiet or self.run.json:
            yield
            return
        from ..progress import show_progress

        with show_progress(self.errors):
            yield

    def finish(
        self,
        result: dict[str, Any],
        show: Callable[[Console], None],
        *,
        about: Any = None,
        title: str | None = None,
        data: Any = None,
    ) -> None:
        """Print the result: one JSON object, or what `show` prints; and warnings, which are in the object, even if quiet.

        about, title, data : of the report, if there is to be one: what `distrf.plot.write_report` takes, and an Input
        """
        result["seconds"] = round(time.perf_counter() - self.started, 3)
        if self.noted:
            result["warnings"] = [*result.get("warnings", ()), *self.noted]
        if self.peaks:
            result["peak_bytes_per_worker"] = self.peaks
        failure = None if self.report is None else self._try_report(result, about, title, data)
        if self.run.json:
            json.dump(result, sys.stdout, indent=2, default=str)
            sys.stdout.write("\n")
        else:
            if not self.run.quiet:
                show(self.output)
            for text in result.get("warnings", ()):
                print_error("Warning", text)
        if failure is not None:
            raise failure

    def _try_report(self, *about: Any) -> Exception | None:
        """Write the report. A failure is returned: the result of what may have taken hours is printed first."""
        try:
            self._write_report(*about)
        except Exception as error:  # whatever a disk, a service or a drawing does
            return error
        return None

    def _write_report(self, result: dict[str, Any], about: Any, title: str | None, data: Any) -> None:
        from ..plot import write_report
        from .jobs import command_line

        assert self.report is not None
        facts = result | {"warnings": list(dict.fromkeys([*result.get("warnings", ()), *self.heard]))}
        if result.get("done"):  # long ago: the model knows how long it took
            del facts["seconds"]
        write_report(
            about, self.report, title=title, facts=facts, data=None if data is None else data.facts(), plan=self.plan,
            trace=self.trace, command=f"distrf {command_line()}",
        )  # fmt: skip
        result["report"] = self.report
        self.say(f"report {self.report}")
