"""Parquet files of a table: what their footers say, and their rows as NumPy blocks.

Lists of numbers of one length, as of embeddings, are columns: "name_0" and so on, one for each place of the lists.

`pyarrow.dataset` is not used. It sorts part-10 before part-2, takes no glob, tries files of any name, tells no null counts, and
reads a whole row group for a few of its rows: 189 MiB where `ParquetFile.iter_batches` takes 54 MiB for 200,000 of 1,000,000
rows of 16 columns.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..errors import InputError, StoreError
from . import file_lists, files
from .table_schema import (
    TableSchema,
    as_floats,
    computable,
    decoded,
    is_number,
    null_error,
    present,
    value_type,
)
from .zarr_layout import NAME

#: Rows of a table that become coded rows at a time: its texts take more room than their codes.
_CODED_ROWS = 2**16
#: Columns that are transposed together.
_TRANSPOSED = 4
#: Columns of a distant file that are read together: each costs a request. Those of a local one are read one by one: of each Arrow
#: holds a page and a dictionary, 2 MiB, until all have ended, and it takes three times as long for many.
_COLUMNS = 16
#: Rows that tell how long lists are.
_LOOKED_AT = 1000
#: Names of files that we wrote. Others are renamed at will.
_OURS = re.compile(r"part-\d{6,}\.parquet")
#: Rows that are read at a time amid a row group, at most.
_BATCH_ROWS = 2**16


@contextmanager
def open_file(name: str) -> Iterator[pq.ParquetFile]:
    """An open file that checks the checksums of its pages; what Arrow raises becomes a StoreError."""
    place: Any = name
    # Pre-buffering would hold the bytes of a whole row group beside its values; of a distant file it is one request for neighbouring
    # column chunks, and no read-ahead on top of it.
    options: dict[str, Any] = {"pre_buffer": False, "buffer_size": 2**16}
    with files.reading(name, "Parquet"), ExitStack() as stack:
        if not files.is_local(name):
            fs, inner = files.filesystem(name)
            place, options = stack.enter_context(fs.open(inner, "rb", cache_type="none")), {"pre_buffer": True}
        yield stack.enter_context(pq.ParquetFile(place, page_checksum_verification=True, **options))


class Group(NamedTuple):
    """A row group of a file.

    Parameters
    ----------
    file, origin, state : str
        The name of the file, that of the file of CSV that it was made of, or the same, and the state of that when it was opened.
    first, rows : int
        Its first row in the data set, and how many they are.
    number : int
        Of the row group in the file.
    values : tuple of (str, int or str or None)
        Columns that the folders of the file stand for.
    """

    file: str
    origin: str
    state: str
    first: int
    rows: int
    number: int
    values: tuple[tuple[str, int | str | None], ...]

    @property
    def last(self) -> int:
        """The row after the last."""
        return self.first + self.rows

    @property
    def where(self) -> str:
        """In words."""
        return f"row group {self.number} of {self.file!r}" if self.file == self.origin else repr(self.origin)


class TablePart(NamedTuple):
    """Some rows: as an Arrow table, the number of the first, and the group that has them."""

    table: pa.Table
    first: int
    group: Group


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
    kinds : pa.Schema, optional
        The types in which `read_table` gives the columns, whatever they are in each file.
    vector : bool
        A single column, as an array of shape (n,).
    missing : bool
        Nulls are NaN, or None of an object; else refused.
    coded : TableSchema, optional
        The columns are read as coded rows, as this says.
    lists : dict of str to int
        The columns of lists of the files, and their lengths.
    labelled : str, optional
        A column: rows that have no value there are left out, and groups are counted without them.
    """

    groups: tuple[Group, ...]
    columns: tuple[str, ...]
    dtype: str
    kinds: pa.Schema | None = None
    vector: bool = False
    missing: bool = True
    coded: TableSchema | None = None
    lists: Mapping[str, int] = field(default_factory=dict)
    labelled: str | None = None

    def parts(self, first: int, last: int, most: int | None = None) -> Iterator[TablePart]:
        """Rows ``first:last`` of the columns, at most so many at a time, or one group."""
        wanted = (group for group in self.groups if group.first < last and first < group.last)
        for name, groups in itertools.groupby(wanted, lambda group: group.file):
            with open_file(name) as file:
                for number, group in enumerate(groups):
                    if number == 0 or files.is_local(group.origin):  # a look at a distant one is a request
                        files.check_state(group.origin, group.state, remote=True)
                    low, high = max(first - group.first, 0), min(last - group.first, group.rows)
                    for row, table in self._pieces(file, group, low, high, most or group.rows):
                        yield TablePart(table, group.first + row, group)

    def _pieces(
        self, file: pq.ParquetFile, group: Group, low: int, high: int, most: int
    ) -> Iterator[tuple[int, pa.Table]]:
        """The columns of the rows ``low:high`` of a group in pieces of at most `most` rows, each behind its first row.

        They are decoded on one core, since Dask owns the others. Of columns that the file lacks, what its folders stand for, or
        nulls.
        """
        known, named = set(file.schema_arrow.names), [*self.columns, *filter(None, [self.labelled])]
        column = {f"{name}_{i}": name for name in known & self.lists.keys() for i in range(self.lists[name])}
        held = {name: column.get(name, name) for name in named}
        there = list(dict.fromkeys(name for name in held.values() if name in known))
        there = there or file.schema_arrow.names[:1]  # it tells how many rows there are
        start, stop = low, high
        if self.labelled:  # how many rows are left out before is not known
            start, stop = 0, file.metadata.row_group(group.number).num_rows
        if most < stop - start:
            tables = _batches(file, group, there, most, start, stop)
        else:
            step = 1 if files.is_local(group.file) else _COLUMNS
            some = [_rows(file, group, there[i : i + step], start, stop) for i in range(0, len(there), step)]
            tables = iter(
                [pa.table({name: table.column(name) for table in some for name in table.column_names})]
            )
        made = (self._made(table, held, dict(group.values)) for table in tables)
        for row, table in _between(made, low - start, high - start):
            yield start + row, table

    def _made(self, table: pa.Table, held: Mapping[str, str], values: Mapping[str, Any]) -> pa.Table:
        """The columns, of which the file has those in which they are `held`, and its folders the values of others, of some rows of it."""
        rows, known = len(table), set(table.column_names)
        table = computable(spread(table, self.lists) if self.lists else table)
        columns = {
            name: table.column(name) if at in known else pa.repeat(pa.scalar(values.get(name)), rows)
            for name, at in held.items()
        }
        table = pa.table(columns)
        return table.filter(present(columns[self.labelled])).select(self.columns) if self.labelled else table

    @property
    def paths(self) -> tuple[str, ...]:
        """What is read: of CSV the text."""
        return tuple(dict.fromkeys(group.origin for group in self.groups))

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        # Where CSV became Parquet has no place in a key. But how it was read has: the name of the file tells.
        groups = [(os.path.basename(group.file), *group[1:]) for group in self.groups]
        coded = None if self.coded is None else self.coded.spec()
        return "TableRows", groups, self.columns, self.dtype, self.missing, self.vector, self.labelled, coded

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

    def read_table(self, first: int, last: int, safe: bool = True) -> pa.Table:
        """Rows ``first:last`` of the columns as they are in the files (key columns: ids, dates), in the types `kinds`.

        Raises
        ------
        InputError
            A value of a file is none of the type that the column has over all files, where `safe`; else it is rounded.
        """
        tables = []
        for part in self.parts(first, last):
            try:
                tables.append(part.table.cast(self.kinds, safe=safe))
            except pa.ArrowInvalid as error:
                raise InputError(
                    f"a column has one type in all parts of a table; {part.group.where} has values that cannot be {self.kinds} ({error}); "
                    "write them with one schema"
                ) from None
        return pa.concat_tables(tables)

    def values(self, part: TablePart) -> np.ndarray:
        """The columns of some rows as an array, NaN for nulls."""
        dtype, table = np.dtype(self.dtype), part.table
        if self.coded is not None:
            from .table_codes import coded  # it needs the maps, which readers of other rows do without

            try:
                return coded(table, self.coded)
            except InputError as error:
                raise InputError(f"{error} (in {part.group.where})") from None
        if self.vector:
            return self._column(part, self.columns[0], dtype).astype(dtype, copy=False)
        numbers = (self._column(part, name, dtype) for name in self.columns)
        return side_by_side(numbers, (table.num_rows, len(self.columns)), dtype)

    def _column(self, part: TablePart, name: str, dtype: np.dtype) -> np.ndarray:
        column = part.table.column(name)
        if column.null_count and not self.missing:
            raise null_error(column, name, part.group.where, part.first + 1)
        values = column_values(column, dtype)
        if dtype.kind == "f" and not self.vector:
            _refuse_rounding(column, values.astype(dtype, copy=False), name, part.group.where)
        return values


