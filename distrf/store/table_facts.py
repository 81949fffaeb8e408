"""Facts of the columns of some rows of an Arrow table, from which it is guessed what the columns are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..maps.table_missing import is_missing
from .table_codes import coded
from .table_schema import TableSchema, decoded
from .text_forms import Found, find_form

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
    told : int
        Distinct values that are apart as float64.
    infinite : int
        Rows with an infinite number, or with one beyond 1e300 in size.
    rounded : bool
        Whether floating-point numbers beyond 2^53 are among them, which may have been other integers.
    words : float
        Mean number of words of a text.
    found : Found, optional
        The form in which the text writes numbers.
    stray : str
        A text that is none of that form, as messages show it; else empty.
    """

    rows: int
    present: int
    distinct: int
    whole: bool = False
    ascending: bool = False
    told: int = 0
    infinite: int = 0
    rounded: bool = False
    words: float = 0.0
    found: Found | None = None
    stray: str = ""


def column_facts(
    table: pa.Table,
    schema: TableSchema,
    strays: Mapping[str, str] | None = None,
    said: Mapping[str, str] | None = None,
) -> list[ColumnFacts]:
    """Facts of the columns of `schema`, in their order.

    Parameters
    ----------
    table : pa.Table
        Some rows, in the order of the data.
    schema : TableSchema
    strays : mapping of str to str, optional
        A text that is no number of some columns of text, by name, where more rows than these tell that nearly all are.
    said : mapping of str to str, optional
        What columns are said to be.
    """
    X, facts = coded(table, schema), []
    for x, column in zip(X.T, schema.columns, strict=True):
        values, raw = x[~is_missing(x)], table.column(column.name)
        told = len(np.unique(values))
        if column.base == "text" and not column.digits:
            kind, stray = (said or {}).get(column.name), (strays or {}).get(column.name, "")
            found = find_form(raw, kind, bool(stray)) if kind in (None, "number", "date") else None
            if found is not None and found.stray and not stray:
                stray = repr(found.stray[:60])
            fact = ColumnFacts(
                len(x), len(values), told, words=_words(raw), found=found, stray=stray if found else ""
            )
        else:
            plain = decoded(raw)
            # Beyond 2^53 float64 cannot tell them apart.
            exact = plain.drop_null().to_numpy() if column.whole else values
            ascending = bool((exact[1:] > exact[:-1]).all())
            nan = int(pc.sum(pc.is_nan(plain)).as_py() or 0) if pa.types.is_floating(plain.type) else 0
            infinite = len(x) - len(values) - raw.null_count - nan if column.base == "number" else 0
            distinct = len(np.unique(exact))
            rounded = column.base == "number" and not column.whole and bool((np.abs(values) > 2**53).any())
            fact = ColumnFacts(len(x), len(values), distinct, column.whole, ascending, told, infinite, rounded)
        facts.append(fact)
    return facts


def _words(texts: pa.ChunkedArray) -> float:
    plain = texts.slice(0, _TEXTS).cast(pa.large_string()).drop_null()
    if not len(plain):
        return 0.0
    return float(np.mean(pc.count_substring_regex(plain, r"\S+").to_numpy()))
