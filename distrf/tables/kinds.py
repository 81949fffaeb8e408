"""What the columns of a table are: numbers, categories, dates, ids; guessed from some of its rows, and said by the user."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import InputError, did_you_mean
from ..store.table_facts import ColumnFacts
from ..store.table_schema import ColumnType, TableSchema

#: Why a column is what the user said that it is.
AS_SAID = "as said"
#: The kinds that each base of a column may be said to have. Features are made of all but id, text (free text) and drop.
POSSIBLE = {
    "number": ("number", "category", "id", "drop"),
    "boolean": ("category", "number", "drop"),
    "text": ("category", "number", "date", "id", "drop"),
    "time": ("date", "category", "id", "drop"),
    "clock": ("clock", "category", "drop"),
    "empty": ("drop",),
}
#: Rows that are needed to call a column of distinct values an id, the share of them that is distinct then, and the words
#: of an entry from which on it is free text.
_ID_ROWS, _ID_SHARE, _TEXT_WORDS = 50, 0.99, 4.0
_ID_NAME = re.compile(r"((^|_|\b)(?i:id|uuid|guid|key|index|rownum|row)|[a-z](Id|ID)|(?i:^unnamed: ?\d+))$")
_SHOWN = 10  # columns of a message

#: How the reason of a column ends that numbers the rows.
_ROW_NUMBERS = "in ascending order"


class ColumnWarning(UserWarning):
    """A column is left out, or may not be what it is taken for."""


@dataclass(frozen=True)
class ColumnKind:
    """What a column is, and why that is thought.

    Parameters
    ----------
    name : str
    kind : str
        "number", "category", "date", "clock", "id" (a name of its row), "text" (free text) or "drop".
    why : str
    caution : str
        What may be wrong with that; else empty.
    column : ColumnType, optional
        What it is to be read as.
    """

    name: str
    kind: str
    why: str
    caution: str = ""
    column: ColumnType | None = None

    @property
    def used(self) -> bool:
        """Whether features are made of it."""
        return self.kind not in ("id", "text", "drop")


def infer_kinds(
    schema: TableSchema, facts: Sequence[ColumnFacts], said: Mapping[str, str] | None = None
) -> list[ColumnKind]:
    """What each column is.

    Parameters
    ----------
    schema : TableSchema
    facts : sequence of ColumnFacts
        Of the columns in their order, from some rows.
    said : mapping of str to str, optional
        The kinds of some columns, by name, in place of a guess.

    Returns
    -------
    list of ColumnKind

    Raises
    ------
    InputError
        There is no such column or kind, a column cannot be of it, or none is left: all are named.
    """
    said = dict(said or {})
    if unknown := [name for name in said if name not in schema.names]:
        raise InputError(
            f"columns are said by name; received {unknown[:10]}{did_you_mean(unknown, schema.names)}; the table has {schema.names[:50]}"
        )
    kinds = []
    for column, fact in zip(schema.columns, facts, strict=True):
        kind, why = said.get(column.name, ""), AS_SAID
        if kind:
            _check_said(column, kind, fact)
        else:
            kind, why = _guess(column, fact)
        found = fact.found if kind in ("number", "date", "clock") else None
        if found is not None:
            column, why = replace(column, base=found.base, form=found.form), found.words
        elif kind in ("category", "id") and column.whole:
            column = replace(column, base="text")  # float64 does not tell those beyond 2^53 apart
        kinds.append(ColumnKind(column.name, kind, why, _caution(column, kind, fact), column))
    if not any(kind.used for kind in kinds):
        left = ", ".join(f"{kind.name!r}: {kind.why}" for kind in kinds[:_SHOWN])
        raise InputError(
            f"no column is left to learn from ({left}); give others, or say what they are with categorical=, numeric= or date="
        )
    return kinds


def cautions(kinds: Sequence[ColumnKind]) -> list[str]:
    """What is to be warned of: columns that were guessed to be of no use, and what may be wrong with others.

    Not of those that number the rows: the summary of the table has them.
    """
    texts = [kind.caution for kind in kinds if kind.caution]
    if more := texts[_SHOWN:]:
        texts = [*texts[:_SHOWN], f"so it is with {len(more)} more columns"]
    guessed = [kind for kind in kinds if kind.kind in ("id", "text") and kind.why != AS_SAID]
    left = [kind for kind in guessed if not kind.why.endswith(_ROW_NUMBERS)]
    if left:
        names = [kind.name for kind in left]
        listed = ", ".join(f"{kind.name!r} ({kind.why})" for kind in left[:_SHOWN])
        listed += f" and {len(left) - _SHOWN} more, {names[_SHOWN:60]}" if left[_SHOWN:] else ""
        numbers = [kind.name for kind in left if kind.column is not None and kind.column.whole]
        as_numbers = f", or numeric={numbers[:_SHOWN]} for numbers" if numbers else ""
        texts.append(
            f"left out: {listed}; take them with categorical={names[:_SHOWN]} for levels{as_numbers}, or leave them out "
            f"without this warning with exclude={names[:_SHOWN]}"
        )
    return texts


def _caution(column: ColumnType, kind: str, fact: ColumnFacts) -> str:
    name = column.name
    if kind == "number" and fact.infinite:
        return f"column {name!r} has infinite numbers in {fact.infinite:,} of {fact.rows:,} rows looked at: they count as missing"
    if fact.found is None or column.form == "":
        return ""
    if fact.stray:
        return (
            f"column {name!r} is {fact.found.words}, but not {fact.stray}: such texts count as missing; for levels, say "
            f"categorical={[name]}"
        )
    doubt = fact.found.doubt
    return (
        f"column {name!r} is {fact.found.words}, but {doubt}; write it otherwise, or say categorical={[name]}"
        if doubt
        else ""
    )


def _check_said(column: ColumnType, kind: str, fact: ColumnFacts) -> None:
    if kind not in POSSIBLE[column.base]:
        raise InputError(
            f"column {column.name!r} ({column.arrow}) can be {', '.join(POSSIBLE[column.base])}; received {kind!r}"
        )
    if column.base == "text" and fact.found is None and kind in ("number", "date"):
        written = {"number": "1,234.5, $5 or 12 kg", "date": "2020-01-31, 31.1.2020, 1/31/20 or 31 Jan 2020"}[
            kind
        ]
        raise InputError(
            f"a {kind} is written such as {written}; half of the texts of column {column.name!r} are not; write them so, or "
            f"do not name it in {'numeric' if kind == 'number' else 'date'}="
        )


def _guess(column: ColumnType, fact: ColumnFacts) -> tuple[str, str]:
    """The kind of a column, and why."""
    rows = f"in {fact.present:,} rows looked at"
    if column.base == "empty" or fact.present == 0:
        return "drop", f"no value in {fact.rows:,} rows looked at"
    if column.base == "boolean":
        return "category", "booleans"
    if column.arrow.startswith("dictionary") and column.base != "text":
        return "category", f"{column.arrow}, {fact.distinct:,} levels {rows}"
    if column.base in ("time", "clock"):
        return {"time": "date", "clock": "clock"}[column.base], column.arrow
    distinct = fact.distinct >= _ID_SHARE * fact.present and fact.present >= _ID_ROWS
    if column.base == "number":
        if distinct and fact.whole and (fact.ascending or _ID_NAME.search(column.name)):
            order = _ROW_NUMBERS if fact.ascending else "and the name of an id"
            return "id", f"whole numbers, all distinct {rows}, {order}"
        if fact.told == fact.distinct:
            return "number", column.arrow
        what = f"whole numbers beyond 2^53, {fact.distinct:,} values {rows}"
        return ("id" if distinct else "category"), what
    if fact.found is not None:
        return fact.found.kind, fact.found.words
    if distinct or fact.distinct > fact.present / 2:
        if fact.words >= _TEXT_WORDS:
            return "text", f"free text, {fact.words:.0f} words an entry on average"
        if distinct:
            return "id", f"text, distinct {rows}"
    return "category", f"text, {fact.distinct:,} levels {rows}"


def as_said(
    names: Sequence[str],
    categorical: Sequence[str] | None = None,
    date: Sequence[str] | None = None,
    id: Sequence[str] | None = None,
    numeric: Sequence[str] | None = None,
) -> dict[str, str]:
    """Kinds by name, from lists of names.

    Parameters
    ----------
    names : sequence of str
        All columns.
    categorical, date, id, numeric : sequences of str, optional

    Returns
    -------
    dict of str to str

    Raises
    ------
    InputError
        A name is no column, or is in two lists.
    """
    said: dict[str, str] = {}
    lists: list[tuple[str, Any]] = [("category", categorical), ("date", date), ("id", id), ("number", numeric)]
    for kind, listed in lists:
        for name in map(str, listed or ()):
            if said.setdefault(name, kind) != kind:
                raise InputError(f"column {name!r} is said to be {said[name]} and {kind}; say one of them")
    if unknown := [name for name in said if name not in names]:
        raise InputError(
            f"columns {unknown[:10]} are not in the table{did_you_mean(unknown, names)}, which has {list(names)[:50]}"
        )
    return said
