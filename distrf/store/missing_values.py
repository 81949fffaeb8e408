"""Fixed numbers that replace missing values of X."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Real

import numpy as np

from ..errors import InputError
from ..randomness import row_words

SAMPLE_ROWS = 100_000


def resolve(
    rule: str | float | Sequence[float],
    blocks: Iterable[tuple[int, np.ndarray]],
    n: int,
    names: Sequence[object],
) -> tuple[float, ...]:
    """The numbers that an imputation rule stands for.

    Parameters
    ----------
    rule : "mean", "median", "zero", a number, or a sequence of numbers
        Mean takes one pass in float64. Median is exact up to 100,000 rows, and otherwise that of a seeded sample of about
        as many rows, whatever the blocks. Zero and numbers read nothing. A sequence has one number for each column: what
        an earlier call resolved, for rows that come later.
    blocks : iterable of (int, array of shape (m, d))
        First row, and float rows with NaN for what is missing.
    n : int
        All rows.
    names : sequence of length d
        What messages call the columns.

    Returns
    -------
    tuple of float
        One for each column.

    Raises
    ------
    InputError
        There is no such rule, or a column has no finite value to take it from.
    """
    if isinstance(rule, Sequence) and not isinstance(rule, str):
        if len(rule) != len(names):
            raise InputError(
                f"impute= as a sequence has one number a column; received {len(rule)} for {len(names)} columns"
            )
        return tuple(float(value) for value in rule)
    if isinstance(rule, Real) and not isinstance(rule, bool):
        if not np.isfinite(float(rule)):
            raise InputError(f"impute= needs a finite number; received {rule!r}")
        return (float(rule),) * len(names)
    if rule == "zero":
        return (0.0,) * len(names)
    if rule == "mean":
        values = _means(blocks, len(names))
    elif rule == "median":
        values = _medians(blocks, n)
    else:
        raise InputError(f'impute= is "mean", "median", "zero" or a number; received {rule!r}')
    empty = [name for name, value in zip(names, values, strict=True) if not np.isfinite(value)]
    if empty:
        raise InputError(
            f"{rule} needs finite values in every column; columns {empty[:10]} have none or hold infinities; "
            "leave them out with columns=, or impute a number"
        )
    return tuple(float(value) for value in values)


def _means(blocks: Iterable[tuple[int, np.ndarray]], d: int) -> np.ndarray:
    sums, counts = np.zeros(d), np.zeros(d, np.int64)
    for _, block in blocks:
        missing = np.isnan(block)
        sums += np.where(missing, 0, block).sum(axis=0, dtype=np.float64)
        counts += (~missing).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return sums / counts


def _medians(blocks: Iterable[tuple[int, np.ndarray]], n: int) -> np.ndarray:
    share = min(1.0, SAMPLE_ROWS / n)
    kept = []
    for start, block in blocks:
        if share < 1:
            words = row_words(0, start, start + block.shape[0])
            block = block[words < np.uint64(int(share * 2**64))]
        kept.append(block.astype(np.float64))
    sample = np.concatenate(kept)
    present = (column[~np.isnan(column)] for column in sample.T)
    return np.array([np.median(column) if column.size else np.nan for column in present])
