"""Local workers for one measurement, and what they took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dask

import distrf
from benchmarks.benchmark import Record
from distrf.execution.workers import peak_memory

#: Bytes of memory of a worker.
LIMIT = 8 * 2**30


@contextmanager
def connected(workers: int, in_process: bool = False, limit: int | str | None = LIMIT) -> Iterator[Any]:
    """A fresh cluster of workers with one thread each: processes, or threads of this one, which start at once.

    limit : memory of a worker; None: an equal share of the machine; 0, of threads: none
    """
    if not in_process:
        with distrf.connect(memory_limit=limit, n_workers=workers) as client:
            yield client
        return
    from distributed import Client, LocalCluster

    options: dict[str, Any] = {"processes": False, "threads_per_worker": 1, "dashboard_address": ":0"}
    options |= {"memory_limit": "auto" if limit is None else limit, "silence_logs": 50}
    # 64 profilers in a process take as much as the work.
    with (
        dask.config.set({"distributed.worker.profile.enabled": False}),
        LocalCluster(n_workers=workers, **options) as cluster,
        Client(cluster) as client,
    ):
        yield client


def measured(client: Any, call: Callable[[], Any]) -> tuple[Record, Any]:
    """What a job took, and what it gave.

    "wall" seconds; processor seconds of this process ("client"), of the worker that took most ("worker"), and of all processes
    ("all"); "seconds": client and worker, the time of a machine with a core for each process, of which the client waits for the
    workers; "bytes": the largest size that a worker has had
    """
    before, own, began = client.run(time.process_time), time.process_time(), time.perf_counter()
    made = call()
    wall, own = time.perf_counter() - began, time.process_time() - own
    after = client.run(time.process_time)
    taken = [after[name] - before[name] for name in after]
    found = {"wall": wall, "client": own, "worker": max(taken), "all": own + sum(taken)}
    found["seconds"] = own + max(taken)
    return found | {"bytes": max(peak_memory(client).values())}, made
