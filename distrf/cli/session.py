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

    from ..planning.summary import Plan

_LOG = logging.getLogger(__name__)
#: Bytes of rows, and operations, up to which a command needs no processes of its own: they take seconds to start, and some
#: fits use them better than threads. So many operations are some ten seconds of one thread.
_SMALL, _LITTLE = 64 * 2**20, 5e11


@dataclass
class Session:
    """One command's surroundings.

    Progress and remarks go to standard error; the result goes to standard output, as JSON with `--json`.
    """

    run: RunOptions = field(default_factory=RunOptions)
    started: float = field(default_factory=time.perf_counter)
    peaks: dict[str, int] = field(default_factory=dict)
    noted: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        from rich.console import Console

        self.errors = Console(stderr=True, quiet=self.run.quiet, highlight=False)
        self.output = Console(highlight=False)
        if self.run.memory_limit is None and self.run.tls is None:
            return
        from ..cluster import check_memory_limit, tls_settings  # half a second, which most commands never need

        checked(lambda: check_memory_limit(self.run.memory_limit, self.run.cluster))
        checked(lambda: tls_settings(self.run.tls, self.run.cluster))

    def say(self, text: str) -> None:
        """A remark on standard error, unless quiet, and in Python's log."""
        _LOG.info(text)
        if not self.run.json:
            self.errors.print(text)

    def planned(self, job: str, pipeline: Any, data: Any, **more: Any) -> Plan:
        """The plan of a job where it will run. Little work on small data runs in threads of this process.

        more : of `distrf.plan`
        """
        from ..planning import plan

        run = self.run
        said = run.cluster or run.memory_limit or run.tls or more.get("workers")
        if not said and data.info.nbytes <= _SMALL:
            made = plan(pipeline, data, job=job, **more, cluster="none")
            if made.fits and made.flops <= _LITTLE:
                self.run = replace(run, cluster="none")
                return made
        return plan(pipeline, data, job=job, **more, **run.where)

    def refuse_if_too_big(
        self, job: str, pipeline: Any, data: Any, *, connected: bool = False, **more: Any
    ) -> None:
        """Raise MemoryPlanError before anything starts, where the size of the cluster is known in advance.

        connected : whether it has been reached; more : of `distrf.plan`
        """
        from ..planning import plan

        if connected and self.run.cluster != "none":
            plan(pipeline, data, job=job, **more).check()
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
                with self.progress():
                    yield None
                return
            if not debugging() and not running(self.run.cluster):
                quieten_workers(client)
            workers = client.scheduler_info(n_workers=-1)["workers"]
            self.say(f"{len(workers)} workers, dashboard {client.dashboard_link}")
            with self.progress():
                yield client
            self.peaks = peak_memory(client)

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Warnings of the rows inside come with the result."""
        from ..tables.drift import DriftWarning

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", DriftWarning)
            yield
        for one in caught:
            if issubclass(one.category, DriftWarning):
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

    def finish(self, result: dict[str, Any], show: Callable[[Console], None]) -> None:
        """Print the result: one JSON object, or what `show` prints; and warnings, which are in the object, even if quiet."""
        result["seconds"] = round(time.perf_counter() - self.started, 3)
        if self.noted:
            result["warnings"] = [*result.get("warnings", ()), *self.noted]
        if self.peaks:
            result["peak_bytes_per_worker"] = self.peaks
        if self.run.json:
            json.dump(result, sys.stdout, indent=2, default=str)
            sys.stdout.write("\n")
            return
        if not self.run.quiet:
            show(self.output)
        for text in result.get("warnings", ()):
            print_error("Warning", text)
