"""Differences of two means, with standard errors; nan where one seed cannot tell, and nan is beyond nothing."""

from __future__ import annotations

import math

from benchmarks.benchmark import Record


def error_of(record: Record, rows: int | None = None) -> float:
    """Standard error of a mean over seeds; of one seed, that of its share of so many test rows, in percent, or nan."""
    if record["standard_error"] is not None:
        return float(record["standard_error"])
    if rows is None:
        return math.nan
    share = record["mean"] / 100
    return 100 * math.sqrt(max(share * (1 - share), 0.0) / rows)


def difference(a: Record, b: Record, rows: int | None = None) -> tuple[float, float]:
    """a - b, and its standard error."""
    return a["mean"] - b["mean"], math.hypot(error_of(a, rows), error_of(b, rows))


def beyond(a: Record, b: Record, rows: int | None = None) -> float:
    """By how many standard errors of the difference a is above b."""
    gap, error = difference(a, b, rows)
    return gap / error if error else math.copysign(math.inf, gap) if gap else 0.0


def above(record: Record, bound: float) -> bool:
    """Whether a mean is above a bound by more than two standard errors."""
    return record["mean"] - 2 * error_of(record) > bound
