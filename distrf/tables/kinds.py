"""What the columns of a table are: numbers, categories, dates, ids; guessed from some of its rows, and said by the user."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..errors import InputError, did_you_mean
from ..store.table_facts import ColumnFacts
from ..store.table_schema import ColumnType, TableSchema, listed
from ..store.text_forms import CODES

#: Why a column is what the user said that it is.
AS_SAID = "as said"
#: The kinds that each base of a column may be said to have. Features are made of all but id, text (free text) and drop.
POSSIBLE = {
    "number": ("number", "category", "code", "date", "id", "drop"),
    "boolean": ("category", "number", "drop"),
    "text": ("category", "number", "code", "date", "id", "drop"),
    "time": ("date", "category", "id", "drop"),
    "clock": ("clock", "category", "drop"),
    "empty": ("drop",),
}
#: Rows that are needed to call a column of distinct values an id, the share of them that is distinct then, and the words
#: of an entry from which on it is free text.
_ID_ROWS, _ID_SHARE, _TEXT_WORDS = 50, 0.99, 4.0
_ID_NAME = re.compile(r"((^|_|\b)(?i:id|uuid|guid|key|index|rownum|row)|[a-z](Id|ID)|(?i:^unnamed: ?0))$")
_SHOWN = 10  # columns of a message
#: How text writes them.
_WRITTEN = {
    "number": "1,234.5, $5 or 12 kg",
    "date": "2020-01-31, 31.1.2020, 1/31/20, 31 Jan 2020, 20200131 or 1580428800 (since 1970)",
}


class ColumnWarning(UserWarning):
    """A column is left out, or may not be what it is taken for."""


@dataclass(frozen=True)
class ColumnKind:
    """What a column is, and why that is thought.

    Parameters
    ----------
    name : str
    kind : str
        "number", "category", "code" (a number, and a category where levels tell the target more), "date", "clock", "id" (a name of
        its row), "text" (free text) or "drop".
    why : str
    caution : str
        What may be wrong with that; else empty.
    column : ColumnType, optional
        What it is to be read as.
    lost : bool
        Whether it is left out by a guess though it may tell something, as ascending numbers with the name of an id do not.
    unread : bool
        Whether the caution says that some values count as missing.
    """

    name: str
    kind: str
    why: str
    caution: str = ""
    column: ColumnType | None = None
    lost: bool = False
    unread: bool = False

    @property
    def used(self) -> bool:
        """Whether features are made of it."""
        return self.kind not in ("id", "text", "drop")


def infer_kinds(
    schema: TableSchema, facts: Sequence[ColumnFacts], said: Mapping[str, str] | None = None, rows: int = 0
) -> list[ColumnKind]:
    """What each column is.

    Parameters
    ----------
    schema : TableSchema
    facts : sequence of ColumnFacts
        Of the columns in their order, from some rows.
    said : mapping of str to str, optional
        The kinds of some columns, by name, in place of a guess.
    rows : int, default 0
        Of the table, if the facts are of some of them.

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
        kind, why, lost = said.get(column.name, ""), AS_SAID, False
        if kind:
            _check_said(column, kind, fact)
        else:
            kind, why, lost = _guess(column, fact, rows)
            if kind == "number" and fact.integers and fact.distinct < _ID_SHARE * fact.present:
                kind, why = (
                    "code",
                    f"whole numbers, {fact.distinct:,} values in {fact.present:,} rows looked at",
                )
        if (found := fact.found) is not None and kind in ("number", "code", "date"):
            base = "time" if found.kind == "date" else "number"
            column, why = replace(column, base=base, form=found.form), found.words
        elif kind in ("category", "id") and column.whole:
            column = replace(column, base="text")  # float64 does not tell those beyond 2^53 apart
        caution = _caution(column, kind, fact)
        unread = bool(caution and (fact.infinite or (fact.found and fact.found.stray)))
        kinds.append(ColumnKind(column.name, kind, why, caution, column, lost, unread))
    if not any(kind.used for kind in kinds):
        kinds = [_as_number(kind) if "ascending" in kind.why and kind.lost else kind for kind in kinds]
    if not any(kind.used for kind in kinds):
        left = listed(f"{kind.name!r}: {kind.why}" for kind in kinds)
        raise InputError(
            f"no column is left to learn from ({left}); give others, or say what they are, kinds={{'NAME': 'category'}}"
        )
    return kinds


def _as_number(kind: ColumnKind) -> ColumnKind:
    """A column of ascending numbers where there is no other one."""
    caution = f"column {kind.name!r} ({kind.why}) is taken for a number; say kinds={{{kind.name!r}: 'date'}} where it is a time"
    column = kind.column and replace(kind.column, base="number")
    return replace(kind, kind="number", caution=caution, column=column, lost=False)


