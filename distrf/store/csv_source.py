"""Rows in comma-separated text: it becomes Parquet once, file by file, and is read as that."""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..errors import InputError, StoreError
from ..progress import current_listener
from . import file_lists, files
from .csv_format import USUAL, current_format, said_format
from .csv_text import FAULT, LARGEST_ROW, Dialect, column_types, dialect_of, joined
from .row_source import Selection
from .spec import fingerprint_of_spec
from .table_schema import TableSchema, base_of, is_text
from .table_source import Found, TableSource, found_in
from .text_forms import find_form

#: Rows and bytes of a row group, at most: rows are coded so many at a time.
_GROUP_ROWS, _GROUP_BYTES = 2**16, 2**24
#: Set by `distrf.execution`: whether all workers see a folder.
workers_see: Callable[[str], bool] | None = None
_folders: list[str] = []
_lock = threading.Lock()


class CsvSource(TableSource):
    """X, or the target, of a CSV file, a folder or a glob of them; see `TableSource`.

    How text is read is said by `distrf.store.csv_format.CsvFormat`. What pandas takes for a missing value is one. The type of a column is
    the narrowest that holds all its values: integers stay exact, and one word makes text of it, of which `find_form` may make
    numbers again, among which the word is missing.
    """

    kind, endings = "CSV", file_lists.TEXT

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
    def found(cls, path: str, selection: Selection) -> Found:
        """The text becomes Parquet, unless it has been before."""
        names = cls.files(path)
        asked = selection.coded.columns if isinstance(selection.coded, TableSchema) else ()
        text = {c.name for c in asked if (c.base == "text" and not c.digits) or (c.form and not c.stamps)}
        made = [converted(name) for name in names]
        found, guessed = found_in(path, made, names), list(made)
        schemas = [schema for _, schema in found.schemas]
        for name, schema in zip(names, schemas, strict=True):
            if sorted(schema.names) != sorted(schemas[0].names):
                raise StoreError(
                    f"the files of a data set have the same columns; {name!r} has {schema.names[:20]}, {names[0]!r} has "
                    f"{schemas[0].names[:20]}; write them with one line of names"
                )
        # Text in one file and numbers in another, and what a model reads as text, whatever it looks like here.
        text |= {name for name in schemas[0].names if len(_bases(one.field(name).type for one in schemas)) > 1}
        for j, (name, schema) in enumerate(zip(names, schemas, strict=True)):
            if others := {
                one.name for one in schema if one.name in text and _bases([one.type]) - {("text", None)}
            }:
                made[j] = converted(name, others)
        if made != guessed:
            found = found_in(path, made, names)
        for _, schema in reversed(found.schemas):
            found.strays.update(json.loads(schema.metadata[b"distrf"]))
        return found


def _bases(kinds: Iterable[pa.DataType]) -> set[tuple[Any, Any]]:
    return {(base_of(kind), getattr(kind, "tz", None)) for kind in kinds} - {("empty", None)}


def converted(name: str, text: Set[str] = frozenset()) -> files.Place:
    """A CSV file as Parquet, which is made unless it is there.

    Parameters
    ----------
    name : str
        Path or URL.
    text : set of str
        Columns that are read as text, whatever they look like.

    Returns
    -------
    Place
        Of a name that tells the version of the file and how it is read.

    Raises
    ------
    InputError, StoreError
        The text is no CSV, with the row; or workers do not see the folder.
    """
    wanted = current_format()
    folder = files.normalise(wanted.scratch or _temporary())
    spec = {"file": file_lists.version_of([name]), "format": said_format(), "text": sorted(text)}
    place = files.Place(f"{folder}/{fingerprint_of_spec(spec)}.parquet", folder.options)
    fs, root = files.filesystem(place)
    if fs.exists(root):
        return place
    if files.is_local(place):
        os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix=".distrf-csv-", dir=folder if files.is_local(place) else None
    ) as made:
        _convert(dialect_of(name, wanted), text, f"{made}/rows")
        os.replace(f"{made}/rows", root) if files.is_local(place) else fs.put_file(f"{made}/rows", root)
    return place


def _temporary() -> str:
    """A folder that ends with the process, which the workers see."""
    with _lock:
        if not _folders:
            _folders.append(tempfile.mkdtemp(prefix="distrf-csv-"))
            atexit.register(shutil.rmtree, _folders[0], ignore_errors=True)
    if workers_see is not None and not workers_see(_folders[0]):
        raise InputError(
            f"CSV becomes Parquet in a folder that all workers see, and some do not see {_folders[0]}; give one as scratch= "
            "(on the command line --csv scratch=DIR), or Parquet in place of CSV"
        )
    return _folders[0]


