"""The memory of worker processes while a job runs, looked at from the client."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

#: Looks beyond which every second one is dropped.
_MOST = 2000
#: Its name where there are no workers.
THIS_PROCESS = "this process"


@dataclass
class MemoryTrace:
    """What each process held at which time.

    seconds : times since the start, ascending; processes : {name: bytes at each of the times, None where it is not there}
    """

    seconds: list[float] = field(default_factory=list)
    processes: dict[str, list[int | None]] = field(default_factory=dict)

    def add(self, seconds: float, held: dict[str, int]) -> None:
        """Add a look: bytes of each process by its name."""
        for name in held:
            self.processes.setdefault(name, [None] * len(self.seconds))
        self.seconds.append(seconds)
        for name, values in self.processes.items():
            values.append(held.get(name))

    def halve(self) -> None:
        """Keep of every two looks the later one, with the larger number of both for each process."""
        start = len(self.seconds) % 2
        self.seconds = self.seconds[:start] + self.seconds[start + 1 :: 2]
        for name, values in self.processes.items():
            pairs = zip(values[start::2], values[start + 1 :: 2], strict=True)
            merged = [b if a is None else a if b is None else max(a, b) for a, b in pairs]
            self.processes[name] = values[:start] + merged

    @property
    def peaks(self) -> dict[str, int]:
        """The largest number of each process."""
        return {name: max(v for v in values if v is not None) for name, values in self.processes.items()}


@contextmanager
def tracing_memory(client: Any = None, every: float = 0.5) -> Iterator[MemoryTrace]:
    """Look at the memory of the workers, or of this process, while the lines inside run.

    Parameters
    ----------
    client : distributed.Client or None, default=None
        None looks at this process.
    every : float, default=0.5
        Seconds between two looks; doubled whenever 2,000 are kept. Workers tell their memory with their heartbeats, every
        half second where they are few.

    Yields
    ------
    MemoryTrace
        What is held by each process, to be drawn by `distrf.plot.MemoryDisplay`.
    """
    trace, stopped, start = MemoryTrace(), threading.Event(), time.perf_counter()

    def look() -> None:
        held = _held(client)
        if held:
            trace.add(round(time.perf_counter() - start, 3), held)

    def watch() -> None:
        wait = every
        look()
        while not stopped.wait(wait):
            look()
            if len(trace.seconds) >= _MOST:
                trace.halve()
                wait *= 2
        look()

    thread = threading.Thread(target=watch, name="distrf-memory", daemon=True)
    thread.start()
    try:
        yield trace
    finally:
        stopped.set()
        thread.join(timeout=10)


def _held(client: Any) -> dict[str, int]:
    """Bytes of each process now; nothing where the scheduler does not answer: a picture is no reason to fail."""
    try:
        if client is None:
            import psutil

            return {THIS_PROCESS: int(psutil.Process().memory_info().rss)}
        workers = client.scheduler_info(n_workers=-1)["workers"]
        return {
            name: int(worker["metrics"]["memory"]) for name, worker in workers.items() if "metrics" in worker
        }
    except Exception:  # whatever a scheduler that goes away leads to
        return {}
