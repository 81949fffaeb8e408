"""Text as Arrow tables: where rows begin, what the columns hold, words for missing values, and what cannot be read."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ..errors import InputError
from .csv_format import CsvFormat
from .table_schema import BASES, ColumnType, base_of, is_number

#: Values that are missing: the words of pandas, quoted or not.
NULLS = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
#: What separates values, where the first line has it; the first one otherwise.
_DELIMITERS = ",;\t|"
#: A number with a comma that separates no thousands.
_FRACTION = r"^\s*[+-]?(0\d*,\d+|\d+,(\d{1,2}|\d{4,})|\d{4,},\d+)([eE][+-]?\d+)?\s*$"
#: What Arrow says of a value or a row that it cannot read.
_FAULT = re.compile(
    r"(?:In CSV column #(?P<column>\d+): |CSV parse error: )Row #(?P<row>\d+): (?P<what>.*)", re.DOTALL
)
_VALUE = re.compile(r"(?:invalid value|offset in) '(.*)'", re.DOTALL)
_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?\s*$"
#: The types of integers that float64 does not tell apart: those within int64, and others.
LARGE, WHOLE = pa.decimal128(19, 0), pa.decimal128(38, 0)
_WHOLE = r"^\s*[+-]?\d+\s*$"
_LF, _CR, _QUOTE = b'\n\r"'


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
    thousands : str
        What may stand between the thousands of a number, or nothing.
    nulls : tuple of str
        Values that are missing.
    encoding : str
        Of the text.
    """

    delimiter: str
    width: int
    decimal: str = "."
    thousands: str = ""
    nulls: tuple[str, ...] = NULLS
    encoding: str = "utf-8"


def row_ends(text: bytes, delimiters: str) -> np.ndarray:
    """Where rows have ended: after a line break, the first character of one of two.

    A line break between quotes ends no row, and an empty line is none. A quote opens at the start of a value only, as Arrow
    has it: rows are told by the parity of the quotes before them, but in text with other quotes (6" pipe) one by one.

    Parameters
    ----------
    text : bytes
        It starts with a row.
    delimiters : str

    Returns
    -------
    array of int
    """
    a = np.frombuffer(text, np.uint8)
    breaks = np.flatnonzero((a == _LF) | (a == _CR) if b"\r" in text else a == _LF)
    if b'"' in text:
        quotes = np.flatnonzero(a == _QUOTE)
        starts = np.isin(a[quotes - 1], np.frombuffer(f"{delimiters}\n\r".encode(), np.uint8)) | (quotes == 0)
        again = (
            np.diff(quotes, prepend=-2) == 1
        )  # of two together inside quotes one closes and the other opens again
        if not (starts | again)[::2].all():
            value = rb'(?:\A|(?<=[%s\n\r]))"[^"]*(?:""[^"]*)*"?' % re.escape(delimiters).encode()
            quotes = np.array([edge for found in re.finditer(value, text) for edge in found.span()], np.int64)
        breaks = breaks[np.searchsorted(quotes, breaks) % 2 == 0]
    before = a[breaks - 1]
    return breaks[(before != _LF) & (before != _CR) & (breaks > 0)] + 1


def header_of(rows: Sequence[bytes], path: str, wanted: CsvFormat) -> tuple[list[str], str, bool]:
    """What the first row of a file says.

    Parameters
    ----------
    rows : sequence of bytes
        The first ones of the file.
    path : str
        Its ending tells tabs from commas.
    wanted : CsvFormat
        What the user says.

    Returns
    -------
    names : list of str
        Of the columns: f0, f1, ... where the row holds no names; "Unnamed: 0" is the first one without a name, as in pandas.
    delimiter : str
        Of .tsv a tab; else that of comma, semicolon, tab and ``|`` which all of these rows have equally often, or which the
        first two have; else a comma.
    named : bool
        Whether the row holds names, and not the first values.

    Raises
    ------
    InputError
        The text is no UTF-8, two columns have one name, the row may hold either, or rows have two delimiters equally often.
    """
    try:
        text = rows[0].decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"text is read as UTF-8 unless encoding= says otherwise; the names of the columns of {path!r} are no such text "
            f"({error}); give encoding='latin-1' or what it is"
        ) from None
    tabs = re.search(r"\.(tsv|tab)(\.\w+)?$", path.lower())
    delimiter = wanted.sep or ("\t" if tabs else _delimiter(rows, path, wanted.decimal))
    names = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
    named = _holds_names(names, path) if wanted.header is None else wanted.header
    if not named:
        return [f"f{j}" for j in range(len(names))], delimiter, False
    names = [name or f"Unnamed: {j}" for j, name in enumerate(names)]
    if len(set(names)) != len(names):
        raise InputError(f"columns have distinct names; {path!r} has {names[:50]}; rename them")
    return names, delimiter, True