def _convert(dialect: Dialect, text: Set[str], out: str) -> None:
    """Write the rows as Parquet. Where a value is not of the type of its column, from the start with a type that holds it."""
    try:
        rows = dialect.first_rows()
        types = column_types(dialect, rows)
        strays = {name: stray for name in types if (stray := _stray(dialect, rows, name))}
        while True:
            try:
                return _write(dialect, types | dict.fromkeys(text & types.keys(), pa.string()), strays, out)
            except pa.ArrowInvalid as error:
                fault = FAULT.match(str(error))
                if fault is None or fault["value"] is None or fault["column"] is None:
                    raise
            types |= _wider(dialect, types, fault, strays)
    except pa.ArrowInvalid as error:
        if "straddling" not in str(error) or dialect.block >= LARGEST_ROW:
            raise _refused(error, dialect) from None
    _convert(replace(dialect, block=LARGEST_ROW), text, out)


def _wider(
    dialect: Dialect, types: Mapping[str, pa.DataType], fault: re.Match[str], strays: dict[str, str]
) -> dict[str, pa.DataType]:
    """Types that hold what follows the row of a fault too. Of a column that becomes text the value that is none is noted."""
    skip, failed = int(fault["row"]) - 1, dialect.names[int(fault["column"])]
    found = column_types(dialect, dialect.first_rows(skip=skip), skip)
    wider = {name: joined(kind, found[name]) for name, kind in types.items()}
    if wider[failed] == types[failed]:
        wider[failed] = pa.string()
    for name, kind in types.items():
        if is_text(wider[name]) and not is_text(kind):
            stray = fault["value"] if name == failed else dialect.misread(name, kind, skip)
            if stray is None:  # Arrow does not guess all that it reads
                wider[name] = kind
            elif not pa.types.is_null(kind):
                strays[name] = f"{stray[:60]!r} (near row {skip + 1:,} of {dialect.file!r})"
    return wider


def _write(dialect: Dialect, types: dict[str, pa.DataType], strays: dict[str, str], out: str) -> None:
    tell, size, done = current_listener(), 0, 0
    if not dialect.file.lower().endswith(file_lists.PACKED[1:]):  # of which the unpacked size is not known
        fs, root = files.filesystem(dialect.file)
        size = fs.size(root) or 0
    reader, plain = dialect.reader(types)
    schema = pa.schema(list(types.items()), {"distrf": json.dumps(strays)})
    texts = [name for name, kind in types.items() if is_text(kind)]
    options = {"compression": "lz4", "use_dictionary": texts, "write_page_checksum": True}
    held = schema.empty_table()
    with pq.ParquetWriter(out, schema, **options) as writer:
        for batch in filter(len, reader):
            if len(held) + len(batch) > _GROUP_ROWS or held.nbytes + batch.nbytes > _GROUP_BYTES:
                writer.write_table(held)
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
        writer.write_table(held.slice(0, len(held) - 1))


def _stray(dialect: Dialect, rows: pa.RecordBatch, name: str) -> str:
    """Of a column of text of which nearly all reads as numbers, a text that does not, and its row; else empty."""
    column = rows.column(name)
    found = find_form(pa.chunked_array([column])) if is_text(column.type) else None
    if found is None or found.kind != "number" or not found.stray:
        return ""
    row = pc.index(pc.ascii_trim_whitespace(column), found.stray).as_py()
    return f"{column[row].as_py()[:60]!r} (row {row + 1:,} of {dialect.file!r})"


def _refused(error: pa.ArrowInvalid, dialect: Dialect) -> InputError | StoreError:
    """What Arrow could not read, in words of the table."""
    fault, file = FAULT.match(str(error)), dialect.file
    if "straddling" in str(error):
        return StoreError(
            f"a quote ends with its value; in {file!r} one is never closed, or a row is over 64 MiB; correct the file"
        )
    if fault is None:
        return InputError(f"rows of text are read as CSV; {file!r} is not such ({error}); correct the file")
    where = f"row {int(fault['row']):,} of {file!r}"
    if fault["column"] is None:
        return InputError(
            f"every row has as many values as the first; {where} has not ({' '.join(fault['what'].split())[:200]}); correct the file"
        )
    return InputError(
        f"text is UTF-8 unless encoding= says otherwise; {where} has other bytes in column "
        f"{dialect.names[int(fault['column'])]!r}; give encoding="
    )
