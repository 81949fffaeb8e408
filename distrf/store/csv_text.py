"""Comma-separated text as Arrow tables: types of the columns, words for missing values, and what cannot be read."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ..compiled.csv_lines import RowScan
from ..errors import InputError, StoreError
from .table_schema import ColumnType, base_of

#: Values that are missing: the words of pandas, quoted or not.
NULLS = [
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
]  # fmt: skip
#: What separates values, where the first line has it; the first one otherwise.
_DELIMITERS = ",;\t"
#: A number with a comma that separates no thousands.
_FRACTION = r"^\s*[+-]?(0\d*,\d+|\d+,(\d{1,2}|\d{4,})|\d{4,},\d+)([eE][+-]?\d+)?\s*$"


@dataclass(frozen=True)
class Dialect:
    """What every piece of the text of a table has in common.

    Parameters
    ----------
    delimiter : str
    width : int
        Values of a row.
    decimal : {".", ","}
        What stands before the fraction of a number.
    """

    delimiter: str
    width: int
    decimal: str = "."

    def scan(self, **where: int) -> RowScan:
        """Finds rows; where : as of `RowScan`"""
        return RowScan(self.delimiter, **where)


def header_of(line: bytes, path: str) -> tuple[list[str], str, bool]:
    """What the first row of a file says.

    Parameters
    ----------
    line : bytes
        The row, from the start of the file.
    path : str
        Its ending tells tabs from commas.

    Returns
    -------
    names : list of str
        Of the columns: f0, f1, ... where the row holds numbers alone, and they are not 0, 1, 2 and so on.
    delimiter : str
        Of .tsv a tab; else a comma, or a semicolon or a tab where the row has these and no comma.
    named : bool
        Whether the row holds names, and not the first values.

    Raises
    ------
    StoreError
        The text is no UTF-8.
    InputError
        Two columns have one name.
    """
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise StoreError(
            f"text is read as UTF-8; the names of the columns of {path!r} are no such text ({error}); convert the file"
        ) from None
    tabs = path.lower().removesuffix(".gz").endswith(".tsv")
    bare = re.sub(r'"[^"]*"', "", text)
    delimiter = "\t" if tabs else next((mark for mark in _DELIMITERS if mark in bare), ",")
    names = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
    counted = len(names) > 2 and names == [
        str(j) for j in range(len(names))
    ]  # as pandas calls columns without names
    if all(map(_is_float, names)) and not counted:
        return [f"f{j}" for j in range(len(names))], delimiter, False
    if len(set(names)) != len(names):
        raise InputError(f"columns have distinct names; {path!r} has {names[:50]}; rename them")
    return names, delimiter, True


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def parse(text: bytes, dialect: Dialect, kinds: Mapping[int, pa.DataType] | None = None) -> pa.Table:
    """Whole rows as a table.

    Parameters
    ----------
    text : bytes
        Rows without a line of names.
    dialect : Dialect
    kinds : mapping of int to pa.DataType, optional
        The types of the columns to read, by their numbers. None reads all, as what they look like.

    Returns
    -------
    pa.Table
        Columns are called by their numbers: "0", "1".

    Raises
    ------
    pa.ArrowInvalid
        A value is not of the type of its column, or a row has another number of values.
    """
    names = [str(j) for j in range(dialect.width)]
    chosen: dict[str, Any] = {}
    if kinds is not None:
        chosen["include_columns"] = [str(j) for j in kinds]
        chosen["column_types"] = {str(j): kind for j, kind in kinds.items()}
    return pa.csv.read_csv(
        pa.BufferReader(text),
        pa.csv.ReadOptions(use_threads=False, block_size=max(len(text), 1) + 1, column_names=names),
        pa.csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=True),
        pa.csv.ConvertOptions(
            null_values=NULLS, strings_can_be_null=True, decimal_point=dialect.decimal, **chosen
        ),
    )


def with_decimal(text: bytes, dialect: Dialect) -> Dialect:
    """The dialect with what stands before fractions, as some rows tell.

    Parameters
    ----------
    text : bytes
        Whole rows.
    dialect : Dialect

    Returns
    -------
    Dialect
        With a decimal comma where semicolons separate values, all values of some column are numbers with such a comma
        alone, and no column has decimal points. Commas that may all separate thousands (1,234) are no decimal ones.

    Raises
    ------
    pa.ArrowInvalid
        A row has another number of values.
    """
    if dialect.delimiter != ";" or b"," not in text:
        return dialect
    comma = replace(dialect, decimal=",")
    pairs = list(zip(inferred(text, dialect), inferred(text, comma), strict=True))
    texts = {
        j: point
        for j, (point, other) in enumerate(pairs)
        if pa.types.is_string(point) and other == pa.float64()
    }
    points = [j for j, (point, other) in enumerate(pairs) if point == pa.float64() and other != point]
    if points or not texts:
        return dialect
    columns = parse(text, dialect, texts).columns
    fractions = (pc.any(pc.match_substring_regex(column, _FRACTION)).as_py() for column in columns)
    return comma if any(fractions) else dialect


def inferred(text: bytes, dialect: Dialect) -> list[pa.DataType]:
    """The types of the columns, from some rows.

    Parameters
    ----------
    text : bytes
        Whole rows.
    dialect : Dialect

    Returns
    -------
    list of pa.DataType
        int64, double, bool, date32, timestamp, time32, string, or null where there is no value.

    Raises
    ------
    pa.ArrowInvalid
        A row has another number of values.
    """
    kinds = [
        pa.string()
        if pa.types.is_binary(kind)
        else kind  # no UTF-8, which is told with its line when it is read
        for kind in parse(text, dialect).schema.types
    ]
    wide = {j: widened(kind) for j, kind in enumerate(kinds) if widened(kind) != kind}
    try:
        parse(text, dialect, wide)
    except pa.ArrowInvalid:  # such as hexadecimal numbers, which are no floats
        for j, kind in wide.items():
            try:
                parse(text, dialect, {j: kind})
            except pa.ArrowInvalid:
                kinds[j] = pa.string()
    return kinds


def widened(kind: pa.DataType) -> pa.DataType:
    """The type as which a column is read where rows that were not looked at may need more: fractions, times of dates."""
    if pa.types.is_integer(kind):
        return pa.float64()
    if pa.types.is_date(kind):
        return pa.timestamp("us")
    if pa.types.is_timestamp(kind) and kind.unit == "s":
        return pa.timestamp("us", kind.tz)
    return pa.time64("us") if pa.types.is_time(kind) else kind


def kind_for(column: ColumnType, found: pa.DataType) -> pa.DataType:
    """The type as which a column of coded rows is read from text.

    Parameters
    ----------
    column : ColumnType
        What it is needed as.
    found : pa.DataType
        What it looks like. Text that looks like numbers or dates is read as text where text is needed.

    Returns
    -------
    pa.DataType
        One that `coded` takes for the column, where there is one.
    """
    if column.base == "text":
        return found if column.digits and pa.types.is_integer(found) else pa.string()
    if column.base == "empty":
        return pa.null()
    if pa.types.is_null(found):  # no value was looked at
        return {"number": pa.float64(), "boolean": pa.bool_()}.get(column.base, pa.string())
    if base_of(found) == "number" and column.base in ("time", "clock"):
        return pa.string()  # the message shows a value
    return widened(found)


class Fault(NamedTuple):
    """A row that cannot be read: the lines before it, and which value is to blame.

    column : its number, None where the row is of another length; wanted : what the value is not; value : it, or a reason
    """

    line: int
    column: int | None
    wanted: str
    value: str


def first_fault(text: bytes, dialect: Dialect, kinds: Mapping[int, pa.DataType] | None = None) -> Fault:
    """The first row that `parse` does not read.

    Parameters
    ----------
    text : bytes
        Whole rows, of which one cannot be read.
    dialect : Dialect
    kinds : mapping of int to pa.DataType, optional

    Returns
    -------
    Fault
    """
    whole = dialect.scan()
    whole.add(text)
    whole.finish()
    low, high = 0, whole.rows  # the rows before low can be read, those before high cannot
    while high - low > 1:
        middle = (low + high) // 2
        try:
            parse(text[: rows_end(text, dialect, middle)[0]], dialect, kinds)
            low = middle
        except pa.ArrowInvalid:
            high = middle
    (start, line), (stop, _) = rows_end(text, dialect, low), rows_end(text, dialect, high)
    row = text[start:stop]
    for j, kind in (kinds or {}).items():
        try:
            parse(row, dialect, {j: kind})
        except pa.ArrowInvalid:
            with suppress(pa.ArrowInvalid):  # raised where the row is of another length
                value = parse(row, dialect, {j: pa.binary()}).column(0)[0].as_py() or b""
                return Fault(line, j, _wanted(kind), value.decode(errors="replace")[:60])
    try:
        parse(row, dialect)
    except pa.ArrowInvalid as error:
        return Fault(line, None, "", str(error)[:200])
    raise AssertionError("a row that cannot be read is of another length, or has a value that cannot be read")


def _wanted(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "whole number"
    if pa.types.is_timestamp(kind):
        return "date with a time zone" if kind.tz else "date without a time zone"
    names = {"number": "number", "boolean": "true or false", "clock": "time of day", "text": "UTF-8 text"}
    return names.get(str(base_of(kind)), "missing value")


def rows_end(text: bytes, dialect: Dialect, rows: int) -> tuple[int, int]:
    """Where so many rows of a text have ended, and how many lines have: at the start of the next row."""
    scan = dialect.scan()
    scan.add(text, rows)
    if scan.rows < rows:  # the last one has no line break
        scan.finish()
    return scan.row_at, scan.lines
