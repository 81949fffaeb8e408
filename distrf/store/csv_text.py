"""Text of CSV: plain UTF-8 of whatever it is packed in, what its first rows say, and the types of its columns."""

from __future__ import annotations

import csv
import io
import itertools
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ..errors import InputError, StoreError
from . import files
from .csv_format import BLANKS, CsvFormat
from .file_lists import hidden
from .table_schema import finest_time, is_number

#: Values that are missing: the words of pandas, quoted or not.
NULLS = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
#: What separates values, where the first line has it; the first one otherwise.
_DELIMITERS = ",;\t|"
#: What Arrow says of a value, or of a row, that it cannot read.
FAULT = re.compile(
    r"(?:In CSV column #(?P<column>\d+): |CSV parse error: |)Row #(?P<row>\d+): (?P<what>[^']*(?:'(?P<value>.*)')?.*)", re.DOTALL
)  # fmt: skip
_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?\s*$"
#: What whole numbers have not.
_OTHER = r"[^\d\s-]"
#: Bytes of text that are read and parsed at a time, those of the longest first line and row, and rows that tell the delimiter.
_PIECE, _HEAD, LARGEST_ROW, _FIRST_ROWS = 2**20, 2**23, 2**26, 20


@dataclass(frozen=True)
class Dialect:
    """How the text of a file is read.

    Parameters
    ----------
    file : str
    wanted : CsvFormat
        What the user says.
    names : tuple of str
        Of the columns.
    delimiter : str
    start : int
        Bytes before the first row that is no line of names.
    block : int
        Bytes that are parsed at a time: a row is not longer.
    """

    file: str
    wanted: CsvFormat
    names: tuple[str, ...]
    delimiter: str
    start: int
    block: int = _PIECE

    def reader(self, types: Mapping[str, pa.DataType] | None = None, skip: int = 0) -> tuple[Any, PlainText]:
        """A streaming reader of the rows, behind some of them, and its text. Types of None are those of the first block.

        Behind the last row stands one without values: where a quote is open, it is a part of the last value.
        Raises pa.ArrowInvalid for text that is no such, as does the reader, with the row.
        """
        end = "\n" + self.delimiter.join(['""'] * len(self.names)) + "\n"
        text = PlainText(self.file, self.wanted, self.start, end.encode())
        read = pa.csv.ReadOptions(
            use_threads=False, block_size=self.block, column_names=self.names, skip_rows_after_names=skip,
        )  # fmt: skip
        nulls = ("", *(NULLS if self.wanted.keep_default_na else ()), *self.wanted.na_values)
        values = pa.csv.ConvertOptions(
            null_values=nulls, strings_can_be_null=True, decimal_point=self.wanted.decimal or ".", check_utf8=True,
            column_types=types, include_columns=list(types or ()),
        )  # fmt: skip
        parse = pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True)
        return pa.csv.open_csv(pa.PythonFile(text, "r"), read, parse, values), text

    def first_rows(self, types: Mapping[str, pa.DataType] | None = None, skip: int = 0) -> pa.RecordBatch:
        """Those of the first block that has some."""
        return next(batch for batch in self.reader(types, skip)[0] if len(batch))

    def misread(self, name: str, kind: pa.DataType, skip: int = 0) -> str | None:
        """The first value of a column in `first_rows` that is not of a type."""
        try:
            self.first_rows({name: kind}, skip)
        except pa.ArrowInvalid as error:
            return FAULT.match(str(error))["value"]  # type: ignore[index]
        return None


class PlainText:
    """The text of a file as one that Arrow reads: UTF-8, unpacked, without comments, a tab for each run of blanks.

    Parameters
    ----------
    name : str
    wanted : CsvFormat
    start : int
        Bytes that are left out.
    end : bytes
        What follows the text.

    Attributes
    ----------
    done : int
        Bytes that were read.
    """

    closed = False

    def __init__(self, name: str, wanted: CsvFormat, start: int = 0, end: bytes = b"") -> None:
        self._pieces, self._held, self.done = itertools.chain(_pieces(name, wanted), [end]), b"", 0
        self.read(start)

    def read(self, size: int) -> bytes:
        """At most so many bytes; none at the end."""
        while len(self._held) < size and (piece := next(self._pieces, None)) is not None:
            self._held += piece
        out, self._held = self._held[:size], self._held[size:]
        self.done += len(out)
        return out


def _pieces(name: str, wanted: CsvFormat) -> Iterator[bytes]:
    with _unpacked(name) as raw:
        if wanted.encoding in ("utf-8", "utf-8-sig", "ascii"):
            pieces: Iterator[bytes] = iter(lambda: raw.read(_PIECE), b"")
        else:
            text = io.TextIOWrapper(raw, wanted.encoding, newline="")
            pieces = (piece.encode() for piece in iter(lambda: text.read(_PIECE), ""))
        try:
            first = next(pieces, b"").removeprefix(b"\xef\xbb\xbf")
            pieces = itertools.chain([first], pieces)
            pieces = _plain(pieces, wanted) if wanted.comment or wanted.sep == BLANKS else pieces
            for piece in pieces:  # an empty line before the names is none that is skipped
                if piece := piece.lstrip(b"\r\n"):
                    yield piece
                    break
            yield from pieces
        except UnicodeError as error:
            raise InputError(
                f"encoding= is that of the text; {name!r} is no {wanted.encoding} ({error}); give another"
            ) from None


