"""Where tasks run: the active distributed client, or threads of this process; and what is said where Dask gives up."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ContextDecorator, ExitStack, contextmanager, suppress
from functools import cache
from typing import Any

import dask
import dask.system
from dask.delayed import Delayed
from threadpoolctl import ThreadpoolController

from ..errors import ClusterError, DistrfError, InputError

#: Bytes of rows up to which a job needs no workers where it would take them step by step: they take seconds to start, each message
#: to them milliseconds, and threads are no slower. With two workers for two threads, ridge at D = 2,048 took 20.1 s for 13.9, and 5
#: epochs of a support vector machine 204.8 s for 38.5. Of rows on a client, `distrf.small-rows` of Dask's configuration sets others.
SMALL_ROWS = 64 * 2**20
#: Graphs hold learned arrays once, on purpose. Without this setting Dask warns of those above 10 MB.
LARGE_GRAPHS = {"distributed.admin.large-graph-warning-threshold": "64GiB"}


def current_client() -> Any:
    """The distributed client that Dask would use now, or None. Raises InputError for one that cannot be waited for here."""
    named = dask.config.get("scheduler", None)
    # Who has a client has imported distributed: it takes as long as a small job.
    if named not in (None, "dask.distributed", "distributed") or "distributed" not in sys.modules:
        return None
    from distributed import get_client

    from .workers import prepare

    try:
        client = get_client()
    except ValueError:
        return None
    if client.asynchronous:
        raise InputError(
            "a job waits for its workers, and the Dask client is asynchronous; call in a thread, as by "
            "await asyncio.to_thread(model.fit, X, y), or make the Client without asynchronous=True"
        )
    with in_plain_words(client):
        prepare(client)
    return client


def workers_see(folder: str) -> bool:
    """Whether all workers see a folder that this process has made."""
    client = None
    with suppress(InputError):  # an asynchronous one is of who calls
        client = current_client()
    if client is None or type(client.cluster).__name__ == "LocalCluster":
        return True
    seen = client.run(os.path.isdir, folder)
    return bool(seen) and all(seen.values())


def computed(*collections: Any) -> tuple[Any, ...]:
    """The values of Dask collections.

    Without a client they are computed in a thread pool of this process, with BLAS limited to one thread meanwhile, since Dask
    owns parallelism.

    Raises
    ------
    ClusterError
        No worker is left, several workers died at a task, or the scheduler is lost.
    """
    client = current_client()
    alone: Any = ONE_BLAS_THREAD if client is None else dask.config.set(LARGE_GRAPHS)
    with alone, in_plain_words(client):
        return dask.compute(*collections)


def compute(task: Delayed, client: Any) -> Any:
    """The value of one task graph, as it is: of a client a copy, which has the same bits in whatever process it was made."""
    if client is None:
        with ONE_BLAS_THREAD:
            return task.compute(optimize_graph=False)
    with dask.config.set(LARGE_GRAPHS):
        future = client.compute(task, optimize_graph=False)
    try:
        return gather([future])[0]
    finally:
        future.release()


def gather(futures: Sequence[Any]) -> list[Any]:
    """Wait for futures and return their values.

    If the caller is itself a task, it gives up its thread while it waits, because the tasks that it waits for may need it.

    Parameters
    ----------
    futures : sequence of distributed.Future
        At least one.

    Returns
    -------
    list
        In the order of the futures.

    Raises
    ------
    ClusterError
        No worker takes tasks, several workers died at a task, or the scheduler is lost.
    Exception
        What a task raised.
    """
    from distributed import rejoin, secede, threadpoolexecutor, worker

    client = futures[0].client
    with in_plain_words(client), ExitStack() as stack:
        if hasattr(worker.thread_state, "execution_state") and hasattr(
            threadpoolexecutor.thread_state, "executor"
        ):
            with suppress(KeyError):  # inside `worker_client` it has given it up before
                secede()
                stack.callback(rejoin)
        # `result` returns a copy. Inside a task, `client.gather` would return the very object that the worker holds.
        return [futures[0].result()] if len(futures) == 1 else client.gather(list(futures))


@contextmanager
def in_plain_words(client: Any) -> Iterator[None]:
    """Context of what a client is asked: a ClusterError where no worker takes a task, several died at one, or the scheduler is lost.

    Of a lost scheduler Dask raises many things: cancelled futures, closed connections, attributes that are gone.
    """
    if client is None:
        yield
        return
    # A job in threads does without them.
    from distributed.scheduler import KilledWorker, NoValidWorkerError, NoWorkerError

    try:
        yield
    except DistrfError:
        raise
    except KilledWorker as error:
        raise ClusterError(
            f"{error.allowed_failures + 1} workers died one after the other at the same task, the last at "
            f"{error.last_worker.address}; look in their logs. Most often memory ran out: give workers more (memory_limit=), or "
            "take smaller blocks or fewer components; distrf.plan says what a worker needs"
        ) from error
    except (NoWorkerError, NoValidWorkerError) as error:  # the latter of tasks whose rows a worker holds, too
        raise ClusterError(
            f"no worker has taken a task for {error.timeout:g} s: none is left or may take it, or all have paused since their memory is "
            "full; look in their logs for why. Where others come later than that, set distrf.workers-timeout in Dask's configuration, or "
            "wait.timeout in the cluster spec"
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


class Shared(ContextDecorator):
    """A setting of this process while anybody is inside: the first who enters makes it, the last who leaves puts it back.

    Parameters
    ----------
    make : callable
        Makes the setting: a context manager.
    """

    def __init__(self, make: Callable[[], Any]):
        self._make, self._inside, self._lock, self._made = make, 0, threading.Lock(), ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._made.enter_context(self._make())
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._made.close()


#: The libraries with threads of their own. Finding them takes some 30 ms.
_libraries = cache(ThreadpoolController)
#: Context of work in threads of this process. Several may be at work, and the number of threads of BLAS is that of the process.
ONE_BLAS_THREAD = Shared(lambda: _libraries().limit(limits=1))
