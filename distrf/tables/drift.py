"""What rows have that the rows of the training had not: levels, missing values, numbers beyond their range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..maps.table_columns import Encoding, OneHot, TargetMeans
from ..maps.table_missing import MISSING, UNREAD, is_missing

#: Share of the rows from which on it is said.
_SHARE = 0.01


class DriftWarning(UserWarning):
    """Rows to predict that differ from those of the training: unseen levels, missing values, numbers beyond their range."""


def find_drift(
    rows: np.ndarray, columns: Sequence[Mapping[str, Any]], encodings: Sequence[Encoding]
) -> list[str]:
    """How rows differ from those that an encoder was fitted to.

    Parameters
    ----------
    rows : array of shape (n, d)
        Coded rows.
    columns : sequence of mappings
        `TableEncoder.columns_`.
    encodings : sequence of Encoding
        Those of the map.

    Returns
    -------
    list of str
        A sentence for each column of which at least 1 % of the rows differ.
    """
    levels = {one.column: one.codes for one in encodings if isinstance(one, (OneHot, TargetMeans))}
    said = []
    for j in sorted({one.column for one in encodings}):
        x, known = rows[:, j], columns[j]
        missing, unread = is_missing(x), x == UNREAD
        more = missing.mean() > 3 * known["missing"]
        found = [
            ((x == MISSING) & more, f"is missing in {{}}, and was in {100 * known['missing']:.2g} %"),
            (unread & (more or not known["unread"]), "is infinite, or no number, in {}"),
        ]
        if j in levels and known["exact"]:
            found.append((~missing & ~np.isin(x, levels[j]), "has a level that was never seen in {}"))
        elif known["low"] is not None:
            beyond = ~missing & ((x < known["low"]) | (x > known["high"]))
            shown = (lambda t: np.datetime64(int(t), "s")) if known["kind"] == "date" else "{:g}".format
            found.append((beyond, f"is beyond {shown(known['low'])} ... {shown(known['high'])} in {{}}"))
        for differs, words in found:
            if len(x) and differs.mean() >= _SHARE:
                share = f"{100 * differs.mean():.3g} % of {len(x):,} rows looked at"
                said.append(f"{known['name']!r} {words.format(share)}")
    return said
