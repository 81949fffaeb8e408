"""Names of the features of a table: the column, and what of it a feature is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..maps.table_columns import (
    Cycle,
    Encoding,
    Hashed,
    Indicator,
    OneHot,
    PiecewiseLinear,
    Scores,
    TargetMeans,
    Units,
)


def feature_names(columns: Sequence[str], encodings: Sequence[Encoding]) -> np.ndarray:
    """The name of every feature.

    Parameters
    ----------
    columns : sequence of str
        Names of the columns.
    encodings : sequence of Encoding

    Returns
    -------
    object array of str, of shape (D,)
    """
    names: list[str] = []
    for one in encodings:
        names += [f"{columns[one.column]}{suffix}" for suffix in _suffixes(one)]
    return np.array(names, dtype=object)


def _suffixes(one: Encoding) -> list[str]:
    if isinstance(one, (Units, Scores)):
        return [""]
    if isinstance(one, Indicator):
        return ["_missing"]
    if isinstance(one, PiecewiseLinear):
        return [f"_bin{t}" for t in range(one.width)]
    if isinstance(one, OneHot):
        return [*(f"_level{k}" for k in range(len(one.codes))), "_other", "_missing"]
    if isinstance(one, Hashed):
        return [*(f"_hash{k}" for k in range(one.size)), "_missing"]
    if isinstance(one, TargetMeans):
        return ["_mean"] if one.width == 1 else [f"_mean{c}" for c in range(one.width)]
    assert isinstance(one, Cycle)
    return [f"_{one.period}_sin", f"_{one.period}_cos"]
