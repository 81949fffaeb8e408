"""What the columns of a table are: numbers, categories, dates, ids; guessed from some of its rows, and said by the user."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InputError, did_you_mean
from ..store.table_facts import ColumnFacts
from ..store.table_schema import ColumnType, TableSchema

#: What a column may be, and what the words mean. "text" is refused: it needs an encoding of its own.
KINDS = {
    "number": "a quantity",
    "category": "a level of a few or of many: text, codes, booleans",
    "date": "a date or a timestamp",
    "clock": "a time of day",
    "id": "a name of its row, which is left out",
    "drop": "left out",
}
#: Why a column is what the user said that it is.
AS_SAID = "as said"
#: The kinds that each base of a column may have.
POSSIBLE = {
    "number": ("number", "category", "id", "drop"),
    "boolean": ("category", "number", "drop"),
    "text": ("category", "date", "id", "drop"),
    "time": ("date", "category", "id", "drop"),
    "clock": ("clock", "category", "drop"),
    "duration": ("number", "category", "drop"),
    "empty": ("drop",),
}
#: Rows that are needed to call a column of distinct values an id, the share of them that is distinct then, and the words
#: of an entry from which on it is free text.
_ID_ROWS, _ID_SHARE, _TEXT_WORDS = 50, 0.99, 4.0
_ID_NAME = re.compile(r"((^|_|\b)(?i:id|uuid|guid|key|index|rownum|row)|[a-z](Id|ID)|(?i:^unnamed: ?\d+))$")


class ColumnWarning(UserWarning):
    """A column may not be what it is taken for."""


@dataclass(frozen=True)
class ColumnKind:
    """What a column is, and why that is thought.

    Parameters
    ----------
    name : str
    kind : str
        A key of `KINDS`.
    why : str
    stray : str
        A text that is no number, where nearly all of a column are that is not said to be text; else empty.
    """

    name: str
    kind: str
    why: str
    stray: str = ""

    @property
    def used(self) -> bool:
        """Whether features are made of it."""
        return self.kind not in ("id", "drop")


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
        There is no such column or kind, a column cannot be of it, or columns hold free text: all are named.
    """
    said = dict(said or {})
    if unknown := [name for name in said if name not in schema.names]:
        raise InputError(
            f"columns are said by name; received {unknown[:10]}{did_you_mean(unknown, schema.names)}; the table has {schema.names[:50]}"
        )
    kinds: list[ColumnKind] = []
    texts: dict[str, str] = {}
    for column, fact in zip(schema.columns, facts, strict=True):
        if column.name in said:
            kinds.append(_said_kind(column, said[column.name], fact))
            continue
        kind, why = _guess(column, fact)
        if kind == "text":
            texts[column.name] = why
        stray = fact.stray if kind in ("id", "category") else ""
        why = f"{why}; nearly all read as numbers, but not {stray}" if stray else why
        kinds.append(ColumnKind(column.name, kind, why, stray))
    if texts:
        raise InputError(_free_text(texts))
    if not any(kind.used for kind in kinds):
        left = ", ".join(f"{kind.name!r}: {kind.why}" for kind in kinds[:10])
        raise InputError(f"no column is left to learn from ({left}); say what they are, or give others")
    return kinds


def cautions(kinds: Sequence[ColumnKind]) -> list[str]:
    """What is to be warned of: columns of numbers that a few cells make text, ten at most."""
    doubtful = [kind for kind in kinds if kind.stray]
    texts = []
    for kind in doubtful[:10]:
        taken = "taken for an id and left out" if kind.kind == "id" else "taken for a category"
        texts.append(
            f"nearly all values of column {kind.name!r} read as numbers, but not {kind.stray}: so it is text, and {taken}; "
            f"mend such cells (empty ones are missing values), or say what it is: exclude=[{kind.name!r}] or "
            f"categorical=[{kind.name!r}]"
        )
    if more := doubtful[10:]:
        texts.append(f"so it is with {len(more)} more columns: {[kind.name for kind in more[:50]]}")
    return texts


def _free_text(texts: Mapping[str, str]) -> str:
    """The message for columns of free text: {name: how long their entries are}."""
    names = list(texts)[:10]
    more = f" and {len(texts) - len(names)} more" if len(texts) > len(names) else ""
    are, them = ("columns {} are", "them") if len(texts) > 1 else ("column {} is", "it")
    listed = ", ".join(f"{name!r} ({texts[name]})" for name in names) + more
    return (
        f"{are.format(listed)} free text, from which no features are made; leave {them} out with exclude={names}, make "
        f"numbers of {them} first (docs/guide/tables.md, Free text), or take {them} for categories with "
        f"categorical={names}"
    )


def _said_kind(column: ColumnType, kind: str, fact: ColumnFacts) -> ColumnKind:
    possible = POSSIBLE[column.base]
    if kind == "number" and fact.stray:
        raise InputError(
            f"a column of numbers holds numbers alone; column {column.name!r} has {fact.stray}; mend such cells (empty ones "
            "are missing values), or do not name it in numeric="
        )
    if kind not in possible:
        raise InputError(
            f"column {column.name!r} ({column.arrow}) can be {', '.join(possible)}; received {kind!r}"
        )
    if kind == "date" and column.base == "text" and not fact.dates:
        raise InputError(
            f"dates are written as 2020-01-31 or 2020-01-31T12:30:00; column {column.name!r} is not; write it so, or "
            "leave it out of the dates"
        )
    return ColumnKind(column.name, kind, AS_SAID)


def _guess(column: ColumnType, fact: ColumnFacts) -> tuple[str, str]:
    """The kind of a column, or "text"; and why."""
    if column.base == "empty" or fact.present == 0:
        return "drop", f"no value in {fact.rows:,} rows looked at"
    if column.base == "boolean":
        return "category", "booleans"
    if column.base in ("time", "clock", "duration"):
        return {"time": "date", "clock": "clock", "duration": "number"}[column.base], column.arrow
    distinct = fact.distinct >= _ID_SHARE * fact.present and fact.present >= _ID_ROWS
    if column.base == "number":
        if distinct and fact.whole and (fact.ascending or _ID_NAME.search(column.name)):
            order = "in ascending order" if fact.ascending else "and the name of an id"
            return "id", f"whole numbers, all distinct in {fact.present:,} rows looked at, {order}"
        return "number", column.arrow
    if fact.dates:
        return "date", f"text that reads as dates in {fact.present:,} rows looked at"
    if distinct or fact.distinct > fact.present / 2:
        if fact.words >= _TEXT_WORDS:
            return "text", f"{fact.words:.0f} words an entry on average"
        if distinct:
            return "id", f"text, distinct in {fact.present:,} rows looked at"
    return "category", f"text, {fact.distinct:,} levels in {fact.present:,} rows looked at"


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
        for name in listed or ():
            if said.setdefault(name, kind) != kind:
                raise InputError(f"column {name!r} is said to be {said[name]} and {kind}; say one of them")
    if unknown := [name for name in said if name not in names]:
        raise InputError(
            f"columns {unknown[:10]} are not in the table{did_you_mean(unknown, names)}, which has {list(names)[:50]}"
        )
    return said
