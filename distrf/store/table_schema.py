"""What a table is without its rows: the Arrow types and names of its columns, and how they differ from others."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InputError

#: What a column can hold, in the words of messages.
BASES = {
    "number": "numbers",
    "boolean": "booleans",
    "text": "text",
    "time": "dates or timestamps",
    "clock": "times of day",
    "empty": "no values",
}
#: What else is read as a base: booleans are 0 and 1, and text may write dates.
_ALSO = {"number": ("boolean",), "boolean": ("number",), "time": ("text",)}
_SHOWN = 10  # columns of a message


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


def computable(table: pa.Table) -> pa.Table:
    """The same rows with texts in a layout that Arrow computes with."""
    for j, field in enumerate(table.schema):
        if pa.types.is_string_view(value_type(field.type)):
            table = table.set_column(j, field.name, decoded(table.column(j)))
    return table


def is_number(kind: pa.DataType) -> bool:
    """True for integers, floats, decimals and booleans."""
    test = pa.types
    return test.is_integer(kind) or test.is_floating(kind) or test.is_boolean(kind) or test.is_decimal(kind)


def target_dtype(kind: pa.DataType, width: int = 0) -> np.dtype:
    """The dtype of a target of numbers or text; width : characters of the longest text, 0 where it is not known"""
    kind = value_type(kind)
    if is_text(kind):
        return np.dtype(f"<U{width}")
    return np.dtype(np.float64 if pa.types.is_decimal(kind) else kind.to_pandas_dtype())


def null_error(column: pa.ChunkedArray, name: str, where: str, first: int = 0) -> InputError:
    """The error for nulls among targets, at a place in words; first : number of the first row, which files count from 1"""
    row = first + int(np.argmax(column.is_null().to_numpy()))
    text = is_text(value_type(column.type))
    hint = "say keep_default_na=False where a word of CSV such as NA is a class, or else " if text else ""
    remedy = f"{hint}drop the rows that have no target (train does with drop_missing_target=True)"
    return InputError(
        f"values may not be missing; column {name!r} has nulls in {where}, the first in row {row}; {remedy}"
    )


def present(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whether there is a value in each row: not null, NaN or an empty text."""
    column = decoded(values)
    there = column.is_valid()
    if pa.types.is_floating(column.type):
        return pc.and_not(there, pc.is_nan(column).fill_null(False))
    return pc.and_(there, pc.not_equal(column, "").fill_null(False)) if is_text(column.type) else there


def base_of(kind: pa.DataType) -> str | None:
    """The entry of `BASES` for an Arrow type, or for the values of a dictionary; None for lists, binary and the like."""
    test, kind = pa.types, value_type(kind)
    if is_number(kind):
        return "boolean" if test.is_boolean(kind) else "number"
    if is_text(kind):
        return "text"
    if test.is_date(kind) or test.is_timestamp(kind):
        return "time"
    if test.is_time(kind):
        return "clock"
    return "empty" if test.is_null(kind) else None


@dataclass(frozen=True)
class ColumnType:
    """A column of a table.

    Parameters
    ----------
    name : str
    arrow : str
        Its Arrow type.
    base : str
        What it is read as: a key of `BASES`, or "unread". Text that writes dates may have the base "time". Integers may have the
        base "text": the text of their digits, so that categories of those beyond 2^53 stay apart.
    form : str
        How text writes its numbers, as `text_forms.find_form` found it. Texts that are none are missing values then.
    """

    name: str
    arrow: str
    base: str
    form: str = ""

    @property
    def values(self) -> str:
        """Its Arrow type; of a dictionary that of the values."""
        return self.arrow.removeprefix("dictionary<values=").partition(", indices=")[0]

    @property
    def whole(self) -> bool:
        """Whether its type is one of integers, or of decimals without a fraction."""
        return self.values.startswith(("int", "uint")) or (
            self.values.startswith("decimal") and self.values.endswith(", 0)")
        )

    @property
    def digits(self) -> bool:
        """Whether integers are read as the text of their digits."""
        return self.base == "text" and self.whole

    @property
    def stamps(self) -> bool:
        """Whether numbers are read as times."""
        return self.form.startswith("stamp:")

    @property
    def zoned(self) -> bool | None:
        """Whether its times have a time zone; None where the type does not say it."""
        if self.base != "time" or not self.values.startswith(("timestamp", "date")):
            return None
        return "tz=" in self.values

    def fault(self, kind: pa.DataType) -> str | None:
        """Why a column of this Arrow type cannot be read as this one; None if it can."""
        base = base_of(kind)
        also: tuple[str, ...] = ("number",) if self.digits else _ALSO.get(self.base, ())
        if self.form:
            also = ("text", "number") if self.stamps else ("text",)
        if base not in (self.base, "empty", *also):
            held = f"{BASES[self.base]} ({self.values})"
            return f"holds {BASES[base] if base else 'what cannot be read'} ({kind}) and held {held}"
        if base == "time" and self.zoned is not None:
            zoned = getattr(value_type(kind), "tz", None) is not None
            if zoned != self.zoned:
                return "has a time zone now and had none" if zoned else "has no time zone now and had one"
        return None


