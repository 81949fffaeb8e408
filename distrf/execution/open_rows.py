"""`open_rows`: rows of any format as lazy Dask arrays, one task a block."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp

from ..errors import InputError
from ..parameters import COLUMNS, NONE, ruled, whole
from ..store import csv_source
from ..store.csv_format import reads_csv
from ..store.formats import open_source
from ..store.row_source import RowSource, Selection
from ..store.table_source import TableSource
from .labelled import noted
from .row_blocks import lazy_blocks
from .scheduler import workers_see

csv_source.workers_see = workers_see


@reads_csv
@ruled(columns=COLUMNS, rows_per_block=whole(1) | NONE)
def open_rows(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    weight: str | None = None,
    columns: Sequence[str] | Sequence[int] | None = None,
    rows_per_block: int | None = None,
) -> tuple[Any, ...]:
    """Open rows lazily.

    Parameters
    ----------
    path : str or PathLike
        A Zarr store of distrf; another Zarr group with an array X of numbers, or one array; Parquet or CSV: a file, a
        folder, a glob; a file of NumPy (.npy, .npz) or svmlight. It may be a URL.
    target : str or None, default=None
        The column (Parquet, CSV) or array (Zarr) of targets. None is the array "y", where there is one.
    weight : str or None, default=None
        The column (Parquet) or array (Zarr) of the weights of the rows, which is no column of X. Of Zarr also a named
        column. None weighs all alike.
    columns : sequence of str or int, or None, default=None
        Columns of X in this order, by name or, for Zarr, by number. None takes all; of a table all but the target.
    rows_per_block : int or None, default=None
        Wanted size, at least 1. Zarr: whole chunks near it. Parquet, CSV: row groups are merged or cut to come near it. None
        is the block of the store, else near 32 MiB of X.
    {csv}

    Returns
    -------
    X : Dask array of shape (n, d)
        Missing values are NaN. Blocks are ``csr_array`` for CSR stores.
    y : Dask array of shape (n,) or (n, t), or None
        Text classes as fixed-width unicode.
    weight : Dask array of shape (n,)
        Only returned if `weight` names it; for `sample_weight`.

    Raises
    ------
    StoreError
        Nothing can be read at the path, or it is not complete.
    InputError
        There are no such columns, or a target is missing.

    Notes
    -----
    Keys change when a store is made anew or the files of a Parquet data set change. Chunks of a Zarr array of others that are
    rewritten in place do not change them. Arrays that are packed or masked by the CF conventions (``scale_factor``,
    ``_FillValue``, ...) are refused.
    """
    selection = Selection(
        target=target,
        columns=None if columns is None else list(columns),  # an array has no truth value
        rows_per_block=rows_per_block,
    )
    _, *rows = open_place(path, selection, weight)
    return tuple(rows[:2] if weight is None else rows)


def open_place(path: str | os.PathLike[str], selection: Selection, weight: str | None) -> tuple[Any, ...]:
    """What opens the rows, and lazily X, y and weights, as of `open_rows`; of all columns the excluded ones are none of X."""
    source, weights = open_source(path, selection), None
    if weight is not None:
        weights = _column_of_weights(source, weight, selection)
    if hidden := {weight, *selection.exclude}.intersection(source.columns or ()):
        left = [name for name in source.columns or () if name not in hidden]
        source = open_source(path, replace(selection, columns=left))
    labels = source.target_source()
    names = source.columns if isinstance(source, TableSource) else selection.columns
    reading = {
        "path": source.path,
        "target": selection.target,
        "columns": None if names is None else list(names),
    }
    X = noted(lazy_rows(source), reading=reading)
    y = None if labels is None else noted(lazy_rows(labels), reading=reading)
    w = None if weights is None else lazy_rows(weights)
    return source, X, y, w if w is None or w.ndim == 1 else w[:, 0]


def _column_of_weights(source: RowSource, name: str, selection: Selection) -> RowSource:
    """A column beside X. Raises InputError where it is something else, or holds no numbers."""
    used = "the target" if name in (selection.target, source.target) else "among columns="
    if used == "the target" or name in (selection.columns or ()):
        raise InputError(f"the weight {name!r} is {used}; give another column, or leave it out there")
    found = source.column_source(name)
    if found.dtype.kind not in "fiub":
        raise InputError(
            f"a weight is one number for each row; {name!r} has shape {found.shape} and dtype {found.dtype}; give another column"
        )
    return found


def open_column(path: str | os.PathLike[str], name: str, **reading: Any) -> da.Array:
    """One column of rows lazily, in their blocks, with its missing values.

    Parameters
    ----------
    path : path or URL
        As of `open_rows`.
    name : str
        A column of Parquet, whether of X or not; an array of a Zarr store, or a column of its X by name or number.
    **reading : object
        What else a `Selection` says of how X is read.

    Returns
    -------
    Dask array of shape (n,) or (n, 1)
        Numbers, with NaN; or text: strings, or objects with None.

    Raises
    ------
    InputError
        There is no such column.
    """
    source = open_source(path, Selection(others=[name], **reading))
    return lazy_rows(source.column_source(name))


def lazy_rows(source: RowSource) -> da.Array:
    """A Dask array with one `read_block` task for every block.

    Parameters
    ----------
    source : RowSource
        X, a target, or another array of rows.

    Returns
    -------
    Dask array of the shape of the source
        Its row chunks are the blocks; other axes are whole.
    """
    empty = (0, *source.shape[1:])
    meta: Any = sp.csr_array((0, 0), dtype=source.dtype) if source.sparse else np.empty(empty, source.dtype)
    return lazy_blocks(list(source.blocks()), meta, source.shape[1:], source.nbytes if source.sparse else None)
