"""Describing rows of any format, and reading their blocks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..errors import InputError, StoreError
from . import files
from .files import Options
from .formats import open_source
from .row_source import RowReader, RowsInfo, RowSource, Selection


def open_weighted(
    path: str | os.PathLike[str], weight: str | None, selection: Selection
) -> tuple[RowSource, RowSource | None]:
    """The rows at a path, and the weights beside them.

    Parameters
    ----------
    path : path or URL
    weight : str or None
        A column of a table; an array of a Zarr store, or a named column of its X. The rows are without that column.
    selection : Selection
        Of the rows.

    Returns
    -------
    RowSource
        The rows.
    RowSource or None
        The weights, shape (n,) or (n, 1).

    Raises
    ------
    InputError, StoreError
        There are no such weights, they are no numbers or not one for each row, or they are the target or among `columns`.
    """
    source = open_source(path, selection)
    if weight is None:
        return source, None
    names = list(source.columns or [])
    for what, there in (
        ("the target", weight in (selection.target, source.target)),
        ("among columns=", weight in (selection.columns or ())),
    ):
        if there:
            raise InputError(f"the weight {weight!r} is {what}; give another column, or leave it out there")
    others = replace(selection, columns=[name for name in names if name != weight])
    if source.table:
        source = open_source(path, others) if weight in names else source
        weights = open_source(path, replace(selection, target=weight, columns=source.columns)).target_source()
    else:
        try:
            weights = open_source(path, replace(selection, target=weight)).target_source()
        except StoreError:
            try:
                weights = open_source(path, replace(selection, columns=[weight]))
            except InputError:
                weights = None
            if weights is None:
                raise
            source = open_source(path, others) if weight in names else source
    if weights is None or weights.dtype.kind not in "fiub" or weights.shape[1:] not in ((), (1,)):
        got = "" if weights is None else f"; {weight!r} has shape {weights.shape} and dtype {weights.dtype}"
        raise InputError(f"a weight is one number for each row{got}; give another column")
    return source, weights


def describe(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    columns: Sequence[str] | Sequence[int] | None = None,
    rows_per_block: int | None = None,
    storage_options: Options = None,
) -> RowsInfo:
    """Rows, columns, dtype and blocks of a data set, without reading data.

    Parameters
    ----------
    path, target, columns, rows_per_block, storage_options
        As of `distrf.open_rows`.

    Returns
    -------
    RowsInfo

    Raises
    ------
    StoreError
        Nothing can be read there.
    InputError
        There are no such columns.
    """
    selection = Selection(target=target, columns=columns, rows_per_block=rows_per_block)
    return open_source(files.normalise(path, storage_options), selection).info


def read_block(block: tuple[RowReader, int, int]) -> Any:
    """The rows of a block, as its one task.

    Parameters
    ----------
    block : (RowReader, int, int)
        Who reads, the first row, and the row after the last.

    Returns
    -------
    array of shape (last - first, ...) or csr_array
    """
    reader, first, last = block
    return reader.read(first, last)
