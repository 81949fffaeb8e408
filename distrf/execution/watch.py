"""What is watched while a job waits for its tasks: workers must be there, go on, and stay within their memory.

Dask waits for ever where no worker is left, and where one has paused for memory that nothing will free.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dask
from dask.utils import format_bytes, parse_timedelta
from distributed.scheduler import KilledWorker

from ..errors import ClusterError, MemoryPlanError

#: Seconds between two looks at the cluster; a wait that is shorter takes none.
EVERY = 2.0
#: Seconds without any worker after which a job ends; Dask's configuration `distrf.workers-timeout` goes before it.
WITHOUT_WORKERS = 300.0
#: Seconds for which all workers may be paused for memory with nothing left to run. Where only some are, the others go on,
#: and those may be paused for as long as a job may be without workers.
_PAUSED = 60.0
#: How many restarts for memory end a job. The first may be the fault of another job on the same worker.
_RESTARTS = 2


class WorkerMemoryError(MemoryPlanError):
    """A worker that ran out of memory amid a job, which its plan said would fit."""


class Watch:
    """Looks at the workers of a client from now on."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._begun = time.time() - EVERY
        self._since: dict[str, float] = {}  # what is wrong -> first seen

    def look(self) -> None:
        """Raise ClusterError where no worker comes back, WorkerMemoryError where one cannot go on for lack of memory."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        # Moments are of the scheduler's clock: so is that of the last heartbeat.
        now = max((worker["last_seen"] for worker in workers.values()), default=time.time())
        begun = now - (time.time() - self._begun)
        restarts = [
            event for moment, event in self._client.get_events("worker-restart-memory") if moment > begun
        ]
        if len(restarts) >= _RESTARTS:
            raise WorkerMemoryError(
                f"the worker {restarts[-1]['worker']} held {format_bytes(restarts[-1]['rss'])}, nearly all of its memory "
                f"limit, and was started anew; {len(restarts)} were since the job began to wait"
            )
        patience = parse_timedelta(dask.config.get("distrf.workers-timeout", WITHOUT_WORKERS))
        if not workers and self._lasts("", patience):
            raise ClusterError(
                f"no worker has been left for {patience:g} s; look in the workers' logs for why they ended. Where others "
                "come later than that, set distrf.workers-timeout in Dask's configuration, or wait.timeout in the cluster spec"
            )
        stuck = {address: worker for address, worker in workers.items() if _is_stuck(worker)}
        for address, worker in stuck.items():
            if self._lasts(address, _PAUSED if len(stuck) == len(workers) else patience):
                raise WorkerMemoryError(
                    f"the worker {address} holds {format_bytes(worker['metrics']['memory'])} of its "
                    f"{format_bytes(worker['memory_limit'])} and has paused: it takes no task"
                )
        self._since = {what: self._since[what] for what in (stuck if workers else [""])}

    def _lasts(self, what: str, seconds: float) -> bool:
        first = self._since.setdefault(what, time.monotonic())
        return time.monotonic() - first >= seconds


def _is_stuck(worker: Any) -> bool:
    """Paused, and nothing runs whose end might free memory."""
    counts = worker["metrics"].get("task_counts", {})
    return worker["status"] == "paused" and not counts.get("executing") and not counts.get("long-running")


@contextmanager
def in_plain_words() -> Iterator[None]:
    """Raise ClusterError for a task that took several workers with it."""
    try:
        yield
    except KilledWorker as error:
        raise ClusterError(
            f"{error.allowed_failures + 1} workers died one after the other at the same task, the last at "
            f"{error.last_worker.address}; look in their logs. Most often memory ran out: smaller blocks, fewer "
            "components or workers with more memory"
        ) from error
