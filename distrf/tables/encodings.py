"""From what is known of the columns of a table to their encodings: numbers, levels and dates as features that count alike.

Two rows that are drawn at random are at a squared distance of about 2 in each column: as in standard units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..maps.table_columns import (
    Cycle,
    Encoding,
    Indicator,
    OneHot,
    PiecewiseLinear,
    Scores,
    TargetMeans,
    Units,
    date_parts,
)
from ..maps.table_missing import MISSING
from .frequent import FrequentCodes
from .kinds import ColumnKind
from .summary import NumberSummary, TableSummary

#: How numbers are encoded: in what order `TableEncoder` names them.
NUMBERS = ("standard", "robust", "quantile", "piecewise", "both")
#: Quantiles of "quantile".
_QUANTILES = 65
#: Quantiles by which the weight of single values is told.
_GRID = 1024
#: Interquartile range of the standard normal law.
_NORMAL_RANGE = 1.3489795003921634
#: Encoded targets for which the means of levels are features.
MOST_TARGETS = 64
#: Rows by which the mean of a level is drawn to the mean of all, at least and at most.
_LEAST_SMOOTHING, _MOST_SMOOTHING = 1.0, 1e4
_LARGEST = 1e300
#: Of `levels_tell`: bins of the line, the standard errors by which levels must be better, and the share of the variance of the targets.
_BINS, _ERRORS, _SHARE = 16, 3.0, 1e-3


@dataclass(frozen=True)
class Choices:
    """The options of the encodings; `distrf.TableEncoder` documents them."""

    numbers: str = "robust"
    n_bins: int = 16
    max_levels: int = 32
    crossing: str = "rows"


#: What `TableEncoder.columns_` says of a column, and what is made of it: nothing of one that is left out.
EncodedColumn = tuple[dict[str, Any], tuple[Encoding, ...]]


def _encoded(
    kind: ColumnKind, words: str, made: tuple[Encoding, ...] = (), missing: float = 0.0, exact: bool = False
) -> EncodedColumn:
    return {
        "name": kind.name, "kind": kind.kind, "encoding": words, "why": kind.why, "missing": round(float(missing), 6),
        "low": None, "high": None, "exact": exact, "unread": 0,
    }, made  # fmt: skip


def encode_columns(kinds: Sequence[ColumnKind], summary: TableSummary, choices: Choices) -> list[EncodedColumn]:
    """The encodings of all columns.

    Parameters
    ----------
    kinds : sequence of ColumnKind
    summary : TableSummary
        Of the columns that are used.
    choices : Choices

    Returns
    -------
    list of EncodedColumn
        In the order of the columns.
    """
    encoded = []
    for j, kind in enumerate(kinds):
        known, levels = summary.columns.get(j), summary.levels.get(j)
        if known is not None:
            facts, made = _encode_numbers(j, kind, known, choices)
            if made:
                facts |= {"low": known.low, "high": known.high, "unread": known.unread}
            if made and levels is not None and levels_tell(levels, summary):
                words = f"{facts['encoding']}, means of the target, {len(levels.codes):,} levels"
                facts |= {"encoding": words, "exact": True}
                made = (*made, _target_means(j, levels.codes, levels.sums, summary, choices.crossing))
            encoded.append((facts, made))
        elif levels is not None:
            encoded.append(_encode_levels(j, kind, levels, summary, choices))
        else:
            encoded.append(_encoded(kind, "left out"))
    return encoded


def _dropped(kind: ColumnKind, why: str, missing: float = 0.0) -> EncodedColumn:
    return _encoded(ColumnKind(kind.name, "drop", why), "left out", (), missing)


def _encode_numbers(j: int, kind: ColumnKind, known: NumberSummary, choices: Choices) -> EncodedColumn:
    rows = known.rows + known.missing
    if known.rows == 0:
        return _dropped(kind, "no value in any row", float(rows > 0))
    missing = known.missing / rows
    marks = (Indicator(j, 1.0),) if known.missing else ()
    low, high = np.clip([known.low, known.high], -_LARGEST, _LARGEST)
    if not high > low:
        if marks:
            return _encoded(kind, "whether it is missing", marks, missing)
        return _dropped(kind, f"the same value ({low:g}) in all rows")
    middle = float(np.clip(known.quantiles(0.5), low, high))
    if kind.kind in ("date", "clock"):
        edges = np.clip(known.quantiles([0.01, 0.99]), low, high)
        units = _units(j, known, middle, True)
        made = date_parts(j, middle, units.spread, float(edges[1] - edges[0]), known.timed)
        parts = [one.period for one in made[1:] if isinstance(one, Cycle)]
        what = "time elapsed" if kind.kind == "date" else "time of day"
        return _encoded(kind, ", ".join([what, *parts]), (*made, *marks), missing)
    numbers: list[Encoding] = []
    words = []
    if choices.numbers in ("standard", "robust"):
        numbers.append(_units(j, known, middle, choices.numbers == "robust"))
        words.append(f"{choices.numbers} units")
    if choices.numbers in ("quantile", "both"):
        quantiles = _clipped_quantiles(known, _QUANTILES)
        numbers.append(Scores.of_quantiles(j, 1.0, middle, quantiles))
        words.append("normal scores of quantiles")
    if choices.numbers in ("piecewise", "both"):
        edges = bin_edges(known, choices.n_bins)
        # Two draws are apart by a third of the bins on average, and by 1 in each of these.
        factor = float(np.sqrt(6.0 / max(len(edges) - 1, 3)))
        numbers.append(PiecewiseLinear(j, factor, middle, edges))
        words.append(f"piecewise linear over {len(edges) - 1} bins")
    text = " and ".join(words) + ", whether it is missing" * bool(marks)
    return _encoded(kind, text, (*numbers, *marks), missing)


def _clipped_quantiles(known: NumberSummary, count: int) -> np.ndarray:
    """Quantiles at the probabilities 0, ..., 1."""
    quantiles = np.clip(known.quantiles(np.linspace(0.0, 1.0, count)), -_LARGEST, _LARGEST)
    return np.maximum.accumulate(quantiles)


def bin_edges(known: NumberSummary, n_bins: int) -> np.ndarray:
    """Edges of at most `n_bins` bins of like weight.

    Values that fill a bin by themselves are edges, and the others share the rest of the bins: so of a column of mostly
    zeros its tail is told apart.

    Parameters
    ----------
    known : NumberSummary
        Of a column with two distinct values at least.
    n_bins : int

    Returns
    -------
    float64 array of shape (at most n_bins + 1,), ascending
    """
    edges = np.unique(_clipped_quantiles(known, n_bins + 1))
    if len(edges) == n_bins + 1:
        return edges
    grid = _clipped_quantiles(known, _GRID + 1)
    values, counts = np.unique(grid, return_counts=True)
    fixed = np.unique([grid[0], *values[counts * n_bins > _GRID], grid[-1]])
    rest, free = grid[~np.isin(grid, fixed)], n_bins + 1 - len(fixed)
    if free <= 0 or not len(rest):
        return fixed
    inner = np.linspace(0, len(rest) - 1, free + 2)[1:-1].round().astype(np.intp)
    return np.union1d(fixed, rest[inner])


def _units(j: int, known: NumberSummary, middle: float, bent: bool) -> Units:
    """Robust units: the middle and the interquartile range, of a column of mostly one value the distance of others from it."""
    spread = float(np.sqrt(known.variance))
    if not bent and 0 < spread <= _LARGEST and abs(known.mean) <= _LARGEST:
        return Units(j, 1.0, middle, known.mean, spread)
    low, high = np.clip(known.quantiles([0.25, 0.75]), -_LARGEST, _LARGEST)
    spread = float(high / _NORMAL_RANGE - low / _NORMAL_RANGE)
    rounding = 10 * np.finfo(np.float64).eps * max(abs(low), abs(high), 1e-290)
    if spread <= rounding:
        distance = np.abs(_clipped_quantiles(known, _GRID + 1) / 2 - middle / 2)
        others = distance[distance > rounding]
        spread = 2 * float(np.median(others)) if len(others) else 1.0
    return Units(j, 1.0, middle, middle, min(spread, _LARGEST), bent)


def _encode_levels(
    j: int, kind: ColumnKind, known: FrequentCodes, summary: TableSummary, choices: Choices
) -> EncodedColumn:
    held = known.codes != MISSING
    codes, counts = known.codes[held], known.counts[held]
    missing = float(known.counts[~held].sum()) / max(known.rows, 1)
    if len(codes) == 0:
        return _dropped(kind, "no value in any row", missing)
    if len(codes) == 1 and not known.lost and missing == 0:
        return _dropped(kind, "the same value in all rows")
    exact = known.lost == 0
    levels = f"{len(codes):,} levels" if exact else f"more than {len(codes):,} levels"
    # Of a level that was dropped now and then, the sums are of a part of its rows: at least 19 in 20 of these.
    whole = known.counts >= 19 * known.lost
    made: Encoding
    if exact and len(codes) <= choices.max_levels:
        made, words = OneHot(j, 1.0, codes), f"one-hot, {len(codes)} levels"
    elif known.n_outputs > 0 and known.counts[whole].sum() >= known.rows / 2:
        made = _target_means(j, known.codes[whole], known.sums[whole], summary, choices.crossing)
        words = f"means of the target, {levels}"
    else:
        frequent = np.sort(codes[np.argsort(-counts, kind="stable")[: choices.max_levels]])
        made, words = OneHot(j, 1.0, frequent), f"one-hot, {len(frequent)} of {levels}"
    return _encoded(kind, words, (made,), missing, exact=exact)


def _target_means(
    j: int, codes: np.ndarray, sums: np.ndarray, summary: TableSummary, crossing: str
) -> TargetMeans:
    """Means by level, drawn to the mean of all rows as an empirical Bayes estimate, in units of their own spread.

    With V the variance of the targets, B that of the true means of levels, W = V - B, K levels in n rows: the observed means
    vary by B + W K / n on average. So B follows, and the mean of a level of w rows has the weight w / (w + W / B)
    (Morris 1983; Micci-Barreca 2001).
    """
    rows, total = sums[:, :, 0].sum(axis=1), sums[:, :, 1:].sum(axis=1)
    every = summary.totals.sum(axis=0)
    n, mean = every[0], every[1:] / every[0]
    variance = np.maximum(summary.squares / n - mean**2, 1e-300)
    seen = (rows[:, None] * (total / np.maximum(rows, 1.0)[:, None] - mean) ** 2).sum(axis=0) / n
    share = min(len(codes) / n, 0.99)
    between = np.maximum((seen - variance * share) / (1 - share), 0.0)
    best = int(np.argmax(between / variance))  # one smoothing for all, that of the target that varies most
    ratio = (variance[best] - between[best]) / between[best] if between[best] > 0 else np.inf
    smoothing = float(np.clip(ratio, _LEAST_SMOOTHING, _MOST_SMOOTHING))
    made = TargetMeans.of_sums(j, codes, sums, summary.totals, smoothing, crossing)
    apart = made.means[-1, :-1] - mean
    spread = np.sqrt((rows[:, None] * apart**2).sum(axis=0) / n)
    units = np.where(spread > 1e-12 * np.sqrt(variance), spread, 1.0)
    return TargetMeans(j, made.width**-0.5, codes, (made.means - mean) / units)


def levels_tell(levels: FrequentCodes, summary: TableSummary) -> bool:
    """Whether the levels of a number tell the target what a line through the number does not, by rows of other folds.

    The line is the least-squares fit that is linear over 16 bins of like weight. A level of w rows has its value b, drawn to the
    mean of its rows as an empirical Bayes estimate: l = b + (mean - b) w T / (w T + V), V the variance within levels, T that of
    their means about the line (Morris 1983). Both are of the rows without a fold, which then judges them. All of it follows
    from the sums of the targets by level and fold, so from one pass over the rows.

    Parameters
    ----------
    levels : FrequentCodes
        Of a column, with sums of targets; MISSING may be one of them.
    summary : TableSummary

    Returns
    -------
    bool
        Whether squared errors fall by three standard errors and a thousandth of the variance; False where some level was lost.
    """
    if levels.lost or len(levels.codes) < 4:
        return False
    n, total = levels.sums[:, :, 0].sum(axis=1), levels.sums[:, :, 1:].sum(axis=1)
    within = (summary.squares - (total**2 / n[:, None]).sum(axis=0)) / max(n.sum() - len(n), 1.0)
    within = np.maximum(within, 1e-12 * summary.squares / n.sum() + 1e-300)
    held = levels.codes != MISSING
    codes, sums, n = levels.codes[held], levels.sums[held], n[held]
    shares = np.linspace(0.0, 1.0, _BINS + 1) * n.sum()
    edges = np.unique(codes[np.minimum(np.searchsorted(np.cumsum(n), shares), len(n) - 1)])
    line = np.stack([np.interp(codes, edges, one) for one in np.eye(len(edges))], axis=1)
    gain = variance = 0.0
    for fold in range(sums.shape[1]):
        rest, judged = sums.sum(axis=1) - sums[:, fold], sums[:, fold]
        w = rest[:, :1]
        A = line.T @ (w * line) + 1e-9 * n.sum() * np.eye(len(edges))
        b = line @ np.linalg.solve(A, line.T @ rest[:, 1:])
        apart = np.where(w > 0, rest[:, 1:] / np.maximum(w, 1.0) - b, 0.0)
        spread = ((w * apart**2).sum(axis=0) - np.count_nonzero(w) * within) / max(w.sum(), 1.0)
        spread = np.maximum(spread, 0.0)
        moved = apart * (w * spread / (w * spread + within))
        gain += float((2 * judged[:, 1:] * moved - judged[:, :1] * moved * (2 * b + moved)).sum())
        variance += float((4 * judged[:, :1] * moved**2 * within).sum())
    every = summary.totals.sum(axis=0)
    of_all = float((summary.squares - every[1:] ** 2 / max(every[0], 1.0)).sum())
    return bool(gain > max(_ERRORS * variance**0.5, _SHARE * of_all))


#: What the names of features end with.
_SUFFIXES: dict[type[Encoding], Callable[[Any], list[str]]] = {
    Units: lambda one: [""],
    Scores: lambda one: [""],
    Indicator: lambda one: ["_missing"],
    PiecewiseLinear: lambda one: [f"_bin{t}" for t in range(one.width)],
    OneHot: lambda one: [*(f"_level{k}" for k in range(len(one.codes))), "_other", "_missing"],
    TargetMeans: lambda one: [f"_mean{c}" for c in range(one.width)] if one.width > 1 else ["_mean"],
    Cycle: lambda one: [f"_{one.period}_sin", f"_{one.period}_cos"],
}


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
    names = [f"{columns[one.column]}{end}" for one in encodings for end in _SUFFIXES[type(one)](one)]
    return np.array(names, dtype=object)


def planned_encodings(kinds: Sequence[ColumnKind], choices: Choices) -> list[Encoding]:
    """The most features that columns of these kinds become.

    Parameters
    ----------
    kinds : sequence of ColumnKind
        One for each column.
    choices : Choices

    Returns
    -------
    list of Encoding
        Their numbers mean nothing.
    """
    levels = FrequentCodes(choices.max_levels)
    levels.add(np.arange(float(choices.max_levels)))
    values = np.linspace(0.0, 1e9, 4096)  # of decades, some of them missing
    numbers = NumberSummary(4096, 1, 5e8, 1e18, 0.0, 1e9, True, values)
    categories = {j: levels for j, kind in enumerate(kinds) if kind.kind == "category"}
    others = {j: numbers for j, kind in enumerate(kinds) if kind.used and j not in categories}
    summary = TableSummary(0, others, categories, np.zeros((0, 1)), np.zeros(0), np.empty((0, 0)))
    encoded = encode_columns(kinds, summary, choices)
    means = [Indicator(j, 1.0) for j, kind in enumerate(kinds) if kind.kind == "code"]  # a column of each
    return [one for _, made in encoded for one in made] + means or [Units(0, 1.0, 0.0, 0.0, 1.0)]
