"""Rows in comma-separated text: blocks are found by one scan of its bytes, types are those of sampled rows."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InputError, StoreError
from . import file_lists, files
from .csv_reader import CsvRows, Lines, joined, refused
from .csv_text import Dialect, header_of, inferred, kind_for, parse, rows_end, widened, with_decimal
from .files import HashableOptions, Options, open_text
from .fingerprints import fingerprint_of_files
from .row_source import Selection
from .stray_numbers import stray_number
from .table_reader import TableRows
from .table_schema import TableSchema
from .table_source import TableSource, cut_blocks, lay_out

#: Bytes that are scanned at a time, and bytes between two places at which a reader can start.
_SCAN_BYTES, _STEP_BYTES = 2**23, 2**20
#: Bytes from which types are inferred: of so many places, so many each.
_PLACES, _PLACE_BYTES = 16, 2**18


@dataclass(frozen=True, kw_only=True)
class CsvSource(TableSource):
    """X, or the target, of a CSV file, a folder or a glob of them; see `TableSource`.

    Text is UTF-8. The first row has the names of the columns, unless it holds numbers alone (0, 1, 2, ... are names, as
    pandas gives them). Values are separated by
    commas (in .tsv files by tabs; by semicolons or tabs where the first row has these and no comma) and may be in
    double quotes. Numbers are float64. Between semicolons they may have a decimal comma (see `with_decimal`). What pandas takes for a missing value is one.

    Parameters
    ----------
    dialect : Dialect
    """

    dialect: Dialect

    @classmethod
    def recognises(cls, path: str, storage_options: Options = None) -> bool:
        """True for a file or glob by its name, or a folder with CSV files in it."""
        if path.lower().endswith(file_lists.TEXT):
            return True
        if files.is_web(path) or files.is_glob(path, storage_options):
            return False
        fs, root = files.filesystem(path, storage_options)
        return fs.isdir(root) and any(name.endswith(file_lists.TEXT) for name in files.names_in(fs, root))

    @classmethod
    def open(cls, path: str, selection: Selection) -> CsvSource:
        """Scan the bytes once, infer the types of the columns and cut the rows into blocks (see `cut_blocks`)."""
        options = selection.storage_options
        names = file_lists.list_files(path, file_lists.TEXT, "CSV", options)
        if not selection.in_order and any(name.endswith(".gz") for name in names):
            raise InputError(
                f"gzipped text can only be read from its beginning; received {path!r}; make a store of it with "
                "`distrf ingest`, or unpack it"
            )
        version = file_lists.version_of(names, options)
        table = _described(tuple(names), version, HashableOptions.of(options))
        schema = table.schema
        if selection.coded is True and not table.whole:
            # Rows that were not looked at may have values where the others have none.
            kinds = [pa.string() if pa.types.is_null(kind) else kind for kind in schema.types]
            schema = pa.schema(list(zip(schema.names, kinds, strict=True)), schema.metadata)
        layout = lay_out(path, [(path, schema)], selection)
        row_bytes = max(8 * len(layout.names), table.bytes / table.groups[-1].last)
        cuts = cut_blocks(table.groups, row_bytes, selection, exact=True)
        source = cls(
            path=path,
            shape=(table.groups[-1].last, len(layout.names)),
            dtype=np.dtype(np.float64),
            block_lengths=tuple(last - first for _, first, last in cuts),
            columns=layout.names,
            target=selection.target,
            rows=CsvRows(
                groups=table.groups, columns=(), dtype="<f8", fingerprint=version, numbers=(), kinds=(),
                dialect=table.dialect, storage_options=options,
            ),
            cuts=cuts,
            schema=layout.schema,
            dialect=table.dialect,
            strays=table.strays,
        )  # fmt: skip
        if layout.coded is not None:
            return source.coded_as(layout.coded)
        source = replace(source, rows=source._reading(source.rows, layout.names))
        if selection.in_order:  # what cannot be read is told before anything is made of the rows
            rows = source.filled((np.nan,) * len(layout.names)) if selection.missing else source
            for _ in rows.stream(source.target_source(), 1):
                pass
        return source

    def blocks(self) -> Iterator[tuple[TableRows, int, int]]:
        """For each block a reader of the bytes that hold it."""
        for groups, first, last in self.cuts:
            yield replace(self.rows, groups=tuple(joined(groups))), first, last

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
                kinds.append(found)
            else:
                kinds.append(kind_for(coded[name], found) if name in coded else widened(found))
        return replace(  # type: ignore[call-arg]
            rows, columns=tuple(columns), numbers=tuple(number[name] for name in columns), kinds=tuple(kinds)
        )

    @classmethod
    def fingerprint(cls, path: str, storage_options: Options = None) -> str:
        """Of the sizes and edges of all files."""
        names = file_lists.list_files(path, file_lists.TEXT, "CSV", storage_options)
        return fingerprint_of_files(names, storage_options)

    @classmethod
    def part_fingerprints(cls, path: str, storage_options: Options = None) -> list[tuple[str, int]]:
        """Of each file: a folder may have got more of them."""
        names = file_lists.list_files(path, file_lists.TEXT, "CSV", storage_options)
        version = file_lists.version_of(names, storage_options)
        groups = _described(tuple(names), version, HashableOptions.of(storage_options)).groups
        rows = {file: sum(g.rows for g in of) for file, of in itertools.groupby(groups, lambda g: g.file)}
        return [(fingerprint_of_files([file], storage_options), n) for file, n in rows.items()]

    @classmethod
    def facts(cls, path: str, storage_options: Options = None) -> dict[str, Any]:
        """Rows, and the type of every column as far as sampled rows tell."""
        names = file_lists.list_files(path, file_lists.TEXT, "CSV", storage_options)
        version = file_lists.version_of(names, storage_options)
        table = _described(tuple(names), version, HashableOptions.of(storage_options))
        comma = {"decimal": "comma"} if table.dialect.decimal == "," else {}
        return {
            "kind": "csv",
            "rows": table.groups[-1].last,
            **comma,
            "columns": {field.name: str(field.type) for field in table.schema},
        }


class _Described(NamedTuple):
    """The files of a table: where their rows are, how many bytes they take, and what their columns look like.

    whole : whether all rows were looked at for that; strays : as of `TableSource`
    """

    groups: tuple[Lines, ...]
    bytes: int
    dialect: Dialect
    schema: pa.Schema
    whole: bool
    strays: tuple[tuple[str, str], ...]


class _Scanned(NamedTuple):
    """A file: the names of its columns, its delimiter, and its rows."""

    names: list[str]
    delimiter: str
    groups: list[Lines]


@lru_cache(maxsize=16)
def _described(names: tuple[str, ...], version: str, options: HashableOptions) -> _Described:
    """Of these versions of the files: several calls open the same table, which is scanned once."""
    with ThreadPoolExecutor(8) as pool:
        scanned = list(pool.map(lambda name: _scan(name, options.options), names))
    first = scanned[0]
    groups: list[Lines] = []
    for file in scanned:
        if (file.names, file.delimiter) != (first.names, first.delimiter):
            raise StoreError(
                f"the files of a data set have the same columns; {file.groups[0].file!r} has {file.names[:20]}, "
                f"{names[0]!r} has {first.names[:20]}; write them with one line of names"
            )
        row = groups[-1].last if groups else 0
        groups += [group._replace(first=group.first + row) for group in file.groups if group.rows]
    if not groups:
        raise StoreError(f"{names[0]!r} has no rows; give a file that has some")
    # What has no name is where pandas writes row labels.
    labels = {"pandas": '{"index_columns": [""]}'} if first.names[0] == "" else None
    size = sum(group.stop - group.start for group in groups)
    whole = size <= _PLACES * _PLACE_BYTES
    dialect = Dialect(first.delimiter, len(first.names))
    names_by_number = dict(enumerate(first.names))
    dialect, kinds, strays = _infer(groups, dialect, names_by_number, whole, options.options)
    schema = pa.schema(list(zip(first.names, kinds, strict=True)), labels)
    return _Described(tuple(groups), size, dialect, schema, whole, strays)


def _scan(name: str, options: Options) -> _Scanned:
    """Find the rows of a file."""
    with open_text(name, options) as file:
        text = file.read(_SCAN_BYTES)
        start = 3 if text.startswith(b"\xef\xbb\xbf") else 0
        first = Dialect(",", 1).scan(start=start)
        first.add(text[start:], 1)
        if first.rows == 0:
            if len(text) == _SCAN_BYTES:
                raise StoreError(
                    f"the first line of CSV names the columns; that of {name!r} is over 8 MiB; is it text?"
                )
            first.finish()
        line = text[start : first.row_at].strip(b"\r\n")
        if not line:
            raise StoreError(f"{name!r} is empty; give a file that has rows")
        columns, delimiter, named = header_of(line, name)
        start, before = (first.row_at, first.lines) if named else (start, 0)
        scan = Dialect(delimiter, len(columns)).scan(start=start, step=_STEP_BYTES)
        marks = [np.array([[start, 0, 0]])]
        text = text[start:]
        while text:
            marks.append(scan.add(text))
            text = file.read(_SCAN_BYTES)
    if scan.quoted:
        raise StoreError(
            f"a quote ends with its value; in the row at line {before + scan.line_at + 1} of {name!r} one is never closed; "
            "correct the file"
        )
    scan.finish()
    ends = np.concatenate([*marks, [[scan.row_at, scan.rows, scan.lines]]]).tolist()
    groups = [
        Lines(name, at, stop, row, last - row, before + line)
        for (at, row, line), (stop, last, _) in itertools.pairwise(ends)
    ]
    return _Scanned(columns, delimiter, groups)


def _infer(
    groups: Sequence[Lines], dialect: Dialect, names: dict[int, str], whole: bool, options: Options
) -> tuple[Dialect, list[pa.DataType], tuple[tuple[str, str], ...]]:
    """The decimal point, the types of the columns, and the strays: of all rows, or the first ones of some of these groups."""
    places = (
        groups
        if whole
        else [groups[i] for i in np.unique(np.linspace(0, len(groups) - 1, _PLACES).astype(int))]
    )
    texts = []
    for place in places:
        with open_text(place.file, options) as file:
            file.seek(place.start)
            size = place.stop - place.start
            text = file.read(size if whole else min(size, _PLACE_BYTES))
            scan = dialect.scan()
            scan.add(text)
            if len(text) == size:
                scan.finish()
            elif scan.rows == 0:  # a row that is longer
                text = text + file.read(size - len(text))
                scan = dialect.scan(start=len(text))
            texts.append(text[: scan.row_at])
    text = b"\n".join(texts)  # an empty line is no row
    try:
        dialect = with_decimal(text, dialect)
        kinds = inferred(text, dialect)
        return dialect, kinds, _strays(list(zip(places, texts, strict=True)), dialect, kinds, names)
    except pa.ArrowInvalid as error:
        for place, text in zip(places, texts, strict=True):
            try:
                parse(text, dialect)
            except pa.ArrowInvalid:
                raise refused(text, dialect, None, names, place.file, place.line) from error
        raise


def _strays(
    texts: Sequence[tuple[Lines, bytes]], dialect: Dialect, kinds: Sequence[pa.DataType], names: dict[int, str]
) -> tuple[tuple[str, str], ...]:
    """The texts that are no numbers in columns of numbers, each with its line; texts : whole rows, and where they begin."""
    chosen = {j: kind for j, kind in enumerate(kinds) if pa.types.is_string(kind)}
    if not chosen:
        return ()
    try:
        tables = [parse(text, dialect, chosen) for _, text in texts if text]
    except pa.ArrowInvalid:  # no UTF-8, which is told with its line when it is read
        return ()
    table, found = pa.concat_tables(tables), []
    for j in chosen:
        column = table.column(str(j))
        stray = stray_number(column)
        if stray is None:
            continue
        row = pc.index(column, stray).as_py()
        for (place, text), part in zip([one for one in texts if one[1]], tables, strict=True):
            if row < len(part):
                line = place.line + rows_end(text, dialect, row)[1] + 1
                found.append((names[j], f"{stray[:60]!r} (line {line} of {place.file!r})"))
                break
            row -= len(part)
    return tuple(found)
