"""Where tasks run: the active distributed client, or threads of this process."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any

import dask
import dask.system
from dask.delayed import Delayed
from distributed import rejoin, secede, threadpoolexecutor, wait, worker
from threadpoolctl import threadpool_limits

from . import worker_checks
from .states import add_states
from .task_names import span_of
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


def compute(task: Delayed, client: Any) -> Any:
    """Compute one task graph and return its value.

    Without a client it runs in a thread pool of this process, with BLAS limited to one thread meanwhile, since Dask
    owns parallelism.

    Parameters
    ----------
    task : Delayed
    client : distributed.Client or None

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
        with threadpool_limits(1):
            return task.compute(optimize_graph=False)
    # The graph holds learned arrays once, on purpose. Without this setting Dask warns of graphs above 10 MB.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "64GiB"}):
        future = client.compute(task, optimize_graph=False)
    try:
        return gather(future, client)
    finally:
        future.release()


def compute_many(tasks: list[Delayed], client: Any) -> list[Any]:
    """Compute several tasks at once.

    Parameters
    ----------
    tasks : list of Delayed
    client : distributed.Client or None

    Returns
    -------
    list
        Values without a client, finished futures with one; in the order of the tasks.
    """
    if client is None:
        with threadpool_limits(1):
            return list(dask.compute(*tasks, optimize_graph=False))
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "64GiB"}):
        futures = client.compute(tasks, optimize_graph=False)
    try:
        settle(*futures)
    except BaseException:
        release(futures)
        raise
    return futures


def release(values: Iterable[Any]) -> None:
    """Let the cluster drop those of the values that are futures.

    Without it a notebook, which keeps the last error with all its frames, would keep them after an interrupt.
    """
    for value in values:
        if hasattr(value, "release"):
            value.release()


def settle(*futures: Any) -> None:
    """Wait until futures are finished, and check the workers meanwhile (see worker_checks.py).

    Parameters
    ----------
    *futures : distributed.Future

    Raises
    ------
    ClusterError
        No worker is left, several workers died at a task, or the scheduler is lost.
    MemoryPlanError
        A worker ran out of memory.
    Exception
        What a task raised.
    """
    watching = None
    with waiting(futures[0].client if futures else None):
        while futures:
            try:
                wait(futures, timeout=worker_checks.EVERY)
                break
            except TimeoutError:
                watching = watching or worker_checks.Watch(futures[0].client)
                watching.look()
    for future in futures:
        _raise_failure(future)


class Results:
    """Futures as they finish, while the workers are checked (see worker_checks.py).

    Parameters
    ----------
    client : distributed.Client
    needed : int, default=0
        Bytes that the tasks need on a worker.
    """

    def __init__(self, client: Any, needed: int = 0):
        self._client, self._needed = client, needed
        self._futures: dict[Any, Any] = {}
        self._finished: SimpleQueue[Any] = SimpleQueue()
        self._watch: worker_checks.Watch | None = None
        self._look = time.monotonic() + worker_checks.EVERY

    def expect(self, futures: Mapping[Any, Any]) -> None:
        """Add futures, by key."""
        self._futures |= futures
        for key, future in futures.items():
            future.add_done_callback(lambda _, key=key: self._finished.put(key))

    def wait(self, seconds: float = 1.0) -> list[Any]:
        """The keys that have finished since the last call; none where nothing does for so many seconds.

        Raises what `settle` raises.
        """
        keys = []
        with waiting(self._client):
            with suppress(Empty):
                keys.append(self._finished.get(timeout=seconds))
                while True:
                    keys.append(self._finished.get_nowait())
            if time.monotonic() > self._look:
                self._watch = self._watch or worker_checks.Watch(self._client, self._needed)
                self._watch.look()
                self._look = time.monotonic() + worker_checks.EVERY
        for key in keys:
            if key in self._futures:
                _raise_failure(self._futures[key])
        return keys

    def value(self, key: Any) -> Any:
        """The result of a future that has finished."""
        return gather(self._futures[key], self._client)

    def release(self, keys: Iterable[Any]) -> None:
        """Let the cluster drop results."""
        for key in keys:
            self._futures.pop(key).release()

    def close(self) -> None:
        """Let the cluster drop everything."""
        self.release(list(self._futures))


def _raise_failure(future: Any) -> None:
    """Raise what a task raised, in plain words."""
    if future.status != "finished":
        with worker_checks.in_plain_words(future.client):
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
        with threadpool_limits(1), ThreadPoolExecutor(dask.system.CPU_COUNT) as pool:
            yield from pool.map(lambda call: function(shared, *call), calls)
        return
    token, large = uuid.uuid4().hex, {"distributed.admin.large-graph-warning-threshold": "64GiB"}
    with dask.config.set(large), dask.annotate(span=span_of(name)):
        where = {"workers": [*workers], "allow_other_workers": True} if workers else {}
        held = client.submit(dict, shared, key=f"{name}-data-{token}", pure=False, **where)
        futures = [
            client.submit(function, held, *call, key=f"{name}-{token}-{i}", pure=False, **where)
            for i, call in enumerate(calls)
        ]
    try:
        for future in futures:
            yield gather(future, client)
            future.release()
    finally:
        with worker_checks.in_plain_words(client):
            client.cancel([future for future in futures if not future.done()])
        for future in futures:
            future.release()
        held.release()


def merge_states(reduction: Any, left: Any, right: Any, client: Any, name: str) -> Any:
    """The sum of two states of a reduction, left before right.

    Parameters
    ----------
    reduction : Reduction
    left, right : state, or a future of one with a client
    client : distributed.Client or None
    name : str
        Of the pass.

    Returns
    -------
    state, or a future of one with a client
    """
    if client is None:
        return add_states(reduction, left, right)
    return client.submit(add_states, reduction, left, right, key=f"{name}-sum-{uuid.uuid4().hex}", pure=False)


def gather(value: Any, client: Any) -> Any:
    """Wait for a future and return its value. Without a client `value` is no future, and is returned as it is.

    Parameters
    ----------
    value : distributed.Future, or any value without a client
    client : distributed.Client or None

    Returns
    -------
    object

    Raises
    ------
    ClusterError, MemoryPlanError
        As of `settle`.
    """
    if client is None:
        return value
    settle(value)
    with waiting(client):
        # `result` returns a copy. Inside a task, `client.gather` would return the very object that the worker holds.
        return value.result()


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
            secede()
            stack.callback(rejoin)
        yield
