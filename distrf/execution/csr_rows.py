"""Bytes of lazy CSR rows: their store knows how many entries they have, a Dask array does not."""

from __future__ import annotations

import functools

import dask.array as da

from ..store.row_source import RowSource

#: Blocks of CSR rows may have so many times the bytes of an average block.
_UNEVEN = 2.0
#: Sources of CSR rows by the name of their array, and how many are remembered.
_SOURCES: dict[str, RowSource] = {}
_REMEMBERED = 64


def csr_row_bytes(stored: float, dense: float) -> int:
    """Bytes to count for a CSR row.

    Parameters
    ----------
    stored : float
        Mean bytes of a row in its store; 0 where they are not known.
    dense : float
        Bytes of all its columns.
    """
    return int(min(_UNEVEN * stored, dense)) or int(dense)


def note_source(name: str, source: RowSource) -> None:
    """Remember which rows a lazy array of this name reads, so that its CSR rows can be counted."""
    _SOURCES[name] = source
    while len(_SOURCES) > _REMEMBERED:
        del _SOURCES[next(iter(_SOURCES))]


def stored_row_bytes(X: da.Array) -> float:
    """Mean bytes in memory of a lazy CSR row, as its store says; 0 for rows that are not from a store, or have other columns."""
    found = [name for name in X.dask.layers if name in _SOURCES]
    if not found or any(_SOURCES[name].shape[1] != X.shape[1] for name in found):
        return 0.0
    return sum(_nbytes(name) for name in found) / max(1, sum(_SOURCES[name].shape[0] for name in found))


@functools.lru_cache(maxsize=_REMEMBERED)
def _nbytes(name: str) -> int:
    """Bytes in memory of a source, for which some of its blocks are looked at once. Other rows have another name."""
    return _SOURCES[name].nbytes
