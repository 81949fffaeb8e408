"""Reading rows of Parquet row groups as Arrow tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from .parquet_files import open_file
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
    """Reads rows from the row groups that hold them; see `TableRows`."""

    groups: tuple[RowGroup, ...]

    def parts(self, first: int, last: int, block_rows: int | None = None) -> Iterator[TablePart]:
        """Rows ``first:last``, one part or more for each row group; see `TableRows.parts`.

        A whole row group is read at once unless ``block_rows`` is given.
        """
        by_file: dict[str, list[RowGroup]] = {}
        for group in self.groups:
            if group.first < last and first < group.last:
                by_file.setdefault(group.file, []).append(group)
        columns = list(dict.fromkeys(self.columns))
        for name, groups in by_file.items():
            with open_file(name, self.storage_options) as file:
                for group in groups:
                    where = f"row group {group.number} of {name!r}"
                    low, high = max(first, group.first) - group.first, min(last, group.last) - group.first
                    if (low, high) == (0, group.rows) and block_rows is None:
                        table = file.read_row_group(group.number, columns=columns, use_threads=False)
                        yield TablePart(table, group.first, where)
                        continue
                    row = 0
                    for batch in file.iter_batches(
                        block_rows or _BATCH_ROWS, row_groups=[group.number], columns=columns, use_threads=False
                    ):
                        start = max(0, low - row)
                        table = pa.Table.from_batches([batch])
                        inside = table.slice(start, max(0, min(high - row, len(table)) - start))
                        if len(inside):
                            yield TablePart(inside, group.first + row + start, where)
                        row += len(table)
                        if row >= high:
                            break
