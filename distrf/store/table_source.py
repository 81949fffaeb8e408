"""Tables in files as sources of rows: which columns are X, and how their rows are cut into blocks."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InputError, did_you_mean
from .arrow_types import common_dtype, decoded, is_number, is_text, null_error, target_dtype, value_type
from .row_source import BLOCK_BYTES, RowSource, Selection
from .table_reader import Group, TableRows
from .table_schema import TableSchema, drift, merged, require_distinct, row_labels, schema_of

Block = tuple[tuple[Any, ...], int, int]  # its groups, its first row, the row after its last


class Layout(NamedTuple):
    """The columns of X: their names, the schema of the whole table, the dtype of X, and how coded rows are read."""

    names: list[str]
    schema: pa.Schema
    dtype: np.dtype
    coded: TableSchema | None


@dataclass(frozen=True, kw_only=True)
class TableSource(RowSource):
    """X, or the target, of a table of named columns; see `RowSource`.

    Parameters
    ----------
    rows : TableRows
        Reads all groups.
    cuts : tuple of (groups, int, int)
        The groups, the first row and the row after the last of each block.
    schema : pyarrow.Schema
        Of the table; where files differ in columns that are not chosen, of the first file that has it.
    strays : tuple of (str, str), default=()
        Columns that are text, though nearly all of it reads as numbers: the name, and a text that does not and its line.
    """

    table: ClassVar[bool] = True

    rows: TableRows
    cuts: tuple[Block, ...]
    schema: pa.Schema
    strays: tuple[tuple[str, str], ...] = ()

    @classmethod
    def _of(
        cls,
        path: str,
        layout: Layout,
        rows: TableRows,
        cuts: tuple[Block, ...],
        target: str | None,
        **more: Any,
    ) -> Self:
        """X of a table; rows : who reads all groups, of no column yet"""
        source = cls(
            path=path, shape=(rows.groups[-1].last, len(layout.names)), dtype=np.dtype(rows.dtype), columns=layout.names,
            block_lengths=tuple(last - first for _, first, last in cuts), target=target, rows=rows, cuts=cuts,
            schema=layout.schema, **more,
        )  # fmt: skip
        if layout.coded is not None:
            return source.coded_as(layout.coded)
        return replace(source, rows=source._reading(rows, layout.names))

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
        if fault := drift(schema, self._read_as(schema)):
            raise InputError(f"{fault} (in {self.path!r})")
        rows = replace(self.rows, coded=schema, dtype="<f8", impute=None, vector=False)
        rows = self._reading(rows, schema.names)
        shape, dtype = (self.shape[0], len(schema.names)), np.dtype(np.float64)
        return replace(self, shape=shape, dtype=dtype, columns=schema.names, rows=rows)

    def _read_as(self, schema: TableSchema) -> pa.Schema:
        """The types in which the columns of a schema will be read."""
        return self.schema

    @abstractmethod
    def _reading(self, rows: TableRows, columns: Sequence[str], exact: Collection[str] = ()) -> TableRows:
        """A reader of other columns; exact : those that are read in their own type, and not in one for coded rows"""

    def target_source(self) -> Self | None:
        """The target column; text takes one pass to find its width."""
        if self.target is None:
            return None
        width = max((len(name) for name in self.text_classes() or []), default=1)
        dtype = target_dtype(self.schema.field(self.target).type, max(1, width))
        rows = replace(self.rows, dtype=dtype.str, impute=None, vector=True, coded=None)
        rows = self._reading(rows, [self.target], [self.target])
        return replace(self, shape=self.shape[:1], dtype=dtype, columns=None, rows=rows)

    def column_source(self, name: str) -> Self:
        """A column of numbers, booleans or text, whether it is one of X or not."""
        require_columns(self.path, self.schema, [name])
        kind = value_type(self.schema.field(name).type)
        if not (is_text(kind) or is_number(kind)):
            raise InputError(f"rows are told apart by numbers, booleans or text; {name!r} has type {kind}")
        dtype = np.dtype(object if is_text(kind) else np.float64)
        rows = replace(self.rows, dtype=dtype.str, impute=(float("nan"),), vector=True, coded=None)
        return replace(
            self, shape=self.shape[:1], dtype=dtype, columns=None, rows=self._reading(rows, [name], [name])
        )

    def text_classes(self) -> list[str] | None:
        """The sorted distinct texts of the target, by one pass over that column; None for other targets."""
        if self.target is None or not is_text(value_type(self.schema.field(self.target).type)):
            return None
        found: set[str] = set()
        rows = self._reading(replace(self.rows, coded=None), [self.target], [self.target])
        for part in rows.parts(0, self.shape[0], 2**20):
            column = part.table.column(self.target)
            if column.null_count:
                row = part.first + int(np.argmax(column.is_null().to_numpy()))
                raise null_error(self.target, part.where, row, True)
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

    def filled(self, values: tuple[float, ...]) -> Self:
        """Nulls and NaN read as these numbers."""
        return replace(self, rows=replace(self.rows, impute=values))

    def stream(self, target: Any, block_rows: int) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """X and target in blocks, each group decoded once.

        Block by block, a large group would be decoded again for each of its blocks.
        """
        wanted = self.rows
        if target is not None:
            wanted = self._reading(wanted, (*wanted.columns, *target.rows.columns), target.rows.columns)
        for part in wanted.parts(0, self.shape[0], block_rows):
            yield self.rows.values(part), None if target is None else target.rows.values(part)

    def table_blocks(self) -> list[tuple[TableRows, int, int]]:
        """`blocks` with readers whose ``read_table`` gives the columns of X as they are in the files."""
        rows = self._reading(replace(self.rows, coded=None), self.columns or [])
        return list(replace(self, rows=rows).blocks())

    def key_blocks(self, keys: Sequence[str]) -> list[tuple[TableRows, int, int]]:
        """`blocks` with readers of key columns, which may have any type."""
        require_columns(self.path, self.schema, keys)
        rows = self._reading(replace(self.rows, coded=None), keys, keys)
        return list(replace(self, rows=rows).blocks())


def lay_out(path: str, schemas: Sequence[tuple[str, pa.Schema]], selection: Selection) -> Layout:
    """The columns that a caller wants of a table, and their types.

    Parameters
    ----------
    path : str
        For messages.
    schemas : sequence of (str, pa.Schema)
        The files of the table.
    selection : Selection

    Returns
    -------
    Layout

    Raises
    ------
    InputError
        There are no such columns or target, or they cannot be used.
    StoreError
        Files differ.
    """
    first, target = all_fields(schemas), selection.target
    names = chosen_names(path, first, selection)
    known = set(first.names)  # `coded_as` tells what is missing
    wanted = known.intersection([*names, *selection.others, target])
    require_distinct(name for name in first.names if name in wanted)
    common = merged(schemas, sorted(wanted))
    schema = pa.schema([common.field(f.name) if f.name in wanted else f for f in first])
    if target is not None:
        kind = value_type(schema.field(target).type)
        if not (is_number(kind) or is_text(kind)):
            raise InputError(f"a target is numbers, booleans or text; {target!r} has type {kind}")
    if selection.coded:
        coded = selection.coded if isinstance(selection.coded, TableSchema) else schema_of(schema, names)
        return Layout(names, schema, np.dtype(np.float64), coded)
    kinds = [schema.field(name).type for name in names]
    if other := [f"{name} ({kind})" for name, kind in zip(names, kinds, strict=True) if not is_number(kind)]:
        raise InputError(
            f"features are numbers or booleans; {path!r} has the columns {other[:20]}; choose others with "
            "columns=, name the target with target=, or train on the table as it is: `distrf train` encodes its columns"
        )
    return Layout(names, schema, common_dtype(kinds, selection.missing), None)


def all_fields(schemas: Sequence[tuple[str, pa.Schema]]) -> pa.Schema:
    """The fields of all files, each as the first file has it that has it."""
    first, known = schemas[0][1], set(schemas[0][1].names)
    for _, schema in schemas[1:]:
        for one in schema if set(schema.names) - known else ():
            if one.name not in known:
                known.add(one.name)
                first = first.append(one)
    return first


def chosen_names(path: str, schema: pa.Schema, selection: Selection) -> list[str]:
    """The names of the columns of X.

    Parameters
    ----------
    path : str
        For messages.
    schema : pa.Schema
        Of the table.
    selection : Selection

    Returns
    -------
    list of str
        Of a given schema, also those that the table lacks.

    Raises
    ------
    InputError
        There are no such columns, no such target, or none is left.
    """
    target, columns, exclude = selection.target, selection.columns, [str(name) for name in selection.exclude]
    if isinstance(selection.coded, TableSchema):
        require_columns(path, schema, [] if target is None else [target])
        return selection.coded.names
    if isinstance(columns, str):
        raise InputError(f"columns of a table are a list of names; received {columns!r}")
    columns = None if columns is None else [str(name) for name in columns]
    require_columns(path, schema, [*(columns or []), *exclude, *([] if target is None else [target])])
    if columns is None:
        left = {target, *exclude, *row_labels(schema)}
        names = [name for name in schema.names if name not in left]
    else:
        names = list(columns)
    if target in names:
        raise InputError(f"the target {target!r} is among columns=; leave it out")
    if not names:
        raise InputError(f"no feature column is left in {path!r}; its columns are {schema.names[:50]}")
    return names


def require_columns(path: str, schema: pa.Schema, names: Sequence[str]) -> None:
    """Raise InputError for names that are not columns of the schema."""
    known = set(schema.names)
    missing = [name for name in names if name not in known]
    if missing:
        raise InputError(
            f"columns {missing[:20]} are not in {path!r}{did_you_mean(missing, known)}; its columns are {schema.names[:50]}"
        )


def cut_blocks(
    groups: Sequence[Group], row_bytes: float, selection: Selection, *, exact: bool = False
) -> tuple[Block, ...]:
    """Blocks of the wanted size; by default near 32 MiB.

    Groups are joined, and cut into equal blocks if larger than the wanted size by a quarter (by default: four times as
    large, since a block inside a group is reached by decoding the rows before it). With ``uniform``, blocks are cut
    across groups to exactly the wanted size (by default: a power of two, which later splits evenly).

    Parameters
    ----------
    groups : sequence of Group
        At least one, ascending and without gaps.
    row_bytes : float
        Bytes of a row in memory.
    selection : Selection
    exact : bool
        A block inside a group costs no more than another: they are always cut to the wanted size.

    Returns
    -------
    tuple of (groups, int, int)

    Raises
    ------
    InputError
        ``rows_per_block`` is below 1.
    """
    rows, slack = selection.rows_per_block, 1.25
    if rows is None:
        rows, slack = max(1, int(BLOCK_BYTES // row_bytes)), 4.0
        if selection.uniform:
            rows = 1 << (rows.bit_length() - 1)
    if rows < 1:
        raise InputError(f"rows_per_block is at least 1; received {rows}")
    whole = selection.uniform or exact
    edges = [*range(0, groups[-1].last, rows), groups[-1].last] if whole else _edges(groups, rows, slack)
    return tuple(_blocks(groups, edges))


def _edges(groups: Sequence[Group], rows_per_block: int, slack: float) -> list[int]:
    """The first rows of blocks near the wanted size, and the end; a group up to slack times larger is not cut."""
    edges = [0]
    for group in groups:
        if group.last - edges[-1] > rows_per_block and group.first > edges[-1]:
            edges.append(group.first)
        if group.rows > slack * rows_per_block:
            size = -(-group.rows // -(-group.rows // rows_per_block))
            edges += [*range(group.first + size, group.last, size), group.last]
    return edges if edges[-1] == groups[-1].last else [*edges, groups[-1].last]


def _blocks(groups: Sequence[Group], edges: Sequence[int]) -> Iterator[Block]:
    """The blocks between neighbouring edges, each with the groups that have rows of it."""
    at = 0
    for first, last in itertools.pairwise(edges):
        while groups[at].last <= first:
            at += 1
        stop = at
        while stop < len(groups) and groups[stop].first < last:
            stop += 1
        yield tuple(groups[at:stop]), first, last
