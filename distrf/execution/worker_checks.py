"""Checks on the workers while the client waits for tasks. They end a job that could never finish.

Dask waits for ever if no worker is left, or if a worker has paused because its memory is full and nothing will free it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import dask
from dask.utils import format_bytes, parse_timedelta
from distributed.scheduler import KilledWorker

from ..errors import ClusterError, DistrfError, MemoryPlanError
from .progress import saw_workers
from .workers import check_release

#: Seconds between two checks. A wait that is shorter makes no check.
EVERY = 2.0
#: Seconds without any worker after which a job ends, unless Dask's configuration sets `distrf.workers-timeout`.
WITHOUT_WORKERS = 300.0
#: Seconds after which a job ends if all workers are paused with full memory and nothing runs. If only some are paused,
#: the others still work, so the job waits for `WITHOUT_WORKERS`.
_PAUSED = 60.0
#: A job ends after this many restarts of workers for lack of memory. One alone may be the fault of another job.
_RESTARTS = 2


class WorkerMemoryError(MemoryPlanError):
    """A worker ran out of memory during a job whose plan said that it would fit."""


class PlacementError(Exception):
    """A graph must be submitted anew, for other workers."""


def threads_and_limits(found: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """{address: (threads, memory limit in bytes, 0 for none)} of the workers that a scheduler tells of."""
    return {name: (w["nthreads"], w.get("memory_limit") or 0) for name, w in sorted(found.items())}


def able_workers(each: Mapping[str, tuple[int, int]], peak: int) -> dict[str, int]:
    """{address: threads} of the workers whose memory holds a peak of so many bytes.

    Parameters
    ----------
    each : {address: (threads, memory limit in bytes, 0 for none)}
    """
    return {name: threads for name, (threads, limit) in each.items() if not limit or limit >= peak}


class Watch:
    """Checks the workers of a client, and remembers since when something has been wrong.

    Parameters
    ----------
    client : distributed.Client
    needed : int, default=0
        Bytes that the job needs on a worker. Workers whose memory limit is below that get none of its tasks.
    workers : {address: (threads, memory limit in bytes, 0 for none)}, optional
        Those that there are.
    refuse : callable, optional
        Called where there are workers and none has been able to do the job since it began; it may raise an error.

    Attributes
    ----------
    bound : list of str or None
        Addresses of the workers that hold the job, where others do not. None: all do.
    """

    def __init__(
        self,
        client: Any,
        needed: int = 0,
        workers: Mapping[str, tuple[int, int]] = MappingProxyType({}),
        refuse: Callable[[], None] = lambda: None,
    ) -> None:
        self._client, self._needed, self._refuse = client, needed, refuse
        self._begun = time.time() - EVERY
        self._since: dict[str, float] = {}  # address of a stuck worker, or "" for no able worker -> first seen
        able = [*able_workers(workers, needed)]
        self.bound = able if 0 < len(able) < len(workers) else None
        self._was_able = not needed or bool(able)
        if workers:
            saw_workers(client, workers)

    def look(self) -> None:
        """Make one check.

        Raises
        ------
        ClusterError
            No worker comes back, or one that came has another release of distrf.
        WorkerMemoryError
            Memory ends the work of a worker.
        PlacementError
            The workers that the tasks are bound to are gone, or they are bound to none and a small one came.
        """
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        saw_workers(self._client, workers)
        check_release(self._client, workers)
        able = able_workers(threads_and_limits(workers), self._needed)
        if able and (len(able) < len(workers) if self.bound is None else not workers.keys() & {*self.bound}):
            raise PlacementError
        self._was_able |= bool(able)
        if workers and not self._was_able:
            self._refuse()
        # Events carry the time of the scheduler's clock, which may differ from ours. So does the last heartbeat.
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
        if not able and self._lasts("", patience):
            of = f" whose memory holds the {format_bytes(self._needed)} that the job needs" if workers else ""
            raise ClusterError(
                f"no worker{of} has been left for {patience:g} s; look in the workers' logs for why they ended. Where others "
                "come later than that, set distrf.workers-timeout in Dask's configuration, or wait.timeout in the cluster spec"
            )
        stuck = {address: worker for address, worker in workers.items() if _is_stuck(worker)}
        for address, worker in stuck.items():
            if self._lasts(address, _PAUSED if len(stuck) == len(workers) else patience):
                raise WorkerMemoryError(
                    f"the worker {address} holds {format_bytes(worker['metrics']['memory'])} of its "
                    f"{format_bytes(worker['memory_limit'])} and has paused: it takes no task"
                )
        self._since = {what: self._since[what] for what in [*stuck, *([] if able else [""])]}

    def _lasts(self, what: str, seconds: float) -> bool:
        first = self._since.setdefault(what, time.monotonic())
        return time.monotonic() - first >= seconds


def _is_stuck(worker: Any) -> bool:
    """Whether a worker is paused and runs no task whose end could free memory."""
    counts = worker["metrics"].get("task_counts", {})
    return worker["status"] == "paused" and not counts.get("executing") and not counts.get("long-running")


@contextmanager
def in_plain_words(client: Any) -> Iterator[None]:
    """Context of what a client is asked: a ClusterError where several workers died at one task, or the scheduler is lost.

    Of a lost scheduler Dask raises many things: cancelled futures, closed connections, attributes that are gone.
    """
    try:
        yield
    except DistrfError:
        raise
    except KilledWorker as error:
        raise ClusterError(
            f"{error.allowed_failures + 1} workers died one after the other at the same task, the last at "
            f"{error.last_worker.address}; look in their logs. Most often memory ran out: smaller blocks, fewer "
            "components or workers with more memory"
        ) from error
    except (Exception, asyncio.CancelledError) as error:
        if not _is_lost(client, isinstance(error, (OSError, CancelledError, asyncio.CancelledError))):
            raise
        raise ClusterError(
            f"the scheduler was lost while the job waited for it ({str(error) or type(error).__name__}); look in its log for why it "
            "ended, connect again, and repeat the call: what was written or is in a checkpoint is not made again"
        ) from error


def _is_lost(client: Any, likely: bool) -> bool:
    """Whether a client has no scheduler any more; where it is likely, the client gets a moment to notice."""
    until = time.monotonic() + likely
    while (status := getattr(client, "status", "running")) == "running" and time.monotonic() < until:
        time.sleep(0.05)
    return status != "running"
