"""Rows in Parquet: columns are chosen and row groups are cut into blocks from the footers alone.

`pyarrow.dataset` is not used. It sorts part-10 before part-2, takes no glob, tries files of any name, tells no null counts, and
reads a whole row group for a few of its rows: 189 MiB where `ParquetFile.iter_batches` takes 54 MiB for 200,000 of 1,000,000
rows of 16 columns.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq

from . import file_lists, files
from .row_source import Selection
from .table_reader import Group, TableRows, with_values
from .table_schema import null_error
from .table_source import Found, TableSource, with_folders

#: Columns of a distant file that are read together: each costs a request. Those of a local one are read one by one: of each Arrow
#: holds a page and a dictionary, 2 MiB, until all have ended, and it takes three times as long for many.
_COLUMNS = 16
#: Rows that are read at a time amid a row group, at most.
_BATCH_ROWS = 2**16


@contextmanager
def open_file(name: str) -> Iterator[pq.ParquetFile]:
    """An open file that checks the checksums of its pages; what Arrow raises becomes a StoreError."""
    with files.reading(name, "Parquet"):
        if files.is_local(name):
            # Pre-buffering would hold the bytes of a whole row group beside its values.
            with pq.ParquetFile(
                name, pre_buffer=False, buffer_size=2**16, page_checksum_verification=True
            ) as file:
                yield file
        else:
            fs, inner = files.filesystem(name)
            # One request for neighbouring column chunks; no read-ahead on top of it.
            with (
                fs.open(inner, "rb", cache_type="none") as raw,
                pq.ParquetFile(raw, pre_buffer=True, page_checksum_verification=True) as file,
            ):
                yield file


@dataclass(frozen=True, kw_only=True)
class ParquetRows(TableRows):
    """Reads rows from the row groups that hold them; see `TableRows`."""

    def opened(self, file: str) -> AbstractContextManager[pq.ParquetFile]:
        """The file."""
        return open_file(file)

    def where(self, group: Group) -> str:
        """A row group in words."""
        return f"row group {group.start} of {group.file!r}"

    def decoded(
        self, file: pq.ParquetFile, group: Group, low: int, high: int, most: int
    ) -> Iterator[tuple[int, pa.Table]]:
        """Of columns that the file lacks, what its folders stand for, or nulls; see `TableRows.decoded`."""
        known = set(file.schema_arrow.names)
        wanted = dict.fromkeys(self.columns)
        there, others = [c for c in wanted if c in known], [c for c in wanted if c not in known]
        pieces: Iterator[tuple[int, pa.Table]]
        if there and most < high - low:
            pieces = _batches(file, group, there, most, low, high)
        else:
            step = 1 if files.is_local(group.file) else _COLUMNS
            tables = [_rows(file, group, there[i : i + step], low, high) for i in range(0, len(there), step)]
            columns = {name: table.column(name) for table in tables for name in table.column_names}
            pieces = iter([(low, pa.table(columns))])
        for row, table in pieces:
            yield row, with_values(table, others, group, table.num_rows if there else high - low)


def _batches(
    file: pq.ParquetFile, group: Group, columns: list[str], most: int, low: int, high: int
) -> Iterator[tuple[int, pa.Table]]:
    """Of the rows low:high of a row group the columns, at most so many rows at a time, each behind its first row."""
    row = 0
    for batch in file.iter_batches(most, row_groups=[group.start], columns=columns, use_threads=False):
        start, stop = max(0, low - row), min(high - row, len(batch))
        if start < stop:
            yield row + start, pa.Table.from_batches([batch.slice(start, stop - start)])
        row += len(batch)
        if row >= high:
            return


def _rows(file: pq.ParquetFile, group: Group, columns: list[str], low: int, high: int) -> pa.Table:
    """The rows low:high of a row group."""
    if (low, high) == (0, group.rows):
        return file.read_row_group(group.start, columns=columns, use_threads=False)
    size = min(_BATCH_ROWS, max(1, (high - low) // 4))  # a slice holds its batch
    return pa.concat_tables(table for _, table in _batches(file, group, columns, size, low, high))


@dataclass(frozen=True, kw_only=True)
class ParquetSource(TableSource):
    """X, or the target, of a Parquet file, folder or glob; see `TableSource`.

    Folders like ``year=2020`` stand for a column. A column that only some files have has nulls in the others.
    """

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

        def footer(name: str) -> pq.FileMetaData:
            with open_file(name) as file:
                return file.metadata

        names = cls.files(path)
        with ThreadPoolExecutor(8) as pool:
            footers = list(pool.map(footer, names))
        folders = file_lists.folder_values(names, path)
        groups: list[Group] = []
        schemas, row = [], 0
        for name, metadata, values in zip(names, footers, folders, strict=True):
            schema, state = metadata.schema.to_arrow_schema(), files.state(name)
            schemas.append((name, with_folders(schema, folders)))
            for number in range(metadata.num_row_groups):
                if count := metadata.row_group(number).num_rows:
                    groups.append(Group(name, state, row, count, start=number, values=tuple(values.items())))
                row += count
        rows = ParquetRows(
            groups=tuple(groups), columns=(), dtype="", fingerprint=file_lists.version_of(names),
        )  # fmt: skip
        facts = {"kind": "parquet", "row_groups": sum(metadata.num_row_groups for metadata in footers)}
        nulls = functools.partial(_refuse_nulls, list(zip(names, footers, folders, strict=True)))
        return Found(rows, schemas, facts, refuse_nulls=nulls)

    def _reading(self, rows: TableRows, columns: Sequence[str], exact: Collection[str] = ()) -> TableRows:
        kinds = tuple(self.schema.field(name).type for name in exact)
        return replace(rows, columns=tuple(columns), kinds=kinds)


def _refuse_nulls(
    footers: Sequence[tuple[str, pq.FileMetaData, Collection[str]]], names: Collection[str]
) -> None:
    """Raise InputError for nulls that the footers count, before any row is read: that may take hours."""
    for file, footer, folders in footers:
        leaves = {footer.schema.column(j).path: j for j in range(footer.num_columns)}
        if absent := set(names) - leaves.keys() - set(folders):
            raise null_error(min(absent), f"{file!r}, which has no such column")
        for group in range(footer.num_row_groups):
            row_group = footer.row_group(group)
            for name in [name for name in names if name in leaves]:
                statistics = row_group.column(leaves[name]).statistics
                if statistics is not None and statistics.has_null_count and statistics.null_count:
                    raise null_error(name, f"row group {group} of {file!r}")
