"""Encodings of the widths that a table may get, before its rows are read: for plans."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..maps.table_columns import Encoding, Indicator, OneHot, PiecewiseLinear, Units, date_parts
from .encodings import Choices


def planned_encodings(kinds: Sequence[str], choices: Choices) -> list[Encoding]:
    """The most features that columns of these kinds become, but for categories that are hashed.

    Parameters
    ----------
    kinds : sequence of str
        One for each column.
    choices : Choices

    Returns
    -------
    list of Encoding
        Their numbers mean nothing.
    """
    made: list[Encoding] = []
    for j, kind in enumerate(kinds):
        if kind == "number":
            if choices.numbers != "piecewise":
                made.append(Units(j, 1.0, 0.0, 0.0, 1.0))
            if choices.numbers in ("piecewise", "both"):
                made.append(PiecewiseLinear(j, 1.0, 0.0, np.arange(choices.n_bins + 1.0)))
            made.append(Indicator(j, 1.0))
        elif kind in ("date", "clock"):
            made += [*date_parts(j, 0.0, 1.0, 1e9, True), Indicator(j, 1.0)]
        elif kind == "category":
            made.append(OneHot(j, 1.0, np.arange(float(choices.max_levels))))
    return made or [Units(0, 1.0, 0.0, 0.0, 1.0)]
