"""Finds the stores and files that lazy arrays read, in their graphs; so that no output overwrites an input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..store import files, place_of_array
from ..store.file_lists import version_of
from .graph_nodes import DataNode


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

    Size, time and inode, or what an object store says: to read all bytes for it would take the client longer than the job.
    """
    places = ((name, *files.filesystem(name)) for name in graph_inputs(arrays))
    names = [name for name, fs, inner in places if fs.isfile(inner)]
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
    elif (place := place_of_array(value)) is not None:
        yield place
    else:
        inner = getattr(value, "args", value)  # of a task
        items = inner.values() if isinstance(inner, dict) else inner if isinstance(inner, tuple | list) else ()
        for item in items:
            yield from _paths_in(item)
