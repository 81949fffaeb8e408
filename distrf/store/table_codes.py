"""Tables as coded rows: an Arrow table in, one float64 number for each value out.

* A number is itself: of float32 columns rounded to float32, of integers beyond 2^53 the nearest float64. False and true
  are 0 and 1.
* Text is a hash of 52 bits, a whole number below 2^52. Of k levels, two share one with odds below k^2 / 2^53. Nothing is
  normalised or stripped: two texts are one level if their bytes are the same. Integers that are categories are the text of
  their digits.
* Dates and timestamps are seconds since 1970 (those without a time zone are taken for UTC), times of day seconds since
  midnight; all cut to whole microseconds.
* Text that writes numbers or times, and numbers that stand for times, are these, if the schema says in what form: see `distrf.store.text_forms`.
* Nulls, NaN and empty text are `MISSING`; infinities, numbers beyond 1e300 in size and text that is of no such form `UNREAD`.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InputError, reworded
from ..maps.table_missing import MISSING, UNREAD
from .table_lists import spread, widths
from .table_schema import (
    ColumnType,
    TableSchema,
    as_floats,
    base_of,
    decoded,
    drift,
    require_distinct,
    value_type,
)
from .text_forms import PER_SECOND, ClockForm, DateForm, read_text

_NULLS = {"NoneType", "NAType", "NaTType"}
#: Larger numbers stand for something else, and their squares overflow.
_LARGEST = 1e300
_COLUMNS = 8  # written at a time


def coded(table: pa.Table, schema: TableSchema) -> np.ndarray:
    """The rows of a table as numbers.

    Parameters
    ----------
    table : pa.Table
    schema : TableSchema
        The columns to read, in this order, and what they are read as.

    Returns
    -------
    float64 array of shape (rows, d)

    Raises
    ------
    InputError
        The table lacks a column or has it in another type, or a text is no date where dates are read.
    """
    if fault := drift(schema, table.schema):
        raise InputError(fault)
    out = np.empty((table.num_rows, len(schema.columns)))
    for first in range(0, len(schema.columns), _COLUMNS):
        some = schema.columns[first : first + _COLUMNS]
        # A cache line at a time: a strided write for every value is slower, a transposed copy of all takes twice the memory.
        held = np.empty((len(some), table.num_rows))
        for row, column in zip(held, some, strict=True):
            row[:] = MISSING if column.base == "unread" else _codes(table.column(column.name), column)
        out[:, first : first + len(some)] = held.T
    return out


def _codes(values: pa.ChunkedArray, column: ColumnType) -> np.ndarray:
    base = base_of(values.type)
    if base == "empty":
        return np.full(len(values), MISSING)
    if column.base == "text":
        return text_codes(values if base == "text" else _digits(decoded(values), column.name))
    if base == "number" and column.stamps:
        values, base = decoded(values).cast(pa.large_string()), "text"
    if base == "text":
        return _texts(values, column)
    values = decoded(values)
    return _seconds(values) if base in ("time", "clock") else _numbers(values, column.values == "float")


def _numbers(values: pa.ChunkedArray, narrow: bool) -> np.ndarray:
    """Numbers as they are; narrow : rounded to float32, so that 0.1 is the same number from all sources"""
    numbers = as_floats(values).to_numpy()  # nulls are NaN
    with np.errstate(over="ignore", invalid="ignore"):
        if narrow:
            rounded = numbers.astype(np.float32).astype(np.float64)
            numbers = np.where(np.isfinite(rounded), rounded, numbers)  # what does not fit stays as it is
        inside = (numbers <= _LARGEST) & (numbers >= -_LARGEST)
        numbers = np.add(numbers, 0.0)  # -0.0 becomes 0.0
        if not inside.all():
            numbers[~inside] = np.where(np.isnan(numbers[~inside]), MISSING, UNREAD)
    return numbers


def _digits(values: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Integers as text. pandas makes floats of those among which some are missing, and rounds them beyond 2^53."""
    try:
        if pa.types.is_floating(values.type):
            values = pc.if_else(pc.is_nan(values), None, values)
            if (pc.max(pc.abs(values)).as_py() or 0) > 2**53:
                raise pa.ArrowInvalid("beyond 2^53 they are rounded")
            values = values.cast(pa.int64())
        if not pa.types.is_integer(values.type):
            values = values.cast(pa.decimal256(76, 0))
        return values.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise InputError(
            f"column {name!r} had integers that are read as text, and has numbers that are none ({error}); convert it"
        ) from None


