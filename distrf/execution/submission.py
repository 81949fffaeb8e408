"""Tasks that the client sends to the scheduler in one message, each with the worker that should run it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dask
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

from .task_names import span_of

#: Graphs hold learned arrays once, on purpose. Without this setting Dask warns of those above 10 MB.
LARGE_GRAPHS = {"distributed.admin.large-graph-warning-threshold": "64GiB"}


class Submission:
    """Collects tasks and sends them in one message, because a message costs the scheduler as much as several tasks.

    Parameters
    ----------
    phase : str
        Name of the phase that they belong to: Dask sums up their time and memory in a span of that name.
    """

    def __init__(self, phase: str) -> None:
        self._span = span_of(phase)
        self._layers: dict[str, MaterializedLayer] = {}
        self.keep: list[Any] = []

    def add(
        self,
        graph: dict[Any, Any],
        priority: int = 0,
        worker: str | Sequence[str] | None = None,
        keep: Iterable[Any] = (),
    ) -> None:
        """Add tasks.

        Parameters
        ----------
        graph : dict
            Tasks by key.
        priority : int
            Higher ones run first.
        worker : str or sequence of str, optional
            Address of the worker that should run them, or of several of which any may; if they are lost, any other may.
        keep : iterable of keys
            Results to hold on the cluster until their futures are released. All others are dropped after their last use.
        """
        notes: dict[str, Any] = {"priority": priority, "span": self._span}
        if worker is not None:
            workers = [worker] if isinstance(worker, str) else list(worker)
            notes |= {"workers": workers, "allow_other_workers": True}
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
        with dask.config.set(LARGE_GRAPHS):
            futures = client.get(graph, self.keep, sync=False)
        return dict(zip(self.keep, futures, strict=True))


def threads_of(workers: Mapping[str, int]) -> list[str]:
    """The address of the worker of each thread, the first thread of every worker before the second of any.

    Parameters
    ----------
    workers : {address: threads}

    Returns
    -------
    list of str
        One address for each thread.
    """
    most = max(workers.values(), default=0)
    return [worker for t in range(most) for worker, threads in sorted(workers.items()) if threads > t]
