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

import hashlib
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InputError
from ..maps.table_missing import MISSING, UNREAD
from .table_reader import side_by_side
from .table_schema import (
    ColumnType,
    TableSchema,
    as_floats,
    base_of,
    decoded,
    drift,
    is_text,
)
from .text_forms import PER_SECOND, read_text

#: Larger numbers stand for something else, and their squares overflow.
_LARGEST = 1e300


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
    n = table.num_rows
    codes = (
        np.full(n, MISSING) if column.base == "unread" else _codes(table.column(column.name), column)
        for column in schema.columns
    )
    return side_by_side(codes, (n, len(schema.columns)), np.dtype(np.float64))


def _codes(values: pa.ChunkedArray, column: ColumnType) -> np.ndarray:
    base = base_of(values.type)
    if base == "empty":
        return np.full(len(values), MISSING)
    if column.base == "text":
        return _by_distinct(values, _hashes, column.name)
    if base == "number" and column.stamps:
        values, base = decoded(values).cast(pa.large_string()), "text"
    if base == "text":
        return _texts(values, column)
    values = decoded(values)
    return _seconds(values) if base in ("time", "clock") else _numbers(values, column.values == "float")


def _numbers(values: pa.ChunkedArray, narrow: bool) -> np.ndarray:
    """Numbers as they are; narrow : rounded to float32, so that 0.1 is the same number from all sources"""
    numbers = np.add(as_floats(values).to_numpy(), 0.0)  # nulls are NaN; -0.0 becomes 0.0
    if narrow:
        with np.errstate(over="ignore"):
            rounded = numbers.astype(np.float32)
        numbers = np.where(np.isfinite(rounded), rounded, numbers)  # what does not fit stays as it is
    inside = (numbers <= _LARGEST) & (numbers >= -_LARGEST)
    if not inside.all():
        numbers[~inside] = np.where(np.isnan(numbers[~inside]), MISSING, UNREAD)
    return numbers


def _digits(values: pa.Array, name: str) -> pa.Array:
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
    if pa.types.is_date(values.type):
        values = values.cast(pa.timestamp("s" if pa.types.is_date32(values.type) else "ms"))
    unit = PER_SECOND[values.type.unit]
    counts = values.cast(pa.int32() if values.type.bit_width == 32 else pa.int64()).fill_null(0).to_numpy()
    if unit > 10**6:  # as in microseconds
        counts, unit = counts // 1000, 10**6
    whole, rest = np.divmod(counts, unit)
    seconds = whole + rest / unit
    seconds[values.is_null().to_numpy()] = MISSING
    return seconds


def _hashes(texts: pa.Array) -> np.ndarray:
    """The high 52 bits of BLAKE2b of the UTF-8 bytes of texts."""
    texts = texts.cast(pa.large_binary()).to_pylist()
    digests = b"".join(hashlib.blake2b(text, digest_size=8).digest() for text in texts)
    return (np.frombuffer(digests, ">u8") >> 12).astype(np.float64)


def _by_distinct(column: pa.ChunkedArray, numbers: Callable[[pa.Array], np.ndarray], name: str) -> np.ndarray:
    """A number for each text of a column, or whole number, computed once for each that occurs; `MISSING` of nulls and empty texts."""
    if not len(column):  # Arrow makes no dictionary of no text
        return np.empty(0)
    found = pc.dictionary_encode(decoded(column)).combine_chunks()
    texts = found.dictionary
    texts = (texts if is_text(texts.type) else _digits(texts, name)).cast(pa.large_string())
    there = pc.greater(pc.binary_length(texts), 0).fill_null(False)
    table = np.full(len(texts) + 1, MISSING)  # nulls come last
    table[np.flatnonzero(there)] = numbers(texts.filter(there))
    return table[found.indices.fill_null(len(texts)).to_numpy()]


def _texts(values: pa.ChunkedArray, column: ColumnType) -> np.ndarray:
    """The numbers that texts write; where the column held times, each must be one, with a time zone or without as there."""
    zone = {None: "", True: "+", False: "-"}[column.zoned]
    form = column.form or f"date:ymd{zone}"
    numbers = _by_distinct(values, lambda texts: np.nan_to_num(read_text(texts, form), nan=UNREAD), column.name)
    if not column.form and (numbers == UNREAD).any():
        wrong = decoded(values).cast(pa.large_binary()).filter(pa.array(numbers == UNREAD))[0].as_py()
        raise InputError(
            f"text of times is written as 2020-01-31 or 2020-01-31T12:30:00, with a time zone such as Z if the training had "
            f"one; column {column.name!r} has {wrong.decode(errors='replace')[:50]!r}; write it so, or leave the column out"
        )
    return numbers
