"""What every command does around its work: console, progress, cluster, result, exit code."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from dask.utils import parse_bytes
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ..blocks.progress import show_progress


class UsageError(Exception):
    """The command line itself is wrong: exit code 2."""


@dataclass
class Session:
    """One command's surroundings.

    Progress and remarks go to standard error; the result goes to standard output, as JSON with `--json`.
    """

    cluster: str | None = None
    memory_limit: str | None = None
    quiet: bool = False
    as_json: bool = False
    started: float = field(default_factory=time.perf_counter)
    peaks: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.errors = Console(stderr=True, quiet=self.quiet, highlight=False)
        self.output = Console(highlight=False)
        try:
            parse_bytes(self.memory_limit or 0)
        except ValueError as error:
            raise UsageError(f"--memory-limit is a size such as 4GiB, got {self.memory_limit!r}") from error

    def say(self, text: str) -> None:
        """A remark on standard error, unless quiet."""
        if not self.as_json:
            self.errors.print(text)

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """The cluster, with a progress bar for every pass that runs on it."""
        from ..cluster import connect

        with connect(self.cluster, memory_limit=self.memory_limit) as client:
            workers = client.scheduler_info(n_workers=-1)["workers"]
            self.say(f"{len(workers)} workers, dashboard {client.dashboard_link}")
            with self.progress():
                yield client
            self.peaks = peak_memory(client)

    @contextmanager
    def progress(self) -> Iterator[None]:
        """Bars for the passes inside; nothing when quiet or writing JSON."""
        if self.quiet or self.as_json:
            with nullcontext():
                yield
            return
        columns = (
            TextColumn("{task.description:>14}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} rows {task.fields[rate]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self.errors) as bars, show_progress(_listener(bars)):
            yield

    def finish(self, result: dict[str, Any], show: Callable[[Console], None]) -> None:
        """Print the result: one JSON object, or what `show` prints."""
        result["seconds"] = round(time.perf_counter() - self.started, 3)
        if self.peaks:
            result["peak_bytes_per_worker"] = self.peaks
        if self.as_json:
            json.dump(result, sys.stdout, indent=2, default=str)
            sys.stdout.write("\n")
        elif not self.quiet:
            show(self.output)


def _listener(bars: Progress) -> Callable[[str, int, int], None]:
    tasks: dict[str, Any] = {}
    begun: dict[str, float] = {}

    def listen(label: str, done: int, total: int) -> None:
        if label not in tasks or done == 0:
            if label in tasks:
                bars.remove_task(tasks[label])
            tasks[label] = bars.add_task(label, total=total, rate="")
            begun[label] = time.perf_counter()
        elapsed = time.perf_counter() - begun[label]
        rate = f"{done / elapsed:,.0f} rows/s" if done and elapsed > 0.1 else ""
        bars.update(tasks[label], completed=done, total=total, rate=rate)

    return listen


def peak_memory(client: Any) -> dict[str, int]:
    """Largest resident size each worker process has had, in bytes."""
    return {str(k): int(v) for k, v in client.run(_peak_rss).items()}


def _peak_rss() -> int:
    import resource
    import sys

    if sys.platform == "linux":  # ru_maxrss starts at the size of the parent process
        with open("/proc/self/status") as status:
            return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
