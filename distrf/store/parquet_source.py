"""Rows in Parquet: columns are chosen and row groups are cut into blocks from the footers alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.parquet as pq

from ..errors import StoreError
from . import parquet_files
from .arrow_types import null_error
from .file_lists import version_of
from .files import Options
from .fingerprints import fingerprint_of_files
from .parquet_reader import ParquetRows, RowGroup
from .row_source import Selection
from .table_reader import TableRows
from .table_source import TableSource, cut_blocks, lay_out


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

        The columns that folders like ``year=2020`` stand for are not read.
        """
        footers = parquet_files.read_footers(path, selection.storage_options)
        schemas = [(file, footer.schema.to_arrow_schema()) for file, footer in footers]
        layout = lay_out(path, schemas, selection)
        if layout.coded is None and not selection.missing:
            _refuse_nulls(footers, layout.names)
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
        return fingerprint_of_files(parquet_files.list_files(path, storage_options), storage_options)

    @classmethod
    def part_fingerprints(cls, path: str, storage_options: Options = None) -> list[tuple[str, int]]:
        """Of each file: a folder may have got more of them."""
        footers = parquet_files.read_footers(path, storage_options)
        return [(fingerprint_of_files([name], storage_options), footer.num_rows) for name, footer in footers]

    @classmethod
    def facts(cls, path: str, storage_options: Options = None) -> dict[str, Any]:
        """Rows, row groups and the type of every column."""
        footers = parquet_files.read_footers(path, storage_options)
        schema = footers[0][1].schema.to_arrow_schema()
        return {
            "kind": "parquet",
            "rows": sum(footer.num_rows for _, footer in footers),
            "row_groups": sum(footer.num_row_groups for _, footer in footers),
            "columns": {field.name: str(field.type) for field in schema},
        }


def _refuse_nulls(footers: Sequence[tuple[str, pq.FileMetaData]], names: Sequence[str]) -> None:
    """Raise InputError for nulls that the footers count, before any row is read: that may take hours."""
    wanted = set(names)
    for file, footer in footers:
        leaves = [(j, footer.schema.column(j).path) for j in range(footer.num_columns)]
        leaves = [(j, name) for j, name in leaves if name in wanted]
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
