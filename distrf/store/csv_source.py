"""Rows in comma-separated text: blocks are found by one scan of its bytes, types are those of sampled rows."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import StoreError
from . import file_lists, files
from .csv_format import USUAL, CsvFormat, current_format
from .csv_text import (
    NULLS,
    Dialect,
    RowEnds,
    header_of,
    inferred,
    kind_for,
    parse,
    refused,
    widened,
    with_decimal,
)  # fmt: skip
from .files import HashableOptions, Options, open_text
from .fingerprints import fingerprint_of_files
from .plain_text import plain_file
from .row_source import Selection
from .table_reader import TablePart, TableRows
from .table_schema import TableSchema
from .table_source import TableSource, cut_blocks, lay_out
from .text_forms import find_form

#: Bytes that are scanned at a time, and bytes between two places at which a reader can start: more in a large file.
_SCAN_BYTES, _STEP_BYTES, _STEPS = 2**23, 2**20, 2**12
#: Bytes from which types are inferred: of so many places, so many each.
_PLACES, _PLACE_BYTES = 16, 2**18


class Lines(NamedTuple):
    """Neighbouring rows of a file: where their bytes start and stop, their first row in the data set, how many they are.

    And the rows of the file before them.
    """

    file: str
    start: int
    stop: int
    first: int
    rows: int
    before: int

    @property
    def last(self) -> int:
        """The row after the last."""
        return self.first + self.rows


@dataclass(frozen=True, kw_only=True)
class CsvRows(TableRows):
    """Reads rows from the bytes that hold them; see `TableRows`.

    Parameters
    ----------
    groups : tuple of Lines
    numbers : tuple of int
        The numbers of the columns in the file.
    types : tuple of pa.DataType
        As what each is read.
    dialect : Dialect
    encoding : str
    """

    groups: tuple[Lines, ...]
    numbers: tuple[int, ...]
    types: tuple[pa.DataType, ...]
    dialect: Dialect
    encoding: str = USUAL.encoding

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        types = [str(kind) for kind in self.types]
        return *super().__dask_tokenize__(), self.numbers, types, vars(self.dialect), self.encoding

    def parts(self, first: int, last: int, block_rows: int | None = None) -> Iterator[TablePart]:
        """Rows ``first:last`` in pieces of some MiB; see `TableRows.parts`."""
        wanted = (group for group in self.groups if group.first < last and first < group.last)
        kinds = dict(zip(self.numbers, self.types, strict=True))
        for name, groups in itertools.groupby(wanted, lambda group: group.file):
            with open_text(plain_file(name, self.encoding, self.storage_options), self.storage_options) as file:
                for group in groups:
                    file.seek(group.start)
                    text = file.read(group.stop - group.start)
                    try:
                        table = parse(text, self.dialect, kinds)
                    except pa.ArrowInvalid as error:
                        names = dict(zip(self.numbers, self.columns, strict=True))
                        raise refused(error, kinds, names, name, group.before) from None
                    table = table.select([str(j) for j in self.numbers]).rename_columns(list(self.columns))
                    skipped = max(first - group.first, 0)
                    table = table.slice(skipped, max(min(last, group.last) - group.first - skipped, 0))
                    yield TablePart(table, group.first + skipped, repr(name))


@dataclass(frozen=True, kw_only=True)
class CsvSource(TableSource):
    """X, or the target, of a CSV file, a folder or a glob of them; see `TableSource`.

    How text is read is said by `distrf.store.csv_format`. Numbers are float64. What pandas takes for a missing value is one.
    """

    @classmethod
    def recognises(cls, path: str, storage_options: Options = None) -> bool:
        """True for a file or glob by its name, a folder with CSV files in it, and any file of which a format is said."""
        if path.lower().endswith(file_lists.ANY_TEXT):
            return True
        if files.is_web(path) or files.is_glob(path, storage_options):
            return False
        fs, root = files.filesystem(path, storage_options)
        if not fs.isdir(root):
            return current_format() != USUAL and fs.isfile(root)
        return any(name.lower().endswith(file_lists.TEXT) for name in files.names_in(fs, root))

    @classmethod
    def open(cls, path: str, selection: Selection) -> CsvSource:
        """Scan the bytes once, infer the types of the columns and cut the rows into blocks (see `cut_blocks`)."""
        found = _described(path, selection.storage_options)
        schema = found.schema
        if selection.coded is True and not found.whole:
            # Rows that were not looked at may have values where the others have none.
            kinds = [pa.string() if pa.types.is_null(kind) else kind for kind in schema.types]
            schema = pa.schema(list(zip(schema.names, kinds, strict=True)))
        layout = lay_out(path, [(path, schema)], selection)
        row_bytes = max(8 * len(layout.names), found.bytes / found.rows)
        cuts = cut_blocks(found.groups, row_bytes, selection, exact=selection.rows_per_block is not None)
        rows = CsvRows(
            groups=found.groups, columns=(), dtype="<f8", fingerprint=found.version, numbers=(), types=(),
            dialect=found.dialect, encoding=found.encoding, storage_options=selection.storage_options,
        )  # fmt: skip
        return cls._of(path, layout, rows, cuts, selection.target, strays=found.strays)

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
            read = widened(found) if name not in coded else kind_for(coded[name], found)
            kinds.append(found if name in exact else read)
        return replace(  # type: ignore[call-arg]
            rows,
            columns=tuple(columns),
            numbers=tuple(number[name] for name in columns),
            types=tuple(kinds),
            kinds=tuple(kinds),
        )

    @classmethod
    def fingerprint(cls, path: str, storage_options: Options = None) -> str:
        """Of the sizes and edges of all files."""
        return fingerprint_of_files(file_lists.list_texts(path, storage_options), storage_options)

    @classmethod
    def part_fingerprints(cls, path: str, storage_options: Options = None) -> list[tuple[str, int]]:
        """Of each file: a folder may have got more of them."""
        rows: dict[str, int] = {}
        for group in _described(path, storage_options).groups:
            rows[group.file] = rows.get(group.file, 0) + group.rows
        return [(fingerprint_of_files([file], storage_options), n) for file, n in rows.items()]

    @classmethod
    def facts(cls, path: str, storage_options: Options = None) -> dict[str, Any]:
        """Rows, and the type of every column as far as sampled rows tell."""
        found = _described(path, storage_options)
        comma = {"decimal": "comma"} if found.dialect.decimal == "," else {}
        columns = {field.name: str(field.type) for field in found.schema}
        return {"kind": "csv", "rows": found.rows, **comma, "columns": columns}


class _Described(NamedTuple):
    """The files of a table: where their rows are, how many bytes they take, and what their columns look like.

    whole : whether all rows were looked at for that; strays : as of `TableSource`; version : of the files
    """

    groups: tuple[Lines, ...]
    bytes: int
    dialect: Dialect
    encoding: str
    schema: pa.Schema
    whole: bool
    strays: tuple[tuple[str, str], ...]
    version: str

    @property
    def rows(self) -> int:
        """All rows."""
        return self.groups[-1].last


class _Scanned(NamedTuple):
    """A file: the names of its columns, its delimiter, and its rows."""

    names: list[str]
    delimiter: str
    groups: list[Lines]


def _described(path: str, storage_options: Options) -> _Described:
    names = file_lists.list_texts(path, storage_options)
    version = file_lists.version_of(names, storage_options)
    return _describe(tuple(names), version, HashableOptions.of(storage_options), current_format())


@lru_cache(maxsize=16)
def _describe(names: tuple[str, ...], version: str, options: HashableOptions, wanted: CsvFormat) -> _Described:
    """Of these versions of the files: several calls open the same table, which is scanned once."""
    with ThreadPoolExecutor(8) as pool:
        scanned = list(pool.map(lambda name: _scan(name, wanted, options.options), names))
    first = scanned[0]
    groups: list[Lines] = []
    for file in scanned:
        if (file.names, file.delimiter) != (first.names, first.delimiter):
            raise StoreError(
                f"the files of a data set have the same columns; {file.groups[0].file!r} has {file.names[:20]}, "
                f"{names[0]!r} has {first.names[:20]}; write them with one line of names"
            )
        row = groups[-1].last if groups else 0
        groups += [group._replace(first=group.before + row) for group in file.groups if group.rows]
    if not groups:
        raise StoreError(f"{names[0]!r} has no rows; give a file that has some")
    size = sum(group.stop - group.start for group in groups)
    places = groups
    if size > _PLACES * _PLACE_BYTES:
        places = [groups[i] for i in np.unique(np.linspace(0, len(groups) - 1, _PLACES).astype(int))]
    sampled = [
        (place, _sampled(place, places is groups, first.delimiter, wanted, options.options)) for place in places
    ]
    nulls = tuple(dict.fromkeys(("", *(NULLS if wanted.keep_default_na else ()), *wanted.na_values)))
    dialect = Dialect(
        first.delimiter, len(first.names), wanted.decimal or ".", wanted.thousands or "", nulls
    )  # fmt: skip
    columns = dict(enumerate(first.names))
    try:
        dialect, kinds, strays = _infer(sampled, dialect, wanted, columns)
    except pa.ArrowInvalid:
        for place, text in sampled:
            try:
                parse(text, dialect)
            except pa.ArrowInvalid as error:
                raise refused(error, {}, columns, place.file, place.before) from None
        raise
    return _Described(
        tuple(groups), size, dialect, wanted.encoding, pa.schema(list(zip(first.names, kinds, strict=True))),
        places is groups, strays, version,
    )  # fmt: skip


def _scan(name: str, wanted: CsvFormat, options: Options) -> _Scanned:
    """Find the rows of a file."""
    with open_text(plain_file(name, wanted.encoding, options), options) as file:
        text = file.read(_SCAN_BYTES)
        start = 3 if text.startswith(b"\xef\xbb\xbf") else 0
        start += len(text[start:]) - len(text[start:].lstrip(b"\r\n"))
        ends = RowEnds(wanted.sep or ",;\t|").find(text[start:])
        if not len(ends) and len(text) == _SCAN_BYTES:
            raise StoreError(
                f"the first line of CSV names the columns; that of {name!r} is over 8 MiB; is it text?"
            )
        line_stop = start + int(ends[0]) if len(ends) else len(text)
        if start == len(text):
            raise StoreError(f"{name!r} is empty; give a file that has rows")
        second = text[line_stop : start + int(ends[1]) if len(ends) > 1 else len(text)].strip(b"\r\n")
        columns, delimiter, named = header_of(text[start:line_stop].strip(b"\r\n"), second, name, wanted)
        start = line_stop if named else start
        find, text, size = RowEnds(delimiter), text[start:], file.seek(0, 2)
        file.seek(start + len(text))
        step = max(_STEP_BYTES, min(size // _STEPS, 2**23))
        at, marks, rows = start, [(start, 0)], 0
        while text:
            found = find.find(text)
            while (i := int(np.searchsorted(found, marks[-1][0] + step - at))) < len(found):
                marks.append((at + int(found[i]), rows + i + 1))
            at, rows = at + len(text), rows + len(found)
            more = file.read(_SCAN_BYTES)
            if not more:
                rows += text[-1:] not in (b"\n", b"\r") and at > marks[-1][0]
            text = more
    if find.quoted:
        raise StoreError(
            f"a quote ends with its value; in row {rows:,} of {name!r} or before it one is never closed; correct the file"
        )
    groups = [
        Lines(name, begin, stop, 0, last - row, row)
        for (begin, row), (stop, last) in itertools.pairwise([*marks, (at, rows)])
    ]
    return _Scanned(columns, delimiter, groups)


def _sampled(place: Lines, whole: bool, delimiter: str, wanted: CsvFormat, options: Options) -> bytes:
    """The first rows of a place."""
    with open_text(plain_file(place.file, wanted.encoding, options), options) as file:
        file.seek(place.start)
        size = place.stop - place.start
        text: bytes = file.read(size if whole else min(size, _PLACE_BYTES))
        if len(text) == size:
            return text
        ends = RowEnds(delimiter).find(text)
        return text[: ends[-1]] if len(ends) else text + file.read(size - len(text))  # a row that is longer


def _infer(
    sampled: Sequence[tuple[Lines, bytes]], dialect: Dialect, wanted: CsvFormat, names: Mapping[int, str]
) -> tuple[Dialect, list[pa.DataType], tuple[tuple[str, str], ...]]:
    """The dialect with what stands before fractions and the types of the columns, and strays."""
    text = b"\n".join(text for _, text in sampled)  # an empty line is no row
    if wanted.decimal is None:
        dialect = with_decimal(text, dialect)
    kinds = inferred(text, dialect)
    strays = []
    for j in [j for j, kind in enumerate(kinds) if pa.types.is_string(kind)]:
        try:
            columns = [parse(text, dialect, {j: pa.string()}).column(0) for _, text in sampled if text]
        except pa.ArrowInvalid:  # no UTF-8, which is told with its row when it is read
            continue
        column = pa.chunked_array([chunk for one in columns for chunk in one.chunks], pa.string())
        found = find_form(column)
        stray = found.stray if found is not None and found.kind == "number" else ""
        row = pc.index(pc.ascii_trim_whitespace(column), stray).as_py() if stray else -1
        stray = column[row].as_py() if row >= 0 else stray  # with the blanks around it
        for (place, _), one in zip([one for one in sampled if one[1]], columns, strict=True):
            if 0 <= row < len(one):
                strays.append((names[j], f"{stray[:60]!r} (row {place.before + row + 1:,} of {place.file!r})"))
            row -= len(one)
    return dialect, kinds, tuple(strays)
