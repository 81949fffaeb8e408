"""Where tasks run: the active distributed client, or threads of this process."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import dask
import dask.system
from dask.delayed import Delayed
from distributed import rejoin, secede, threadpoolexecutor, wait, worker
from threadpoolctl import threadpool_limits

from . import worker_checks
from .graph_nodes import DataNode, Task, TaskRef
from .submission import LARGE_GRAPHS, Submission
from .worker_checks import Watch
from .workers import prepare


def current_client() -> Any:
    """The distributed client that Dask would use now, or None."""
    if dask.config.get("scheduler", None) not in (None, "dask.distributed", "distributed"):
        return None
    from distributed import get_client

    try:
        client = get_client()
    except ValueError:
        return None
    with worker_checks.in_plain_words(client):
        prepare(client)
    return client


def computed(*collections: Any) -> tuple[Any, ...]:
    """The values of Dask collections.

    Raises
    ------
    ClusterError
        As of `compute`.
    """
    with worker_checks.in_plain_words(current_client()):
        return dask.compute(*collections)


def compute(task: Delayed, client: Any, watch: Watch | None = None) -> Any:
    """Compute one task graph and return its value.

    Without a client it runs in a thread pool of this process, with BLAS limited to one thread meanwhile, since Dask
    owns parallelism.

    Parameters
    ----------
    task : Delayed
    client : distributed.Client or None
    watch : Watch, optional
        Checks the workers, and says which ones may run the tasks.

    Returns
    -------
    object
        What the task returns.

    Raises
    ------
    ClusterError
        No worker is left, several workers died at the task, or the scheduler is lost.
    MemoryPlanError
        A worker ran out of memory.
    """
    if client is None:
        with one_blas_thread():
            return task.compute(optimize_graph=False)
    # The graph holds learned arrays once, on purpose. Without this setting Dask warns of graphs above 10 MB.
    with dask.config.set(LARGE_GRAPHS):
        future = client.compute(task, optimize_graph=False, workers=watch and watch.bound)
    try:
        return gather(future, watch)
    finally:
        future.release()


def settle(*futures: Any, watch: Watch | None = None) -> None:
    """Wait until futures are finished, and check the workers meanwhile (see worker_checks.py).

    Parameters
    ----------
    *futures : distributed.Future
    watch : Watch, optional

    Raises
    ------
    ClusterError
        No worker is left, several workers died at a task, or the scheduler is lost.
    MemoryPlanError
        A worker ran out of memory.
    Exception
        What a task raised.
    """
    with waiting(futures[0].client if futures else None):
        while futures:
            try:
                wait(futures, timeout=worker_checks.EVERY)
                break
            except TimeoutError:
                watch = watch or Watch(futures[0].client)
                watch.look()
    for future in futures:
        if future.status != "finished":
            with worker_checks.in_plain_words(future.client):  # raise what the task raised
                future.result()


def results_in_order(
    function: Callable[..., Any],
    shared: Any,
    calls: Sequence[tuple[Any, ...]],
    client: Any,
    workers: Iterable[str] = (),
    name: str = "call",
) -> Iterator[Any]:
    """Call a function many times in parallel and yield the results in the order of the calls.

    Parameters
    ----------
    function : callable
        Called as ``function(shared, *call)``.
    shared : object
        Travels once to each worker.
    calls : sequence of tuple
        The other arguments of each call.
    client : distributed.Client or None
    workers : iterable of str, optional
        Addresses of those that are called as long as one of them is there. Without any, all are.
    name : str, default="call"
        Of the tasks.

    Returns
    -------
    iterator
        One result for each call.
    """
    if client is None:
        with one_blas_thread(), ThreadPoolExecutor(dask.system.CPU_COUNT) as pool:
            yield from pool.map(lambda call: function(shared, *call), calls)
        return
    batch, data = Submission(name), f"{name}-data-{uuid.uuid4().hex}"
    tasks = [Task(f"{data}-{i}", function, TaskRef(data), *call) for i, call in enumerate(calls)]
    keys = [task.key for task in tasks]
    batch.add({data: DataNode(data, shared)} | {task.key: task for task in tasks}, 0, [*workers] or None, keys)
    futures = batch.submit(client)
    try:
        for key in keys:
            yield gather(futures[key])
            futures.pop(key).release()
    finally:
        with worker_checks.in_plain_words(client):
            client.cancel([future for future in futures.values() if not future.done()])
        for future in futures.values():
            future.release()


def gather(future: Any, watch: Watch | None = None) -> Any:
    """Wait for a future and return its value.

    Parameters
    ----------
    future : distributed.Future
    watch : Watch, optional

    Returns
    -------
    object

    Raises
    ------
    ClusterError, MemoryPlanError
        As of `settle`.
    """
    settle(future, watch=watch)
    with waiting(future.client):
        # `result` returns a copy. Inside a task, `client.gather` would return the very object that the worker holds.
        return future.result()


def gather_all(futures: Sequence[Any], client: Any) -> list[Any]:
    """Wait for futures and return their values.

    Parameters
    ----------
    futures : sequence of distributed.Future
    client : distributed.Client

    Returns
    -------
    list
        In the order of the futures.

    Raises
    ------
    ClusterError, MemoryPlanError
        As of `settle`.
    """
    settle(*futures)
    with waiting(client):
        return client.gather(list(futures))


@contextmanager
def waiting(client: Any) -> Iterator[None]:
    """Context of every wait for tasks; see `worker_checks.in_plain_words`.

    If the caller is itself a task, it gives up its thread while it waits, because the tasks that it waits for may need it.
    """
    with worker_checks.in_plain_words(client), ExitStack() as stack:
        if hasattr(worker.thread_state, "execution_state") and hasattr(
            threadpoolexecutor.thread_state, "executor"
        ):
            with suppress(KeyError):  # inside `worker_client` it has given it up before
                secede()
                stack.callback(rejoin)
        yield


_blas_lock, _blas_limits = threading.Lock(), list[Any]()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Context of work in threads of this process: BLAS has one thread until the last of those who want it so has ended."""
    with _blas_lock:
        _blas_limits.append(None if _blas_limits else threadpool_limits(1))
    try:
        yield
    finally:
        with _blas_lock:
            if len(_blas_limits) == 1:
                _blas_limits[0].restore_original_limits()
                _blas_limits.clear()
            else:
                _blas_limits.pop()  # the first, who knows the limits of before, stays
