"""Checks on the workers while the client waits for tasks, and what it says where Dask gives up.

Dask waits for ever if no worker is left, or if all have paused because their memory is full and nothing will free it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

import dask
from dask.utils import format_bytes, parse_timedelta

from ..errors import ClusterError, DistrfError

#: Seconds between two checks. A wait that is shorter makes no check.
EVERY = 2.0
#: Seconds without any worker that works after which a job ends, unless Dask's configuration sets `distrf.workers-timeout`.
WITHOUT_WORKERS = 300.0


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


class WorkersFail(ClusterError):
    """Workers died or paused: most often memory ran out."""


class Watch:
    """Checks the workers of a client, and remembers since when none has worked."""

    def __init__(self, client: Any) -> None:
        self._client, self._since = client, time.monotonic()

    def look(self) -> None:
        """Make one check.

        Raises
        ------
        ClusterError
            No worker comes back or takes tasks again, or one that came has another release of distrf.
        """
        from .workers import check_release

        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        check_release(self._client, workers)
        patience = parse_timedelta(dask.config.get("distrf.workers-timeout", WITHOUT_WORKERS))
        if any(map(_works, workers.values())):
            self._since = time.monotonic()
        elif time.monotonic() - self._since >= patience:
            paused = [
                f"{name} holds {format_bytes(worker['metrics']['memory'])} of its {format_bytes(worker['memory_limit'])}"
                for name, worker in sorted(workers.items())
            ]
            raise WorkersFail(
                f"no worker has taken a task for {patience:g} s: "
                + (f"all have paused ({'; '.join(paused[:3])})" if paused else "none is left")
                + "; look in the workers' logs for why. Where others come later than that, set distrf.workers-timeout in Dask's "
                "configuration, or wait.timeout in the cluster spec"
            )


def _works(worker: Any) -> bool:
    """Whether a worker takes tasks, or runs some whose end may free memory."""
    counts = worker["metrics"].get("task_counts", {})
    return worker["status"] != "paused" or counts.get("executing", 0) + counts.get("long-running", 0) > 0


@contextmanager
def in_plain_words(client: Any) -> Iterator[None]:
    """Context of what a client is asked: a ClusterError where several workers died at one task, or the scheduler is lost.

    Of a lost scheduler Dask raises many things: cancelled futures, closed connections, attributes that are gone.
    """
    if client is None:
        yield
        return
    from distributed.scheduler import KilledWorker  # which a job in threads does without

    try:
        yield
    except DistrfError:
        raise
    except KilledWorker as error:
        raise WorkersFail(
            f"{error.allowed_failures + 1} workers died one after the other at the same task, the last at "
            f"{error.last_worker.address}; look in their logs. Most often memory ran out"
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
