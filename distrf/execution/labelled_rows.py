"""Tables of which some rows have no target: the others as a table."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any

import dask.array as da
import numpy as np
from dask.base import is_dask_collection

from ..errors import InputError
from ..store.frames import present_rows
from ..store.table_codes import as_arrow
from ..store.table_schema import TableSchema
from .open_rows import open_column
from .open_table import Table, open_table
from .row_blocks import align_rows
from .scheduler import computed


def open_labelled(data: Any, target: str, **given: Any) -> tuple[Table, int]:
    """A table without its rows that have no target.

    Parameters
    ----------
    data : path, data frame, Arrow table or Dask DataFrame
    target : str
    **given : object
        Other options of `open_table`.

    Returns
    -------
    table : Table
    dropped : int
        Rows that have none: null, NaN or an empty text.

    Raises
    ------
    InputError
        As of `open_table`, or no row has a target.
    """
    if isinstance(data, (str, os.PathLike)):
        return _open_files(os.fspath(data), target, given)
    if is_dask_collection(data):
        lazy = {str(name): name for name in data.columns}
        missing = int(computed(data[lazy[target]].isna().sum())[0]) if target in lazy else 0
        rows = data.dropna(subset=[lazy[target]]) if missing else data
        return open_table(rows, target=target, **given), missing
    rows = as_arrow(data)
    left = present_rows(rows, target) if target in rows.column_names else rows
    _require_rows(len(left), target)
    return open_table(left, target=target, **given), len(rows) - len(left)


def _require_rows(n: int, target: str) -> None:
    if not n:
        raise InputError(f"no row has a target: column {target!r} is empty; give another target")


def _open_files(path: str, target: str, given: dict[str, Any]) -> tuple[Table, int]:
    exclude = None if given.get("columns") is not None else [*(given.get("exclude") or ()), target]
    table = open_table(path, **{**given, "exclude": exclude})
    kind = open_table(path, columns=[target]).schema.columns[0]
    if kind.base not in ("number", "boolean", "text"):
        raise InputError(f"a target is numbers, booleans or text; {target!r} has type {kind.arrow}")
    X = table.rows()
    y: Any = align_rows(X, open_column(path, target, columns=table.schema.names, coded=True), "the target")
    looked = computed(y.map_blocks(_look, chunks=((1,) * len(y.chunks[0]), (2,)), new_axis=1, dtype=np.int64))[
        0
    ]
    counts, width = tuple(looked[:, 0].tolist()), max(1, int(looked[:, 1].max()))
    n = sum(counts)
    _require_rows(n, target)
    place = _Present(table.place, y.map_blocks(_present, dtype=bool, meta=np.empty(0, bool)), counts)
    dtype = np.dtype(bool if kind.base == "boolean" else np.int64 if kind.whole else np.float64)
    dtype = np.dtype(f"<U{width}") if kind.base == "text" else dtype
    labelled: Any = place.kept(y)
    left = labelled.map_blocks(np.ndarray.astype, dtype, dtype=dtype, meta=np.empty(0, dtype))
    return replace(table, y=left, n=n, target=target, place=place), table.n - n


def _present(y: np.ndarray) -> np.ndarray:
    """Whether there are values. Runs on a worker."""
    return (
        np.array([v is not None and v == v and v != "" for v in y], bool)
        if y.dtype.kind == "O"
        else ~np.isnan(y)
    )


def _look(y: np.ndarray) -> np.ndarray:
    """How many values there are, and the letters of the longest text. Runs on a worker."""
    there = _present(y)
    longest = max(map(len, y[there]), default=0) if y.dtype.kind == "O" else 0
    return np.array([[there.sum(), longest]])


def _taken(values: np.ndarray, there: np.ndarray) -> np.ndarray:
    return values[np.ravel(there)]


@dataclass(frozen=True)
class _Present:
    """The rows of a table in files that have a target: how many of each block."""

    place: Any
    there: da.Array = field(repr=False)
    counts: tuple[int, ...]

    def rows(self, schema: TableSchema) -> da.Array:
        return self.kept(self.place.rows(schema))

    def sample(self, n_rows: int) -> Any:
        return self.place.sample(n_rows)

    def kept(self, values: da.Array) -> da.Array:
        """Those rows of lazy values; blocks without any are left out."""
        there = self.there.reshape((-1, *(1,) * (values.ndim - 1)))
        chunks = (self.counts, *values.chunks[1:])
        left = da.map_blocks(_taken, values, there, chunks=chunks, dtype=values.dtype, meta=values._meta)
        full = [i for i, count in enumerate(self.counts) if count]
        return left if len(full) == len(self.counts) else left.blocks[full]
