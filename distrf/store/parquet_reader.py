"""Reading rows of Parquet row groups: NumPy blocks and Arrow tables out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ..errors import StoreError
from .parquet_files import open_file
from .parquet_schema import as_floats, null_error


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


@dataclass(frozen=True)
class ParquetRows:
    """Reads rows of some columns from the row groups that hold them; small enough to travel in a task.

    Parameters
    ----------
    groups : tuple of RowGroup
        Ascending, without gaps.
    columns : tuple of str
        Which columns, in this order.
    dtype : str
        Of the result: numbers, ``<U`` text for a target, or ``|O`` for text with nulls, which are None.
    fingerprint : str
        Names this version of the files in the keys of tasks.
    impute : tuple of float, optional
        What replaces nulls and NaN, one number for each column.
    vector : bool
        A single column, as an array of shape (n,). Its nulls are not replaced: with ``impute`` they are NaN or None.
    storage_options : mapping, optional
        Options of the fsspec file system.
    """

    groups: tuple[RowGroup, ...]
    columns: tuple[str, ...]
    dtype: str
    fingerprint: str
    impute: tuple[float, ...] | None = None
    vector: bool = False
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def paths(self) -> tuple[str, ...]:
        """What is read."""
        return tuple(dict.fromkeys(group.file for group in self.groups))

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        # Credentials do not change the data, and have no place in a key.
        return (
            "ParquetRows", self.groups, self.columns, self.dtype, self.fingerprint, self.impute, self.vector,
        )  # fmt: skip

    def read(self, first: int, last: int) -> np.ndarray:
        """Rows ``first:last`` as an array of shape (last - first, columns), or (last - first,) for a vector.

        Raises
        ------
        InputError
            A null without ``impute``: the message names the column and the row group.
        StoreError
            A file is damaged, gone, or changed since it was opened.
        """
        blocks = [self.values(table, group) for table, group in self.tables(first, last)]
        block = blocks[0] if len(blocks) == 1 else np.concatenate(blocks) if blocks else np.empty(0)
        if block.shape[0] != last - first:
            raise StoreError(
                f"rows {first}:{last} were expected, {block.shape[0]} rows were read from "
                f"{[group.file for group in self.groups][:3]}: the files changed since they were opened; open them again"
            )
        return block

    def read_table(self, first: int, last: int) -> pa.Table:
        """Rows ``first:last`` of the columns as they are in the files (key columns: ids, dates)."""
        tables = [table for table, _ in self.tables(first, last)]
        return pa.concat_tables(tables).select(list(self.columns))

    def tables(
        self, first: int, last: int, block_rows: int | None = None
    ) -> Iterator[tuple[pa.Table, RowGroup]]:
        """Rows ``first:last`` as Arrow tables, one or more for each row group, decoded on one core.

        A whole row group is read at once unless ``block_rows`` is given: then no more rows than that.
        """
        by_file: dict[str, list[RowGroup]] = {}
        for group in self.groups:
            if group.first < last and first < group.last:
                by_file.setdefault(group.file, []).append(group)
        columns = list(dict.fromkeys(self.columns))
        for name, groups in by_file.items():
            with open_file(name, self.storage_options) as file:
                for group in groups:
                    low, high = max(first, group.first) - group.first, min(last, group.last) - group.first
                    # One core: Dask owns the others.
                    if (low, high) == (0, group.rows) and block_rows is None:
                        yield file.read_row_group(group.number, columns=columns, use_threads=False), group
                        continue
                    row = 0
                    for batch in file.iter_batches(
                        block_rows or 65_536, row_groups=[group.number], columns=columns, use_threads=False
                    ):
                        table = pa.Table.from_batches([batch])
                        start = max(0, low - row)
                        inside = table.slice(start, max(0, min(high - row, len(table)) - start))
                        row += len(table)
                        if len(inside):
                            yield inside, group
                        if row >= high:
                            break

    def values(self, table: pa.Table, group: RowGroup) -> np.ndarray:
        """The columns of a table of this row group as rows, missing values filled."""
        dtype = np.dtype(self.dtype)
        if self.vector:
            name = self.columns[0]
            return np.asarray(self._column(table, name, group, dtype)).astype(dtype, copy=False)
        # Columns first: a strided write for every value is slower than one transposed copy.
        out = np.empty((len(self.columns), table.num_rows), dtype)
        for j, name in enumerate(self.columns):
            out[j] = self._column(table, name, group, dtype)
            if self.impute is not None and dtype.kind == "f":
                out[j, np.isnan(out[j])] = self.impute[j]
        return np.ascontiguousarray(out.T)

    def _column(self, table: pa.Table, name: str, group: RowGroup, dtype: np.dtype) -> np.ndarray:
        column = table.column(name)
        if column.null_count and (self.impute is None or dtype.kind not in "fO"):
            raise null_error(name, group.file, group.number, self.vector)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if dtype.kind == "U":
            return column.to_numpy(zero_copy_only=False).astype(dtype) if len(column) else np.empty(0, dtype)
        if dtype.kind == "f" and (column.null_count or pa.types.is_decimal(column.type)):
            column = as_floats(column)
        return column.to_numpy(zero_copy_only=False)