def cautions(kinds: Sequence[ColumnKind]) -> list[str]:
    """What is to be warned of: columns that are lost, and what may be wrong with others."""
    texts = [kind.caution for kind in kinds if kind.caution]
    if more := texts[_SHOWN:]:
        texts = [*texts[:_SHOWN], f"so it is with {len(more)} more columns"]
    if left := [kind for kind in kinds if kind.lost]:
        numbers = any(k.column and (k.column.whole or k.column.base == "number") for k in left)
        ways = "category for levels" + ", number or date" * numbers
        asked = dict.fromkeys([kind.name for kind in left[:60]], "drop")
        texts.append(
            f"left out: {listed(f'{kind.name!r} ({kind.why})' for kind in left)}; take one by its kind ({ways}), or leave out "
            f"without this warning: kinds={asked}"
        )
    return texts


def _caution(column: ColumnType, kind: str, fact: ColumnFacts) -> str:
    if kind in ("number", "code") and fact.infinite:
        return f"column {column.name!r} has infinite numbers in {fact.infinite:,} of {fact.rows:,} rows looked at: they count as missing"
    if kind == "category" and fact.rounded:
        return f"column {column.name!r} has floating-point numbers beyond 2^53: integers that were rounded to one are one level"
    if fact.found is None or not column.form or not (fact.found.stray or fact.found.doubt):
        return ""
    stray = f"not {fact.found.stray[:60]!r}: such texts count as missing" if fact.found.stray else ""
    doubt = "" if kind == "code" and fact.found.doubt == CODES else fact.found.doubt
    doubts = " and ".join(filter(None, [stray, doubt]))
    otherwise = f"say kinds={ {column.name: 'category'} } for levels"
    if doubt:
        numbers = f"{otherwise}, 'number' for numbers"
        otherwise = numbers if doubt == CODES else f"write it otherwise, or {otherwise}"
    return f"column {column.name!r} is {fact.found.words}, but {doubts}; {otherwise}" if doubts else ""


def _check_said(column: ColumnType, kind: str, fact: ColumnFacts) -> None:
    if kind not in POSSIBLE[column.base]:
        raise InputError(
            f"column {column.name!r} ({column.arrow}) can be {', '.join(POSSIBLE[column.base])}; received {kind!r}"
        )
    written = _WRITTEN.get({"code": "number"}.get(kind, kind))
    if fact.found is None and written and column.base in ("text", {"date": "number"}.get(kind)):
        raise InputError(
            f"a {kind} is written such as {written}; half of the values of column {column.name!r} are not; write them so, or "
            "leave its kind out"
        )


def _guess(column: ColumnType, fact: ColumnFacts, all_rows: int) -> tuple[str, str, bool]:
    """The kind of a column, why, and whether it is lost so."""
    rows = f"in {fact.present:,} rows looked at"
    if column.base == "empty" or fact.present == 0:
        unseen = fact.rows < all_rows and column.base != "empty"
        return "drop", f"no value in {fact.rows:,} rows looked at", unseen
    if column.base == "boolean":
        return "category", "booleans", False
    if column.arrow.startswith("dictionary") and column.base != "text":
        return "category", f"{column.arrow}, {fact.distinct:,} levels {rows}", False
    if kind := {"time": "date", "clock": "clock"}.get(column.base):
        return kind, column.arrow, False
    distinct = fact.distinct >= _ID_SHARE * fact.present and fact.present >= _ID_ROWS
    named = _ID_NAME.search(column.name) is not None
    if distinct and fact.whole and (fact.ascending or named):
        order = "in ascending order" if fact.ascending else "and the name of an id"
        return "id", f"whole numbers, all distinct {rows}, {order}", not (fact.ascending and named)
    if column.base == "number":
        if fact.told == fact.distinct:
            return "number", column.arrow, False
        what = f"whole numbers beyond 2^53, {fact.distinct:,} values {rows}"
        return ("id" if distinct else "category"), what, distinct
    if fact.found is not None and not (fact.whole and column.arrow.startswith("dictionary")):
        return fact.found.kind, fact.found.words, False
    if fact.words >= _TEXT_WORDS and (distinct or fact.distinct > fact.present / 2):
        return "text", f"free text, {fact.words:.0f} words an entry on average", True
    if distinct:
        return "id", f"text, distinct {rows}", True
    return "category", f"text, {fact.distinct:,} levels {rows}", False
