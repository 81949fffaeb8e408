"""The nodes of Dask graphs: the one place that imports them, since Dask keeps their module private.

Public constructors (`dask.delayed`, tuples) make graphs that Dask converts to these nodes and scans for keys. We write
the nodes themselves, so that a packed segment is not scanned and a reference to another task is explicit.
"""

from __future__ import annotations

from dask._task_spec import Alias, DataNode, GraphNode, Task, TaskRef, convert_legacy_graph

__all__ = [
    "PRODUCER",
    "Alias",
    "DataNode",
    "GraphNode",
    "Task",
    "TaskRef",
    "as_producer",
    "convert_legacy_graph",
]

#: The attribute of a task, and the option of a layer, that marks producers of data.
PRODUCER = "_data_producer"


def as_producer(task: Task) -> Task:
    """The task, marked as a producer of data: Dask then queues it whatever it depends on, until a thread is free."""
    setattr(task, PRODUCER, True)
    return task
