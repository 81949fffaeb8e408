"""Reading rows of a table in files: Arrow tables in, NumPy blocks out."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InputError, StoreError
from . import files
from .table_schema import TableSchema, as_floats, decoded, is_text, null_error, value_type

#: Rows of a table that become coded rows at a time: its texts take more room than their codes.
_CODED_ROWS = 2**16
#: Columns that are transposed together.
_TRANSPOSED = 4


class Group(NamedTuple):
    """Neighbouring rows of a file: a row group of Parquet, or lines of text.

    Parameters
    ----------
    file, state : str
        Its name, and its state when it was opened.
    first, rows : int
        Their first row in the data set, and how many they are.
    before : int
        Rows of the file before them.
    start, stop : int
        Where their bytes start and stop; of Parquet `start` is the number of the row group.
    values : tuple of (str, int or str or None)
        Columns that the folders of the file stand for.
    """

    file: str
    state: str
    first: int
    rows: int
    before: int = 0
    start: int = 0
    stop: int = 0
    values: tuple[tuple[str, int | str | None], ...] = ()

    @property
    def last(self) -> int:
        """The row after the last."""
        return self.first + self.rows


class TablePart(NamedTuple):
    """Some rows: as an Arrow table, the number of the first, and where they are in words."""

    table: pa.Table
    first: int
    where: str


@dataclass(frozen=True, kw_only=True)
class TableRows(ABC):
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
    impute : tuple of float, optional
        What replaces nulls and NaN, one number for each column.
    kinds : tuple of pa.DataType
        The types in which `read_table` gives the columns, whatever they are in each file.
    vector : bool
        A single column, as an array of shape (n,). Its nulls are not replaced: with ``impute`` they are NaN or None.
    coded : TableSchema, optional
        The columns are read as coded rows, as this says.
    """

    #: What may be told of a target that is missing.
    null_hint: ClassVar[str] = ""

    groups: tuple[Group, ...]
    columns: tuple[str, ...]
    dtype: str
    fingerprint: str
    impute: tuple[float, ...] | None = None
    kinds: tuple[pa.DataType, ...] = ()
    vector: bool = False
    coded: TableSchema | None = None

    @abstractmethod
    def opened(self, file: str) -> AbstractContextManager[Any]:
        """An open file, for `decoded`."""

    @abstractmethod
    def decoded(
        self, file: Any, group: Group, low: int, high: int, most: int
    ) -> Iterator[tuple[int, pa.Table]]:
        """The columns of the rows ``low:high`` of a group in pieces of at most `most` rows, each behind its first row.

        They are decoded on one core, since Dask owns the others.
        """

    def where(self, group: Group) -> str:
        """A group in words."""
        return repr(group.file)

    def parts(self, first: int, last: int, most: int | None = None) -> Iterator[TablePart]:
        """Rows ``first:last`` of the columns, at most so many at a time, or one group."""
        wanted = (group for group in self.groups if group.first < last and first < group.last)
        for name, groups in itertools.groupby(wanted, lambda group: group.file):
            with self.opened(name) as file:
                for group in groups:
                    files.check_state(name, group.state)
                    low, high = max(first - group.first, 0), min(last - group.first, group.rows)
                    for row, table in self.decoded(file, group, low, high, most or group.rows):
                        yield TablePart(table, group.first + row, self.where(group))

    @property
    def paths(self) -> tuple[str, ...]:
        """What is read."""
        return tuple(dict.fromkeys(group.file for group in self.groups))

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        # Credentials do not change the data, and have no place in a key.
        return (
            type(self).__name__, self.groups, self.columns, self.dtype, self.fingerprint, self.impute, self.vector,
            None if self.coded is None else self.coded.spec(),
        )  # fmt: skip

    def read(self, first: int, last: int) -> np.ndarray:
        """Rows ``first:last`` as an array of shape (last - first, columns), or (last - first,) for a vector.

        Raises
        ------
        InputError
            A null without ``impute``: the message names the column and the place. Of coded rows, a value that cannot
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
        hint = self.null_hint if is_text(value_type(column.type)) else ""
        return null_error(name, part.where, row, self.vector, hint)

    def values(self, part: TablePart) -> np.ndarray:
        """The columns of some rows as an array, missing values filled."""
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
                if self.impute is not None and dtype.kind == "f":
                    few[j, np.isnan(few[j])] = self.impute[i + j]
            out[:, i : i + _TRANSPOSED] = few.T
        return out

    def _column(self, part: TablePart, name: str, dtype: np.dtype) -> np.ndarray:
        column = part.table.column(name)
        if column.null_count and (self.impute is None or dtype.kind not in "fO"):
            raise self.null_fault(part, name)
        return column_values(column, dtype)


def with_values(table: pa.Table, names: Sequence[str], group: Group, rows: int) -> pa.Table:
    """A table of so many rows with columns that its file lacks: what its folders stand for, or nulls."""
    values = dict(group.values)
    for name in names:
        value = pa.repeat(pa.scalar(values.get(name)), rows)
        table = table.append_column(name, value) if table.columns else pa.table({name: value})
    return table


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
