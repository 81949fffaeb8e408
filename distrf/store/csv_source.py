"""Rows in comma-separated text: it becomes Parquet once, file by file, and is read as that."""

from __future__ import annotations

import atexit
import codecs
import csv
import io
import itertools
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from ..errors import InputError, StoreError
from ..progress import current_listener
from . import file_lists, files
from .csv_format import BLANKS, USUAL, CsvFormat, current_format, said_format
from .row_source import Selection
from .spec import fingerprint_of_spec
from .table_reader import TableRows, found_in
from .table_schema import TableSchema, base_of, common_type, drift, is_number, is_text, merged
from .table_source import TableSource
from .text_forms import NUMBER

#: Values that are missing: the words of pandas, quoted or not.
NULLS = (*pa.csv.ConvertOptions().null_values, "<NA>", "None")
#: What separates values, where the first line has it; the first one otherwise.
_DELIMITERS = ",;\t|"
#: What Arrow says of a value that it cannot read: the number of the column, and that of the row.
_FAULT = re.compile(r"In CSV column #(\d+): Row #(\d+): ")
#: What whole numbers have not, and what codes have.
_OTHER, _CODE = r"[^\d\s-]", r"^\s*-?0\d+\s*$"
#: Bytes of text that are read at a time, and those that are parsed, which a row has at most; rows that tell the delimiter.
_PIECE, _PARSED, _FIRST_ROWS = 2**20, 2**22, 20
#: Rows and bytes of a row group, at most: rows are coded so many at a time.
_GROUP_ROWS, _GROUP_BYTES = 2**16, 2**24
#: Set by `distrf.execution`: whether all workers see a folder.
workers_see: Callable[[str], bool] | None = None


class CsvSource(TableSource):
    """X, or the target, of a CSV file, a folder or a glob of them; see `TableSource`.

    How text is read is said by `distrf.store.csv_format.CsvFormat`. What pandas takes for a missing value is one. The type of a column is
    the narrowest that holds all its values: integers stay exact, and one word makes text of it, of which `find_form` may make
    numbers again, among which the word is missing.
    """

    kind, endings = "CSV", file_lists.TEXT

    @classmethod
    def recognises(cls, path: str) -> bool:
        """True for a file or glob by its name, a folder by the files in it, and any file of which a format is said."""
        said = current_format() != USUAL and not files.is_web(path) and files.is_file(path)
        return said or super().recognises(path)

    @classmethod
    def found(cls, path: str, selection: Selection) -> tuple[TableRows, list[tuple[str, pa.Schema]]]:
        """The text becomes Parquet, unless it has been before."""
        names = cls.files(path)
        asked = selection.coded.columns if isinstance(selection.coded, TableSchema) else ()
        text = {c.name for c in asked if (c.base == "text" and not c.digits) or (c.form and not c.stamps)}
        made = [converted(name) for name in names]
        found = found_in(path, made, names)
        schemas = [schema for _, schema in found[1]]
        for name, schema in zip(names, schemas, strict=True):
            if sorted(schema.names) != sorted(schemas[0].names):
                raise StoreError(
                    f"the files of a data set have the same columns; {name!r} has {schema.names[:20]}, {names[0]!r} has "
                    f"{schemas[0].names[:20]}; write them with one line of names"
                )
            if fault := drift(TableSchema(tuple(c for c in asked if c.name not in text)), schema):
                raise InputError(f"{fault} (in {name!r})")
        # Text in one file and numbers in another, and what a model reads as text, whatever it looks like here.
        text |= merged(found[1])[1].keys()
        again = []
        for name, schema in zip(names, schemas, strict=True):
            others = {one.name for one in schema if base_of(one.type) not in ("text", "empty")}
            again.append(converted(name, text & others))
        return found if again == made else found_in(path, again, names)


def converted(name: str, text: Set[str] = frozenset()) -> str:
    """A CSV file as Parquet, which is made unless it is there.

    Parameters
    ----------
    name : str
        Path or URL.
    text : set of str
        Columns that are read as text, whatever they look like.

    Returns
    -------
    str
        Of a name that tells the version of the file and how it is read.

    Raises
    ------
    InputError, StoreError
        The text is no CSV, with the row; or workers do not see the folder.
    """
    wanted = current_format()
    folder = files.normalise(wanted.scratch or _temporary())
    spec = {"file": file_lists.version_of([name]), "format": said_format(), "text": sorted(text)}
    place = f"{folder}/{fingerprint_of_spec(spec)}.parquet"
    if not files.exists(place):
        files.write_file(place, partial(_convert, dialect=dialect_of(name, wanted), text=text))
    return place


