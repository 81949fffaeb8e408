"""Facts of the columns of some rows of an Arrow table, from which it is guessed what the columns are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..maps.table_missing import UNREAD, is_missing
from .table_codes import coded
from .table_schema import TableSchema, decoded
from .text_forms import CODES, PLAIN, Found, find_form

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
        Whether they are whole numbers, without units in text, and were not read as floating-point ones.
    integers : bool
        Whether they are whole numbers, read as whatever.
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
    """

    rows: int
    present: int
    distinct: int
    whole: bool = False
    integers: bool = False
    ascending: bool = False
    told: int = 0
    infinite: int = 0
    rounded: bool = False
    words: float = 0.0
    found: Found | None = None


def column_facts(
    table: pa.Table,
    schema: TableSchema,
    said: Mapping[str, str] | None = None,
    guessed: bool = False,
) -> list[ColumnFacts]:
    """Facts of the columns of `schema`, in their order.

    Parameters
    ----------
    table : pa.Table
        Some rows, in the order of the data.
    schema : TableSchema
    said : mapping of str to str, optional
        What columns are said to be.
    guessed : bool
        Whether types are guessed, as of CSV: text of whole numbers is then no text on purpose, but has others among them.
    """
    X, facts = coded(table, schema), []
    for x, column in zip(X.T, schema.columns, strict=True):
        raw, kind = decoded(table.column(column.name)), (said or {}).get(column.name)
        found, number = None, column.base == "number"
        text = column.base == "text" and not column.digits
        if (number and kind == "date") or (text and kind in (None, "number", "date")):
            found = find_form(raw.cast(pa.large_string()), kind)
        if found is not None and found.doubt == CODES and (guessed or kind == "number"):
            found = replace(found, doubt="")
        if text and found is not None and found.kind == "number":
            read = replace(column, base="number", form=found.form)
            x = coded(table.select([column.name]), TableSchema((read,)))[:, 0]
        values = x[~is_missing(x)]
        # float64 does not tell those beyond 2^53 apart
        exact = raw.drop_null().to_numpy() if column.whole and not text else values
        whole = column.whole
        if text:
            whole = found is not None and found.words == PLAIN and bool((values == np.floor(values)).all())
        integers = (not text or found is not None) and bool((values == np.floor(values)).all())
        facts.append(
            ColumnFacts(
                rows=len(x), present=len(values), distinct=len(np.unique(exact)), told=len(np.unique(values)), whole=whole, integers=integers,
                ascending=whole and bool((exact[1:] > exact[:-1]).all()), infinite=number * int((x == UNREAD).sum()),
                rounded=number and not whole and bool((np.abs(values) > 2**53).any()), words=_words(raw) if text else 0.0, found=found,
            )
        )  # fmt: skip
    return facts


def _words(texts: pa.ChunkedArray) -> float:
    plain = texts.slice(0, _TEXTS).cast(pa.large_string()).drop_null()
    if not len(plain):
        return 0.0
    return float(np.mean(pc.count_substring_regex(plain, r"\S+").to_numpy()))