def _seconds(values: pa.ChunkedArray) -> np.ndarray:
    """Seconds of dates, timestamps and times of day, the same number in all units."""
    kind = values.type
    integers = values.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    counts = integers.fill_null(0).to_numpy().astype(np.int64, copy=False)
    if pa.types.is_date32(kind):
        seconds = counts * 86_400.0
    else:
        per = PER_SECOND["ms" if pa.types.is_date64(kind) else kind.unit]
        # Whole seconds and the rest apart: no unit overflows, and equal times are equal numbers.
        whole, rest = np.divmod(counts, per)
        if per > 10**6:
            rest, per = rest // (per // 10**6), 10**6
        seconds = whole + rest / per
    seconds[values.is_null().to_numpy()] = MISSING
    return seconds


def text_codes(column: pa.ChunkedArray) -> np.ndarray:
    """The codes of texts, of shape (rows,): the high 52 bits of BLAKE2b of their UTF-8 bytes, or `MISSING`."""
    return _by_distinct(column, _hashes)


def _hashes(texts: pa.Array) -> np.ndarray:
    digests = b"".join(hashlib.blake2b(text, digest_size=8).digest() for text in _bytes(texts))
    return (np.frombuffer(digests, ">u8") >> 12).astype(np.float64)


def _bytes(texts: pa.Array) -> list[bytes]:
    return texts.cast(pa.large_binary()).to_pylist()


def _by_distinct(column: pa.ChunkedArray, numbers: Callable[[pa.Array], np.ndarray]) -> np.ndarray:
    """A number for each text of a column, computed once for each that occurs; `MISSING` of nulls and empty texts."""
    if not len(column):  # Arrow makes no dictionary of no text
        return np.empty(0)
    if not pa.types.is_dictionary(column.type):
        column = pa.chunked_array([pc.dictionary_encode(decoded(column)).combine_chunks()])
    return np.concatenate([_of_dictionary(chunk, numbers) for chunk in column.chunks])


def _of_dictionary(chunk: pa.DictionaryArray, numbers: Callable[[pa.Array], np.ndarray]) -> np.ndarray:
    texts = chunk.dictionary
    table = np.full(len(texts) + 1, MISSING)  # nulls come last
    at = chunk.indices.cast(pa.int64()).fill_null(len(texts)).to_numpy()
    used = np.zeros(len(table), bool)
    used[at] = True
    if not used[:-1].all():  # a block of a column with far more levels than rows
        texts = texts.filter(pa.array(used[:-1]))
    texts = texts.cast(pa.large_string())
    present = pc.greater(pc.binary_length(texts), 0).fill_null(False).to_numpy(zero_copy_only=False)
    table[np.flatnonzero(used[:-1])[present]] = numbers(texts.filter(pa.array(present)))
    return table[at]


def _texts(column: pa.ChunkedArray, kind: ColumnType) -> np.ndarray:
    """The numbers that texts write."""
    if kind.form:
        return _by_distinct(column, lambda texts: np.nan_to_num(read_text(texts, kind.form), nan=UNREAD))
    return _by_distinct(column, lambda texts: _as_typed(texts, kind))


def _as_typed(texts: pa.Array, column: ColumnType) -> np.ndarray:
    """Times of a column that had a type of its own, in which every text must be one, with a time zone or without as there."""
    trimmed = pc.ascii_trim_whitespace(texts)
    if column.base == "clock":
        seconds, rule = ClockForm().read(trimmed, ""), "a time of day is written as 12:30:00"
        good = np.isfinite(seconds)
    else:
        zone = {None: "", True: " and a time zone such as Z or +01:00", False: " without a time zone"}[
            column.zoned
        ]
        rule = f"a date is written as 2020-01-31 or 2020-01-31T12:30:00{zone}"
        seconds, zoned = DateForm().read_zoned(trimmed, "ymd")
        good = np.isfinite(seconds) & (column.zoned is None or zoned == column.zoned)
    if not good.all():
        wrong = _bytes(texts)[int(good.argmin())].decode(errors="replace")[:50]
        raise InputError(f"{rule}; column {column.name!r} has {wrong!r}; write it so, or leave the column out")
    return seconds