def _temporary() -> str:
    """A folder that ends with the process, which the workers see."""
    folder = _own_folder()
    if workers_see is not None and not workers_see(folder):
        raise InputError(
            f"CSV becomes Parquet in a folder that all workers see, and some do not see {folder}; give one as scratch= "
            "(on the command line --csv scratch=DIR), or Parquet in place of CSV"
        )
    return folder


@cache
def _own_folder() -> str:
    folder = tempfile.mkdtemp(prefix="distrf-csv-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _convert(file: Any, dialect: Dialect, text: Set[str]) -> None:
    """Write the rows as Parquet.

    Where a value is not of the type of its column, from the start with types that hold it and its block. Others do not become text
    by a guess: Arrow reads more than it guesses.
    """
    try:
        types = _column_types(dialect)
        while True:
            try:
                columns = types | dict.fromkeys(text & types.keys(), pa.string())
                return _write(dialect, columns, file)
            except pa.ArrowInvalid as error:
                if (fault := _FAULT.match(str(error))) is None:
                    raise
                name = dialect.names[int(fault[1])]
                before = types[name]
            for one, kind in _column_types(dialect, int(fault[2]) - 1).items():
                wider = common_type(types[one], kind) or pa.string()
                if not is_text(wider) or pa.types.is_null(types[one]):
                    types[one] = wider
            if types[name] == before:
                types[name] = pa.decimal128(38, 0) if before == pa.uint64() else pa.string()
    except pa.ArrowInvalid as error:
        raise _refused(error, dialect.file) from None


def _write(dialect: Dialect, types: dict[str, pa.DataType], out: Any) -> None:
    out.seek(0)
    out.truncate()
    tell, size, done = current_listener(), 0, 0
    if not dialect.file.lower().endswith(file_lists.PACKED[1:]):  # of which the unpacked size is not known
        fs, root = files.filesystem(dialect.file)
        size = fs.size(root) or 0
    reader, plain = dialect.reader(types)
    schema = pa.schema(list(types.items()))
    texts = [name for name, kind in types.items() if is_text(kind)]
    options = {"compression": "lz4", "use_dictionary": texts, "write_page_checksum": True}
    held = schema.empty_table()
    with pq.ParquetWriter(out, schema, **options) as writer:
        for batch in filter(len, reader):
            if len(held) + len(batch) > _GROUP_ROWS or held.nbytes + batch.nbytes > _GROUP_BYTES:
                writer.write_table(held, row_group_size=_GROUP_ROWS)
                held = schema.empty_table()
            held = pa.concat_tables([held, pa.Table.from_arrays(batch.columns, schema=schema)])
            done += len(batch)
            if tell is not None and size:
                tell("CSV", done, max(done, int(done * size / plain.done)))
        if held.column(len(types) - 1)[-1].is_valid:  # the row behind the last one is a part of it
            raise StoreError(
                f"a quote ends with its value; in row {done:,} of {dialect.file!r} or before it one is never closed; correct "
                "the file"
            )
        writer.write_table(held.slice(0, len(held) - 1), row_group_size=_GROUP_ROWS)


def _refused(error: Exception, file: str) -> InputError | StoreError:
    """What cannot be read, with the words of Arrow, which tell the row."""
    if "straddling" in str(error):
        return StoreError(
            f"a quote ends with its value; in {file!r} one is never closed, or a row is over 4 MiB; correct the file"
        )
    return InputError(
        f"rows of CSV have as many values as the first; {file!r} is not so ({' '.join(str(error).split())[:300]}); correct the "
        "file, or say sep="
    )


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
    """

    file: str
    wanted: CsvFormat
    names: tuple[str, ...]
    delimiter: str
    start: int

    def reader(self, types: Mapping[str, pa.DataType] | None = None, skip: int = 0) -> tuple[Any, PlainText]:
        """A streaming reader of the rows, behind some of them, and its text. Types of None are those of the first block.

        Behind the last row stands one without values: where a quote is open, it is a part of the last value.
        Raises pa.ArrowInvalid for text that is no such, as does the reader, with the row.
        """
        end = "\n" + self.delimiter.join(['""'] * len(self.names)) + "\n"
        text = PlainText(self.file, self.wanted, self.start, end.encode())
        read = pa.csv.ReadOptions(
            use_threads=False, block_size=_PARSED, column_names=self.names, skip_rows_after_names=skip,
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
    with files.open_text(name) as raw:
        texts = codecs.iterdecode(iter(lambda: raw.read(_PIECE), b""), wanted.encoding)
        pieces: Iterator[bytes] = (text.encode() for text in texts)
        try:
            pieces = itertools.chain([next(pieces, b"").removeprefix(b"\xef\xbb\xbf")], pieces)
            yield from _plain(pieces, wanted) if wanted.comment or wanted.sep == BLANKS else pieces
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
        The file is empty, the first row has no end, or it is an archive of several files.
    InputError
        The text is no UTF-8, two columns have one name, the row may hold either, or rows have two delimiters equally often.
    """
    if name.lower().endswith(".zip"):  # its first file alone is unpacked
        with files.reading(name, "a zip archive"), files.opened(name) as raw, zipfile.ZipFile(raw) as archive:
            inside = archive.namelist()
        if [one for one in inside if not (one.endswith("/") or file_lists.hidden(one))] != inside[:1]:
            raise StoreError(
                f"an archive of CSV holds one file; {name!r} holds {inside[:10]}; unpack it into a folder"
            )
    text = PlainText(name, wanted).read(_PARSED)
    if not text.strip(b"\r\n"):
        raise StoreError(f"{name!r} is empty; give a file that has rows")
    marks = re.escape(wanted.sep.encode() if wanted.sep and wanted.sep != BLANKS else _DELIMITERS.encode())
    row = rb'(?:(?:\A|(?<=[\n\r%s]))"(?:[^"]|"")*+"|[^\r\n])++' % marks
    found = list(itertools.islice(re.finditer(row, text), _FIRST_ROWS))
    rows = [one[0] for one in found]
    if len(text) == _PARSED and len(rows) < _FIRST_ROWS:  # the last one may go on
        del rows[-1]
    if not rows:
        raise StoreError(
            f"the first line of CSV names the columns; that of {name!r} is over 4 MiB, or a quote in it is never closed; is it text?"
        )
    tabs = wanted.sep == BLANKS or (re.search(r"\.(tsv|tab)(\.\w+)?$", name.lower()) and not wanted.sep)
    delimiter = "\t" if tabs else wanted.sep or _delimiter(rows, name, wanted.decimal or ".")
    names = next(csv.reader(io.StringIO(rows[0].decode(), newline=""), delimiter=delimiter), [])
    named = _holds_names(names, name) if wanted.header is None else wanted.header
    names = [(name or f"Unnamed: {j}") if named else f"f{j}" for j, name in enumerate(names)]
    if len(set(names)) != len(names):
        raise InputError(f"columns have distinct names; {name!r} has {names[:50]}; rename them")
    return Dialect(name, wanted, tuple(names), delimiter, found[0].end() if named else 0)


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
    """Whether a first row is one of names. A row of numbers is none, unless they count columns or years: then it may be either."""
    said = [value for value in row if value.strip()]  # what has no name are row labels of pandas
    numbers = [re.fullmatch(NUMBER, value) is not None for value in said]
    if not any(numbers):
        return True
    first = int(said[0]) if said[0].isdecimal() else 0
    counted = len(said) > 1 and said == [str(first + j) for j in range(len(said))]
    if all(numbers) and not counted:
        return False
    raise InputError(
        f"a first row is of names or of values; that of {path!r} may be either: {row[:10]}; say header=True where it holds "
        "the names of the columns, and header=False where it does not: they are f0, f1, ... then"
    )


def _column_types(dialect: Dialect, skip: int = 0) -> dict[str, pa.DataType]:
    """The types of the columns, from the first rows behind some.

    Parameters
    ----------
    dialect : Dialect
    skip : int
        Rows before them.

    Returns
    -------
    dict of str to pa.DataType
        int64, uint64 of whole numbers beyond it, double, bool, date32, timestamp, time64, string (of hexadecimal numbers, and of
        whole ones with leading zeros), or null where there is no value.
    """
    rows = dialect.first_rows(skip=skip)
    types = {one.name: one.type for one in rows.schema}
    numbers = {name: pa.string() for name, kind in types.items() if is_number(kind) and kind != pa.bool_()}
    texts = dialect.first_rows(numbers, skip) if numbers else rows
    for name, kind in types.items():
        if pa.types.is_time(kind):
            types[name] = pa.time64("us")
        elif name in numbers:
            other, code = (
                pc.any(pc.match_substring_regex(texts[name], form)).as_py() for form in (_OTHER, _CODE)
            )
            if (pa.types.is_integer(kind) and other) or (code and not other):
                types[name] = pa.string()
            elif pa.types.is_floating(kind) and not other:
                types[name] = pa.uint64()
    return types
