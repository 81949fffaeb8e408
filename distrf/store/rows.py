"""Describing rows of any format, reading their blocks, and fixing what replaces missing values."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..errors import InputError
from . import files, missing_values
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
    weights = source.column_source(weight)
    if weights.dtype.kind not in "fiub":
        raise InputError(
            f"a weight is one number for each row; {weight!r} has shape {weights.shape} and dtype {weights.dtype}; give another column"
        )
    if weight in names:
        source = open_source(path, replace(selection, columns=[name for name in names if name != weight]))
    return source, weights


def describe(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    columns: Sequence[str] | Sequence[int] | None = None,
    rows_per_block: int | None = None,
    impute: str | float | Sequence[float] | None = None,
    storage_options: Options = None,
) -> RowsInfo:
    """Rows, columns, dtype and blocks of a data set, without reading data.

    Parameters
    ----------
    path, target, columns, rows_per_block, impute, storage_options
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
    selection = Selection(
        target=target, columns=columns, rows_per_block=rows_per_block, missing=impute is not None
    )
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


def fill(
    source: RowSource, rule: str | float | Sequence[float] | None
) -> tuple[RowSource, tuple[float, ...] | None]:
    """A source whose missing values are replaced, and by which numbers.

    Parameters
    ----------
    source : RowSource
        Opened with ``missing``.
    rule : "mean", "median", "zero", a number, or a number for each column
        Mean reads all rows now, median a seeded sample of 100,000 rows. None: nothing is replaced.

    Returns
    -------
    RowSource
        The same one where nothing can be missing (integers, CSR rows).
    tuple of float, or None
        One number for each column.
    """
    if rule is None or source.sparse or source.dtype.kind != "f":
        return source, None
    n, d = source.shape
    marked = source.filled((float("nan"),) * d)  # nulls of Parquet become NaN
    rows = ((first, reader.read(first, last)) for reader, first, last in marked.blocks())
    values = missing_values.resolve(rule, rows, n, source.columns or list(range(d)))
    return source.filled(values), values


def impute_values(
    path: str | os.PathLike[str],
    rule: str | float | Sequence[float],
    *,
    target: str | None = None,
    columns: Sequence[str] | Sequence[int] | None = None,
    storage_options: Options = None,
) -> list[float] | None:
    """The numbers that an imputation rule stands for on these rows; to pass on as ``impute=``.

    Parameters
    ----------
    path, target, columns, storage_options
        As of `distrf.open_rows`.
    rule : "mean", "median", "zero", a number, or a number for each column

    Returns
    -------
    list of float, or None
        One number for each column; None where nothing can be missing (integers, CSR rows).
    """
    selection = Selection(target=target, columns=columns, missing=True)
    source = open_source(files.normalise(path, storage_options), selection)
    source.check_missing(strict=False)
    values = fill(source, rule)[1]
    return None if values is None else list(values)
