"""Rows in Parquet: columns are chosen and row groups are cut into blocks from the footers alone."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq

from . import file_lists, files
from .row_source import Selection
from .table_lists import list_columns, spread_schema, widths
from .table_reader import Group, open_file
from .table_source import Found, TableSource

#: Rows that tell how long lists are.
_LOOKED_AT = 1000


def found_in(path: str, names: Sequence[files.Place], origins: Sequence[files.Place]) -> Found:
    """The row groups and columns of files of Parquet, by their footers.

    Parameters
    ----------
    path : str
        Where the data set is.
    names : sequence of Place
        The files.
    origins : sequence of Place
        The files of CSV that they were made of, or the same.
    """

    def footer(name: str) -> pq.FileMetaData:
        with open_file(name) as file:
            return file.metadata

    with ThreadPoolExecutor(8) as pool:
        footers = list(pool.map(footer, names))
    written = [metadata.schema.to_arrow_schema() for metadata in footers]
    lists = _lists(names, footers, written)
    folders = file_lists.folder_values(origins, path)
    whole = {key for values in folders for key, value in values.items() if isinstance(value, int)}
    keys = list(dict.fromkeys(key for values in folders for key in values))
    groups: list[Group] = []
    schemas, row = [], 0
    for name, origin, metadata, kinds, values in zip(names, origins, footers, written, folders, strict=True):
        schema, state = spread_schema(kinds, lists), files.state(origin)
        known = set(schema.names)
        more = [pa.field(key, pa.int64() if key in whole else pa.string()) for key in keys if key not in known]
        schemas.append((origin, pa.schema([*schema, *more], schema.metadata)))
        for number in range(metadata.num_row_groups):
            if count := metadata.row_group(number).num_rows:
                made_of = "" if origin == name else origin
                groups.append(Group(name, state, row, count, number, tuple(values.items()), made_of))
            row += count
    facts = {"kind": "parquet", "row_groups": sum(metadata.num_row_groups for metadata in footers)}
    version = file_lists.version_of(origins)
    return Found(tuple(groups), schemas, version, facts, lists=tuple(lists.items()))


def _lists(
    names: Sequence[files.Place], footers: Sequence[pq.FileMetaData], schemas: Sequence[pa.Schema]
) -> dict[str, int]:
    """The columns of lists of numbers of one length, as the first rows of the first file tell that has them."""
    found: dict[str, int] = {}
    for name, metadata, schema in zip(names, footers, schemas, strict=True):
        new = [one for one in list_columns(schema) if one not in found]
        if new and metadata.num_rows:
            with open_file(name) as file:
                rows = next(file.iter_batches(_LOOKED_AT, columns=new, use_threads=False))
            lengths = widths(pa.Table.from_batches([rows]))
            found |= {one: lengths.get(one, -1) for one in new}
    return {name: length for name, length in found.items() if length > 0}


class ParquetSource(TableSource):
    """X, or the target, of a Parquet file, folder or glob; see `TableSource`."""

    @classmethod
    def recognises(cls, path: str) -> bool:
        """True for a file or glob by its name, or a folder with Parquet files in it."""
        if path.lower().endswith(file_lists.PARQUET):
            return True
        if files.is_glob(path) and not files.is_web(path):
            return not path.lower().endswith(file_lists.TEXT)
        return file_lists.holds(path, file_lists.PARQUET)

    @classmethod
    def files(cls, path: str) -> list[files.Place]:
        """The Parquet files of a path."""
        return file_lists.list_files(path, file_lists.PARQUET, "Parquet")

    @classmethod
    def found(cls, path: str, selection: Selection) -> Found:
        """The footers are read."""
        names = cls.files(path)
        return found_in(path, names, names)