def as_arrow(frame: Any) -> pa.Table:
    """Rows in memory as an Arrow table.

    Parameters
    ----------
    frame : data frame, Arrow table or batch, mapping of columns, or array of shape (n, d)
        Of data frames, pandas and all that speak Arrow's stream interface. An index of pandas is a column where it has a name,
        or holds times: "__index_level_0__" then, as in Parquet.

    Returns
    -------
    pa.Table
        Names are text: of the column 3 it is "3"; of the columns of an array x0, x1 and so on; of one of lists of numbers of one length
        `table_lists` makes many. A column of a pandas frame, mapping or array without any value has
        the type null, since its own says little.

    Raises
    ------
    InputError
        These are no rows, two columns have one name, or a column mixes types: the message names it.
    """
    if hasattr(frame, "__dask_graph__"):
        raise InputError(
            f"rows in memory make an Arrow table; received a lazy {type(frame).__name__}; open it with distrf.open_table"
        )
    table = _plain_table(frame)
    for j, field in enumerate(table.schema):  # texts in a layout that Arrow computes with
        if pa.types.is_string_view(value_type(field.type)):
            table = table.set_column(j, field.name, decoded(table.column(j)))
    return spread(table, widths(table))


def _plain_table(frame: Any) -> pa.Table:
    if isinstance(frame, pa.RecordBatch):
        frame = pa.Table.from_batches([frame])
    if isinstance(frame, pa.Table):
        return frame
    if hasattr(frame, "iloc") and getattr(frame, "ndim", 0) == 2:
        pairs = [(str(name), frame.iloc[:, j]) for j, name in enumerate(frame.columns)]
        known, index = {name for name, _ in pairs}, frame.index
        names = (
            () if type(index).__name__ == "RangeIndex" else index.names
        )  # which Parquet does not hold either
        for j, name in enumerate(names):
            level, label = index.get_level_values(j), f"__index_level_{j}__" if name is None else str(name)
            if label not in known and (name is not None or level.dtype.kind == "M"):
                pairs.append((label, level))
    elif isinstance(frame, Mapping):
        pairs = [(str(name), values) for name, values in frame.items()]
    elif isinstance(frame, np.ndarray) and frame.ndim == 2:
        pairs = [(f"x{j}", column) for j, column in enumerate(frame.T)]
    else:
        with suppress(pa.ArrowInvalid):  # a stream of one column
            if hasattr(frame, "__arrow_c_stream__"):
                return pa.table(frame)
        raise InputError(
            "a table is a data frame, an Arrow table, a mapping of columns or an array of shape (n, d); received "
            f"{type(frame).__name__}; make one of it"
        )
    require_distinct(name for name, _ in pairs)
    columns = {name: _array(values, name) for name, values in pairs}
    if len({len(column) for column in columns.values()}) > 1:
        lengths = {name: len(column) for name, column in list(columns.items())[:10]}
        raise InputError(f"the columns of a table have the same rows; received {lengths}; cut or fill them")
    return pa.table(columns)


def _array(values: Any, name: str) -> pa.Array:
    if isinstance(values, (str, bytes)):
        raise InputError(
            f"a column is a sequence of values; column {name!r} is the text {values[:50]!r}; make a list of it"
        )
    with reworded(lambda error: _mixed(values, name, str(error))):
        array = pa.array(values, from_pandas=True)
    if getattr(getattr(values, "dtype", None), "kind", "O") == "O" and pa.types.is_temporal(array.type):
        _check_times(values, array.type, name)
    return pa.nulls(len(array)) if 0 < len(array) == array.null_count else array


def _check_times(values: Iterable[Any], kind: pa.DataType, name: str) -> None:
    """Refuse objects of which Arrow would drop something: it takes the type of the first."""
    times = [
        v for v in values if isinstance(v, (datetime.date, datetime.time)) and v == v
    ]  # NaT differs from itself
    if pa.types.is_date(kind) and any(isinstance(v, datetime.datetime) for v in times):
        raise _mixed(values, name, "some have a time")
    zones = {getattr(v, "tzinfo", None) is not None for v in times}
    if len(zones) > 1:
        raise _mixed(values, name, "some have a time zone")
    if pa.types.is_time(kind) and True in zones:
        raise _mixed(values, name, "times of day have a time zone")


def _mixed(values: Any, name: str, why: str) -> InputError:
    values = values if isinstance(values, Iterable) else [values]
    found = {type(v).__name__ for v in values if not (isinstance(v, float) and v != v)} - _NULLS
    return InputError(
        f"a column holds numbers, booleans, text, dates or times of one type; column {name!r} holds "
        f"{', '.join(sorted(found)[:10])} ({why.partition(chr(10))[0][:100]}); convert it, or leave it out"
    )
