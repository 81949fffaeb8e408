"""Reading rows of a table in Parquet files: NumPy blocks out.

`pyarrow.dataset` is not used. It sorts part-10 before part-2, takes no glob, tries files of any name, tells no null counts, and
reads a whole row group for a few of its rows: 189 MiB where `ParquetFile.iter_batches` takes 54 MiB for 200,000 of 1,000,000
rows of 16 columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..errors import InputError, StoreError
from . import files
from .table_lists import spread
from .table_schema import TableSchema, as_floats, decoded, is_text, null_error, value_type

#: Rows of a table that become coded rows at a time: its texts take more room than their codes.
_CODED_ROWS = 2**16
#: Columns that are transposed together.
_TRANSPOSED = 4
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


class Group(NamedTuple):
    """A row group of a file.

    Parameters
    ----------
    file, state : str
        The name of the file, and the state of the data when they were opened.
    first, rows : int
        Its first row in the data set, and how many they are.
    number : int
        Of the row group in the file.
    values : tuple of (str, int or str or None)
        Columns that the folders of the file stand for.
    origin : str
        The file of CSV that it was made of.
    """

    file: str
    state: str
    first: int
    rows: int
    number: int
    values: tuple[tuple[str, int | str | None], ...] = ()
    origin: str = ""

    @property
    def last(self) -> int:
        """The row after the last."""
        return self.first + self.rows

    @property
    def where(self) -> str:
        """In words."""
        return repr(self.origin) if self.origin else f"row group {self.number} of {self.file!r}"


class TablePart(NamedTuple):
    """Some rows: as an Arrow table, the number of the first, and where they are in words."""

    table: pa.Table
    first: int
    where: str


@dataclass(frozen=True, kw_only=True)
class TableRows:
    """Reads rows of some columns; small enough to travel in a task.

    Parameters
    ----------
    groups : tuple of Group
        Ascending, without gaps.
    columns : tuple of str
        Which columns, in this order.
    dtype : str
        Of the result: numbers, ``<U`` text for a target, or ``|O`` for text with nulls, which are None.
    fingerprint : str
        Names this version of the files in the keys of tasks.
    kinds : tuple of pa.DataType
        The types in which `read_table` gives the columns, whatever they are in each file.
    vector : bool
        A single column, as an array of shape (n,).
    missing : bool
        Nulls are NaN, or None of an object.
    coded : TableSchema, optional
        The columns are read as coded rows, as this says.
    lists : tuple of (str, int)
        The columns of lists of the files, and their lengths.
    """

    groups: tuple[Group, ...]
    columns: tuple[str, ...]
    dtype: str
    fingerprint: str
    kinds: tuple[pa.DataType, ...] = ()
    vector: bool = False
    missing: bool = True
    coded: TableSchema | None = None
    lists: tuple[tuple[str, int], ...] = ()

    def parts(self, first: int, last: int, most: int | None = None) -> Iterator[TablePart]:
        """Rows ``first:last`` of the columns, at most so many at a time, or one group."""
        wanted = (group for group in self.groups if group.first < last and first < group.last)
        for name, groups in itertools.groupby(wanted, lambda group: group.file):
            with open_file(name) as file:
                for group in groups:
                    files.check_state(group.origin or name, group.state)
                    low, high = max(first - group.first, 0), min(last - group.first, group.rows)
                    for row, table in self._pieces(file, group, low, high, most or group.rows):
                        yield TablePart(table, group.first + row, group.where)

    def _pieces(
        self, file: pq.ParquetFile, group: Group, low: int, high: int, most: int
    ) -> Iterator[tuple[int, pa.Table]]:
        """The columns of the rows ``low:high`` of a group in pieces of at most `most` rows, each behind its first row.

        They are decoded on one core, since Dask owns the others. Of columns that the file lacks, what its folders stand for, or
        nulls.
        """
        known, lists = set(file.schema_arrow.names), dict(self.lists)
        column = {f"{name}_{i}": name for name in known & lists.keys() for i in range(lists[name])}
        wanted = {name: column.get(name, name) for name in self.columns}
        there = list(dict.fromkeys(name for name in wanted.values() if name in known))
        pieces: Iterator[tuple[int, pa.Table]]
        if there and most < high - low:
            pieces = _batches(file, group, there, most, low, high)
        else:
            step = 1 if files.is_local(group.file) else _COLUMNS
            tables = [_rows(file, group, there[i : i + step], low, high) for i in range(0, len(there), step)]
            columns = {name: table.column(name) for table in tables for name in table.column_names}
            pieces = iter([(low, pa.table(columns))])
        for row, table in pieces:
            rows, values = table.num_rows if there else high - low, dict(group.values)
            if column:
                table = spread(table, {name: lists[name] for name in there if name in lists})
            columns = {
                name: table.column(name) if held in known else pa.repeat(pa.scalar(values.get(name)), rows)
                for name, held in wanted.items()
            }
            yield row, pa.table(columns)

    @property
    def paths(self) -> tuple[str, ...]:
        """What is read: of CSV the text."""
        return tuple(dict.fromkeys(group.origin or group.file for group in self.groups))

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        # Credentials do not change the data, and have no place in a key; nor has where CSV became Parquet.
        groups = [group._replace(file=group.origin or group.file) for group in self.groups]
        return (
            "TableRows", groups, self.columns, self.dtype, self.fingerprint, self.missing, self.vector,
            None if self.coded is None else self.coded.spec(),
        )  # fmt: skip

    def read(self, first: int, last: int) -> np.ndarray:
        """Rows ``first:last`` as an array of shape (last - first, columns), or (last - first,) for a vector.

        Raises
        ------
        InputError
            A null of a target, or among integers: the message names the column and the place. Of coded rows, a value that cannot
            be read as the schema says.
        StoreError
            A file is damaged, gone, or changed since it was opened.
        """
        out, at = np.empty(0), 0
        for part in self.parts(first, last, None if self.coded is None else _CODED_ROWS):
            values = self.values(part)
            stop = at + len(values)
            if len(values) == last - first:
                out = values
            else:
                out = np.empty((last - first, *values.shape[1:]), self.dtype) if at == 0 else out
                out[at:stop] = values[: last - first - at]
            at = stop
            del part, values
        pa.default_memory_pool().release_unused()
        if at != last - first:
            raise StoreError(
                f"rows {first}:{last} were expected, {at} rows were read from {list(self.paths)[:3]}: the files changed "
                "since they were opened; open them again"
            )
        return out

    def read_table(self, first: int, last: int) -> pa.Table:
        """Rows ``first:last`` of the columns as they are in the files (key columns: ids, dates), in the types `kinds`.

        Raises
        ------
        InputError
            A value of a file is none of the type that the column has over all files.
        """
        tables = [
            [_converted(part, name, kind) for name, kind in zip(self.columns, self.kinds, strict=True)]
            for part in self.parts(first, last)
        ]
        return pa.concat_tables([pa.table(columns, names=list(self.columns)) for columns in tables])

    def null_fault(self, part: TablePart, name: str) -> InputError:
        """The error for the first null of a column of which one or more of these rows have it."""
        column = part.table.column(name)
        row = part.first + int(np.argmax(column.is_null().to_numpy()))
        text = self.groups[0].origin and is_text(value_type(column.type))
        hint = "say keep_default_na=False where a word such as NA is a class, or else " if text else ""
        return null_error(name, part.where, row, self.vector, hint)

    def values(self, part: TablePart) -> np.ndarray:
        """The columns of some rows as an array, NaN for nulls."""
        dtype, table = np.dtype(self.dtype), part.table
        if self.coded is not None:
            from .table_codes import coded  # it needs the maps, which readers of other rows do without

            try:
                return coded(table, self.coded)
            except InputError as error:
                raise InputError(f"{error} (in {part.where})") from None
        if self.vector:
            return self._column(part, self.columns[0], dtype).astype(dtype, copy=False)
        # Some columns first: a strided write for every value is slower than a transposed copy, and one of all takes a block more.
        out = np.empty((table.num_rows, len(self.columns)), dtype)
        for i in range(0, len(self.columns), _TRANSPOSED):
            names = self.columns[i : i + _TRANSPOSED]
            few = np.empty((len(names), table.num_rows), dtype)
            for j, name in enumerate(names):
                few[j] = self._column(part, name, dtype)
                if dtype.kind == "f":
                    _refuse_rounding(table.column(name), few[j], name, part.where)
            out[:, i : i + _TRANSPOSED] = few.T
        return out

    def _column(self, part: TablePart, name: str, dtype: np.dtype) -> np.ndarray:
        column = part.table.column(name)
        if column.null_count and (not self.missing or dtype.kind not in "fO"):
            raise self.null_fault(part, name)
        return column_values(column, dtype)


def _batches(
    file: pq.ParquetFile, group: Group, columns: list[str], most: int, low: int, high: int
) -> Iterator[tuple[int, pa.Table]]:
    """Of the rows low:high of a row group the columns, at most so many rows at a time, each behind its first row."""
    row = 0
    for batch in file.iter_batches(most, row_groups=[group.number], columns=columns, use_threads=False):
        start, stop = max(0, low - row), min(high - row, len(batch))
        if start < stop:
            yield row + start, pa.Table.from_batches([batch.slice(start, stop - start)])
        row += len(batch)
        if row >= high:
            return


def _rows(file: pq.ParquetFile, group: Group, columns: list[str], low: int, high: int) -> pa.Table:
    """The rows low:high of a row group."""
    if (low, high) == (0, group.rows):
        return file.read_row_group(group.number, columns=columns, use_threads=False)
    size = min(_BATCH_ROWS, max(1, (high - low) // 4))  # a slice holds its batch
    return pa.concat_tables(table for _, table in _batches(file, group, columns, size, low, high))


def _refuse_rounding(column: pa.ChunkedArray, numbers: np.ndarray, name: str, where: str) -> None:
    """Raise InputError for different integers beyond 2^53 that are one floating-point number."""
    if pa.types.is_floating(value_type(column.type)) or not (np.abs(numbers) > 2**53).any():
        return
    if len(pc.unique(column)) > len(np.unique(numbers)):
        raise InputError(
            f"numbers of rows are {numbers.dtype}; column {name!r} has integers in {where} that are one such number, as of codes "
            "and ids; leave the column out with columns=, or train on the table as it is: `distrf train` encodes its columns"
        )


def _converted(part: TablePart, name: str, kind: pa.DataType) -> pa.ChunkedArray:
    column = part.table.column(name)
    try:
        return column if column.type == kind else decoded(column).cast(kind)
    except pa.ArrowInvalid as error:
        raise InputError(
            f"a column has one type in all parts of a table; {name!r} is {kind}, and {part.where} has {column.type} "
            f"with values that {kind} cannot hold ({error}); write them with one schema"
        ) from None


def column_values(column: pa.ChunkedArray, dtype: np.dtype) -> np.ndarray:
    """A column of numbers or texts as an array of shape (rows,); of nulls NaN, where the dtype has it.

    Parameters
    ----------
    column : pa.ChunkedArray
        Of numbers, booleans or text, or a dictionary of them.
    dtype : numpy.dtype
        What the caller will make of it: the array may have a narrower one.

    Returns
    -------
    array of shape (rows,)
    """
    column = decoded(column)
    if dtype.kind == "O" and column.null_count and not pa.types.is_floating(column.type):
        return np.array(column.to_pylist(), object)
    if dtype.kind == "U":
        return column.to_numpy(zero_copy_only=False).astype(dtype) if len(column) else np.empty(0, dtype)
    if dtype.kind == "f" and (column.null_count or pa.types.is_decimal(column.type)):
        column = as_floats(column)
    return column.to_numpy(zero_copy_only=False)
