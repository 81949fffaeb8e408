"""Coded rows of a table as rows of numbers, one tile of rows at a time.

The encodings are those of `distrf.maps.table_columns`, which derives the formulas and lays out their `numbers`. Each writes its
features into slots: as many as can differ from zero in one row, with the feature that a slot is. So the same loops serve
arrays and CSR matrices. Every row is encoded by itself, so that its features do not depend on its block.
"""

from __future__ import annotations

import math

import numpy as np

from .jit import jit

#: Features end at +-2^20. In units of the standard deviation no row of a sample of n is more than sqrt(n) from the mean, so
#: the bound touches no row that the units were learned from; and float32 holds the squares and products of such features.
LIMIT = 2.0**20
#: Bin widths that piecewise-linear features go on beyond the outer edges.
REACH = 3.0
#: Among so many ascending numbers the place of one is counted, eight at a time, in a fraction of the time of a search.
_COUNTED = 128
#: Dates end at +-2^43 seconds from 1970, some 278,000 years.
_LAST_DATE = 2.0**43
_DAY = 86400


@jit
def _feature(value: float) -> np.float32:
    return np.float32(min(max(value, -LIMIT), LIMIT))


@jit
def _counted(x: float, numbers: np.ndarray) -> int:
    """The place of the last of some ascending numbers that is at most x; 0 if there is none."""
    count = 0
    for j in range(numbers.size):
        count += int(numbers[j] <= x)
    return max(count - 1, 0)


@jit
def _place(x: float, codes: np.ndarray) -> int:
    """The place of x in ascending codes; their number where it is none of them."""
    k = 0
    if codes.size <= _COUNTED:
        k = _counted(x, codes)
    else:
        count = codes.size
        while count > 1:
            half = count // 2
            k += half * int(codes[k + half] <= x)
            count -= half
    return k if codes[k] == x else codes.size


@jit
def _bent(v: float) -> float:
    """arcsinh v, to the last digits of 1: in a quarter of the time of the C library's."""
    size = min(abs(v), 8e307)  # twice that is finite
    return math.copysign(math.log(size + (math.sqrt(size * size + 1.0) if size < 1e8 else size)), v)


@jit
def _units(x: np.ndarray, given: np.ndarray, missing: float, values: np.ndarray) -> None:
    factor, replacement, middle, spread, bent = given[0], given[1], given[2], given[3], given[4] != 0
    for i in range(x.size):
        v = ((replacement if x[i] == missing else x[i]) - middle) / spread
        values[i, 0] = _feature(factor * (_bent(v) if bent else v))


@jit
def _scores(x: np.ndarray, given: np.ndarray, missing: float, values: np.ndarray) -> None:
    m = (given.size - 2) // 2
    e, scores = given[2 : 2 + m], given[2 + m :]
    for i in range(x.size):
        v = min(max(given[1] if x[i] == missing else x[i], e[0]), e[m - 1])
        k = min(_counted(v, e), m - 2)
        share = (v - e[k]) / (e[k + 1] - e[k])
        values[i, 0] = _feature(given[0] * (scores[k] + share * (scores[k + 1] - scores[k])))


@jit
def _piecewise(
    x: np.ndarray, given: np.ndarray, missing: float, values: np.ndarray, slot: int, stop: int
) -> None:
    e, last, full = given[2:], stop - slot - 1, _feature(given[0])
    for i in range(x.size):
        v = given[1] if x[i] == missing else x[i]
        k = min(_counted(v, e), last)
        share = (v - e[k]) / (e[k + 1] - e[k])
        share = min(max(share, -REACH if k == 0 else 0.0), 1.0 + REACH if k == last else 1.0)
        row = values[i, slot:stop]  # contiguous, so that eight features are written at once
        for t in range(row.size):
            row[t] = full if t < k else np.float32(0)
        row[k] = _feature(given[0] * share)


@jit
def _missing(x: np.ndarray, given: np.ndarray, missing: float, values: np.ndarray) -> None:
    here, there = _feature(given[0]), np.float32(0)
    for i in range(x.size):
        values[i, 0] = here if x[i] == missing else there


@jit
def _one_hot(
    x: np.ndarray, given: np.ndarray, missing: float, first: int, values: np.ndarray, places: np.ndarray
) -> None:
    codes, value = given[1:], _feature(given[0])
    for i in range(x.size):
        values[i, 0] = value
        if x[i] == missing:
            places[i, 0] = first + codes.size + 1
        else:
            places[i, 0] = first + _place(x[i], codes)


