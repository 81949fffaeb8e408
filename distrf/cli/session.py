"""What every command does around its work: progress, cluster, warnings, report, result."""

from __future__ import annotations

import json
import logging
import shlex
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from ..planning.workers import running
from .errors import debugging, print_line

_LOG = logging.getLogger(__name__)


class Session:
    """One command's surroundings; the arguments are its options of the group "Run".

    Progress and remarks go to standard error; the result goes to standard output, as JSON with `--json`.
    """

    def __init__(self, ctx: Any, *, quiet: bool = False, json: bool = False, **where: str):
        self.started, self.quiet, self.json = time.perf_counter(), quiet, json
        self.plan: Any = None
        self.report: str | None = None
        self.warnings: list[str] = []
        self.peaks: dict[str, int] = {}
        self.where: dict[str, Any] = {"cluster": None, "memory_limit": None, "tls": None} | where
        cluster, limit = self.where["cluster"], self.where["memory_limit"]
        self.asked: str | None = cluster
        if limit and running(cluster) and ctx.get_parameter_source("memory_limit").name == "DEFAULT_MAP":
            self.say(
                f"memory_limit of the job file is left out: it is of local workers, and {cluster} has its own"
            )
            self.where["memory_limit"] = None
        if self.where["memory_limit"] or self.where["tls"]:
            from ..cluster import (  # half a second, which most commands never need
                check_memory_limit,
                tls_settings,
            )

            check_memory_limit(self.where["memory_limit"], cluster)
            tls_settings(self.where["tls"])

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

    def need_no_workers(self, data: Any) -> None:
        """Run in threads of this process where the Input `data` is small, and nothing was said of where to run."""
        from ..execution.scheduler import SMALL_ROWS

        if not any(self.where.values()) and data.info.nbytes <= SMALL_ROWS:
            self.where["cluster"] = "none"

    def planned(self, job: str, pipeline: Any, data: Any, **more: Any) -> Any:
        """The plan of a job; more : of `distrf.plan`."""
        from ..planning.job import plan

        self.plan = plan(pipeline, data, job=job, **more)
        return self.plan

    @contextmanager
    def connected(self, job: str, pipeline: Any, data: Any, **more: Any) -> Iterator[None]:
        """The cluster for a job on an Input. Raises MemoryPlanError before anything runs, or starts."""
        self.need_no_workers(data)
        if not running(self.where["cluster"]):
            self.planned(job, pipeline, data, **more, **self.where).check()
        with self.on_cluster():
            if self.where["cluster"] != "none":
                self.planned(job, pipeline, data, **more).check()
            yield

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
        from .quiet import quieten, quieten_workers

        if not debugging():
            quieten()
        with connect(**self.where) as client:
            if not debugging() and not running(self.where["cluster"]):
                quieten_workers(client)
            workers = client.scheduler_info(n_workers=-1)["workers"]
            self.say(f"{len(workers)} workers, dashboard {client.dashboard_link}")
            with self.progress():
                yield
            self.peaks = peak_memory(client)

    def progress(self) -> Any:
        """Bars for the passes inside; nothing when quiet or writing JSON."""
        if self.quiet or self.json:
            return nullcontext()
        from ..progress import show_progress

        return show_progress()

    def finish(
        self, result: dict[str, Any], shown: str, about: Any = None, title: str = "", data: Any = None
    ) -> None:
        """Print the result: one JSON object, or the text; then warnings, which are in the object, even if quiet.

        about, title, data : of the report, if there is to be one: what `distrf.plot.write_report` takes, and an Input
        """
        result["seconds"] = round(time.perf_counter() - self.started, 3)
        if texts := list(dict.fromkeys([*result.get("warnings", ()), *self.warnings])):
            result["warnings"] = texts
        if self.peaks:
            result["peak_bytes_per_worker"] = self.peaks
        failure = None if self.report is None else self._try_report(result, about, title, data)
        if self.json:
            print(json.dumps(result, indent=2, default=str))
        else:
            if not self.quiet:
                peaks = [f"{bytes_ / 2**20:,.0f} MiB" for bytes_ in self.peaks.values()]
                more = [f"peak memory per worker: {', '.join(peaks)}"] if peaks else []
                print(shown, *more, f"seconds: {result['seconds']}", sep="\n")
            self._print_warnings(texts)
        if failure is not None:
            raise failure

    def _print_warnings(self, texts: list[str]) -> None:
        for text in dict.fromkeys(texts):
            print_line("warning", text)

    def _try_report(self, result: dict[str, Any], about: Any, title: str, data: Any) -> Exception | None:
        """Write the report. A failure is returned: the result of what may have taken hours is printed first."""
        from ..plot import write_report

        assert self.report is not None
        # A model that was done long ago knows how long it took.
        facts = {
            name: value for name, value in result.items() if not (result.get("done") and name == "seconds")
        }
        command, known = shlex.join(["distrf", *sys.argv[1:]]), None if data is None else data.facts()
        try:
            write_report(
                about, self.report, title=title, facts=facts, data=known, plan=self.plan, command=command
            )
        except Exception as error:  # whatever a disk, a service or a drawing does
            return error
        result["report"] = self.report
        self.say(f"report {self.report}")
        return None
