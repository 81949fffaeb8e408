"""Arrow types of the columns of a table: which are numbers or text, one dtype for X, and the error for nulls."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ..errors import InputError
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


def value_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values behind a dictionary; another type is its own."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def decoded(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values behind a dictionary, whose codes mean nothing; texts in a layout that Arrow computes with."""
    kind = value_type(values.type)
    if pa.types.is_string_view(kind):
        kind = pa.large_string()
    if pa.types.is_dictionary(values.type):
        chunks = [chunk.dictionary.cast(kind).take(chunk.indices) for chunk in values.chunks]
        return pa.chunked_array(chunks, kind)
    return values.cast(kind) if kind != values.type else values


def is_number(kind: pa.DataType) -> bool:
    """True for integers, floats, decimals and booleans."""
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


def target_dtype(kind: pa.DataType, width: int = 0) -> np.dtype:
    """The dtype of a target of numbers or text; width : characters of the longest text, 0 where it is not known"""
    kind = value_type(kind)
    if is_text(kind):
        return np.dtype(f"<U{width}")
    return np.dtype(np.float64 if pa.types.is_decimal(kind) else kind.to_pandas_dtype())


def null_error(name: str, where: str, row: int | None = None, target: bool = False) -> InputError:
    """The error for a null in a column, at a place in words and, where it is known, in a row."""
    at = "" if row is None else f", the first in row {row}"
    return InputError(
        f"values may not be missing; column {name!r} has nulls in {where}{at}; {null_remedy(target)}"
    )
