"""Tasks that are sent to the scheduler together, each to the worker it is meant for."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

import dask
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

#: The span (Dask's word) under which the scheduler counts what our tasks take, unless the caller names one. Without it the
#: scheduler begins a new span each time all tasks are done, and a worker keeps the counts of each for as long as it lives:
#: 3,400 counts after 1,100 batches, 40 with this one.
_SPAN = {"name": ("distrf",), "ids": (str(uuid.uuid4()),)}


class Submission:
    """Tasks that are sent to the scheduler together, since a message costs it as much as several tasks."""

    def __init__(self) -> None:
        self._layers: dict[str, MaterializedLayer] = {}
        self.keep: list[Any] = []

    def add(
        self, graph: dict[Any, Any], priority: int = 0, worker: str | None = None, keep: Iterable[Any] = ()
    ) -> None:
        """Add tasks.

        Parameters
        ----------
        graph : dict
            Tasks by key.
        priority : int
            Higher ones run first.
        worker : str, optional
            Address of the worker that runs them while it lives.
        keep : iterable of keys
            Results that stay until their futures are released.
        """
        notes: dict[str, Any] = {"priority": priority, "span": dask.get_annotations().get("span", _SPAN)}
        if worker is not None:
            notes |= {"workers": [worker], "allow_other_workers": True}
        self._layers[str(len(self._layers))] = MaterializedLayer(graph, annotations=notes)
        self.keep.extend(keep)

    def submit(self, client: Any) -> dict[Any, Any]:
        """Send all tasks to the scheduler in one message.

        Parameters
        ----------
        client : distributed.Client

        Returns
        -------
        dict
            Future of each result that is kept, by key.
        """
        if not self._layers:
            return {}
        graph = HighLevelGraph(self._layers, {name: set() for name in self._layers})
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "64GiB"}):
            futures = client.get(graph, self.keep, sync=False)
        return dict(zip(self.keep, futures, strict=True))


def threads_of(client: Any) -> list[str]:
    """The worker of each thread of a cluster, neighbours on different workers.

    Parameters
    ----------
    client : distributed.Client

    Returns
    -------
    list of str
        One address for each thread.
    """
    workers = sorted(client.nthreads().items())
    most = max((threads for _, threads in workers), default=0)
    return [worker for t in range(most) for worker, threads in workers if threads > t]
