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
from .arrow_types import is_number
from .csv_format import CsvFormat
from .table_schema import ColumnType, base_of

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
    """

    delimiter: str
    width: int
    decimal: str = "."
    thousands: str = ""
    nulls: tuple[str, ...] = NULLS


@dataclass
class RowEnds:
    """Finds the rows of text, in buffers of any size.

    A line break between quotes ends no row, and an empty line is none. A quote opens at the start of a value only, as Arrow
    has it: rows are told by the parity of the quotes before them, but in buffers with other quotes (6" pipe) one by one.

    Parameters
    ----------
    delimiters : str
    quoted : bool
        Whether a quote is open.
    """

    delimiters: str
    quoted: bool = False
    _last: int = _LF
    _closed: bool = False

    def find(self, text: bytes) -> np.ndarray:
        """Where in the next bytes a row has ended: after its line break, the first character of one of two."""
        a = np.frombuffer(text, np.uint8)
        breaks = np.flatnonzero((a == _LF) | (a == _CR) if b"\r" in text else a == _LF)
        quotes = np.flatnonzero(a == _QUOTE) if b'"' in text else np.empty(0, np.int64)
        was_quoted = self.quoted
        if len(quotes):
            quotes = self._toggles(a, quotes)
        if was_quoted or len(quotes):
            breaks = breaks[(np.searchsorted(quotes, breaks) + was_quoted) % 2 == 0]
        before = a[breaks - 1]
        if len(breaks) and breaks[0] == 0:
            before[0] = self._last
        self.quoted = bool((was_quoted + len(quotes)) % 2)
        if len(a):
            self._last = int(a[-1])
            self._closed = bool(len(quotes)) and quotes[-1] == len(a) - 1 and not self.quoted
        return breaks[(before != _LF) & (before != _CR)] + 1

    def _toggles(self, a: np.ndarray, quotes: np.ndarray) -> np.ndarray:
        """The quotes that open or close; of two together inside quotes one closes and the other opens again."""
        before = a[quotes - 1]
        if quotes[0] == 0:
            before[0] = self._last
        starts = np.isin(before, np.frombuffer(f"{self.delimiters}\n\r".encode(), np.uint8))
        again = np.r_[quotes[0] == 0 and self._closed, np.diff(quotes) == 1]
        opening = slice(int(self.quoted), None, 2)
        if (starts[opening] | again[opening]).all():
            return quotes
        kept, quoted, closed = [], self.quoted, -1 if self._closed else -2
        for at, start in zip(quotes.tolist(), starts.tolist(), strict=True):
            if quoted or start or closed == at - 1:
                kept.append(at)
                quoted = not quoted
                closed = -2 if quoted else at
        return np.asarray(kept, np.int64)


def header_of(line: bytes, second: bytes, path: str, wanted: CsvFormat) -> tuple[list[str], str, bool]:
    """What the first row of a file says.

    Parameters
    ----------
    line : bytes
        The row, from the start of the file.
    second : bytes
        The next one.
    path : str
        Its ending tells tabs from commas.
    wanted : CsvFormat
        What the user says.

    Returns
    -------
    names : list of str
        Of the columns: f0, f1, ... where the row holds no names.
    delimiter : str
        Of .tsv a tab; else a comma, or a semicolon, a tab or ``|`` where both rows have these and the first no comma.
    named : bool
        Whether the row holds names, and not the first values.

    Raises
    ------
    InputError
        The text is no UTF-8, two columns have one name, or the row may hold either.
    """
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"text is read as UTF-8 unless encoding= says otherwise; the names of the columns of {path!r} are no such text "
            f"({error}); give encoding='latin-1' or what it is"
        ) from None
    tabs = bool(re.search(r"\.(tsv|tab)(\.\w+)?$", path.lower()))
    bare = re.sub(r'"[^"]*"', "", text)
    marks = _DELIMITERS.replace(wanted.decimal or "\0", "")
    delimiter = wanted.sep or (
        "\t"
        if tabs
        else next((mark for mark in marks if mark in bare and mark.encode() in (second or line)), marks[0])
    )
    names = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
    named = _holds_names(names, path) if wanted.header is None else wanted.header
    if not named:
        return [f"f{j}" for j in range(len(names))], delimiter, False
    if len(set(names)) != len(names):
        raise InputError(f"columns have distinct names; {path!r} has {names[:50]}; rename them")
    return names, delimiter, True


def _holds_names(row: Sequence[str], path: str) -> bool:
    """Whether a first row is one of names. A row of numbers is none, unless they count columns (0, 1, 2) or years."""
    said = [value for value in row if value.strip()]  # what has no name is where pandas writes row labels
    numbers = [re.fullmatch(_NUMBER, value) is not None for value in said]
    if not any(numbers):
        return True
    counted = said == [str(int(said[0]) + j) for j in range(len(said))] if said[0].strip().isdigit() else False
    first = int(said[0]) if counted else -1
    if (
        all(numbers)
        and counted
        and ((first == 0 and len(said) > 2) or (1800 <= first <= 2200 and len(said) > 1))
    ):
        return True
    if all(numbers) and not (counted and first == 1 and len(said) > 2):
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
    marked: dict[int, pa.DataType] = {}
    if kinds is not None:
        marked = {j: kind for j, kind in kinds.items() if dialect.thousands and is_number(kind)}
        chosen["include_columns"] = [str(j) for j in kinds]
        chosen["column_types"] = {str(j): kind for j, kind in kinds.items()} | dict.fromkeys(
            map(str, marked), pa.string()
        )
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
        int64, double, bool, date32, timestamp, time32, string, or null where there is no value.

    Raises
    ------
    pa.ArrowInvalid
        A row has another number of values.
    """
    # What is no UTF-8 is told with its row when it is read.
    kinds = [pa.string() if pa.types.is_binary(kind) else kind for kind in parse(text, dialect).schema.types]
    tried = {j: widened(kind) for j, kind in enumerate(kinds) if widened(kind) != kind}
    if not _reads(text, dialect, tried):  # such as hexadecimal numbers, which are no floats
        kinds = [
            kind if _reads(text, dialect, {j: widened(kind)}) else pa.string() for j, kind in enumerate(kinds)
        ]
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
    if column.form:
        return pa.string()
    if pa.types.is_null(found):  # no value was looked at
        return {"number": pa.float64(), "boolean": pa.bool_()}.get(column.base, pa.string())
    if base_of(found) == "number" and column.base in ("time", "clock"):
        return pa.string()  # the message shows a value
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
    return InputError(
        f"every value of a column is of one type; {where} has {value[1][:60]!r} in column {name!r}, which is no "
        f"{_wanted(kinds[int(fault['column'])])}; correct the file, leave the column out, or name what is missing with "
        "na_values="
    )


def _wanted(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "whole number"
    if pa.types.is_timestamp(kind):
        return "date with a time zone" if kind.tz else "date without a time zone"
    names = {"number": "number", "boolean": "true or false", "clock": "time of day", "text": "UTF-8 text"}
    return names.get(str(base_of(kind)), "missing value")
