"""Finds the stores and files that lazy arrays read, in their graphs; so that no output overwrites an input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..store import place_of_array


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
    paths = getattr(value, "paths", None)
    if isinstance(paths, tuple):  # of a RowReader
        yield from paths
    elif (place := place_of_array(value)) is not None:
        yield place
    elif isinstance(value, dict):
        for item in value.values():
            yield from _paths_in(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _paths_in(item)
    elif hasattr(value, "args"):  # a task
        yield from _paths_in(value.args)
    elif hasattr(value, "value") and hasattr(value, "key"):  # data in a graph
        yield from _paths_in(value.value)
