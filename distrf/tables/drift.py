"""What rows have that the rows of the training had not: levels, missing values, numbers beyond their range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..maps.table_columns import Encoding, OneHot, TargetMeans
from ..maps.table_missing import is_missing

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
        present = ~is_missing(x)
        if _often(~present) and (~present).mean() > 3 * known["missing"]:
            was = f"was in {100 * known['missing']:.2g} %" if known["missing"] else "never was"
            said.append(f"{known['name']!r} is missing in {_share(~present)}, and {was}")
        if j in levels:
            new = present & ~np.isin(x, levels[j])
            if known["exact"] and _often(new):
                said.append(f"{known['name']!r} has a level that was never seen in {_share(new)}")
        elif known["low"] is not None:
            beyond = present & ((x < known["low"]) | (x > known["high"]))
            if _often(beyond):
                said.append(
                    f"{known['name']!r} is beyond {known['low']:g} ... {known['high']:g} in {_share(beyond)}"
                )
    return said


def _often(rows: np.ndarray) -> bool:
    return bool(len(rows)) and float(rows.mean()) >= _SHARE


def _share(rows: np.ndarray) -> str:
    return f"{100 * rows.mean():.3g} % of {len(rows):,} rows looked at"