def _plain(pieces: Iterator[bytes], wanted: CsvFormat) -> Iterator[bytes]:
    """Whole lines without those that begin as comments, tabs for blanks but for those between quotes."""
    rest = b""
    for piece in itertools.chain(pieces, [b""]):
        rest += piece
        end = rest.rfind(b"\n") + 1 if piece else len(rest)
        lines, rest = rest[:end], rest[end:]
        if wanted.comment:
            lines = re.sub(rb"(?m)^[ \t]*%s.*\n?" % re.escape(wanted.comment.encode()), b"", lines)
        if wanted.sep == BLANKS:
            lines = re.sub(rb"(?m)^[ \t]+|[ \t]+(?=\r?$)", b"", lines)
            lines = re.sub(rb'("[^"]*")|[ \t]+', lambda found: found[1] or b"\t", lines)
        yield lines


@contextmanager
def _unpacked(name: str) -> Iterator[Any]:
    """An open file; of an archive the one that is in it."""
    if not name.lower().endswith(".zip"):
        with files.open_text(name) as file:
            yield file
        return
    fs, root = files.filesystem(name)
    with files.reading(name, "a zip archive"), fs.open(root, "rb") as raw, zipfile.ZipFile(raw) as archive:
        inside = [one for one in archive.namelist() if not (one.endswith("/") or hidden(one))]
        if len(inside) != 1:
            raise StoreError(
                f"an archive of CSV holds one file; {name!r} holds {inside[:10]}; unpack it into a folder"
            )
        with archive.open(inside[0]) as file:
            yield file


def dialect_of(name: str, wanted: CsvFormat) -> Dialect:
    """How the text of a file is read, by its first rows.

    Parameters
    ----------
    name : str
        Its ending tells tabs from commas.
    wanted : CsvFormat
        What the user says.

    Returns
    -------
    Dialect
        The delimiter is of .tsv a tab; else that of comma, semicolon, tab and ``|`` which all of these rows have equally often, or
        which the first two have; else a comma. Columns are f0, f1, ... where the row holds no names; "Unnamed: 0" is the first
        one without a name, as in pandas.

    Raises
    ------
    StoreError
        The file is empty, or the first row has no end.
    InputError
        The text is no UTF-8, two columns have one name, the row may hold either, or rows have two delimiters equally often.
    """
    text = PlainText(name, wanted).read(_HEAD)
    if not text.strip(b"\r\n"):
        raise StoreError(f"{name!r} is empty; give a file that has rows")
    marks = re.escape(wanted.sep.encode() if wanted.sep and wanted.sep != BLANKS else _DELIMITERS.encode())
    row = rb'(?:(?:\A|(?<=[\n\r%s]))"(?:[^"]|"")*+"|[^\r\n])++' % marks
    found = list(itertools.islice(re.finditer(row, text), _FIRST_ROWS))
    rows = [one[0] for one in found]
    if len(text) == _HEAD and len(rows) < _FIRST_ROWS:  # the last one may go on
        del rows[-1]
    if not rows:
        raise StoreError(
            f"the first line of CSV names the columns; that of {name!r} is over 8 MiB, or a quote in it is never closed; is it text?"
        )
    try:
        first = rows[0].decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"text is read as UTF-8 unless encoding= says otherwise; the names of the columns of {name!r} are no such text "
            f"({error}); give encoding='latin-1' or what it is"
        ) from None
    tabs = wanted.sep == BLANKS or (re.search(r"\.(tsv|tab)(\.\w+)?$", name.lower()) and not wanted.sep)
    delimiter = "\t" if tabs else wanted.sep or _delimiter(rows, name, wanted.decimal or ".")
    names = next(csv.reader(io.StringIO(first, newline=""), delimiter=delimiter), [])
    named = _holds_names(names, name) if wanted.header is None else wanted.header
    names = [(name or f"Unnamed: {j}") if named else f"f{j}" for j, name in enumerate(names)]
    if len(set(names)) != len(names):
        raise InputError(f"columns have distinct names; {name!r} has {names[:50]}; rename them")
    block, start = max(_PIECE, 4 * max(map(len, rows))), found[0].end() if named else 0
    return Dialect(name, wanted, tuple(names), delimiter, start, block)


def _delimiter(rows: Sequence[bytes], path: str, decimal: str) -> str:
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


def column_types(dialect: Dialect, rows: pa.RecordBatch, skip: int = 0) -> dict[str, pa.DataType]:
    """The types of the columns, from some rows.

    Parameters
    ----------
    dialect : Dialect
    rows : pa.RecordBatch
        As Arrow reads them.
    skip : int
        Rows before them.

    Returns
    -------
    dict of str to pa.DataType
        int64, uint64, double, bool, date32, timestamp, time64, string, or null where there is no value. Integers beyond these are
        text, as are hexadecimal ones.
    """

    types, numbers = {}, {one.name: pa.string() for one in rows.schema if is_number(one.type)}
    texts = dialect.first_rows(numbers, skip) if numbers else rows
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        kind = column.type
        if pa.types.is_binary(kind):  # no UTF-8, which is told with its row when it is read
            kind = pa.string()
        elif pa.types.is_time(kind):
            kind = pa.time64("us")
        elif pa.types.is_integer(kind) and _any(texts[name], "[xX]"):
            kind = pa.string()
        elif pa.types.is_floating(kind) and not _any(texts[name], _OTHER):  # whole numbers beyond int64
            kind = pa.string() if dialect.misread(name, pa.uint64(), skip) else pa.uint64()
        types[name] = kind
    return types


def _any(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())


def joined(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The type that has the values of two; text where there is none."""
    test = pa.types
    if one == other or test.is_null(other):
        return one
    if test.is_null(one):
        return other
    if is_number(one) and is_number(other) and pa.bool_() not in (one, other):
        return pa.float64() if pa.float64() in (one, other) else pa.uint64()
    times = [kind for kind in (one, other) if test.is_date(kind) or test.is_timestamp(kind)]
    zones = {getattr(kind, "tz", None) for kind in times}
    return finest_time(times) if len(times) == 2 and len(zones) == 1 else pa.string()
