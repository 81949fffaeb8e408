"""Data frames and Arrow tables in memory: their coded rows, their target, and some of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .table_codes import as_arrow
from .table_reader import TableRows, column_values
from .table_schema import as_floats, decoded, is_text, merged, null_error, target_dtype, value_type


def chosen(frame: Any, names: Sequence[str]) -> pa.Table:
    """Some columns of a data frame or an Arrow table.

    Parameters
    ----------
    frame : data frame, Arrow table, or what else `as_arrow` takes
    names : sequence of str
        Those that are not there are left out.

    Returns
    -------
    pa.Table
        The columns in the order of the frame.
    """
    wanted = set(names)
    if hasattr(frame, "iloc"):
        frame = frame.iloc[:, [j for j, name in enumerate(frame.columns) if str(name) in wanted]]
    table = as_arrow(frame)
    return table.select([j for j, name in enumerate(table.column_names) if name in wanted])


def look_at(table: pa.Table, target: str | None) -> tuple[int, pa.Schema, int]:
    """What a partition says: its rows, its columns, and the characters of its longest target, if this is text."""
    longest = None
    if target is not None and is_text(value_type(table.schema.field(target).type)):
        longest = pc.max(pc.utf8_length(decoded(table.column(target)).cast(pa.large_string()))).as_py()
    return len(table), table.schema, longest or 0


def target_values(table: pa.Table, target: str, dtype: np.dtype | None = None) -> np.ndarray:
    """A column of numbers, booleans or text as an array.

    Parameters
    ----------
    table : pa.Table
    target : str
    dtype : numpy.dtype, optional
        Of the array; None: that of the column.

    Returns
    -------
    array of shape (rows,)

    Raises
    ------
    InputError
        A value is missing.
    """
    column = table.column(target)
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy()))
        raise null_error(target, "these rows", row, True)
    values = column_values(column, dtype or target_dtype(column.type))
    return values if dtype is None else values.astype(dtype)


def present_rows(table: pa.Table, target: str) -> np.ndarray:
    """Whether a column has a value in each row: not null, NaN or an empty text."""
    column = decoded(table.column(target))
    there = pc.is_valid(column)
    if pa.types.is_floating(column.type):
        there = pc.and_not(there, pc.is_nan(column).fill_null(False))
    elif is_text(column.type):
        there = pc.and_(there, pc.not_equal(column, "").fill_null(False))
    return there.to_numpy(zero_copy_only=False)


def rows_of_table(table: pa.Table, names: Sequence[str], rows: np.ndarray) -> pa.Table:
    """Some rows of some columns."""
    return table.select(names).take(pa.array(rows))


def rows_of_block(block: tuple[TableRows, int, int], rows: np.ndarray) -> pa.Table:
    """Some rows of a block of a table in files.

    Parameters
    ----------
    block : (TableRows, int, int)
        Who reads, the first row of the block, and the row after the last.
    rows : array of int
        Ascending, counted from the first row of the block; those before the first and after the last are not read.

    Returns
    -------
    pa.Table
    """
    reader, first, _ = block
    rows, tables = first + rows, []
    for part in reader.parts(int(rows[0]), int(rows[-1]) + 1):
        inside = rows[(part.first <= rows) & (rows < part.first + len(part.table))]
        tables.append((part.where, part.table.take(pa.array(inside - part.first))))
    return one_table(tables)


def one_table(tables: Sequence[tuple[str, pa.Table]]) -> pa.Table:
    """Rows of several files or partitions as one table.

    Parameters
    ----------
    tables : sequence of (str, pa.Table)
        What messages call each, and the same columns of each.

    Returns
    -------
    pa.Table
        Each column in a type that holds all of it; without dictionaries.
    """
    schema = merged([(where, table.schema) for where, table in tables], tables[0][1].column_names)
    columns = {}
    for name, kind in zip(schema.names, map(value_type, schema.types), strict=True):
        found = [decoded(table.column(name)) for _, table in tables]
        cast = [as_floats(c) if pa.types.is_float64(kind) else c.cast(kind) for c in found]
        columns[name] = pa.chunked_array([chunk for column in cast for chunk in column.chunks], kind)
    return pa.table(columns)