def side_by_side(columns: Iterable[np.ndarray], shape: tuple[int, int], dtype: np.dtype) -> np.ndarray:
    """Columns as an array of rows.

    Some are written together: a strided write for every value is slower than a transposed copy, and one of all takes a block more.
    """
    out, left = np.empty(shape, dtype), iter(columns)
    for first in range(0, shape[1], _TRANSPOSED):
        out[:, first : first + _TRANSPOSED] = np.array(list(itertools.islice(left, _TRANSPOSED)), dtype).T
    return out


def _between(tables: Iterable[pa.Table], low: int, high: int) -> Iterator[tuple[int, pa.Table]]:
    """The rows low:high of neighbouring ones, each table behind the number of its first row."""
    row = 0
    for table in tables:
        start, stop = max(0, low - row), min(high - row, len(table))
        if start < stop:
            yield row + start, table.slice(start, stop - start)
        row += len(table)
        if row >= high:
            return


def _batches(
    file: pq.ParquetFile, group: Group, columns: list[str], most: int, low: int, high: int
) -> Iterator[pa.Table]:
    """Of the rows low:high of a row group the columns, at most so many rows at a time."""
    batches = file.iter_batches(most, row_groups=[group.number], columns=columns, use_threads=False)
    return (table for _, table in _between((pa.Table.from_batches([one]) for one in batches), low, high))


