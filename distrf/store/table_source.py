"""Tables in files as sources of rows: which columns are X, and how their rows are cut into blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..errors import InputError, StoreError
from . import file_lists, files
from .row_source import RowSource, Selection
from .spec import fingerprint_of_files, fingerprint_of_spec
from .table_layout import Block, all_fields, cut_blocks, lay_out, require_columns
from .table_lists import list_columns, spread_schema, widths
from .table_reader import Group, TableRows, open_file
from .table_schema import TableSchema, base_of, decoded, drift, is_text, merged, target_dtype, value_type

#: Rows that tell how long lists are.
_LOOKED_AT = 1000


class Found(NamedTuple):
    """What is at a path.

    Parameters
    ----------
    groups : tuple of Group
        Those that have rows.
    schemas : sequence of (str, pa.Schema)
        The files, and the columns of each, with those that its folders stand for.
    version : str
        Of the files.
    strays : tuple of (str, str)
        As of `TableSource`.
    lists : tuple of (str, int)
        As of `TableRows`.
    """

    groups: tuple[Group, ...]
    schemas: Sequence[tuple[str, pa.Schema]]
    version: str
    strays: tuple[tuple[str, str], ...] = ()
    lists: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class TableSource(RowSource):
    """X, or the target, of a table of named columns; see `RowSource`.

    Folders like ``year=2020`` stand for a column. A column that only some files have has nulls in the others.

    Parameters
    ----------
    rows : TableRows
        Reads all groups.
    cuts : tuple of (groups, int, int)
        The groups, the first row and the row after the last of each block.
    schema : pyarrow.Schema
        Of the table; where files differ in columns that are not chosen, of the first file that has it.
    strays : tuple of (str, str), default=()
        Columns of CSV that are text, though nearly all of it may read as numbers: the name, and a text that does not and its row.
    """

    table: ClassVar[bool] = True
    kind: ClassVar[str] = "parquet"

    rows: TableRows
    cuts: tuple[Block, ...]
    schema: pa.Schema
    strays: tuple[tuple[str, str], ...] = ()

    @classmethod
    def recognises(cls, path: str) -> bool:
        """True for a file or glob by its name, or a folder with Parquet files in it."""
        if path.lower().endswith(file_lists.PARQUET):
            return True
        if files.is_glob(path) and not files.is_web(path):
            return not path.lower().endswith(file_lists.TEXT)
        return file_lists.holds(path, file_lists.PARQUET)

    @classmethod
    def files(cls, path: str) -> list[files.Place]:
        """The files of a path, in the order of the rows."""
        return file_lists.list_files(path, file_lists.PARQUET, "Parquet")

    @classmethod
    def found(cls, path: str, selection: Selection) -> Found:
        """What is at a path, by the footers of the files."""
        names = cls.files(path)
        return found_in(path, names, names)

    @classmethod
    def open(cls, path: str, selection: Selection) -> Self:
        """Look at the files, choose columns and cut the rows into blocks (see `cut_blocks`)."""
        place = cls.found(path, selection)
        if not (groups := place.groups):
            raise StoreError(f"{path!r} has no rows; give files that have some")
        layout = lay_out(path, place.schemas, selection)
        dtype = layout.dtype
        rows = TableRows(
            groups=groups,
            columns=tuple(layout.names),
            dtype=layout.dtype.str,
            fingerprint=place.version,
            lists=place.lists,
        )
        cuts = cut_blocks(groups, len(layout.names) * dtype.itemsize, selection)
        source = cls(
            path=path, shape=(groups[-1].last, len(layout.names)), dtype=dtype, columns=layout.names,
            block_lengths=tuple(last - first for _, first, last in cuts), target=selection.target, rows=rows, cuts=cuts,
            schema=layout.schema, strays=place.strays,
        )  # fmt: skip
        return source if layout.coded is None else source.coded_as(layout.coded)

    @classmethod
    def fingerprint(cls, path: str) -> str:
        """Of the sizes and edges of all files, and of what their folders stand for."""
        return cls._fingerprint(path, cls.files(path))

    @classmethod
    def _fingerprint(cls, path: str, names: Sequence[str]) -> str:
        found, values = fingerprint_of_files(names), file_lists.folder_values(names, path)
        return fingerprint_of_spec({"files": found, "folders": values}) if any(values) else found

    @classmethod
    def part_fingerprints(cls, path: str) -> list[tuple[str, int]]:
        """Of each file: a folder may have got more of them."""
        rows: dict[str, int] = {}
        for group in cls.found(path, Selection()).groups:
            name = group.origin or group.file
            rows[name] = rows.get(name, 0) + group.rows
        return [(cls._fingerprint(path, [file]), n) for file, n in rows.items()]

    @classmethod
    def facts(cls, path: str) -> dict[str, Any]:
        """The format, rows, and the type of every column."""
        place = cls.found(path, Selection())
        schema = merged(place.schemas, list(dict.fromkeys(all_fields(place.schemas).names)))
        columns = {field.name: str(field.type) for field in schema}
        rows = sum(group.rows for group in place.groups)
        return {"kind": cls.kind, "rows": rows, "row_groups": len(place.groups), "columns": columns}

    @property
    def coded(self) -> TableSchema | None:
        """How the columns of X are read as coded rows; None where X is numbers as they are."""
        return self.rows.coded

    def coded_as(self, schema: TableSchema) -> Self:
        """The same blocks as coded rows of other columns, or of columns that are read as something else.

        Parameters
        ----------
        schema : TableSchema

        Returns
        -------
        TableSource

        Raises
        ------
        InputError
            The table lacks a column, or has it in another type.
        """
        if fault := drift(schema, self.schema):
            strays = (f"; {name!r} has {stray}" for name, stray in self.strays if repr(name) in fault)
            raise InputError(f"{fault} (in {self.path!r}{''.join(strays)})")
        rows = replace(self.rows, columns=tuple(schema.names), coded=schema, dtype="<f8", vector=False)
        shape, dtype = (self.shape[0], len(schema.columns)), np.dtype(np.float64)
        return replace(self, shape=shape, dtype=dtype, columns=schema.names, rows=rows)

    def target_source(self) -> Self | None:
        """The target column; text takes one pass to find its width."""
        if self.target is None:
            return None
        width = max((len(name) for name in self._texts or []), default=1)
        return self._column(self.target, target_dtype(self.schema.field(self.target).type, max(1, width)))

    def _column(self, name: str, dtype: np.dtype, missing: bool = False) -> Self:
        rows = replace(self.rows, columns=(name,), dtype=dtype.str, missing=missing, vector=True, coded=None)
        return replace(self, shape=self.shape[:1], dtype=dtype, columns=None, rows=rows)

    def column_source(self, name: str, exact: bool = False) -> Self:
        """A column of numbers, booleans or text, whether it is one of X or not."""
        require_columns(self.path, self.schema, [name])
        kind = value_type(self.schema.field(name).type)
        if base_of(kind) not in ("number", "boolean", "text"):
            raise InputError(f"rows are told apart by numbers, booleans or text; {name!r} has type {kind}")
        decimals = pa.types.is_decimal(kind) and kind.scale == 0
        wide = exact and (decimals or kind in (pa.int64(), pa.uint64()))  # float64 rounds them
        return self._column(name, np.dtype(object if is_text(kind) or wide else np.float64), missing=True)

    def text_classes(self) -> list[str] | None:
        """The sorted distinct texts of the target, by one pass over that column; None for other targets."""
        return self._texts

    @cached_property
    def _texts(self) -> list[str] | None:
        if self.target is None or not is_text(value_type(self.schema.field(self.target).type)):
            return None
        found: set[str] = set()
        rows = self._column(self.target, np.dtype(object)).rows
        for part in rows.parts(0, self.shape[0], 2**20):
            column = part.table.column(self.target)
            if column.null_count:
                raise rows.null_fault(part, self.target)
            found.update(pc.unique(decoded(column)).to_pylist())
        return sorted(found)

    def read(self, first: int, last: int) -> np.ndarray:
        """Rows ``first:last``; see `TableRows.read`."""
        return self.rows.read(first, last)

    def blocks(self) -> Iterator[tuple[TableRows, int, int]]:
        """For each block a reader of its groups."""
        for groups, first, last in self.cuts:
            yield replace(self.rows, groups=groups), first, last

    def uniform(self) -> Self:
        """The same rows in blocks of equal size, but for a shorter last one."""
        cuts = cut_blocks(self.rows.groups, 8 * self.shape[1], Selection(uniform=True))
        return replace(self, cuts=cuts, block_lengths=tuple(last - first for _, first, last in cuts))

    def stream(self, target: Any, block_rows: int) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """X and target in blocks, each group decoded once.

        Block by block, a large group would be decoded again for each of its blocks.
        """
        wanted = self.rows
        if target is not None:
            wanted = replace(wanted, columns=(*wanted.columns, *target.rows.columns))
        for part in wanted.parts(0, self.shape[0], block_rows):
            yield self.rows.values(part), None if target is None else target.rows.values(part)

    def key_blocks(self, keys: Sequence[str]) -> list[tuple[TableRows, int, int]]:
        """`blocks` with readers of key columns, which may have any type."""
        require_columns(self.path, self.schema, keys)
        kinds = tuple(self.schema.field(name).type for name in keys)
        return list(
            replace(self, rows=replace(self.rows, coded=None, columns=tuple(keys), kinds=kinds)).blocks()
        )


def found_in(path: str, names: Sequence[files.Place], origins: Sequence[files.Place]) -> Found:
    """The row groups and columns of files of Parquet, by their footers.

    Parameters
    ----------
    path : str
        Where the data set is.
    names : sequence of Place
        The files.
    origins : sequence of Place
        The files of CSV that they were made of, or the same.
    """

    def footer(name: str) -> pq.FileMetaData:
        with open_file(name) as file:
            return file.metadata

    with ThreadPoolExecutor(8) as pool:
        footers = list(pool.map(footer, names))
    written = [metadata.schema.to_arrow_schema() for metadata in footers]
    lists = _lists(names, footers, written)
    folders = file_lists.folder_values(origins, path)
    whole = {key for values in folders for key, value in values.items() if isinstance(value, int)}
    keys = list(dict.fromkeys(key for values in folders for key in values))
    groups: list[Group] = []
    schemas, row = [], 0
    for name, origin, metadata, kinds, values in zip(names, origins, footers, written, folders, strict=True):
        schema, state = spread_schema(kinds, lists), files.state(origin)
        known = set(schema.names)
        more = [pa.field(key, pa.int64() if key in whole else pa.string()) for key in keys if key not in known]
        schemas.append((origin, pa.schema([*schema, *more], schema.metadata)))
        for number in range(metadata.num_row_groups):
            if count := metadata.row_group(number).num_rows:
                made_of = "" if origin == name else origin
                groups.append(Group(name, state, row, count, number, tuple(values.items()), made_of))
            row += count
    return Found(tuple(groups), schemas, file_lists.version_of(origins), lists=tuple(lists.items()))


def _lists(
    names: Sequence[files.Place], footers: Sequence[pq.FileMetaData], schemas: Sequence[pa.Schema]
) -> dict[str, int]:
    """The columns of lists of numbers of one length, as the first rows of the first file tell that has them."""
    found: dict[str, int] = {}
    for name, metadata, schema in zip(names, footers, schemas, strict=True):
        new = [one for one in list_columns(schema) if one not in found]
        if new and metadata.num_rows:
            with open_file(name) as file:
                rows = next(file.iter_batches(_LOOKED_AT, columns=new, use_threads=False))
            lengths = widths(pa.Table.from_batches([rows]))
            found |= {one: lengths.get(one, -1) for one in new}
    return {name: length for name, length in found.items() if length > 0}
