"""Workers for one measurement, and what they took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import distrf
from benchmarks.benchmark import Record
from distrf.execution.workers import peak_memory

#: Bytes of memory of a worker.
LIMIT = 8 * 2**30


@contextmanager
def connected(workers: int, in_process: bool = False) -> Iterator[Any]:
    """A fresh cluster of workers with one thread each: processes, or threads of this one, which start at once."""
    if not in_process:
        with distrf.connect(memory_limit=LIMIT, n_workers=workers) as client:
            yield client
        return
    from distributed import Client, LocalCluster

    options: dict[str, Any] = {"processes": False, "dashboard_address": ":0", "memory_limit": LIMIT}
    with LocalCluster(n_workers=workers, threads_per_worker=1, **options) as cluster, Client(cluster) as client:
        yield client


def measured(client: Any, call: Callable[[], Any]) -> tuple[Record, Any]:
    """What a job took, and what it gave.

    "wall" seconds; processor seconds of this process ("client"), and of the worker that took most ("worker"); their sum "seconds":
    the time of a machine with a core for each process, of which the client waits for the workers; "bytes": the largest size that a
    worker has had
    """
    before, own, began = client.run(time.process_time), time.process_time(), time.perf_counter()
    made = call()
    wall, own = time.perf_counter() - began, time.process_time() - own
    after = client.run(time.process_time)
    worker = max(after[name] - before[name] for name in after)
    bytes_ = max(peak_memory(client).values())
    return {"seconds": own + worker, "wall": wall, "client": own, "worker": worker, "bytes": bytes_}, made
