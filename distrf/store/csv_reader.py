"""Reading rows of comma-separated text as Arrow tables, from the bytes that hold them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from ..errors import InputError
from .csv_text import Dialect, first_fault, parse, rows_end
from .files import open_text
from .table_reader import TablePart, TableRows

#: Bytes that are parsed at a time.
PIECE_BYTES = 2**22


class Lines(NamedTuple):
    """Neighbouring rows of a file: where their bytes start and stop, their first row in the data set, how many they are.

    And the lines of the file before them.
    """

    file: str
    start: int
    stop: int
    first: int
    rows: int
    line: int

    @property
    def last(self) -> int:
        """The row after the last."""
        return self.first + self.rows


def joined(groups: Sequence[Lines]) -> list[Lines]:
    """Neighbouring rows of a file as one.

    Parameters
    ----------
    groups : sequence of Lines
        Ascending, without gaps.

    Returns
    -------
    list of Lines
        One for each file.
    """
    whole: list[Lines] = []
    for group in groups:
        if whole and whole[-1].file == group.file:
            before = whole[-1]
            whole[-1] = before._replace(stop=group.stop, rows=before.rows + group.rows)
        else:
            whole.append(group)
    return whole


@dataclass(frozen=True, kw_only=True)
class CsvRows(TableRows):
    """Reads rows from the bytes that hold them; see `TableRows`.

    Parameters
    ----------
    groups : tuple of Lines
    numbers : tuple of int
        The numbers of the columns in the file.
    kinds : tuple of pa.DataType
        As what each is read.
    dialect : Dialect
    """

    groups: tuple[Lines, ...]
    numbers: tuple[int, ...]
    kinds: tuple[pa.DataType, ...]
    dialect: Dialect

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        return (
            *super().__dask_tokenize__(),
            self.numbers,
            [str(kind) for kind in self.kinds],
            vars(self.dialect),
        )

    def parts(self, first: int, last: int, block_rows: int | None = None) -> Iterator[TablePart]:
        """Rows ``first:last`` in pieces of some MiB; see `TableRows.parts`."""
        for lines in joined([group for group in self.groups if group.first < last and first < group.last]):
            with open_text(lines.file, self.storage_options) as file:
                for text, row, line in self._pieces(file, lines, first, last):
                    yield TablePart(self._table(text, lines.file, line), row, repr(lines.file))

    def _pieces(self, file: Any, lines: Lines, first: int, last: int) -> Iterator[tuple[bytes, int, int]]:
        """The text of rows, the number of the first of them, and of the lines before."""
        file.seek(lines.start)
        left, rest, row, line = lines.stop - lines.start, b"", lines.first, lines.line
        while row < last and (left or rest):
            more = file.read(min(left, PIECE_BYTES))
            left = left - len(more) if more else 0  # the file may have become shorter
            text = rest + more
            scan = self.dialect.scan()
            scan.add(text)
            if not left:
                scan.finish()
            text, rest = text[: scan.row_at], text[scan.row_at :]
            start = before = 0
            if row < first:
                start, before = rows_end(text, self.dialect, min(first - row, scan.rows))
            stop = rows_end(text, self.dialect, last - row)[0] if row + scan.rows > last else len(text)
            if start < stop:
                yield text[start:stop], max(row, first), line + before
            row, line = row + scan.rows, line + scan.lines

    def _table(self, text: bytes, file: str, line: int) -> pa.Table:
        kinds = dict(zip(self.numbers, self.kinds, strict=True))
        try:
            table = parse(text, self.dialect, kinds)
        except pa.ArrowInvalid as error:
            names = dict(zip(self.numbers, self.columns, strict=True))
            raise refused(text, self.dialect, kinds, names, file, line) from error
        return table.select([str(j) for j in self.numbers]).rename_columns(list(self.columns))


def refused(
    text: bytes,
    dialect: Dialect,
    kinds: Mapping[int, pa.DataType] | None,
    names: Mapping[int, str],
    file: str,
    line: int,
) -> InputError:
    """The error for rows that cannot be read: it names the line and the column.

    Parameters
    ----------
    text : bytes
        Whole rows, of which one cannot be read.
    dialect : Dialect
    kinds : mapping of int to pa.DataType, optional
        As what the columns were to be read.
    names : mapping of int to str
        Of the columns.
    file : str
    line : int
        Lines of the file before these rows.

    Returns
    -------
    InputError
    """
    fault = first_fault(text, dialect, kinds)
    where = f"line {line + fault.line + 1} of {file!r}"
    if fault.column is None:
        return InputError(
            f"every row has {dialect.width} values, as the first; {where} has not ({fault.value}); correct the file"
        )
    return InputError(
        f"every value of a column is of one type; {where} has {fault.value!r} in column {names[fault.column]!r}, which is "
        f"no {fault.wanted}; correct the file, or leave the column out"
    )
