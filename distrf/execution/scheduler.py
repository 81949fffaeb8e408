"""Where tasks run: the active distributed client, or threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import dask
import dask.system
from dask.delayed import Delayed
from distributed import rejoin, secede, threadpoolexecutor, wait, worker
from threadpoolctl import threadpool_limits

from . import watch
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
    prepare(client)
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
    """Wait for futures; raises what one of them has raised, and what `Watch` sees meanwhile."""
    watching = None
    with waiting():
        while futures:
            try:
                wait(futures, timeout=watch.EVERY)
                break
            except TimeoutError:
                watching = watching or watch.Watch(futures[0].client)
                watching.look()
    for future in futures:
        if future.status != "finished":
            with watch.in_plain_words():
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


def merge_states(reduction: Any, left: Any, right: Any, client: Any) -> Any:
    if client is None:
        return reduction.combine(left, right)
    return client.submit(reduction.combine, left, right, pure=False)


def gather(value: Any, client: Any) -> Any:
    """The value of a future; what is no future, without a client, is its own."""
    if client is None:
        return value
    settle(value)
    with waiting(), watch.in_plain_words():
        return value.result()  # a copy, where `gather` inside a task takes what the worker holds as it lies


def gather_all(futures: Sequence[Any], client: Any) -> list[Any]:
    """The values of futures."""
    settle(*futures)
    with waiting(), watch.in_plain_words():
        return client.gather(list(futures))


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
