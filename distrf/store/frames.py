"""Data frames and Arrow tables in memory: as Arrow tables, their target, and some of their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InputError, reworded
from .table_reader import TableRows, column_values, spread, widths
from .table_schema import (
    computable,
    decoded,
    is_text,
    null_error,
    require_distinct,
    target_dtype,
    value_type,
)


def as_arrow(frame: Any) -> pa.Table:
    """Rows in memory as an Arrow table.

    Parameters
    ----------
    frame : data frame, Arrow table or batch, or mapping of columns
        Of data frames, pandas and all that speak Arrow's stream interface. An index of pandas is a column where it has a name,
        or holds times: "__index_level_0__" then, as in Parquet.

    Returns
    -------
    pa.Table
        Names are text: of the column 3 it is "3"; of one of lists of numbers of one length there are many, see `table_reader.spread`.
        A column of a pandas frame or mapping without any value has the type null, since its own says little.

    Raises
    ------
    InputError
        These are no rows, two columns have one name, or a column mixes types: the message names it.
    """
    if hasattr(frame, "__dask_graph__"):
        raise InputError(
            f"rows in memory make an Arrow table; received a lazy {type(frame).__name__}; open it with distrf.open_table"
        )
    table = computable(_plain_table(frame))
    return spread(table, widths(table))


def _plain_table(frame: Any) -> pa.Table:
    if isinstance(frame, (pa.Table, pa.RecordBatch)):
        return pa.table(frame)
    if isinstance(frame, Mapping):
        pairs = [(str(name), values) for name, values in frame.items()]
    elif hasattr(frame, "iloc") and getattr(frame, "ndim", 0) == 2:
        pairs = [(str(name), frame.iloc[:, j]) for j, name in enumerate(frame.columns)]
        known, index = {name for name, _ in pairs}, frame.index
        # Parquet does not hold ranges either.
        for j, name in enumerate(() if type(index).__name__ == "RangeIndex" else index.names):
            level, label = index.get_level_values(j), f"__index_level_{j}__" if name is None else str(name)
            if label not in known and (name is not None or level.dtype.kind == "M"):
                pairs.append((label, level))
    else:
        with suppress(pa.ArrowInvalid):  # a stream of one column
            if hasattr(frame, "__arrow_c_stream__"):
                return pa.table(frame)
        raise InputError(
            f"a table is a data frame, an Arrow table or a mapping of columns; received {type(frame).__name__}; make one of it"
        )
    require_distinct(name for name, _ in pairs)
    with reworded(lambda error: InputError(f"columns have the same rows ({error}); cut or fill them")):
        return pa.table({name: _array(values, name) for name, values in pairs})


def _array(values: Any, name: str) -> pa.Array:
    def meant(error: Exception) -> InputError:
        return InputError(
            f"a column holds numbers, booleans, text, dates or times of one type; column {name!r} does not ({error}); convert it, "
            "or leave it out"
        )

    with reworded(meant):
        if isinstance(values, (str, bytes)):
            raise TypeError("it is one text, of which Arrow would take the letters")
        array = pa.array(values, from_pandas=True)
        times = pa.types.is_temporal(array.type) and getattr(getattr(values, "dtype", None), "kind", "O") == "O"
        # Arrow takes the type of the first, and drops what others have more, and the time zone of a time of day.
        if times and any(a is not None and a != v for a, v in zip(array.to_pylist(), values, strict=True)):
            raise TypeError("some have a time, or a time zone")
    return pa.nulls(len(array)) if 0 < len(array) == array.null_count else array


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
        raise null_error(column, target, "these rows")
    values = column_values(column, dtype or target_dtype(column.type))
    return values if dtype is None else values.astype(dtype)


def rows_of_table(table: pa.Table, names: Sequence[str], rows: np.ndarray) -> pa.Table:
    """Some rows of some columns."""
    return table.select(names).take(pa.array(rows))


def rows_of_block(block: tuple[TableRows, int, int], rows: np.ndarray) -> pa.Table:
    """Some rows of a block of a table in files: by who reads, the first row of the block, and the row after the last.

    rows : ascending, counted from the first row of the block; those before the first and after the last are not read
    """
    reader, first, _ = block
    start, stop = int(rows[0]), int(rows[-1]) + 1
    return reader.read_table(first + start, first + stop, safe=False).take(pa.array(rows - start))


def one_table(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Rows with the same columns as one table, in the types that a schema has for them, rounded to these; without dictionaries."""
    wanted = pa.schema([(name, value_type(schema.field(name).type)) for name in tables[0].column_names])
    return pa.concat_tables([table.cast(wanted, safe=False) for table in tables])
