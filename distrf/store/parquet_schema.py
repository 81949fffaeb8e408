"""What the columns of a Parquet data set mean: features, target, one dtype for X, nulls."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import InputError, StoreError
from .missing_values import null_remedy

#: Names of the columns in which pandas keeps row labels.
ROW_LABELS = re.compile(r"__index_level_\d+__")


def as_floats(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Numbers as float64, nulls kept. Decimals become the nearest ones: Arrow's own cast misses many by the last bit."""
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.string())
    return column.cast(pa.float64(), safe=False)


def is_text(kind: pa.DataType) -> bool:
    """True for the Arrow text types."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def require_columns(path: str, schema: pa.Schema, names: Sequence[str]) -> None:
    """Raise InputError for names that are not columns of the schema."""
    missing = [name for name in names if name not in schema.names]
    if missing:
        raise InputError(f"columns {missing} are not in {path!r}; its columns are {schema.names[:50]}")


def choose_columns(
    path: str, schema: pa.Schema, target: str | None, columns: Sequence[str] | None
) -> list[str]:
    """The columns of X, all numbers or booleans; InputError where they, or the target, cannot be used."""
    require_columns(path, schema, [*(columns or []), *([target] if target is not None else [])])
    if columns is None:
        names = [name for name in schema.names if name != target and not ROW_LABELS.fullmatch(name)]
    else:
        names = list(columns)
    if target in names:
        raise InputError(f"the target {target!r} is among columns=; leave it out")
    other = [f"{name} ({schema.field(name).type})" for name in names if not is_numeric(schema.field(name).type)]
    if other:
        raise InputError(
            f"features are numbers or booleans; {path!r} has the columns {other[:20]}; choose others with "
            "columns=, name the target with target=, or encode them first"
        )
    if not names:
        raise InputError(f"no feature column is left in {path!r}; its columns are {schema.names[:50]}")
    if target is not None:
        kind = value_type(schema.field(target).type)
        if not (is_numeric(kind) or is_text(kind)):
            raise InputError(f"a target is numbers, booleans or text; {target!r} has type {kind}")
    return names


def value_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values behind a dictionary; another type is its own."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_numeric(kind: pa.DataType) -> bool:
    """True for the Arrow types of numbers and booleans."""
    test = pa.types
    return test.is_integer(kind) or test.is_floating(kind) or test.is_boolean(kind) or test.is_decimal(kind)


def common_dtype(kinds: Sequence[pa.DataType], imputed: bool) -> np.dtype:
    """The dtype of X for columns of these types.

    Decimals, doubles and integers above 16 bits need float64. A single smaller integer type stays as it is, unless X
    must hold NaN. Anything else is float32.
    """
    wide = any(
        pa.types.is_decimal(k) or pa.types.is_float64(k) or (pa.types.is_integer(k) and k.bit_width > 16)
        for k in kinds
    )
    if wide:
        return np.dtype(np.float64)
    if len(set(kinds)) == 1 and pa.types.is_integer(kinds[0]) and not imputed:
        return np.dtype(kinds[0].to_pandas_dtype())
    return np.dtype(np.float32)


def require_same_schema(
    footers: Sequence[tuple[str, pq.FileMetaData]], names: Sequence[str], schema: pa.Schema
) -> None:
    """Raise StoreError where a file has other columns, or other types, than the first."""
    for file, footer in footers[1:]:
        other = footer.schema.to_arrow_schema()
        wrong = [n for n in names if n not in other.names or value_type(other.field(n).type)
                 != value_type(schema.field(n).type)]  # fmt: skip
        if wrong:
            raise StoreError(
                f"the files of a data set have the same columns; {wrong[:10]} of {file!r} differ from "
                f"{footers[0][0]!r}; write them with one schema"
            )


def refuse_nulls(footers: Sequence[tuple[str, pq.FileMetaData]], names: Sequence[str]) -> None:
    """Raise InputError for nulls that the footers count, before any row is read: that may take hours."""
    wanted = set(names)
    for file, footer in footers:
        leaves = [(j, footer.schema.column(j).path) for j in range(footer.num_columns)]
        leaves = [(j, name) for j, name in leaves if name in wanted]
        for group in range(footer.num_row_groups):
            row_group = footer.row_group(group)
            for j, name in leaves:
                statistics = row_group.column(j).statistics
                if statistics is not None and statistics.has_null_count and statistics.null_count:
                    raise null_error(name, file, group)


def null_error(name: str, file: str, group: int, target: bool = False) -> InputError:
    """The error for a null in a column of a row group."""
    return InputError(
        f"values may not be missing; column {name!r} has nulls in row group {group} of {file!r}; {null_remedy(target)}"
    )
