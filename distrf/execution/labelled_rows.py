"""Tables of which some rows have no target: the others as a table."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
from dask.base import is_dask_collection

from ..errors import InputError
from ..store.frames import as_arrow, present_rows
from .labelled import block_values
from .open_rows import open_column
from .open_table import Table, open_table
from .row_blocks import align_rows
from .scheduler import computed


def open_labelled(data: Any, target: str, **given: Any) -> tuple[Table, int, np.ndarray | None]:
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
    kept : array of bool of shape (n,), or None
        Of rows in memory, which have one.

    Raises
    ------
    InputError
        As of `open_table`, or no row has a target.
    """
    if isinstance(data, (str, os.PathLike)):
        return *_open_files(os.fspath(data), target, given), None
    if is_dask_collection(data):
        found = [data[label] for label in data.columns if str(label) == target]
        absent = [column.isna() | column.eq("") for column in found]
        missing = int(sum(computed(*(rows.sum() for rows in absent))))
        return open_table(data[~absent[0]] if missing else data, target=target, **given), missing, None
    rows = as_arrow(data)
    if target not in rows.column_names:
        return open_table(rows, target=target, **given), 0, None  # which is an error
    kept = present_rows(rows, target)
    left = int(kept.sum())
    _require_rows(left, target)
    return open_table(rows.filter(kept), target=target, **given), len(rows) - left, kept


def _require_rows(n: int, target: str) -> None:
    if not n:
        raise InputError(f"no row has a target: column {target!r} is empty; give another target")


def _open_files(path: str, target: str, given: dict[str, Any]) -> tuple[Table, int]:
    if given.get("columns") is None and "schema" not in given:
        given = {**given, "exclude": [*(given.get("exclude") or ()), target]}
    table = open_table(path, **given)
    kind = open_table(path, columns=[target]).schema.columns[0]
    if kind.base not in ("number", "boolean", "text"):
        raise InputError(f"a target is numbers, booleans or text; {target!r} has type {kind.arrow}")
    y: Any = open_column(path, target, columns=table.schema.names, coded=True)
    y = align_rows(table.rows(), y, "the target")
    looked = np.array(block_values(_look, y))
    counts = looked[:, 0].tolist()
    n = sum(counts)
    _require_rows(n, target)
    present = y.map_blocks(_present, dtype=bool, meta=np.empty(0, bool)), counts
    left = replace(table, n=n, target=target, present=present)
    dtype: Any = bool if kind.base == "boolean" else np.int64 if kind.whole else np.float64
    if kind.base == "text":
        dtype = f"<U{max(1, looked[:, 1].max())}"
    return replace(left, y=left.labelled_rows(y).astype(dtype)), table.n - n


def _present(y: np.ndarray) -> np.ndarray:
    """Whether there are values. Runs on a worker."""
    return (
        np.array([v is not None and v == v and v != "" for v in y], bool)
        if y.dtype.kind == "O"
        else ~np.isnan(y)
    )


def _look(y: np.ndarray) -> tuple[int, int]:
    """How many values there are, and the letters of the longest text. Runs on a worker."""
    there = _present(y)
    longest = max(map(len, y[there]), default=0) if y.dtype.kind == "O" else 0
    return int(there.sum()), longest
