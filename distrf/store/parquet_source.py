"""Rows in Parquet: columns are chosen and row groups are cut into blocks from the footers alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..errors import InputError, StoreError
from . import parquet_files
from .files import Options
from .fingerprints import fingerprint_of_files
from .parquet_reader import ParquetRows, RowGroup
from .parquet_schema import (
    choose_columns,
    common_dtype,
    is_text,
    null_error,
    refuse_nulls,
    require_columns,
    require_same_schema,
    value_type,
)
from .row_source import BLOCK_BYTES, RowSource, Selection

Block = tuple[tuple[RowGroup, ...], int, int]  # its row groups, its first row, the row after its last


@dataclass(frozen=True, kw_only=True)
class ParquetSource(RowSource):
    """X, or the target, of a Parquet file, folder or glob; see `RowSource`.

    Parameters
    ----------
    rows : ParquetRows
        Reads all row groups.
    cuts : tuple of (row groups, int, int)
        The row groups, the first row and the row after the last of each block.
    schema : pyarrow.Schema
        Of the first file; the chosen columns have the same type in all.
    """

    table: ClassVar[bool] = True

    rows: ParquetRows
    cuts: tuple[Block, ...]
    schema: pa.Schema

    @classmethod
    def recognises(cls, path: str, storage_options: Options = None) -> bool:
        """True for a file or glob by its name, or a folder with Parquet files in it."""
        return parquet_files.is_parquet(path, storage_options)

    @classmethod
    def open(cls, path: str, selection: Selection) -> ParquetSource:
        """Read the footers, choose columns and cut the rows into blocks.

        Row groups are joined up to ``rows_per_block`` (default: 32 MiB of X), and cut into equal blocks if larger by
        a quarter (by default: above 128 MiB, since a block inside a row group is reached by decoding the rows before
        it). With ``uniform`` blocks are cut across row groups to exactly the wanted size (default: a power of two,
        which later splits evenly). The columns that folders like ``year=2020`` stand for are not read.
        """
        target, rows_per_block = selection.target, selection.rows_per_block
        footers = parquet_files.read_footers(path, selection.storage_options)
        schema = footers[0][1].schema.to_arrow_schema()
        names = choose_columns(path, schema, target, _names_only(selection.columns))
        dtype = common_dtype([schema.field(name).type for name in names], selection.missing)
        require_same_schema(footers, [*names, *([target] if target else [])], schema)
        if not selection.missing:
            refuse_nulls(footers, names)
        groups = _row_groups(footers)
        if not groups:
            raise StoreError(f"the Parquet data set {path!r} has no rows")
        slack = 1.25
        if rows_per_block is None:
            rows_per_block, slack = max(1, BLOCK_BYTES // (len(names) * dtype.itemsize)), 4.0
            if selection.uniform:
                rows_per_block = 1 << (rows_per_block.bit_length() - 1)
        if rows_per_block < 1:
            raise InputError(f"rows_per_block is at least 1; received {rows_per_block}")
        cuts = tuple(
            _cut_uniform(groups, rows_per_block) if selection.uniform else _cut(groups, rows_per_block, slack)
        )
        version = parquet_files.fingerprint([name for name, _ in footers], selection.storage_options)
        return cls(
            path=path,
            shape=(groups[-1].last, len(names)),
            dtype=dtype,
            block_lengths=tuple(last - first for _, first, last in cuts),
            columns=names,
            target=target,
            rows=ParquetRows(
                tuple(groups), tuple(names), dtype.str, version, storage_options=selection.storage_options
            ),
            cuts=cuts,
            schema=schema,
        )

    def target_source(self) -> ParquetSource | None:
        """The target column; text takes one pass to find its width."""
        if self.target is None:
            return None
        kind = value_type(self.schema.field(self.target).type)
        if is_text(kind):
            width = max((len(name) for name in self.text_classes() or []), default=1)
            dtype = np.dtype(f"<U{max(1, width)}")
        else:
            dtype = np.dtype(np.float64 if pa.types.is_decimal(kind) else kind.to_pandas_dtype())
        rows = replace(self.rows, columns=(self.target,), dtype=dtype.str, impute=None, vector=True)
        return replace(self, shape=self.shape[:1], dtype=dtype, columns=None, rows=rows)

    def text_classes(self) -> list[str] | None:
        """The sorted distinct texts of the target, by one pass over that column; None for other targets."""
        if self.target is None or not is_text(value_type(self.schema.field(self.target).type)):
            return None
        found: set[str] = set()
        for table, group in replace(self.rows, columns=(self.target,)).tables(0, self.shape[0], 2**20):
            column = table.column(self.target)
            if column.null_count:
                raise null_error(self.target, group.file, group.number, True)
            found.update(pc.unique(column.cast(pa.large_string())).to_pylist())
        return sorted(found)

    def read(self, first: int, last: int) -> np.ndarray:
        """Rows ``first:last``; see `ParquetRows.read`."""
        return self.rows.read(first, last)

    def blocks(self) -> Iterator[tuple[ParquetRows, int, int]]:
        """For each block a reader of its row groups."""
        for groups, first, last in self.cuts:
            yield replace(self.rows, groups=groups), first, last

    def filled(self, values: tuple[float, ...]) -> ParquetSource:
        """Nulls and NaN read as these numbers."""
        return replace(self, rows=replace(self.rows, impute=values))

    def stream(self, target: Any, block_rows: int) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """X and target in blocks, each row group decoded once.

        Block by block, a large row group would be decoded again for each of its blocks.
        """
        wanted = self.rows
        if target is not None:
            wanted = replace(wanted, columns=(*wanted.columns, *target.rows.columns))
        for table, group in wanted.tables(0, self.shape[0], block_rows):
            yield self.rows.values(table, group), None if target is None else target.rows.values(table, group)

    def key_blocks(self, keys: Sequence[str]) -> list[tuple[ParquetRows, int, int]]:
        """`blocks` with readers of key columns, which may have any type."""
        require_columns(self.path, self.schema, keys)
        return [(replace(rows, columns=tuple(keys)), first, last) for rows, first, last in self.blocks()]

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


def _names_only(columns: Sequence[Any] | None) -> list[str] | None:
    if columns is None:
        return None
    if isinstance(columns, str) or not all(isinstance(c, str) for c in columns):
        raise InputError(f"columns of Parquet are a list of names; received {columns!r}")
    return list(columns)


def _row_groups(footers: Sequence[tuple[str, pq.FileMetaData]]) -> list[RowGroup]:
    groups, row = [], 0
    for file, footer in footers:
        for number in range(footer.num_row_groups):
            count = footer.row_group(number).num_rows
            if count:
                groups.append(RowGroup(file, number, row, count))
            row += count
    return groups


def _cut(groups: Sequence[RowGroup], rows_per_block: int, slack: float) -> Iterator[Block]:
    """Blocks near the wanted size; a row group up to slack times larger is not cut."""
    held: list[RowGroup] = []
    for group in groups:
        if held and group.last - held[0].first > rows_per_block:
            yield tuple(held), held[0].first, group.first
            held = []
        if group.rows > slack * rows_per_block:
            size = -(-group.rows // -(-group.rows // rows_per_block))
            for low in range(group.first, group.last, size):
                yield (group,), low, min(low + size, group.last)
        else:
            held.append(group)
    if held:
        yield tuple(held), held[0].first, held[-1].last


def _cut_uniform(groups: Sequence[RowGroup], rows_per_block: int) -> Iterator[Block]:
    """Blocks of exactly the wanted size, but for the last."""
    for first in range(0, groups[-1].last, rows_per_block):
        last = min(first + rows_per_block, groups[-1].last)
        yield tuple(group for group in groups if group.first < last and first < group.last), first, last
