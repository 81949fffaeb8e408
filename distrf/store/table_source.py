"""Tables as sources of rows: which columns are X, and how the rows of files are cut into blocks."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InputError, StoreError, did_you_mean, warn
from . import file_lists
from .row_source import BLOCK_BYTES, RowSource, Selection
from .spec import fingerprint_of_files, fingerprint_of_spec
from .table_reader import Group, TableRows, found_in
from .table_schema import (
    TableSchema,
    base_of,
    decoded,
    drift,
    is_number,
    is_text,
    listed,
    merged,
    null_error,
    require_distinct,
    row_labels,
    schema_of,
    target_dtype,
    value_type,
)


@dataclass(frozen=True, kw_only=True)
class TableSource(RowSource):
    """X, or the target, of a table of named columns; see `RowSource`.

    Folders like ``year=2020`` stand for a column. A column that only some files have has nulls in the others.

    Parameters
    ----------
    rows : TableRows
        Reads all groups.
    schema : pyarrow.Schema
        Of the table; where files differ in columns that are not chosen, of the first file that has it.
    dropped : int
        Rows without a target that are left out.
    """

    table: ClassVar[bool] = True
    kind: ClassVar[str] = "Parquet"
    endings: ClassVar[tuple[str, ...]] = file_lists.PARQUET

    rows: TableRows
    schema: pa.Schema
    dropped: int = 0

    @classmethod
    def recognises(cls, path: str) -> bool:
        """True for a file or glob by its name, or a folder by the files in it."""
        return file_lists.endings_of(path) == cls.endings

    @classmethod
    def files(cls, path: str) -> list[str]:
        """The files of a path, in the order of the rows."""
        return file_lists.list_files(path, cls.endings, cls.kind)

    @classmethod
    def found(cls, path: str, selection: Selection) -> tuple[TableRows, list[tuple[str, pa.Schema]]]:
        """What is at a path; see `found_in`."""
        names = cls.files(path)
        return found_in(path, names, names)

    @classmethod
    def open(cls, path: str, selection: Selection) -> Self:
        """Look at the files, choose columns and cut the rows into blocks (see `cut_blocks`)."""
        rows, schemas = cls.found(path, selection)
        if not (n := sum(group.rows for group in rows.groups)):
            raise StoreError(f"{path!r} has no rows; give files that have some")
        names, schema, dtype, coded = lay_out(path, schemas, selection)
        rows = replace(rows, columns=tuple(names), dtype=dtype.str)
        if selection.labelled and selection.target:
            rows = _labelled(rows, selection.target)
        groups = rows.groups
        source = cls(
            path=path, shape=(groups[-1].last, len(names)), dtype=dtype, columns=names,
            block_lengths=cut_blocks(groups, len(names) * dtype.itemsize, selection), target=selection.target,
            rows=rows, schema=schema, dropped=n - groups[-1].last,
        )  # fmt: skip
        return source if coded is None else source.coded_as(coded)

    @classmethod
    def fingerprint(cls, path: str, names: Sequence[str] | None = None) -> str:
        """Of the sizes and edges of all files, or of those of some names, and of what their folders stand for."""
        names = cls.files(path) if names is None else names
        found, values = fingerprint_of_files(names), file_lists.folder_values(names, path)
        return fingerprint_of_spec({"files": found, "folders": values}) if any(values) else found

    @classmethod
    def part_fingerprints(cls, path: str, groups: Sequence[Group] | None = None) -> list[tuple[str, int]]:
        """Of each file: a folder may have got more of them. `groups` : the rows that are there; None is all of the files"""
        rows: dict[str, int] = {}
        for group in cls.found(path, Selection())[0].groups if groups is None else groups:
            rows[group.origin] = rows.get(group.origin, 0) + group.rows
        return [(cls.fingerprint(path, [file]), n) for file, n in rows.items()]

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
            raise InputError(f"{fault} (in {self.path!r})")
        rows = replace(self.rows, columns=tuple(schema.names), coded=schema, dtype="<f8", vector=False)
        shape, dtype = (self.shape[0], len(schema.columns)), np.dtype(np.float64)
        return replace(self, shape=shape, dtype=dtype, columns=schema.names, rows=rows)

    def target_source(self) -> Self | None:
        """The target column; text takes one pass to find its width."""
        if self.target is None:
            return None
        texts, kind = None, self.schema.field(self.target).type
        if is_text(value_type(kind)):
            rows, found = self._column(self.target, np.dtype(object)).rows, set[str]()
            for part in rows.parts(0, self.shape[0], 2**20):
                column = part.table.column(self.target)
                if column.null_count:
                    raise null_error(column, self.target, part.group.where, part.first + 1)
                found.update(pc.unique(decoded(column)).to_pylist())
            texts = sorted(found)
        width = max(map(len, texts or ()), default=1)
        return replace(self._column(self.target, target_dtype(kind, max(1, width))), classes=texts)

    def _column(self, name: str, dtype: np.dtype, missing: bool = False) -> Self:
        rows = replace(self.rows, columns=(name,), dtype=dtype.str, missing=missing, vector=True, coded=None)
        return replace(self, shape=self.shape[:1], dtype=dtype, columns=None, rows=rows)

    def column_source(self, name: str) -> Self:
        """A column of numbers, booleans or text, whether it is one of X or not."""
        require_columns(self.path, self.schema, [name])
        kind = value_type(self.schema.field(name).type)
        if base_of(kind) not in ("number", "boolean", "text"):
            raise InputError(f"rows are told apart by numbers, booleans or text; {name!r} has type {kind}")
        return self._column(name, np.dtype(object if is_text(kind) else np.float64), missing=True)

    def read(self, first: int, last: int) -> np.ndarray:
        """Rows ``first:last``; see `TableRows.read`."""
        return self.rows.read(first, last)

    def pieces(self, first: int, last: int, most: int) -> Generator[np.ndarray, None, None]:
        """A piece ends where a row group does."""
        yield from map(self.rows.values, self.rows.parts(first, last, most))

    def blocks(self) -> Iterator[tuple[TableRows, int, int]]:
        """For each block a reader of its groups."""
        groups = self.rows.groups
        starts, ends = [group.first for group in groups], [group.last for group in groups]
        for _, first, last in super().blocks():
            having = groups[bisect_right(ends, first) : bisect_left(starts, last)]
            yield replace(self.rows, groups=having), first, last

    def key_blocks(self, keys: Sequence[str]) -> list[tuple[TableRows, int, int]]:
        """`blocks` with readers of key columns, which may have any type."""
        require_columns(self.path, self.schema, keys)
        kinds = pa.schema([self.schema.field(name) for name in keys])
        rows = replace(self.rows, coded=None, columns=tuple(keys), kinds=kinds)
        return list(replace(self, rows=rows).blocks())


def require_targets(rows: int, target: str | None) -> None:
    """Raise InputError where all rows of a table were left out, since none has a target."""
    if not rows:
        raise InputError(f"no row has a target: column {target!r} is empty; give another target")


def _labelled(rows: TableRows, target: str) -> TableRows:
    """A reader of the rows that have a target, after one pass over that column."""
    counts, left, first = Counter[Group](), list[Group](), 0
    for part in replace(rows, columns=(target,), labelled=target).parts(0, rows.groups[-1].last, 2**20):
        counts[part.group] += len(part.table)
    for group, count in counts.items():
        left.append(group._replace(first=first, rows=count))
        first += count
    require_targets(len(left), target)
    return replace(rows, groups=tuple(left), labelled=target)


def lay_out(
    path: str, schemas: Sequence[tuple[str, pa.Schema]], selection: Selection
) -> tuple[list[str], pa.Schema, np.dtype, TableSchema | None]:
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
    (list of str, pa.Schema, numpy.dtype, TableSchema or None)
        The names of the columns of X, the schema of the whole table, the dtype of X, and how coded rows are read.

    Raises
    ------
    InputError
        There are no such columns or target, or they cannot be used.
    StoreError
        Files differ.
    """
    (schema, faults), target = merged(schemas), selection.target
    names = chosen_names(path, schema, selection)
    wanted = {*names, *selection.others, target}  # `coded_as` tells what is missing
    require_distinct(name for name in schemas[0][1].names if name in wanted)
    if fault := [text for name, text in faults.items() if name in wanted]:
        raise StoreError(fault[0])
    if target is not None and base_of(schema.field(target).type) not in ("number", "boolean", "text"):
        raise InputError(
            f"a target is numbers, booleans or text; {target!r} has type {schema.field(target).type}"
        )
    if selection.coded:
        coded = selection.coded if isinstance(selection.coded, TableSchema) else schema_of(schema, names)
        return names, schema, np.dtype(np.float64), coded
    kinds = [schema.field(name).type for name in names]
    if other := [f"{name} ({kind})" for name, kind in zip(names, kinds, strict=True) if not is_number(kind)]:
        raise InputError(
            f"features are numbers or booleans; {path!r} has the columns {other[:20]}; choose others with columns=, name the target "
            "with target=, say decimal=',' of decimal commas, or train on the table as it is: `distrf train` encodes its columns"
        )
    # float64 for decimals, doubles and integers above 16 bits, else float32
    return names, schema, np.result_type(np.float32, *map(target_dtype, kinds)), None


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
    target = [] if selection.target is None else [selection.target]
    if isinstance(selection.coded, TableSchema):
        require_columns(path, schema, target)
        return selection.coded.names
    lists: dict[str, list[str]] = {}  # a column of lists stands for those of its places
    for one in schema:
        if one.metadata and b"list" in one.metadata:
            lists.setdefault(one.metadata[b"list"].decode(), []).append(one.name)
    exclude, names = (
        [one for name in map(str, some) for one in lists.get(name, [name])]
        for some in (selection.exclude, selection.columns or ())
    )
    require_columns(path, schema, [*names, *exclude, *target])
    if selection.columns is None:
        labels = row_labels(schema).difference(target, exclude)
        fields = [one for one in schema if one.name not in labels.union(target, exclude)]
        odd = [f"{one.name!r} ({one.type})" for one in fields if base_of(one.type) is None]
        if odd and selection.coded:
            fields = [one for one in fields if base_of(one.type) is not None]
            warn(f"left out: what is no number, boolean, text, date or time: {listed(odd)}", UserWarning)
        names = [one.name for one in fields]
        if names[:1] == ["Unnamed: 0"] and not selection.coded:
            labels.add(names.pop(0))
        if found := listed(map(repr, sorted(labels))):
            warn(f"left out: row labels of pandas without a name: {found}; name them in columns=", UserWarning)
    if target and target[0] in names:
        raise InputError(f"the target {target[0]!r} is among columns=; leave it out")
    if not names:
        raise InputError(f"no feature column is left in {path!r}; its columns are {schema.names[:50]}")
    return names


