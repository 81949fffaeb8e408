"""Cells that make text of a column of numbers."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

#: The column is one of numbers if so many distinct texts, and this share of them, read as numbers.
_FEWEST, _SHARE = 10, 0.9
_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?\s*$"
_WITH_COMMA = r"^\s*[+-]?\d+,\d+\s*$"


def stray_number(texts: pa.Array | pa.ChunkedArray | list[str]) -> str | None:
    """The first text that is no number, where nearly all are: numbers, or numbers with a decimal comma.

    Parameters
    ----------
    texts : pa.Array or pa.ChunkedArray of text, or list of str
        Values of a column, with nulls.

    Returns
    -------
    str, or None where fewer than ten distinct texts, or than nine in ten of them, read as numbers, or all do
    """
    if isinstance(texts, list):
        texts = pa.array([text.encode(errors="replace").decode() for text in texts], pa.large_string())
    distinct = pc.unique(texts).cast(pa.large_string()).drop_null()
    plain = pc.match_substring_regex(distinct, _NUMBER)
    numbers = pc.sum(pc.or_(plain, pc.match_substring_regex(distinct, _WITH_COMMA))).as_py() or 0
    if numbers < max(_FEWEST, _SHARE * len(distinct)) or pc.all(plain).as_py():
        return None
    return distinct.filter(pc.invert(plain))[0].as_py()
