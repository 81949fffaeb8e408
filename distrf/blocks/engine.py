"""Where tasks run: the active distributed client, or threads of this process."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import dask
import dask.system
from dask.delayed import Delayed
from distributed import WorkerPlugin, rejoin, secede, threadpoolexecutor, worker
from threadpoolctl import threadpool_limits

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # of glibc's malloc.h

#: Seconds whose profiles a worker keeps for the dashboard. Dask would keep 1,000: 27 KiB a second, two times over.
_PROFILES = 100
#: Seconds between two calls that return freed memory: each costs some 10 ms, with the pages that are then touched anew.
_RETURN_EVERY = 5.0

_prepared: weakref.WeakSet = weakref.WeakSet()


class _PreparedWorker(WorkerPlugin):
    """Settings of a worker process, made once when it starts.

    BLAS gets one thread: limits set per task race between threads. The allocator keeps what it frees: Dask's nanny sets
    MALLOC_TRIM_THRESHOLD_, with which glibc returns every scratch array beyond 128 KiB to the system and faults its
    pages in anew, and a map takes twice as long.
    """

    def setup(self, worker: Any) -> None:
        import scipy.linalg  # noqa: F401  a limit reaches only libraries that are loaded

        threadpool_limits(1)
        keep_freed_memory()
        for history in ("profile_history", "profile_keys_history"):
            setattr(worker, history, deque(getattr(worker, history, ()), maxlen=_PROFILES))


def keep_freed_memory() -> None:
    """glibc keeps up to 32 MiB of what arrays below 16 MiB have freed; larger ones return at once. Else no effect."""
    glibc = _glibc()
    if glibc is not None:
        glibc.mallopt(_M_ARENA_MAX, 1)  # each arena keeps its own
        glibc.mallopt(_M_TRIM_THRESHOLD, 32 * 2**20)
        glibc.mallopt(_M_MMAP_THRESHOLD, 16 * 2**20)


def return_freed_memory() -> None:
    """Return what has been freed between arrays in use, at most every five seconds; for tasks that leave such holes.

    A hole takes no array larger than itself, so the more arrays of several sizes come and go, the more holes there are.
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


def current_client() -> Any:
    """The distributed client that Dask would use now, or None."""
    if dask.config.get("scheduler", None) not in (None, "dask.distributed", "distributed"):
        return None
    from distributed import get_client

    try:
        client = get_client()
    except ValueError:
        return None
    if client not in _prepared:
        client.register_plugin(_PreparedWorker(), name="distrf-prepared-worker")
        _prepared.add(client)
    return client


def compute(task: Delayed, client: Any) -> Any:
    """The value of one task graph.

    Without a client it runs in a thread pool of this process, BLAS limited to one thread meanwhile:
    Dask owns parallelism.
    """
    if client is None:
        with threadpool_limits(1):
            return task.compute(optimize_graph=False)
    # Learned arrays are in the graph on purpose, once; Dask would advise against it from 10 MB on.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "64GiB"}):
        future = client.compute(task, optimize_graph=False)
    try:
        return gather(future, client)
    finally:
        future.release()


def compute_many(tasks: list[Delayed], client: Any) -> list[Any]:
    """Values without a client, finished futures with one."""
    if client is None:
        with threadpool_limits(1):
            return list(dask.compute(*tasks, optimize_graph=False))
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "64GiB"}):
        futures = client.compute(tasks, optimize_graph=False)
    settle(*futures)
    return futures


def settle(*futures: Any) -> None:
    """Wait for futures; raises what one of them has raised."""
    from distributed import wait

    with waiting():
        wait(futures)
    for future in futures:
        if future.status != "finished":
            future.result()


def results_in_order(
    function: Callable[..., Any], shared: Any, calls: Sequence[tuple[Any, ...]], client: Any
) -> Iterator[Any]:
    """function(shared, *call) for each call, as they finish but in order; `shared` travels once to each worker."""
    if client is None:
        with threadpool_limits(1), ThreadPoolExecutor(dask.system.CPU_COUNT) as pool:
            yield from pool.map(lambda call: function(shared, *call), calls)
        return
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "64GiB"}):
        held = client.submit(dict, shared, pure=False)
        futures = [client.submit(function, held, *call, pure=False) for call in calls]
    try:
        for future in futures:
            yield gather(future, client)
            future.release()
    finally:
        client.cancel([future for future in futures if not future.done()])
        for future in futures:
            future.release()
        held.release()


def merge_states(fold: Any, left: Any, right: Any, client: Any) -> Any:
    if client is None:
        return fold.merge(left, right)
    return client.submit(fold.merge, left, right, pure=False)


def gather(value: Any, client: Any) -> Any:
    """The value of a future; what is no future, without a client, is its own."""
    if client is None:
        return value
    with waiting():
        return value.result()


@contextmanager
def waiting() -> Iterator[None]:
    """Around every wait for tasks: where this is a task itself, they may need its thread, which it lends them meanwhile."""
    if not (
        hasattr(worker.thread_state, "execution_state") and hasattr(threadpoolexecutor.thread_state, "executor")
    ):
        yield
        return
    secede()
    try:
        yield
    finally:
        rejoin()