def _delimiter(rows: Sequence[bytes], path: str, decimal: str | None) -> str:
    bare = [re.sub(rb'"[^"]*"', b"", row) for row in rows]
    marks = [mark for mark in _DELIMITERS if mark != decimal]
    there = [mark for mark in marks if all(mark.encode() in row for row in bare[:2])]
    alike = [mark for mark in there if len({row.count(mark.encode()) for row in bare}) == 1]
    if len(alike) > 1:
        raise InputError(
            f"one character separates values; in {path!r} it may be any of {alike}: say sep={alike[0]!r}, or what it is"
        )
    return (alike or there or marks)[0]


def _holds_names(row: Sequence[str], path: str) -> bool:
    """Whether a first row is one of names. A row of numbers is none, unless they count columns (0, 1, 2) or years."""
    said = [value for value in row if value.strip()]  # what has no name are row labels of pandas
    numbers = [re.fullmatch(_NUMBER, value) is not None for value in said]
    if not any(numbers):
        return True
    if all(numbers):
        first = int(said[0]) if said[0].strip().isdigit() else -1
        counted = said == [str(first + j) for j in range(len(said))] and len(said) > 1
        if counted and (1800 <= first <= 2200 or (first == 0 and len(said) > 2)):
            return True
        if not (counted and first == 1 and len(said) > 2):
            return False
    raise InputError(
        f"a first row is of names or of values; that of {path!r} may be either: {row[:10]}; say header=True where it holds "
        "the names of the columns, and header=False where it does not: they are f0, f1, ... then"
    )


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
        A value is not of the type of its column, or a row has another number of values: with the row, see `refused`.
    """
    names = [str(j) for j in range(dialect.width)]
    chosen: dict[str, Any] = {}
    marked = {j: kind for j, kind in (kinds or {}).items() if dialect.thousands and is_number(kind)}
    if kinds is not None:
        types = {str(j): pa.string() if j in marked else kind for j, kind in kinds.items()}
        chosen = {"include_columns": list(types), "column_types": types}
    table = pa.csv.read_csv(
        pa.BufferReader(text),
        pa.csv.ReadOptions(use_threads=False, block_size=max(len(text), 1) + 1, column_names=names),
        pa.csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=True),
        pa.csv.ConvertOptions(
            null_values=list(dialect.nulls), strings_can_be_null=True, decimal_point=dialect.decimal, **chosen
        ),
    )
    for j, kind in marked.items():
        at = table.schema.get_field_index(str(j))
        table = table.set_column(at, str(j), _numbers(table.column(at), j, kind, dialect))
    return table


def _numbers(texts: pa.ChunkedArray, number: int, kind: pa.DataType, dialect: Dialect) -> pa.ChunkedArray:
    """Numbers of a column of text with marks of thousands."""
    plain = pc.replace_substring(pc.utf8_trim_whitespace(texts), dialect.thousands, "")
    if dialect.decimal == ",":
        plain = pc.replace_substring(plain, ",", ".")
    try:
        return plain.cast(kind)
    except pa.ArrowInvalid:
        row = pc.index(pc.match_substring_regex(plain, _NUMBER), False).as_py()
        raise pa.ArrowInvalid(
            f"In CSV column #{number}: Row #{max(row, 0) + 1}: CSV conversion error: invalid value {texts[max(row, 0)].as_py()!r}"
        ) from None


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
    pairs = list(enumerate(zip(inferred(text, dialect), inferred(text, comma), strict=True)))
    texts = {j: point for j, (point, other) in pairs if pa.types.is_string(point) and other == pa.float64()}
    points = [j for j, (point, other) in pairs if point == pa.float64() and other != point]
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
        int64, decimal128 of integers beyond 2^53, double, bool, date32, timestamp, time32, string, or null where there is
        no value.

    Raises
    ------
    pa.ArrowInvalid
        A row has another number of values.
    """
    # What is no UTF-8 is told with its row when it is read.
    table = parse(text, dialect)
    kinds = [pa.string() if pa.types.is_binary(kind) else kind for kind in table.schema.types]
    tried = {j: widened(kind) for j, kind in enumerate(kinds) if widened(kind) != kind}
    if not _reads(text, dialect, tried):  # such as hexadecimal numbers, which are no floats
        kinds = [
            kind if _reads(text, dialect, {j: widened(kind)}) else pa.string() for j, kind in enumerate(kinds)
        ]
    for j, column in enumerate(table.columns):  # integers that float64 rounds
        if kinds[j] in (pa.int64(), pa.float64()) and (pc.max(pc.abs(column)).as_py() or 0) > 2**53:
            texts = parse(text, dialect, {j: pa.string()}).column(0)
            if pc.all(pc.match_substring_regex(texts, _WHOLE)).as_py():
                whole = LARGE if pa.types.is_integer(kinds[j]) else WHOLE
                kinds[j] = whole if _reads(text, dialect, {j: whole}) else pa.string()
    if dialect.thousands:
        for j in [j for j, kind in enumerate(kinds) if pa.types.is_string(kind)]:
            found = (kind for kind in (pa.int64(), pa.float64()) if _reads(text, dialect, {j: kind}))
            kinds[j] = next(found, kinds[j])
    return kinds


