"""Facts of the columns of some rows of an Arrow table, from which it is guessed what the columns are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InputError
from ..maps.table_missing import is_missing
from .stray_numbers import stray_number
from .table_codes import coded, text_seconds
from .table_schema import TableSchema

#: Texts of which it is asked how many words they have.
_TEXTS = 1000


@dataclass(frozen=True)
class ColumnFacts:
    """What some rows say of a column.

    Parameters
    ----------
    rows : int
        Rows that were looked at.
    present : int
        Those that have a value.
    distinct : int
        Distinct values among them.
    whole : bool
        Whether they are whole numbers, and were not read as floating-point ones.
    ascending : bool
        Whether each is larger than the one before.
    dates : bool
        Whether they are text, and all of it reads as dates.
    words : float
        Mean number of words of a text.
    stray : str
        A text that is no number, where nearly all are, as messages show it; else empty.
    """

    rows: int
    present: int
    distinct: int
    whole: bool = False
    ascending: bool = False
    dates: bool = False
    words: float = 0.0
    stray: str = ""


def column_facts(
    table: pa.Table, schema: TableSchema, strays: Mapping[str, str] | None = None
) -> list[ColumnFacts]:
    """Facts of the columns of `schema`, in their order.

    Parameters
    ----------
    table : pa.Table
        Some rows, in the order of the data.
    schema : TableSchema
    strays : mapping of str to str, optional
        The stray texts of some columns, by name, where more rows than these tell them.
    """
    X = coded(table, schema)
    facts = []
    for x, column in zip(X.T, schema.columns, strict=True):
        values = x[~is_missing(x)]
        distinct = len(np.unique(values))
        if column.base == "text":
            texts = table.column(column.name)
            dates = len(values) > 0 and _all_dates(texts, column.name)
            stray = (strays or {}).get(column.name) or _stray(texts)
            facts.append(
                ColumnFacts(len(x), len(values), distinct, dates=dates, words=_words(texts), stray=stray)
            )
        else:
            whole = "int" in column.arrow and column.base == "number"
            ascending = bool((np.diff(values) > 0).all())
            facts.append(ColumnFacts(len(x), len(values), distinct, whole, ascending))
    return facts


def _all_dates(texts: pa.ChunkedArray, name: str) -> bool:
    try:
        text_seconds(texts, name)
    except InputError:
        return False
    return True


def _stray(texts: pa.ChunkedArray) -> str:
    stray = stray_number(texts)
    return "" if stray is None else repr(stray[:60])


def _words(texts: pa.ChunkedArray) -> float:
    plain = texts.slice(0, _TEXTS).cast(pa.large_string()).drop_null()
    if not len(plain):
        return 0.0
    return float(np.mean(pc.count_substring_regex(plain, r"\S+").to_numpy()))
