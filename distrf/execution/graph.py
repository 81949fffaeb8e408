"""What the graphs of this package are made of: Dask's nodes, names of tasks, what tasks were given, and what an array reads.

The one file that imports the nodes of Dask, since Dask keeps their module private. Public constructors (`dask.delayed`, tuples)
make graphs that Dask converts to these nodes and scans for keys. We write the nodes themselves, so that a packed segment is not
scanned and a reference to another task is explicit.

Dask's dashboard groups tasks by the words before the first word of a key with a digit. So the key of a task is the name of its
phase, what the task does, and numbers: `gram-sum-<hex>-0-2` is a `gram-sum`. The scheduler also estimates run times by these names.
"""

from __future__ import annotations

import re
import sys
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import dask
import numpy as np
import scipy.sparse as sp
from dask._task_spec import Alias, DataNode, GraphNode, Task, TaskRef, convert_legacy_graph
from dask.utils import key_split

from .. import store
from ..progress import split_label
from ..store import files
from ..store.file_lists import version_of

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
#: The span of all phases, unless the caller is in a span.
_ROOT = {"name": ("distrf",), "ids": (str(uuid.uuid4()),)}


def as_producer(task: Task) -> Task:
    """The task, marked as a producer of data: Dask then queues it whatever it depends on, until a thread is free."""
    setattr(task, PRODUCER, True)
    return task


def task_name(label: str) -> str:
    """The name of the tasks of a phase: the words of its label, which Dask keeps whole.

    Parameters
    ----------
    label : str
        As in progress displays, with or without a remark.

    Returns
    -------
    str
        Small letters, words joined by "-". Dask takes a word of eight letters from a to f on for a number, unless it is joined
        by "_".

    Examples
    --------
    >>> task_name("gradient|loss 0.01"), task_name("featurize alternating_circulant")
    ('gradient', 'featurize-alternating-circulant')
    """
    words = re.findall("[a-z]+", split_label(label)[0].lower()) or ["pass"]
    name = "-".join(words)
    return name if key_split(name) == name else "_".join(words)


def span_of(name: str) -> dict[str, Any]:
    """The annotation that puts tasks into the span of a phase, below the span of the caller or below "distrf".

    A phase has the same span however often it runs. Otherwise the scheduler and the workers would keep counts of each batch of
    SGD while they live: 3,400 counts after 1,100 batches, against 40.

    Parameters
    ----------
    name : str
        Of `task_name`.

    Returns
    -------
    dict
        For ``dask.annotate(span=...)``, as `distributed.span` makes it.
    """
    above = dask.get_annotations().get("span") or _ROOT
    own = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{above['ids'][-1]}/{name}"))
    return {"name": (*above["name"], name), "ids": (*above["ids"], own)}


def aligned(value: Any) -> Any:
    """The value with every array in it aligned and contiguous, copied where it must be; lists, tuples, dictionaries and CSR included.

    An array that came over a network lies at any byte offset, and one that was a view has become contiguous. NumPy
    multiplies unaligned arrays and views on other paths, with other rounding: the same values, other last bits, and results
    that depend on what travelled. Every task passes what it was given through this before it computes.
    """
    if isinstance(value, np.ndarray):
        if not value.flags.forc:
            return np.ascontiguousarray(value)
        return value if value.flags.aligned else value.copy(order="K")
    if sp.issparse(value):
        parts = (value.data, value.indices, value.indptr)
        if all(part.flags.aligned for part in parts):
            return value
        return type(value)(tuple(aligned(part) for part in parts), shape=value.shape, copy=False)
    if type(value) is tuple or type(value) is list:
        items = [aligned(item) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else type(value)(items)
    if type(value) is dict:
        return {key: aligned(item) for key, item in value.items()}
    return value


def graph_inputs(arrays: Iterable[Any]) -> list[str]:
    """Paths of the stores and files that lazy arrays read: of `open_rows` and of Dask's own ``from_zarr``.

    Parameters
    ----------
    arrays : iterable of Dask arrays
        Other values are skipped.

    Returns
    -------
    list of str
        Each path once.
    """
    return list(dict.fromkeys(_inputs(arrays)))


def input_version(arrays: Iterable[Any]) -> dict[str, str]:
    """{"version": a text that changes when a file that lazy arrays read is written anew}; {} where they read stores alone, which tell.

    Size and time, or what an object store says: to read all bytes for it would take the client longer than the job.
    """
    names = [name for name in graph_inputs(arrays) if files.is_file(name)]
    return {"version": version_of(names)} if names else {}


def reads_files(array: Any) -> bool:
    """Whether a lazy array reads a store or a file. Looks no further than the first."""
    return next(_inputs([array]), None) is not None


def _inputs(arrays: Iterable[Any]) -> Iterator[str]:
    """Paths that lazy arrays read, as often as their graphs have them."""
    for array in arrays:
        for layer in getattr(getattr(array, "dask", None), "layers", {}).values():  # others are refused later
            # A Blockwise layer lists what its tasks read. Iterating over its tasks would create all of them.
            dependencies = getattr(layer, "io_deps", None)
            for task in layer.values() if dependencies is None else dependencies.values():
                yield from _paths_in(getattr(task, "readers", getattr(task, "mapping", task)))


def _paths_in(value: Any) -> Iterator[str]:
    if isinstance(value, DataNode):
        value = value.value
    if isinstance(getattr(value, "paths", None), tuple):  # of a RowReader
        yield from value.paths
    elif "zarr" in sys.modules and (place := store.place_of_array(value)) is not None:
        yield place
    else:
        inner = getattr(value, "args", value)  # of a task
        items = inner.values() if isinstance(inner, dict) else inner if isinstance(inner, tuple | list) else ()
        for item in items:
            yield from _paths_in(item)


def stored_row_bytes(X: Any) -> float:
    """Mean bytes in memory of a CSR row, of a lazy one as its store says; 0 for rows that are not from a store, or have other columns."""
    if sp.issparse(X):
        return (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / max(1, X.shape[0])
    deps = [dep for layer in X.dask.layers.values() for dep in getattr(layer, "io_deps", {}).values()]
    found = [dep for dep in deps if getattr(dep, "csr_nbytes", None) is not None]
    if not found or any(dep.shape[1] != X.shape[1] for dep in found):
        return 0.0
    return sum(dep.csr_nbytes for dep in found) / max(1, sum(dep.shape[0] for dep in found))
