"""Reading rows of Parquet row groups as Arrow tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from .parquet_files import folder_values, open_file
from .table_reader import TablePart, TableRows

_BATCH_ROWS = 2**16


class RowGroup(NamedTuple):
    """A row group: its file, its number in the file, its first row in the data set, its rows."""

    file: str
    number: int
    first: int
    rows: int

    @property
    def last(self) -> int:
        """The row after its last."""
        return self.first + self.rows


@dataclass(frozen=True, kw_only=True)
class ParquetRows(TableRows):
    """Reads rows from the row groups that hold them; see `TableRows`.

    Parameters
    ----------
    groups : tuple of RowGroup
    root : str
        The path of the data set.
    folders : tuple of (str, pa.DataType)
        Columns that folders below it stand for.
    """

    groups: tuple[RowGroup, ...]
    root: str = ""
    folders: tuple[tuple[str, pa.DataType], ...] = ()

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        return *super().__dask_tokenize__(), self.root, [(name, str(kind)) for name, kind in self.folders]

    def parts(self, first: int, last: int, block_rows: int | None = None) -> Iterator[TablePart]:
        """Rows ``first:last``, one part or more for each row group; see `TableRows.parts`.

        A whole row group is read at once unless ``block_rows`` is given.
        """
        by_file: dict[str, list[RowGroup]] = {}
        for group in self.groups:
            if group.first < last and first < group.last:
                by_file.setdefault(group.file, []).append(group)
        wanted = list(dict.fromkeys(self.columns))
        for name, groups in by_file.items():
            with open_file(name, self.storage_options) as file:
                columns = [column for column in wanted if column in file.schema_arrow.names]
                others = [column for column in wanted if column not in columns]
                for group in groups:
                    where = f"row group {group.number} of {name!r}"
                    low, high = max(first, group.first) - group.first, min(last, group.last) - group.first
                    if not columns:
                        table = self._with(pa.table({}), others, name, high - low)
                        yield TablePart(table, group.first + low, where)
                        continue
                    if (low, high) == (0, group.rows) and block_rows is None:
                        table = file.read_row_group(group.number, columns=columns, use_threads=False)
                        yield TablePart(self._with(table, others, name, group.rows), group.first, where)
                        continue
                    row = 0
                    for batch in file.iter_batches(
                        block_rows or _BATCH_ROWS, row_groups=[group.number], columns=columns, use_threads=False
                    ):
                        start = max(0, low - row)
                        table = pa.Table.from_batches([batch])
                        inside = table.slice(start, max(0, min(high - row, len(table)) - start))
                        if len(inside):
                            inside = self._with(inside, others, name, len(inside))
                            yield TablePart(inside, group.first + row + start, where)
                        row += len(table)
                        if row >= high:
                            break

    def _with(self, table: pa.Table, names: list[str], file: str, rows: int) -> pa.Table:
        """A table with columns that the file lacks: what its folders stand for, or nulls."""
        types, values = dict(self.folders), folder_values(file, self.root) if names else {}
        columns = dict(zip(table.column_names, table.columns, strict=True))
        for name in names:
            scalar = pa.scalar(values.get(name)).cast(types[name]) if name in values else pa.scalar(None)
            columns[name] = pa.chunked_array([pa.repeat(scalar, rows)])
        return pa.table(columns) if names else table
