"""Where tasks run: the active distributed client, or threads of this process."""

from __future__ import annotations

import weakref
from typing import Any

import dask
from dask.delayed import Delayed
from distributed import WorkerPlugin
from threadpoolctl import threadpool_limits

_prepared: weakref.WeakSet = weakref.WeakSet()


class _OneBlasThread(WorkerPlugin):
    """Limits BLAS to one thread when a worker starts, once: limits set per task race between threads."""

    def setup(self, worker: Any) -> None:
        import scipy.linalg  # noqa: F401  a limit reaches only libraries that are loaded

        threadpool_limits(1)


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
        client.register_plugin(_OneBlasThread(), name="distrf-one-blas-thread")
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
        return future.result()
    finally:
        future.release()


def compute_many(tasks: list[Delayed], client: Any) -> list[Any]:
    """Values without a client, finished futures with one."""
    if client is None:
        with threadpool_limits(1):
            return list(dask.compute(*tasks, optimize_graph=False))
    from distributed import wait

    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "64GiB"}):
        futures = client.compute(tasks, optimize_graph=False)
    wait(futures)
    for future in futures:
        if future.status == "error":
            future.result()
    return futures


def merge_states(fold: Any, left: Any, right: Any, client: Any) -> Any:
    if client is None:
        return fold.merge(left, right)
    return client.submit(fold.merge, left, right, pure=False)


def gather(value: Any, client: Any) -> Any:
    return value if client is None else value.result()
