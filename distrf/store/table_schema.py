"""What a table is without its rows: the names and types of its columns, and how they differ from others."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import pyarrow as pa

from ..errors import InputError, SpecMismatchError
from .parquet_schema import ROW_LABELS, is_text, value_type

#: What a column can hold, in the words of messages.
BASES = {
    "number": "numbers",
    "boolean": "booleans",
    "text": "text",
    "time": "dates or timestamps",
    "clock": "times of day",
    "duration": "durations",
    "empty": "no values",
}
#: What else is read as a base: booleans are 0 and 1, and text may write dates.
_ALSO = {"number": ("boolean",), "boolean": ("number",), "time": ("text",)}
_SHOWN = 10  # columns of a message


def base_of(kind: pa.DataType) -> str | None:
    """The entry of `BASES` for an Arrow type, or for the values of a dictionary; None for lists, binary and the like."""
    test, kind = pa.types, value_type(kind)
    if test.is_boolean(kind):
        return "boolean"
    if test.is_integer(kind) or test.is_floating(kind) or test.is_decimal(kind):
        return "number"
    if is_text(kind):
        return "text"
    if test.is_date(kind) or test.is_timestamp(kind):
        return "time"
    if test.is_time(kind):
        return "clock"
    if test.is_duration(kind):
        return "duration"
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
        What it is read as: a key of `BASES`. Text that writes dates may have the base "time".
    """

    name: str
    arrow: str
    base: str

    @property
    def precision(self) -> str:
        """The dtype of its numbers: of float32 ones "f4", so that 0.1 is the same number from all sources."""
        return "f2" if "halffloat" in self.arrow else "f4" if "float" in self.arrow else "f8"

    def fault(self, kind: pa.DataType) -> str | None:
        """Why a column of this Arrow type cannot be read as this one; None if it can."""
        base = base_of(kind)
        if base not in (self.base, "empty", *_ALSO.get(self.base, ())):
            return (
                f"holds {BASES[base] if base else 'what cannot be read'} ({kind}) and held {BASES[self.base]}"
            )
        if base == "time" and "timestamp" in self.arrow and pa.types.is_timestamp(value_type(kind)):
            zones = "tz=" in self.arrow, value_type(kind).tz is not None
            if zones[0] != zones[1]:
                return "has no time zone now and had one" if zones[0] else "has a time zone now and had none"
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
                ColumnType(**{key: str(column[key]) for key in ("name", "arrow", "base")})
                for column in spec["columns"]
            )
        except (KeyError, TypeError) as error:
            raise SpecMismatchError(
                f"the schema of a table lists the name, arrow and base of each column; one lacks {error}; "
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
        Which columns, in this order. None: all but the row labels of pandas.

    Returns
    -------
    TableSchema

    Raises
    ------
    InputError
        There are no such columns, two have one name, or some hold lists, structs, binary data or the like: all of them
        are named.
    """
    if names is None:
        labels = _row_labels(schema)
        names = [name for name in schema.names if name not in labels]
    elif unknown := [name for name in names if name not in schema.names]:
        raise InputError(
            f"columns are chosen by names of the table; received {unknown[:_SHOWN]}; it has {schema.names[:50]}"
        )
    require_distinct([name for name in schema.names if name in set(names)])
    require_distinct(names)
    kinds = [(name, schema.field(name).type) for name in names]
    odd = [f"{name!r} ({kind})" for name, kind in kinds if base_of(kind) is None]
    if odd:
        raise InputError(
            f"columns hold numbers, booleans, text, dates or times; not so {_listed(odd)}; leave them out with "
            "exclude=, or make such columns of them"
        )
    return TableSchema(tuple(ColumnType(name, str(kind), str(base_of(kind))) for name, kind in kinds))


def require_distinct(names: Iterable[str]) -> None:
    """Raise InputError where two columns have one name."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InputError(
            f"columns have distinct names; more than one is called {_listed(map(repr, twice))}; rename them"
        )


def _row_labels(schema: pa.Schema) -> set[str]:
    """The columns in which pandas wrote its index: a data frame with the same rows does not have them as columns."""
    kept = (schema.pandas_metadata or {}).get("index_columns", [])
    return {name for name in kept if isinstance(name, str)} | {
        n for n in schema.names if ROW_LABELS.fullmatch(n)
    }


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
        Missing columns, each with a new one of a like name, and columns of another type, in one sentence.
    """
    known, wanted = set(trained.names), {name.casefold() for name in trained.names}
    new = {name.casefold(): name for name in found.names if name not in known}
    faults = []
    for column in trained.columns:
        at = found.get_all_field_indices(column.name)
        if len(at) == 1:
            if fault := column.fault(found.field(at[0]).type):
                faults.append(f"{column.name!r} {fault}")
        elif at:
            faults.append(f"{column.name!r} is there {len(at)} times")
        else:
            name = column.name.casefold()
            others = [other for other in new if other not in wanted]
            like = [name] if name in new else difflib.get_close_matches(name, others, 1, cutoff=0.5)
            renamed = f" ({new[like[0]]!r} is new: renamed?)" if like else ""
            faults.append(f"{column.name!r} is missing{renamed}")
    if not faults:
        return None
    return f"a table has the columns of the one that was opened first; here {_listed(faults)}; rename or convert them"