def require_columns(path: str, schema: pa.Schema, names: Sequence[str]) -> None:
    """Raise InputError for names that are not columns of the schema."""
    known = set(schema.names)
    if missing := [name for name in names if name not in known]:
        near = did_you_mean(missing, known)
        raise InputError(
            f"columns {missing[:20]} are not in {path!r}{near}; its columns are {schema.names[:50]}"
        )


def cut_blocks(groups: Sequence[Group], row_bytes: float, selection: Selection) -> tuple[int, ...]:
    """Blocks of the wanted size; by default near 32 MiB.

    Groups are joined, and cut into equal blocks if larger than the wanted size by a quarter (by default: four times as
    large, since a block inside a group is reached by decoding the rows before it).

    Parameters
    ----------
    groups : sequence of Group
        At least one, ascending and without gaps.
    row_bytes : float
        Bytes of a row in memory.
    selection : Selection

    Returns
    -------
    tuple of int
        The rows of each block.
    """
    rows, slack = selection.rows_per_block, 1.25
    if rows is None:
        rows, slack = max(1, int(BLOCK_BYTES // row_bytes)), 4.0
    n, edges = groups[-1].last, [0]
    for group in groups:
        if group.last - edges[-1] > rows and group.first > edges[-1]:
            edges.append(group.first)
        if group.rows > slack * rows:
            size = -(-group.rows // -(-group.rows // rows))
            edges += [*range(group.first + size, group.last, size), group.last]
    edges = edges[: edges.index(n)] if n in edges else edges
    return tuple(last - first for first, last in itertools.pairwise([*edges, n]))
