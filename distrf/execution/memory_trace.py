"""The memory of worker processes while a job ran, which Dask's own monitor in each of them has recorded."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

#: Its name where there are no workers.
THIS_PROCESS = "this process"
#: Seconds between two looks at this process; workers have `distributed.admin.system-monitor.interval`, which is as much.
_EVERY = 0.5


@dataclass
class MemoryTrace:
    """What each process held at which time.

    seconds : {name: times since the start, ascending}; processes : {name: bytes at each of them}
    """

    seconds: dict[str, list[float]] = field(default_factory=dict)
    processes: dict[str, list[int]] = field(default_factory=dict)

    @property
    def peaks(self) -> dict[str, int]:
        """The largest number of each process."""
        return {name: max(held) for name, held in self.processes.items()}


@contextmanager
def tracing_memory(client: Any = None) -> Iterator[MemoryTrace]:
    """Trace the memory of the workers, or of this process, while the lines inside run.

    Parameters
    ----------
    client : distributed.Client or None, default=None
        None looks at this process.

    Yields
    ------
    MemoryTrace
        Filled at the end, to be drawn by `distrf.plot.MemoryDisplay`. It has the workers that are there at the end, and of a
        long job the last hour (`distributed.admin.system-monitor.log-length` of Dask's configuration).
    """
    trace, start = MemoryTrace(), time.monotonic()
    try:
        with _monitored() if client is None else contextlib.nullcontext() as monitor:
            yield trace
    finally:
        length = time.monotonic() - start
        with contextlib.suppress(Exception):  # where the scheduler was lost: a picture is no reason to fail
            if client is None:
                found = {THIS_PROCESS: _recorded(length, monitor)}
            else:
                found = client.run(
                    lambda dask_worker: _recorded(length, dask_worker.monitor), on_error="ignore"
                )
            for name, (ages, held) in found.items():
                trace.seconds[name] = [round(length - age, 3) for age in ages]
                trace.processes[name] = held


@contextmanager
def _monitored() -> Iterator[Any]:
    """A monitor of this process, which a thread keeps up to date."""
    from distributed.system_monitor import SystemMonitor

    monitor, ended = SystemMonitor(), threading.Event()

    def watch() -> None:
        while not ended.wait(_EVERY):
            monitor.update()

    thread = threading.Thread(target=watch, name="distrf-memory", daemon=True)
    thread.start()
    try:
        yield monitor
    finally:
        ended.set()
        thread.join()


def _recorded(length: float, monitor: Any) -> tuple[list[float], list[int]]:
    """Ages and bytes of what a monitor has recorded in so many seconds until now, by the clock of its own machine."""
    now = monitor.update()["time"]
    looks = list(zip(monitor.quantities["time"], monitor.quantities["memory"], strict=True))
    looks = [(now - moment, int(held)) for moment, held in looks if now - moment <= length] or looks[-1:]
    return [age for age, _ in looks], [held for _, held in looks]
