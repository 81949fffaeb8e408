"""Prepares the workers of a cluster, and its scheduler, before the first task of a job."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import time
import weakref
from collections import deque
from collections.abc import Collection
from contextlib import ExitStack
from typing import Any

import dask
from dask.utils import parse_timedelta
from distributed import SchedulerPlugin, WorkerPlugin

from .. import __version__
from ..errors import ClusterError
from .scheduler import ONE_BLAS_THREAD

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # of glibc's malloc.h

#: Seconds whose profiles a worker keeps for the dashboard. Dask would keep 1,000: 27 KiB a second, two times over.
_PROFILES = 100
#: Seconds between two calls that return freed memory. Each costs some 10 ms, page faults afterwards included.
_RETURN_EVERY = 5.0
#: Seconds without any worker that takes tasks after which a job ends, unless Dask's configuration sets `distrf.workers-timeout`.
WITHOUT_WORKERS = 300.0

# By default Dask checks 15 s after the loss of a local worker whether it is back, and if not, never restarts it. On a busy machine a
# restart takes longer. The scheduler of a local cluster runs in the process of the client.
dask.config.update_defaults({"distributed": {"deploy": {"lost-worker-timeout": "365 days"}}})


class PreparedWorker(WorkerPlugin):
    """Settings of a worker process while the worker is open: its process may be that of the client, and goes on.

    BLAS gets one thread here, because limits that each task sets would race between threads. The allocator keeps freed
    memory: Dask's nanny sets MALLOC_TRIM_THRESHOLD_, which makes glibc return every scratch array beyond 128 KiB to the
    system. Each new array then costs page faults, and a map takes twice as long. In the client's process no nanny has done so,
    and nothing could put it back.
    """

    name = "distrf-prepared-worker"

    def setup(self, worker: Any) -> None:
        import scipy.linalg  # noqa: F401  a limit reaches only libraries that are loaded

        self._settings = ExitStack()
        self._settings.enter_context(ONE_BLAS_THREAD)
        if not worker.address.startswith("inproc://"):
            keep_freed_memory()
        for history in ("profile_history", "profile_keys_history"):
            setattr(worker, history, deque(getattr(worker, history, ()), maxlen=_PROFILES))

    def teardown(self, worker: Any) -> None:
        self._settings.close()


def keep_freed_memory() -> None:
    """Tell glibc to keep up to 32 MiB of the memory that arrays below 16 MiB have freed.

    The memory of larger arrays still returns to the system at once. No effect with another C library.
    """
    glibc = _glibc()
    if glibc is not None:
        glibc.mallopt(_M_ARENA_MAX, 1)  # each arena keeps its own
        glibc.mallopt(_M_TRIM_THRESHOLD, 32 * 2**20)
        glibc.mallopt(_M_MMAP_THRESHOLD, 16 * 2**20)


def return_freed_memory() -> None:
    """Return freed memory that lies between arrays in use to the system, at most every five seconds.

    Tasks that make and free arrays of many sizes call this: they leave holes in the heap that are too small for the next
    array, so the process would grow.
    """
    glibc = _glibc()
    if glibc is not None and time.monotonic() - _returned[0] > _RETURN_EVERY:
        _returned[0] = time.monotonic()
        glibc.malloc_trim(0)


_returned = [0.0]


@functools.cache
def _glibc() -> Any:
    """The C library of this process where it is glibc, else None."""
    return ctypes.CDLL(None) if os.name == "posix" and platform.libc_ver()[0] == "glibc" else None


_prepared: weakref.WeakSet = weakref.WeakSet()


def prepare(client: Any) -> None:
    """Prepare the scheduler and the workers of a client, once.

    Parameters
    ----------
    client : distributed.Client

    Raises
    ------
    ClusterError
        A worker has another release of distrf.
    """
    check_release(client, client.nthreads())
    if client not in _prepared:
        patience = parse_timedelta(dask.config.get("distrf.workers-timeout", WITHOUT_WORKERS))
        client.register_plugin(_scheduling(patience), name="distrf-scheduling")
        client.register_plugin(PreparedWorker(), name=PreparedWorker.name)
        _prepared.add(client)


#: The workers whose release is known, by client.
_known: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()


def check_release(client: Any, names: Collection[str]) -> None:
    """Ask for the release of distrf on all workers, where some are new: another one might compute other numbers without any error.

    Each map compares a checksum of its weights besides, when a worker unpickles it.

    Raises
    ------
    ClusterError
        A worker has another release than the client, or no distrf; the message names it.
    """
    known = _known.setdefault(client, set())
    if known.issuperset(names):
        return
    found = client.get_versions(packages=["distrf"])
    for worker, has in sorted(found["workers"].items()):
        # None where none is installed, as here when the client runs from a folder of sources.
        if (other := has["packages"]["distrf"]) not in (__version__, found["client"]["packages"]["distrf"]):
            raise ClusterError(
                f"workers need the distrf of the client, {__version__}; the worker {worker} has "
                f"{f'distrf {other}' if other else 'no distrf'}. Install distrf=={__version__} in its environment (or "
                "its image), and start it anew"
            )
    known.update(found["workers"])


def _scheduling(patience: float) -> SchedulerPlugin:
    """A scheduler plugin, with three settings that a pass needs.

    No task is sent to a worker ahead of time, unless the user has set another `worker-saturation` than Dask's 1.1: with it a worker
    that is busy with a segment holds back sums that it was sent, and the states that they need pile up (13 on one of 16 workers; 3).

    A task that no worker can take now may later run on any worker. Dask runs a task with `allow_other_workers` elsewhere if its own
    worker is lost. But if no worker at all takes tasks when it becomes ready (all are lost, paused or still starting), the task waits
    for the address of its own worker, which may never come back.

    Tasks fail where no worker has taken one for so many seconds. By default they wait for ever, also if all workers have paused
    because their memory is full and nothing will free it.

    The class is defined in here so that it is pickled by value: a scheduler need not have distrf.
    """

    class Scheduling(SchedulerPlugin):
        idempotent = True

        async def start(self, scheduler: Any) -> None:
            self._tasks = scheduler.tasks
            if scheduler.WORKER_SATURATION == 1.1:
                scheduler.WORKER_SATURATION = 1.0
            if scheduler.no_workers_timeout is None:
                scheduler.no_workers_timeout = patience

        def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
            if finish == "no-worker" and self._tasks[key].loose_restrictions:
                self._tasks[key].worker_restrictions = None

    return Scheduling()


def peak_memory(client: Any) -> dict[str, int]:
    """The largest resident size of each worker process so far, in bytes. Workers that do not answer are left out."""
    answers = client.run(_peak_rss, on_error="return")
    return {str(k): int(v) for k, v in answers.items() if not isinstance(v, BaseException)}


def _peak_rss() -> int:
    import resource
    import sys

    if sys.platform == "linux":  # ru_maxrss starts at the size of the parent process
        with open("/proc/self/status") as status:
            return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
