"""Columns of lists of numbers of one length, as of embeddings: a column for each place of the lists, "name_0" and so on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InputError
from .table_schema import is_number


def _of_numbers(kind: pa.DataType) -> bool:
    test = pa.types
    lists = test.is_list(kind) or test.is_large_list(kind) or test.is_fixed_size_list(kind)
    return lists and is_number(kind.value_type)


def list_columns(schema: pa.Schema) -> list[str]:
    """The columns that hold lists of numbers."""
    return [field.name for field in schema if _of_numbers(field.type)]


def widths(rows: pa.Table) -> dict[str, int]:
    """The length of the lists of each such column, where that of some rows is the same in all."""
    found = {}
    for name in list_columns(rows.schema):
        lengths = pc.unique(pc.list_value_length(rows.column(name)).drop_null()).to_pylist()
        if (
            len(lengths) == 1
            and lengths[0]
            and not {f"{name}_{i}" for i in range(lengths[0])} & set(rows.column_names)
        ):
            found[name] = lengths[0]
    return found


def spread_schema(schema: pa.Schema, lists: Mapping[str, int]) -> pa.Schema:
    """The columns, those of lists by their places. The metadata of these say the name of the column."""
    fields = []
    for field in schema:
        count = lists.get(field.name)
        note = {"list": field.name}
        each = [pa.field(f"{field.name}_{i}", field.type.value_type, metadata=note) for i in range(count or 0)]
        fields += [field] if count is None else each
    return pa.schema(fields, schema.metadata)


def spread(rows: pa.Table, lists: Mapping[str, int]) -> pa.Table:
    """Rows whose lists are columns. Raises InputError for a list of another length."""
    columns = []
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if name not in lists:
            columns.append(column)
            continue
        lengths = pc.unique(pc.list_value_length(column).drop_null()).to_pylist()
        if others := [length for length in lengths if length != lists[name]]:
            raise InputError(
                f"lists of numbers are columns where they have one length; column {name!r} has {lists[name]} numbers in some "
                f"rows and {others[0]} in others; cut them, or leave the column out with exclude="
            )
        columns += [pc.list_element(column, i) for i in range(lists[name])]
    return pa.table(columns, schema=spread_schema(rows.schema, lists))


def places(schema: pa.Schema, names: Sequence[str]) -> list[str]:
    """The names, those of columns of lists by their places."""
    found: dict[str, list[str]] = {}
    for field in schema:
        if field.metadata and b"list" in field.metadata:
            found.setdefault(field.metadata[b"list"].decode(), []).append(field.name)
    return [one for name in names for one in found.get(name, [name])]
