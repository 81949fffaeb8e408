"""Reading rows of a table in files: Arrow tables in, NumPy blocks out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from ..errors import InputError, StoreError
from .arrow_types import as_floats, decoded, null_error
from .table_schema import TableSchema

#: Rows of a table that become coded rows at a time: its texts take more room than their codes.
_CODED_ROWS = 2**16


class Group(Protocol):
    """Neighbouring rows of a file: a row group of Parquet, lines of CSV."""

    @property
    def file(self) -> str:
        """The file that holds them."""

    @property
    def first(self) -> int:
        """The first row, counted over all files."""

    @property
    def rows(self) -> int:
        """How many they are."""

    @property
    def last(self) -> int:
        """The row after the last."""


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
    storage_options : mapping, optional
        Options of the fsspec file system.
    """

    groups: tuple[Any, ...]
    columns: tuple[str, ...]
    dtype: str
    fingerprint: str
    impute: tuple[float, ...] | None = None
    kinds: tuple[pa.DataType, ...] = ()
    vector: bool = False
    coded: TableSchema | None = None
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)

    @abstractmethod
    def parts(self, first: int, last: int, block_rows: int | None = None) -> Iterator[TablePart]:
        """Rows ``first:last`` of the columns, decoded on one core, since Dask owns the others.

        Parameters
        ----------
        first, last : int
            The first row, and the row after the last.
        block_rows : int, optional
            Most rows of a part.

        Yields
        ------
        TablePart
        """

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
        # Columns first: a strided write for every value is slower than one transposed copy.
        out = np.empty((len(self.columns), table.num_rows), dtype)
        for j, name in enumerate(self.columns):
            out[j] = self._column(part, name, dtype)
            if self.impute is not None and dtype.kind == "f":
                out[j, np.isnan(out[j])] = self.impute[j]
        return np.ascontiguousarray(out.T)

    def _column(self, part: TablePart, name: str, dtype: np.dtype) -> np.ndarray:
        column = part.table.column(name)
        if column.null_count and (self.impute is None or dtype.kind not in "fO"):
            row = part.first + int(np.argmax(column.is_null().to_numpy()))
            raise null_error(name, part.where, row, self.vector)
        return column_values(column, dtype)


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
    if dtype.kind == "U":
        return column.to_numpy(zero_copy_only=False).astype(dtype) if len(column) else np.empty(0, dtype)
    if dtype.kind == "f" and (column.null_count or pa.types.is_decimal(column.type)):
        column = as_floats(column)
    return column.to_numpy(zero_copy_only=False)