@dataclass(frozen=True)
class TableSchema:
    """The columns of a table in the order of its coded rows."""

    columns: tuple[ColumnType, ...]

    @property
    def names(self) -> list[str]:
        """The names of the columns that are read."""
        return [column.name for column in self.columns if column.base != "unread"]

    def reading(self, used: Collection[int]) -> TableSchema:
        """The same coded rows, of which only these columns are read. The others are missing values, whatever a table has."""
        columns = enumerate(self.columns)
        return TableSchema(tuple(c if j in used else replace(c, base="unread") for j, c in columns))

    def spec(self) -> dict[str, Any]:
        """As JSON."""
        return {"columns": [asdict(column) for column in self.columns]}

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> Self:
        """What `spec` described."""
        names = [field.name for field in fields(ColumnType)]
        return cls(tuple(ColumnType(*(sys.intern(c[name]) for name in names)) for c in spec["columns"]))


def schema_of(schema: pa.Schema, names: Sequence[str] | None = None) -> TableSchema:
    """What the columns of an Arrow table are.

    Parameters
    ----------
    schema : pa.Schema
    names : sequence of str, optional
        Which columns of the table, in this order. None: all.

    Returns
    -------
    TableSchema

    Raises
    ------
    InputError
        Some hold lists, structs, binary data or the like: all of them are named.
    """
    kinds = [(name, schema.field(name).type) for name in (schema.names if names is None else names)]
    odd = [f"{name!r} ({kind})" for name, kind in kinds if base_of(kind) is None]
    if odd:
        raise InputError(
            f"columns hold numbers, booleans, text, dates or times; not so {listed(odd)}; leave them out with "
            "kinds={'NAME': 'drop'}, or make such columns of them"
        )
    # Equal texts that are one object are pickled once: schemas travel in tasks.
    return TableSchema(
        tuple(ColumnType(name, sys.intern(str(kind)), sys.intern(str(base_of(kind)))) for name, kind in kinds)
    )


def require_distinct(names: Iterable[str]) -> None:
    """Raise InputError where two columns have one name."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InputError(
            f"columns have distinct names; more than one is called {listed(map(repr, twice))}; rename them"
        )


def row_labels(schema: pa.Schema) -> set[str]:
    """The columns in which pandas wrote an index without a name, but for times: they may be all that tells the hour."""
    fields = [field for field in schema if re.fullmatch(r"__index_level_\d+__", field.name)]
    return {field.name for field in fields if base_of(field.type) != "time"}


def listed(words: Iterable[str]) -> str:
    """The first few, and how many more there are."""
    words = list(words)
    more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return ", ".join(words[:_SHOWN]) + more


def drift(trained: TableSchema, found: pa.Schema) -> str | None:
    """How a table differs from the columns that are to be read of it.

    Parameters
    ----------
    trained : TableSchema
        The columns that are needed.
    found : pa.Schema
        Of the table. Columns that are not needed may be of any type.

    Returns
    -------
    str, or None where it has all of them
        Missing columns and columns of another type, in one sentence.
    """
    types: dict[str, pa.DataType] = dict(zip(found.names, found.types, strict=True))
    faults = []
    for column in trained.columns:
        if column.base == "unread":
            continue
        if column.name not in types:
            faults.append(f"{column.name!r} is missing")
        elif fault := column.fault(types[column.name]):
            faults.append(f"{column.name!r} {fault}")
    if not faults:
        return None
    return (
        "the rows need the columns that the model was trained with (or that the given schema has); here "
        f"{listed(faults)}; rename, add or convert columns, or train without them"
    )


def merged(schemas: Iterable[tuple[str, pa.Schema]]) -> tuple[pa.Schema, dict[str, str]]:
    """The columns of several tables as one schema for all their rows.

    Parameters
    ----------
    schemas : sequence of (str, pa.Schema)
        What messages call each table, and its schema.

    Returns
    -------
    schema : pa.Schema
        Of a column of several types the one of `common_type`, without dictionaries; where there is none the first.
    faults : dict of str to str
        What is wrong with columns of which there is none: both tables are named.
    """
    fields: dict[str, pa.Field] = {}
    first: dict[str, str] = {}  # tables that have them
    faults: dict[str, str] = {}
    last = None
    for where, schema in schemas:
        for one in () if schema == last else schema:
            before = fields.setdefault(one.name, one)
            kind = common_type(before.type, one.type)
            if kind is None and first[one.name] != where:
                faults[one.name] = (
                    f"a column has one type in all parts of a table; {one.name!r} is {before.type} in {first[one.name]!r} and "
                    f"{one.type} in {where!r}; write them with one schema"
                )
            elif kind not in (None, before.type):
                fields[one.name] = before.with_type(kind)
            first.setdefault(one.name, where)
        last = schema
    return pa.schema(list(fields.values())), faults


def common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type that holds the values of two: of numbers the narrowest (of int64 and uint64 decimals), of times that with the smallest
    unit; None where there is none.
    """
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    kinds = one, other = value_type(one), value_type(other)
    base, zones = base_of(one), {getattr(kind, "tz", None) is None for kind in kinds}
    if base is None or base != base_of(other) or len(zones) > 1:
        return None
    if base != "number":  # dates have the largest unit
        units = ["s", "ms", "us", "ns"]
        return max(kinds, key=lambda kind: units.index(kind.unit) if hasattr(kind, "unit") else -1)
    whole = [pa.types.is_integer(kind) or getattr(kind, "scale", 1) == 0 for kind in kinds]
    if all(whole) and (pa.uint64() in kinds or not all(map(pa.types.is_integer, kinds))):
        return pa.decimal128(38, 0)  # float64, which NumPy takes, rounds those beyond 2^53
    if any(map(pa.types.is_decimal, kinds)):
        return pa.float64()
    return pa.from_numpy_dtype(np.result_type(*(kind.to_pandas_dtype() for kind in kinds)))