@jit
def _looked_up(x: np.ndarray, given: np.ndarray, folds: np.ndarray, values: np.ndarray) -> None:
    outputs, levels = np.int64(given[1]), np.int64(given[2])
    codes, means = given[3 : 3 + levels], given[3 + levels :]
    for i in range(x.size):
        row = folds[i] * (levels + 1) + _place(x[i], codes)
        for c in range(outputs):
            values[i, c] = _feature(given[0] * means[row * outputs + c])


@jit
def _turn(x: float, period: int) -> float:
    """Where a date lies in its day (period 0), in its week (1, whole days) or year (2, whole days), from 0 to 1."""
    seconds = min(max(x, -_LAST_DATE), _LAST_DATE)
    days = np.int64(math.floor(seconds / _DAY))
    if period == 0:
        return (seconds - np.float64(days) * _DAY) / _DAY
    if period == 1:
        return ((days + 3) % 7) / 7.0
    # The calendar by integers, in years from March to February (Hinnant, "chrono-compatible low-level date algorithms").
    days += 719468
    era = days // 146097
    day = days - era * 146097
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day -= 365 * year + year // 4 - year // 100
    year += 400 * era + (1 if day >= 306 else 0)
    leap = 1 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 0
    return (day - 306 if day >= 306 else day + 59 + leap) / (365.0 + leap)


@jit
def _cycle(x: np.ndarray, given: np.ndarray, missing: float, values: np.ndarray) -> None:
    for i in range(x.size):
        angle = 2.0 * math.pi * _turn(x[i], int(given[1]))
        here = 0.0 if x[i] == missing else given[0]
        values[i, 0] = _feature(here * math.sin(angle))
        values[i, 1] = _feature(here * math.cos(angle))


@jit
def fill_slots(
    X: np.ndarray, folds: np.ndarray, parts: np.ndarray, numbers: np.ndarray, missing: float,
    values: np.ndarray, places: np.ndarray,
) -> None:  # fmt: skip
    """Write the features of coded rows into their slots.

    Parameters
    ----------
    X : array of shape (n, d), float64, finite
    folds : array of shape (n,), int8: the fold whose target means a row takes
    parts : array of shape (P, 6), int64: of each encoding its kind, its column, its first feature and first slot, and where
        its numbers start and stop
    numbers : array of float64
    missing : the number that stands for a missing value
    values : array of shape (n, slots), float32, C-contiguous, overwritten
    places : array of shape (n, slots) of integers: the feature of each slot. Those of one-hot parts are overwritten, of
        others the caller has filled them.
    """
    for p in range(parts.shape[0]):
        kind, first, slot = parts[p, 0], parts[p, 2], parts[p, 3]
        stop = parts[p + 1, 3] if p + 1 < parts.shape[0] else values.shape[1]
        x, given = X[:, parts[p, 1]], numbers[parts[p, 4] : parts[p, 5]]
        out, where = values[:, slot:stop], places[:, slot:stop]
        if kind == 0:
            _units(x, given, missing, out)
        elif kind == 1:
            _scores(x, given, missing, out)
        elif kind == 2:
            _piecewise(x, given, missing, values, slot, stop)
        elif kind == 3:
            _missing(x, given, missing, out)
        elif kind == 4:
            _one_hot(x, given, missing, first, out, where)
        elif kind == 5:
            _looked_up(x, given, folds, out)
        else:
            _cycle(x, given, missing, out)


@jit
def spread_slots(values: np.ndarray, places: np.ndarray, out: np.ndarray) -> None:
    """Write the features in slots into rows that are zero elsewhere.

    Parameters
    ----------
    values, places : arrays of shape (n, slots), as `fill_slots` fills them
    out : array of shape (n, D), overwritten
    """
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = 0
        for s in range(values.shape[1]):
            out[i, places[i, s]] = values[i, s]


@jit
def append_slots(
    values: np.ndarray, places: np.ndarray, data: np.ndarray, indices: np.ndarray, indptr: np.ndarray
) -> None:
    """Append the features in slots that are not zero to the arrays of a CSR matrix.

    Parameters
    ----------
    values, places : arrays of shape (n, slots), as `fill_slots` fills them
    data, indices : arrays with room for the entries; the first indptr[0] are filled
    indptr : array of shape (n + 1,); all but the first are overwritten
    """
    at = indptr[0]
    for i in range(values.shape[0]):
        for s in range(values.shape[1]):
            if values[i, s] != 0:
                data[at], indices[at] = values[i, s], places[i, s]
                at += 1
        indptr[i + 1] = at
