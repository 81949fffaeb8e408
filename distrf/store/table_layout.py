"""The columns that a caller wants of a table, and the blocks into which its rows are cut."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..errors import InputError, did_you_mean, warn
from .row_source import BLOCK_BYTES, Selection
from .table_lists import places
from .table_reader import Group
from .table_schema import (
    TableSchema,
    base_of,
    common_dtype,
    is_number,
    listed,
    merged,
    require_distinct,
    row_labels,
    schema_of,
)

Block = tuple[tuple[Group, ...], int, int]  # its groups, its first row, the row after its last


class Layout(NamedTuple):
    """The columns of X: their names, the schema of the whole table, the dtype of X, and how coded rows are read."""

    names: list[str]
    schema: pa.Schema
    dtype: np.dtype
    coded: TableSchema | None


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
    wanted = {*names, *selection.others, target}.intersection(first.names)  # `coded_as` tells what is missing
    require_distinct(name for name in first.names if name in wanted)
    common = merged(schemas, [name for name in first.names if name in wanted])
    schema = pa.schema([common.field(f.name) if f.name in wanted else f for f in first])
    if target is not None and base_of(schema.field(target).type) not in ("number", "boolean", "text"):
        raise InputError(
            f"a target is numbers, booleans or text; {target!r} has type {schema.field(target).type}"
        )
    if selection.coded:
        coded = selection.coded if isinstance(selection.coded, TableSchema) else schema_of(schema, names)
        return Layout(names, schema, np.dtype(np.float64), coded)
    kinds = [schema.field(name).type for name in names]
    if other := [f"{name} ({kind})" for name, kind in zip(names, kinds, strict=True) if not is_number(kind)]:
        raise InputError(
            f"features are numbers or booleans; {path!r} has the columns {other[:20]}; choose others with columns=, name the target "
            "with target=, say decimal=',' of decimal commas, or train on the table as it is: `distrf train` encodes its columns"
        )
    return Layout(names, schema, common_dtype(kinds), None)


def all_fields(schemas: Sequence[tuple[str, pa.Schema]]) -> pa.Schema:
    """The fields of all files, each as the first file has it that has it."""
    first = schemas[0][1]
    for _, schema in schemas[1:]:
        if new := set(schema.names) - set(first.names):
            first = pa.schema([*first, *{f.name: f for f in schema if f.name in new}.values()])
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
    target = [] if selection.target is None else [selection.target]
    if isinstance(selection.coded, TableSchema):
        require_columns(path, schema, target)
        return selection.coded.names
    exclude, names = (
        places(schema, [*map(str, some)]) for some in (selection.exclude, selection.columns or ())
    )
    require_columns(path, schema, [*names, *exclude, *target])
    if selection.columns is None:
        left = {*target, *exclude, *row_labels(schema)}
        fields = [field for field in schema if field.name not in left]
        odd = [f"{field.name!r} ({field.type})" for field in fields if base_of(field.type) is None]
        if odd and selection.coded:
            fields = [field for field in fields if base_of(field.type) is not None]
            warn(f"left out: what is no number, boolean, text, date or time: {listed(odd)}", UserWarning)
        names = [field.name for field in fields]
        if names[:1] == ["Unnamed: 0"] and not selection.coded:
            del names[0]
            labels = f"the first column of {path!r} has no name, as row labels of pandas"
            warn(f"{labels}: it is left out; take it with columns=", UserWarning)
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


def cut_blocks(groups: Sequence[Group], row_bytes: float, selection: Selection) -> tuple[Block, ...]:
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
    n = groups[-1].last
    edges = list(range(0, n, rows))
    if not selection.uniform:
        edges = [0]
        for group in groups:
            if group.last - edges[-1] > rows and group.first > edges[-1]:
                edges.append(group.first)
            if group.rows > slack * rows:
                size = -(-group.rows // -(-group.rows // rows))
                edges += [*range(group.first + size, group.last, size), group.last]
        edges = edges[: edges.index(n)] if n in edges else edges
    # of each block the groups that have rows of it
    starts, ends = [group.first for group in groups], [group.last for group in groups]
    blocks = itertools.pairwise([*edges, n])
    return tuple((tuple(groups[bisect_right(ends, a) : bisect_left(starts, b)]), a, b) for a, b in blocks)
