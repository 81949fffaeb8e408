"""The workers that a job would get, before there are any."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..execution.memory import Workers

_LOG = logging.getLogger("distributed.worker.memory")


def running(cluster: str | os.PathLike[str] | None) -> bool:
    """Whether `cluster` is the address of a running scheduler, not a file that describes one to start."""
    return cluster is not None and "://" in os.fspath(cluster)


def planned_workers(
    cluster: str | os.PathLike[str] | None = None,
    memory_limit: str | int | None = None,
    tls: str | os.PathLike[str] | None = None,
) -> Workers:
    """The workers of the cluster that `distrf.connect` would give. A running cluster is asked, none is started.

    Parameters
    ----------
    cluster, memory_limit, tls : as `distrf.connect` takes them

    Returns
    -------
    Workers
        Their number, threads and memory limit; the limit is 0 if only the running cluster would tell it.
    """
    from ..execution.memory import Workers

    if cluster == "none" and memory_limit is None:
        return Workers.of_client(None)
    from dask.system import CPU_COUNT
    from distributed.worker_memory import parse_memory_limit

    from ..cluster import check_memory_limit, connect, local_arguments, read_cluster_spec

    check_memory_limit(memory_limit, cluster)
    if running(cluster):
        with connect(cluster, tls=tls) as client:
            return Workers.of_client(client)
    if cluster in (None, "local"):
        spec: dict[str, Any] = {"class": "LocalCluster", "arguments": local_arguments(memory_limit)}
    else:
        spec = read_cluster_spec(cluster)
    arguments = spec["arguments"]
    count = int(arguments.get("n_workers") or CPU_COUNT)
    threads = int(arguments.get("threads_per_worker") or 1)
    if not spec["class"].endswith("LocalCluster"):
        return Workers(count, threads, 0)  # the memory limit is known once the cluster runs
    limit = arguments.get("memory_limit", "auto")
    return Workers(count, threads, parse_memory_limit(limit, threads, count, logger=_LOG) or 0)