def _rows(file: pq.ParquetFile, group: Group, columns: list[str], low: int, high: int) -> pa.Table:
    """The rows low:high of a row group."""
    if (low, high) == (0, file.metadata.row_group(group.number).num_rows):
        return file.read_row_group(group.number, columns=columns, use_threads=False)
    size = min(_BATCH_ROWS, max(1, (high - low) // 4))  # a slice holds its batch
    return pa.concat_tables(_batches(file, group, columns, size, low, high))


def _refuse_rounding(column: pa.ChunkedArray, numbers: np.ndarray, name: str, where: str) -> None:
    """Raise InputError for different integers beyond 2^53 that are one floating-point number."""
    if pa.types.is_floating(value_type(column.type)) or not (np.abs(numbers) > 2**53).any():
        return
    if len(pc.unique(column)) > len(np.unique(numbers)):
        raise InputError(
            f"numbers of rows are {numbers.dtype}; column {name!r} has integers in {where} that are one such number, as of codes "
            "and ids; leave the column out with columns=, or train on the table as it is: `distrf train` encodes its columns"
        )


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


def found_in(
    path: str, names: Sequence[str], origins: Sequence[str]
) -> tuple[TableRows, list[tuple[str, pa.Schema]]]:
    """A reader of files of Parquet, as yet of no column, and what columns each file has, by their footers.

    Parameters
    ----------
    path : str
        Where the data set is.
    names : sequence of str
        The files.
    origins : sequence of str
        The files of CSV that they were made of, or the same.

    Returns
    -------
    (TableRows, list of (str, pa.Schema))
        Of the groups that have rows; the columns of a file with those that its folders stand for.
    """

    def look(name: str, origin: str) -> tuple[pq.FileMetaData, pa.Schema, dict[str, int], str]:
        with open_file(name) as file:
            columns = [one.name for one in file.schema_arrow if _of_numbers(one.type)]
            some = next(file.iter_batches(_LOOKED_AT, columns=columns, use_threads=False), None)
            lengths = widths(pa.Table.from_batches([some])) if columns and some is not None else {}
            _check_name(name, file.schema_arrow)
            return file.metadata, file.schema_arrow, lengths, files.state(origin, remote=True)

    with ThreadPoolExecutor(8) as pool:
        looks = list(pool.map(look, names, origins))
    lists: dict[str, int] = {}
    for _, _, lengths, _ in looks:
        lists = lengths | lists  # the first file that has a column says how long its lists are
    folders = file_lists.folder_values(origins, path)
    more = list(pa.array(folders).type)
    groups: list[Group] = []
    schemas, row = [], 0
    for name, origin, (metadata, kinds, _, state), values in zip(names, origins, looks, folders, strict=True):
        schema = spread_schema(computable(kinds.empty_table()).schema, lists)
        new = [one for one in more if one.name not in schema.names]
        schemas.append((origin, pa.schema([*schema, *new], schema.metadata)))
        for number in range(metadata.num_row_groups):
            if count := metadata.row_group(number).num_rows:
                groups.append(Group(name, origin, state, row, count, number, tuple(values.items())))
            row += count
    return TableRows(groups=tuple(groups), columns=(), dtype="<f8", lists=lists), schemas


def _check_name(path: str, schema: pa.Schema) -> None:
    """Raise StoreError for a file of ours that stands in the place of another one, where its rows are not."""
    written, own = (schema.metadata or {}).get(NAME.encode(), b"").decode(), os.path.basename(path)
    if written not in ("", own) and _OURS.fullmatch(own):
        raise StoreError(
            f"{path!r} was written as {written!r}: its rows are those of another place; give it back its name"
        )


def _of_numbers(kind: pa.DataType) -> bool:
    test = pa.types
    lists = test.is_list(kind) or test.is_large_list(kind) or test.is_fixed_size_list(kind)
    return lists and is_number(kind.value_type)


def widths(rows: pa.Table) -> dict[str, int]:
    """Of each column of lists of numbers how long they are in some rows; 0 where they stay lists."""
    found = {}
    for one in rows.schema:
        if _of_numbers(one.type):
            lengths = pc.unique(pc.list_value_length(rows.column(one.name)).drop_null()).to_pylist()
            found[one.name] = lengths[0] if len(lengths) == 1 else 0
    return found


def spread_schema(schema: pa.Schema, lists: Mapping[str, int]) -> pa.Schema:
    """The columns, those of lists by their places. The metadata of these say the name of the column."""
    fields = []
    for one in schema:
        note, count = {"list": one.name}, lists.get(one.name, 0)
        each = [pa.field(f"{one.name}_{i}", one.type.value_type, metadata=note) for i in range(count)]
        fields += each or [one]
    return pa.schema(fields, schema.metadata)


def spread(rows: pa.Table, lists: Mapping[str, int]) -> pa.Table:
    """Rows whose lists are columns. Raises InputError for a list of another length."""
    columns = []
    for one, column in zip(rows.schema, rows.columns, strict=True):
        length = lists.get(one.name, 0)
        if length and pc.all(pc.equal(pc.list_value_length(column), length)).as_py() is False:
            raise InputError(
                f"lists of numbers are columns where they have one length; column {one.name!r} has not {length} numbers in some "
                "rows; cut them, or leave the column out with exclude="
            )
        columns += [pc.list_element(column, i) for i in range(length)] or [column]
    return pa.table(columns, schema=spread_schema(rows.schema, lists))
