"""What a table is without its rows: the names and types of its columns, and how they differ from others."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from ..errors import InputError, SpecMismatchError, StoreError, did_you_mean
from .arrow_types import ROW_LABELS, is_text, value_type

#: What a column can hold, in the words of messages.
BASES = {
    "number": "numbers",
    "boolean": "booleans",
    "text": "text",
    "time": "dates or timestamps",
    "clock": "times of day",
    "empty": "no values",
}
#: What else is read as a base: booleans are 0 and 1, and text may write dates and times of day.
_ALSO = {"number": ("boolean",), "boolean": ("number",), "time": ("text",), "clock": ("text",)}
_SHOWN = 10  # columns of a message


def base_of(kind: pa.DataType) -> str | None:
    """The entry of `BASES` for an Arrow type, or for the values of a dictionary; None for lists, binary and the like."""
    test, kind = pa.types, value_type(kind)
    if test.is_boolean(kind):
        return "boolean"
    if test.is_integer(kind) or test.is_floating(kind) or test.is_decimal(kind) or test.is_duration(kind):
        return "number"
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
        What it is read as: a key of `BASES`. Text that writes dates may have the base "time". Integers may have the
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
        """Whether its type is one of integers."""
        return self.values.startswith(("int", "uint"))

    @property
    def digits(self) -> bool:
        """Whether integers are read as the text of their digits."""
        return self.base == "text" and self.whole

    @property
    def zoned(self) -> bool | None:
        """Whether its times have a time zone; None where the type does not say it."""
        if self.base != "time" or not self.values.startswith(("timestamp", "date")):
            return None
        return "tz=" in self.values

    @property
    def precision(self) -> str:
        """The dtype of its numbers: of float32 ones "f4", so that 0.1 is the same number from all sources."""
        return "f4" if self.values == "float" else "f8"

    def fault(self, kind: pa.DataType) -> str | None:
        """Why a column of this Arrow type cannot be read as this one; None if it can."""
        base = base_of(kind)
        also = ("number",) if self.digits else ("text",) if self.form else _ALSO.get(self.base, ())
        took = pa.types.is_duration(value_type(kind))
        unlike = base == "number" == self.base and took != self.values.startswith("duration")
        if base not in (self.base, "empty", *also) or unlike:
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
        """The names of the columns."""
        return [column.name for column in self.columns]

    def spec(self) -> dict[str, Any]:
        """As JSON."""
        return {"columns": [asdict(column) for column in self.columns]}

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> Self:
        """What `spec` described.

        Raises
        ------
        SpecMismatchError
            An entry is missing, or is none that this release knows.
        """
        try:
            columns = tuple(
                ColumnType(*(sys.intern(str(column[key])) for key in ("name", "arrow", "base", "form")))
                for column in spec["columns"]
            )
        except (KeyError, TypeError) as error:
            raise SpecMismatchError(
                f"the schema of a table lists the name, arrow, base and form of each column; one lacks {error}; "
                "open the table anew, or train again"
            ) from None
        if unknown := sorted({column.base for column in columns} - set(BASES)):
            raise SpecMismatchError(
                f"the schema of a table knows the bases {', '.join(BASES)}; received {unknown}; use a newer distrf"
            )
        return cls(columns)


def schema_of(schema: pa.Schema, names: Sequence[str] | None = None) -> TableSchema:
    """What the columns of an Arrow table are.

    Parameters
    ----------
    schema : pa.Schema
    names : sequence of str, optional
        Which columns of the table, in this order. None: all but row labels of pandas without a name.

    Returns
    -------
    TableSchema

    Raises
    ------
    InputError
        Some hold lists, structs, binary data or the like: all of them are named.
    """
    if names is None:
        labels = row_labels(schema)
        names = [name for name in schema.names if name not in labels]
    types = dict(zip(schema.names, schema.types, strict=True))
    kinds = [(name, types[name]) for name in names]
    odd = [f"{name!r} ({kind})" for name, kind in kinds if base_of(kind) is None]
    if odd:
        raise InputError(
            f"columns hold numbers, booleans, text, dates or times; not so {_listed(odd)}; leave them out with "
            "exclude=, or make such columns of them"
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
            f"columns have distinct names; more than one is called {_listed(map(repr, twice))}; rename them"
        )


def row_labels(schema: pa.Schema) -> set[str]:
    """The columns in which pandas wrote an index without a name: a data frame with the same rows does not have them as columns."""
    return {name for name in schema.names if not name or ROW_LABELS.fullmatch(name)}


def _listed(words: Iterable[str]) -> str:
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
    twice = {name: count for name, count in Counter(found.names).items() if count > 1}
    known, faults = set(trained.names), []
    new = [name for name in types if name not in known]
    for column in trained.columns:
        if column.name in twice:
            faults.append(f"{column.name!r} is there {twice[column.name]} times")
        elif column.name not in types:
            like = did_you_mean(column.name, new) if len(faults) < _SHOWN else ""
            faults.append(f"{column.name!r} is missing{like}")
        elif fault := column.fault(types[column.name]):
            faults.append(f"{column.name!r} {fault}")
    if not faults:
        return None
    return (
        "the rows need the columns that the model was trained with (or that the given schema has); here "
        f"{_listed(faults)}; rename, add or convert columns, or train without them"
    )


def merged(schemas: Sequence[tuple[str, pa.Schema]], names: Sequence[str]) -> pa.Schema:
    """The columns of several tables as one schema for all their rows.

    Parameters
    ----------
    schemas : sequence of (str, pa.Schema)
        What messages call each table, and its schema.
    names : sequence of str
        Columns of one table or more; others are left out.

    Returns
    -------
    pa.Schema
        Of a column of several types, null aside: of numbers the narrowest that holds all, of times the finest, of others
        the first; without dictionaries.

    Raises
    ------
    StoreError
        A table has a column in a type that cannot be read as that of another: both tables are named.
    """
    first_schema = schemas[0][1]
    schemas = [one for i, one in enumerate(schemas) if i == 0 or not one[1].equals(first_schema)]
    fields = []
    for name in names:
        kinds: dict[pa.DataType, str] = {}  # and the first table that has it
        for where, schema in schemas:
            at = schema.get_field_index(name)
            if at < 0:  # nulls
                continue
            kinds.setdefault(schema.field(at).type, where)
        kinds = {kind: where for kind, where in kinds.items() if not pa.types.is_null(kind)} or kinds
        first, *others = kinds
        column = ColumnType(name, str(first), str(base_of(first)))
        for kind in others:
            if base_of(kind) != column.base or column.fault(kind):
                raise StoreError(
                    f"a column has one type in all parts of a table; {name!r} is {first} in {kinds[first]!r} and {kind} in "
                    f"{kinds[kind]!r}; write them with one schema"
                )
        fields.append(pa.field(name, _common(list(kinds), column.base) if others else first))
    return pa.schema(fields)


def _common(kinds: Sequence[pa.DataType], base: str) -> pa.DataType:
    kinds = [value_type(kind) for kind in kinds]
    if base != "number":
        units = ["s", "ms", "us", "ns"]
        return max(kinds, key=lambda kind: units.index(kind.unit) if hasattr(kind, "unit") else -1)
    if any(pa.types.is_decimal(kind) for kind in kinds):
        return pa.float64()
    return pa.from_numpy_dtype(np.result_type(*(kind.to_pandas_dtype() for kind in kinds)))
