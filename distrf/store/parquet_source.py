"""Rows in Parquet: columns are chosen and row groups are cut into blocks from the footers alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import StoreError
from . import parquet_files
from .arrow_types import null_error
from .file_lists import version_of
from .files import Options
from .fingerprints import fingerprint_of_files, fingerprint_of_spec
from .parquet_reader import ParquetRows, RowGroup
from .row_source import Selection
from .table_reader import TableRows
from .table_schema import merged
from .table_source import TableSource, all_names, cut_blocks, lay_out


@dataclass(frozen=True, kw_only=True)
class ParquetSource(TableSource):
    """X, or the target, of a Parquet file, folder or glob; see `TableSource`."""

    @classmethod
    def recognises(cls, path: str, storage_options: Options = None) -> bool:
        """True for a file or glob by its name, or a folder with Parquet files in it."""
        return parquet_files.is_parquet(path, storage_options)

    @classmethod
    def open(cls, path: str, selection: Selection) -> ParquetSource:
        """Read the footers, choose columns and cut the rows into blocks (see `cut_blocks`).

        Folders like ``year=2020`` stand for a column. A column that only some files have has nulls in the others.
        """
        footers, schemas, folders = _schemas(path, selection.storage_options)
        layout = lay_out(path, schemas, selection)
        if layout.coded is None and not selection.missing:
            _refuse_nulls(footers, layout.names, folders)
        groups = _row_groups(footers)
        if not groups:
            raise StoreError(f"the Parquet data set {path!r} has no rows")
        version = version_of([file for file, _ in footers], selection.storage_options)
        cuts = cut_blocks(groups, len(layout.names) * layout.dtype.itemsize, selection)
        source = cls(
            path=path,
            shape=(groups[-1].last, len(layout.names)),
            dtype=layout.dtype,
            block_lengths=tuple(last - first for _, first, last in cuts),
            columns=layout.names,
            target=selection.target,
            rows=ParquetRows(
                groups=tuple(groups),
                columns=tuple(layout.names),
                dtype=layout.dtype.str,
                fingerprint=version,
                root=path,
                folders=tuple(folders.items()),
                storage_options=selection.storage_options,
            ),
            cuts=cuts,
            schema=layout.schema,
        )
        return source if layout.coded is None else source.coded_as(layout.coded)

    def _reading(self, rows: TableRows, columns: Sequence[str], exact: Collection[str] = ()) -> TableRows:
        return replace(
            rows, columns=tuple(columns), kinds=tuple(self.schema.field(name).type for name in exact)
        )

    @classmethod
    def fingerprint(cls, path: str, storage_options: Options = None) -> str:
        """Of the sizes and edges of all files."""
        return _fingerprint(path, parquet_files.list_files(path, storage_options), storage_options)

    @classmethod
    def part_fingerprints(cls, path: str, storage_options: Options = None) -> list[tuple[str, int]]:
        """Of each file: a folder may have got more of them."""
        footers = parquet_files.read_footers(path, storage_options)
        return [(_fingerprint(path, [name], storage_options), footer.num_rows) for name, footer in footers]

    @classmethod
    def facts(cls, path: str, storage_options: Options = None) -> dict[str, Any]:
        """Rows, row groups and the type of every column."""
        footers, schemas, _ = _schemas(path, storage_options)
        schema = merged(schemas, all_names(schemas))
        return {
            "kind": "parquet",
            "rows": sum(footer.num_rows for _, footer in footers),
            "row_groups": sum(footer.num_row_groups for _, footer in footers),
            "columns": {field.name: str(field.type) for field in schema},
        }


def _schemas(
    path: str, storage_options: Options
) -> tuple[list[tuple[str, pq.FileMetaData]], list[tuple[str, pa.Schema]], dict[str, pa.DataType]]:
    """The footers, the schema of each file with what its folders stand for, and the types of those columns."""
    footers = parquet_files.read_footers(path, storage_options)
    folders = parquet_files.folder_types([file for file, _ in footers], path)
    schemas = []
    for file, footer in footers:
        schema = footer.schema.to_arrow_schema()
        for name in parquet_files.folder_values(file, path):
            if name not in schema.names:
                schema = schema.append(pa.field(name, folders[name]))
        schemas.append((file, schema))
    return footers, schemas, folders


def _fingerprint(path: str, names: Sequence[str], storage_options: Options) -> str:
    """Of files, and of what their folders stand for."""
    found = fingerprint_of_files(names, storage_options)
    values = [parquet_files.folder_values(name, path) for name in names]
    return fingerprint_of_spec({"files": found, "folders": values}) if any(values) else found


def _refuse_nulls(
    footers: Sequence[tuple[str, pq.FileMetaData]], names: Sequence[str], folders: Collection[str]
) -> None:
    """Raise InputError for nulls that the footers count, before any row is read: that may take hours."""
    wanted = set(names)
    for file, footer in footers:
        leaves = [(j, footer.schema.column(j).path) for j in range(footer.num_columns)]
        leaves = [(j, name) for j, name in leaves if name in wanted]
        if absent := wanted - {name for _, name in leaves} - set(folders):
            raise null_error(min(absent), f"{file!r}, which has no such column")
        for group in range(footer.num_row_groups):
            row_group = footer.row_group(group)
            for j, name in leaves:
                statistics = row_group.column(j).statistics
                if statistics is not None and statistics.has_null_count and statistics.null_count:
                    raise null_error(name, f"row group {group} of {file!r}")


def _row_groups(footers: Sequence[tuple[str, pq.FileMetaData]]) -> list[RowGroup]:
    groups, row = [], 0
    for file, footer in footers:
        for number in range(footer.num_row_groups):
            count = footer.row_group(number).num_rows
            if count:
                groups.append(RowGroup(file, number, row, count))
            row += count
    return groups