def _reads(text: bytes, dialect: Dialect, kinds: Mapping[int, pa.DataType]) -> bool:
    try:
        parse(text, dialect, kinds)
    except pa.ArrowInvalid:
        return False
    return True


def widened(kind: pa.DataType) -> pa.DataType:
    """The type as which a column is read where rows that were not looked at may need more: fractions, times of dates."""
    base = base_of(kind)
    if base == "time":
        return kind if getattr(kind, "unit", "") == "ns" else pa.timestamp("us", getattr(kind, "tz", None))
    return {"number": pa.float64(), "clock": pa.time64("us")}.get(str(base), kind)


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
    base = base_of(found)
    if column.digits and base == "number" and not pa.types.is_floating(found):
        return WHOLE
    if column.base == "empty":
        return pa.null()
    if base == "empty":  # no value was looked at
        return {"number": pa.float64(), "boolean": pa.bool_()}.get(column.base, pa.string())
    if column.base == "text" or column.form or (base == "number" and column.base in ("time", "clock")):
        return pa.string()  # of numbers where times are needed the message shows one
    return widened(found)


def refused(
    error: pa.ArrowInvalid, kinds: Mapping[int, pa.DataType], names: Mapping[int, str], file: str, row: int
) -> InputError:
    """What Arrow could not read, in words of the table.

    Parameters
    ----------
    error : pa.ArrowInvalid
        Of `parse`.
    kinds : mapping of int to pa.DataType
        As what the columns were to be read.
    names : mapping of int to str
        Of the columns.
    file : str
    row : int
        Rows of the file before the text.

    Returns
    -------
    InputError
    """
    fault = _FAULT.match(str(error))
    if fault is None:
        return InputError(f"rows of text are read as CSV; {file!r} is not such ({error}); correct the file")
    where, what = f"row {row + int(fault['row']):,} of {file!r}", fault["what"]
    if fault["column"] is None:
        return InputError(
            f"every row has as many values as the first; {where} has not ({what[:200]}); correct the file"
        )
    name, value = names[int(fault["column"])], _VALUE.search(what)
    if value is None:
        return InputError(
            f"text is UTF-8 unless encoding= says otherwise; {where} has other bytes in column {name!r}; give encoding="
        )
    kind = kinds[int(fault["column"])]
    return InputError(
        f"every value of a column is of one type; {where} has {value[1][:60]!r} in column {name!r}, which holds "
        f"{BASES[base_of(kind) or 'text']} ({kind}); correct the file, leave the column out, or name what is missing with "
        "na_values="
    )
