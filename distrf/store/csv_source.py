"""Rows in comma-separated text: blocks are found by one scan of its bytes, types are those of sampled rows."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import StoreError
from . import file_lists, files
from .csv_format import USUAL, CsvFormat, current_format
from .csv_text import (
    LARGE,
    NULLS,
    WHOLE,
    Dialect,
    header_of,
    inferred,
    kind_for,
    parse,
    refused,
    row_ends,
    widened,
    with_decimal,
)  # fmt: skip
from .plain_text import PlainText, open_plain
from .row_source import Selection
from .table_reader import Group, TableRows, with_values
from .table_schema import TableSchema
from .table_source import Found, TableSource, with_folders
from .text_forms import find_form

#: Bytes that are scanned at a time, and bytes between two places at which a reader can start: more in a large file.
_SCAN_BYTES, _STEP_BYTES, _STEPS = 2**23, 2**20, 2**12
#: The largest row, in scans.
_LARGEST_ROW = 8
#: Bytes from which types are inferred: of so many places, so many each.
_PLACES, _PLACE_BYTES = 16, 2**18
#: Rows that tell the delimiter.
_FIRST_ROWS = 20


@dataclass(frozen=True, kw_only=True)
class CsvRows(TableRows):
    """Reads rows from the bytes that hold them; see `TableRows`.

    Parameters
    ----------
    kinds : tuple of pa.DataType
        As what each column is read.
    numbers : tuple of int
        The numbers of the columns in the file.
    dialect : Dialect
    """

    null_hint: ClassVar[str] = "say keep_default_na=False where a word such as NA is a class, or else "

    numbers: tuple[int, ...] = ()
    dialect: Dialect

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        return *super().__dask_tokenize__(), self.numbers, list(map(str, self.kinds)), vars(self.dialect)

    def opened(self, file: str) -> AbstractContextManager[PlainText]:
        """The text."""
        return open_plain(file, self.dialect.encoding)

    def decoded(
        self, file: PlainText, group: Group, low: int, high: int, most: int
    ) -> Iterator[tuple[int, pa.Table]]:
        """In one piece; see `TableRows.decoded`."""
        names = dict(zip(self.numbers, self.columns, strict=True))
        kinds = {j: kind for j, kind in zip(self.numbers, self.kinds, strict=True) if j < self.dialect.width}
        try:
            table = parse(file.read(group.start, group.stop - group.start), self.dialect, kinds)
        except pa.ArrowInvalid as error:
            raise refused(error, kinds, names, group.file, group.before) from None
        table = table.select([str(j) for j in kinds]).rename_columns([names[j] for j in kinds])
        others = [names[j] for j in names if j not in kinds]
        yield low, with_values(table.slice(low, high - low), others, group, high - low)


@dataclass(frozen=True, kw_only=True)
class CsvSource(TableSource):
    """X, or the target, of a CSV file, a folder or a glob of them; see `TableSource`.

    How text is read is said by `distrf.store.csv_format`. Numbers are float64. What pandas takes for a missing value is one.
    """

    cuts_anywhere: ClassVar[bool] = True

    @classmethod
    def recognises(cls, path: str) -> bool:
        """True for a file or glob by its name, a folder with CSV files in it, and any file of which a format is said."""
        if path.lower().endswith(file_lists.ANY_TEXT):
            return True
        if file_lists.holds(path, file_lists.TEXT):
            return True
        fs, root = files.filesystem(path)
        return current_format() != USUAL and not files.is_web(path) and fs.isfile(root)

    @classmethod
    def files(cls, path: str) -> list[files.Place]:
        """The CSV files of a path."""
        return file_lists.list_files(path, file_lists.TEXT, "CSV")

    @classmethod
    def found(cls, path: str, selection: Selection) -> Found:
        """The bytes are scanned once; types are those of sampled rows."""
        names = cls.files(path)
        version = file_lists.version_of(names)
        groups, dialect, schema, strays = _described(
            tuple(names), version, repr(names[0].options), current_format()
        )
        if selection.coded is True and not _small(groups):
            # Rows that were not looked at may have values where the others have none.
            types = [pa.string() if pa.types.is_null(kind) else kind for kind in schema.types]
            schema = pa.schema(list(zip(schema.names, types, strict=True)))
        folders = file_lists.folder_values(names, path)
        values = {str(name): tuple(of.items()) for name, of in zip(names, folders, strict=True)}
        groups = tuple(group._replace(values=values[group.file]) for group in groups)
        schema = with_folders(schema, folders)
        rows = CsvRows(groups=groups, columns=(), dtype="<f8", fingerprint=version, dialect=dialect)
        comma = {"decimal": "comma"} if dialect.decimal == "," else {}
        size = sum(group.stop - group.start for group in groups)
        return Found(rows, [(path, schema)], {"kind": "csv", **comma}, strays, size / groups[-1].last)

    def _read_as(self, schema: TableSchema) -> pa.Schema:
        needed = {column.name: column for column in schema.columns}
        return pa.schema(
            (f.name, kind_for(needed[f.name], f.type) if f.name in needed else f.type) for f in self.schema
        )

    def _reading(self, rows: TableRows, columns: Sequence[str], exact: Collection[str] = ()) -> TableRows:
        coded = {} if rows.coded is None else {column.name: column for column in rows.coded.columns}
        number = {name: j for j, name in enumerate(self.schema.names)}
        kinds = []
        for name in columns:
            found = self.schema.field(name).type
            if name in exact:
                kinds.append(pa.int64() if found == LARGE and not coded else found)
            else:
                usual = found if found in (LARGE, WHOLE) else widened(found)
                kinds.append(kind_for(coded[name], found) if name in coded else usual)
        numbers = tuple(number[name] for name in columns)
        return replace(rows, columns=tuple(columns), numbers=numbers, kinds=tuple(kinds))  # type: ignore[call-arg]


@lru_cache(maxsize=16)
def _described(
    names: tuple[str, ...], version: str, options: str, wanted: CsvFormat
) -> tuple[tuple[Group, ...], Dialect, pa.Schema, tuple[tuple[str, str], ...]]:
    """Where the rows of these versions of files are, how they are read, the columns, and strays as of `TableSource`.

    Several calls open the same table, which is scanned once.
    """
    with ThreadPoolExecutor(8) as pool:
        scanned = list(pool.map(lambda name: _scan(name, wanted), names))
    columns, delimiter, _ = scanned[0]
    groups: list[Group] = []
    for name, (others, mark, found) in zip(names, scanned, strict=True):
        if (others, mark) != (columns, delimiter):
            raise StoreError(
                f"the files of a data set have the same columns; {name!r} has {others[:20]}, {names[0]!r} has "
                f"{columns[:20]}; write them with one line of names"
            )
        row = groups[-1].last if groups else 0
        groups += [group._replace(first=group.before + row) for group in found if group.rows]
    if not groups:
        raise StoreError(f"{names[0]!r} has no rows; give a file that has some")
    nulls = tuple(dict.fromkeys(("", *(NULLS if wanted.keep_default_na else ()), *wanted.na_values)))
    dialect = Dialect(
        delimiter, len(columns), wanted.decimal or ".", wanted.thousands or "", nulls, wanted.encoding
    )
    places, most = groups, None
    if not _small(groups):
        places = [groups[i] for i in np.unique(np.linspace(0, len(groups) - 1, _PLACES).astype(int))]
        most = _PLACE_BYTES
    sampled = [(place, _sampled(place, most, dialect)) for place in places]
    text = b"\n".join(text for _, text in sampled)  # an empty line is no row
    try:
        if wanted.decimal is None:
            dialect = with_decimal(text, dialect)
        kinds = inferred(text, dialect)
    except pa.ArrowInvalid:
        for place, text in sampled:
            try:
                parse(text, dialect)
            except pa.ArrowInvalid as error:
                raise refused(error, {}, dict(enumerate(columns)), place.file, place.before) from None
        raise
    strays = ((columns[j], _stray(sampled, dialect, j)) for j, kind in enumerate(kinds) if kind == pa.string())
    schema = pa.schema(list(zip(columns, kinds, strict=True)))
    return tuple(groups), dialect, schema, tuple((name, stray) for name, stray in strays if stray)


def _scan(name: str, wanted: CsvFormat) -> tuple[list[str], str, list[Group]]:
    """The names of the columns of a file, its delimiter, and its rows."""
    state = files.state(name)
    with open_plain(name, wanted.encoding) as file:
        text, size = file.read(0, _SCAN_BYTES), file.size
        at = 3 if text.startswith(b"\xef\xbb\xbf") else 0
        at += len(text[at:]) - len(text[at:].lstrip(b"\r\n"))
        if at == len(text):
            raise StoreError(f"{name!r} is empty; give a file that has rows")
        ends = row_ends(_ended(text[at:], len(text) == size), wanted.sep or ",;\t|")[:_FIRST_ROWS].tolist()
        if not ends:
            raise StoreError(
                f"the first line of CSV names the columns; that of {name!r} is over 8 MiB, or a quote in it is never closed; is it "
                "text?"
            )
        rows = [text[at + first : at + last].strip(b"\r\n") for first, last in itertools.pairwise([0, *ends])]
        columns, delimiter, named = header_of(rows, name, wanted)
        at = min(at + ends[0], size) if named else at
        step = max(_STEP_BYTES, min(size // _STEPS, 2**23))
        marks, row, pieces = [(at, 0)], 0, 1
        while at < size:
            text = file.read(at, pieces * _SCAN_BYTES)
            last = at + len(text) >= size
            found = row_ends(_ended(text, last), delimiter)
            rest = text[found[-1] if len(found) else 0 :].strip(b"\r\n")
            if rest and (last or pieces == _LARGEST_ROW):
                raise StoreError(
                    f"a quote ends with its value; in row {row + len(found) + 1:,} of {name!r} or before it one is never closed "
                    "(or the row is over 64 MiB); correct the file"
                )
            pieces = 1 if len(found) else pieces + 1
            # The last row may end behind the file, with the line break that it lacks.
            while marks[-1][0] < size and (i := int(np.searchsorted(found, marks[-1][0] + step - at))) < len(
                found
            ):
                marks.append((min(at + int(found[i]), size), row + i + 1))
            row += len(found)
            at = size if last else at + (int(found[-1]) if len(found) else 0)
    groups = [
        Group(name, state, 0, next_row - row, row, start, stop)
        for (start, row), (stop, next_row) in itertools.pairwise([*marks, (size, row)])
    ]
    return columns, delimiter, groups


def _ended(text: bytes, last: bool) -> bytes:
    """Text with a line break at its end, which the last row of a file may lack."""
    return text + b"\n" if last and text[-1:] not in (b"\n", b"\r") else text


def _small(groups: Sequence[Group]) -> bool:
    """Whether all rows are looked at."""
    return sum(group.stop - group.start for group in groups) <= _PLACES * _PLACE_BYTES


def _sampled(place: Group, most: int | None, dialect: Dialect) -> bytes:
    """The rows of a place, or the first ones in so many bytes."""
    with open_plain(place.file, dialect.encoding) as file:
        text = file.read(place.start, place.stop - place.start)
    if most is None or len(text) <= most:
        return text
    ends = row_ends(text[:most], dialect.delimiter)
    return text[: ends[-1]] if len(ends) else text  # a row that is longer


def _stray(sampled: Sequence[tuple[Group, bytes]], dialect: Dialect, j: int) -> str:
    """Of a column of text of which nearly all reads as numbers, a text that does not, and its row; else empty."""
    try:
        columns = [parse(text, dialect, {j: pa.string()}).column(0) for _, text in sampled]
    except pa.ArrowInvalid:  # no UTF-8, which is told with its row when it is read
        return ""
    found = find_form(pa.chunked_array([chunk for column in columns for chunk in column.chunks], pa.string()))
    if found is None or found.kind != "number" or not found.stray:
        return ""
    for (place, _), column in zip(sampled, columns, strict=True):
        row = pc.index(pc.ascii_trim_whitespace(column), found.stray).as_py()
        if row >= 0:  # with the blanks around it
            return f"{column[row].as_py()[:60]!r} (row {place.before + row + 1:,} of {place.file!r})"
    return ""
