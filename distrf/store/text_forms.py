"""Text that writes numbers: dates and quantities. Each form may reject a column.

A form looks at distinct texts of some rows, and says how the column writes its numbers ("date:dmy"). This goes into the schema.
From then on every chunk of the training and of later rows is read so, and a text that is none is a missing value.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: A form is that of a column if this share of its distinct texts are of it; where some are not, at least so many must be.
SHARE, FEWEST = 0.9, 10
_DAY = 86_400
#: A number without marks and units.
NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?\s*$"
#: Units of numbers that are times, to the second.
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
#: Words for numbers without marks and units.
PLAIN = "text that reads as numbers"
#: What text of nothing but whole numbers may be.
CODES = "may be codes of levels"
_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
           "december")  # fmt: skip
_NAMES = [*(name[:3] for name in _MONTHS), *_MONTHS, "sept"]
_NUMBERS = np.array([*range(1, 13), *range(1, 13), 9])
_WEEKDAY = r"(?:(?i:mon|tues?|wed|wednes|thu|thurs?|fri|sat|satur|sun)(?:day)?[.,]? +)?"
_MONTH = r"(?P<month>\d{1,2}|[A-Za-z]{3,9})"
#: By the order of day, month and year, those first that count where dates are of several orders, as pandas has it.
_DATES = {
    "mdy": rf"{_MONTH}(?P<mark>[-/. ]) ?(?P<day>\d{{1,2}})(?:st|nd|rd|th)?[-/., ] ?(?P<year>\d{{4}}|\d{{2}})",
    "dmy": rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?P<mark>[-/. ]) ?{_MONTH}[-/., ] ?(?P<year>\d{{4}}|\d{{2}})",
    "ymd": rf"(?P<year>\d{{4}})(?P<mark>[-/.]){_MONTH}[-/.](?P<day>\d{{1,2}})",
    "yymd": r"(?P<year>\d{2})(?P<mark>[-/.])(?P<month>\d{1,2})[-/.](?P<day>\d{1,2})",
}
_ORDERS = {"mdy": "month before day", "dmy": "day before month", "ymd": "year first", "yymd": "year first"}
#: Dates that rise or fall in the order of the rows tell their order if they are so many.
_RISING = 10
_FRACTION = r"(?:[.,](?P<rest>\d+))?"
_HALF = r" ?(?P<half>[AaPp]\.?[Mm]\.?)?"
_TIME = (
    rf"(?:(?:T|,? +)(?P<hour>\d{{1,2}})(?::(?P<minute>\d{{2}})(?::(?P<second>\d{{2}}){_FRACTION})?)?{_HALF})?"
)
_ZONE = r" ?(?P<zone>Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)"
#: Behind the order of a date: a time zone may be there, must be, or must not be.
_ZONES = {"": f"{_ZONE}?", "+": _ZONE, "-": "(?P<zone>)"}
#: Marks between thousands, and of decimals. Of equally good ones the first counts.
_STYLES = ((",", "."), (".", ","), (" ", "."), (" ", ","), ("'", "."), ("'", ","))
_CURRENCY = (
    r"(?:\p{Sc}|[A-Z]{1,3}\$|(?i:usd|eur|gbp|chf|jpy|cny|inr|cad|aud|sek|nok|dkk|pln|brl|mxn|rs|kr|zł|fr)\.?)"
)
#: Digits of whole numbers that float64 tells apart.
_DIGITS = 15
#: Units, and their longest one: a bound in the pattern would take six times as long.
_UNIT, _UNIT_LENGTH = rf"{_CURRENCY}|[\pLµΩ][\pL.]*[²³]?(?:/\pL+[²³]?)?|[%‰°′″'\"][CF]?", 20


@dataclass(frozen=True)
class Found:
    """How a column writes numbers.

    Parameters
    ----------
    form : str
        The name of the form and what it is to know, "date:dmy": what `read_text` takes.
    kind : str
        What the column is taken for: "date" or "number".
    words : str
        For reports.
    doubt : str
        What may be otherwise; else empty.
    stray : str
        The first text that is none of them; else empty.
    """

    form: str
    kind: str
    words: str
    doubt: str = ""
    stray: str = ""


def _groups(texts: pa.Array, pattern: str) -> dict[str, pa.Array]:
    """What the named groups of a pattern are in each text: null where it does not match, "" where a group is left out."""
    found = pc.extract_regex(texts, pattern)
    return {field.name: part for field, part in zip(found.type, found.flatten(), strict=True)}


def _whole(digits: pa.Array) -> np.ndarray:
    """Digits as numbers, none as 0; nulls as -1, which is out of every range."""
    digits = pc.if_else(pc.equal(pc.binary_length(digits), 0), "0", digits)
    return pc.cast(digits, pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)


def _is(texts: pa.Array) -> np.ndarray:
    """Booleans with null for false, as an array."""
    return texts.fill_null(False).to_numpy(zero_copy_only=False)


def _day_seconds(parts: dict[str, pa.Array]) -> np.ndarray:
    """Seconds since midnight of hours, minutes, seconds and halves of the day; NaN where there are none such."""
    hour, minute, second = (_whole(parts[name]) for name in ("hour", "minute", "second"))
    half = pc.utf8_lower(parts["half"])
    halved, after = _is(pc.not_equal(half, "")), _is(pc.starts_with(half, "p"))
    good = (hour >= 0) & (hour < 24) & (minute < 60) & (second < 60) & (~halved | ((hour > 0) & (hour <= 12)))
    hour = np.where(halved, hour % 12 + 12 * after, hour)
    rest = _whole(pc.utf8_slice_codeunits(pc.utf8_rpad(parts["rest"], 6, "0"), 0, 6))  # cut to microseconds
    return np.where(good, 3600 * hour + 60 * minute + second + rest / 10**6, np.nan)


def _find_dates(texts: pa.Array) -> tuple[str, str, str] | None:
    read = {order: _read_dates(texts, order) for order in _DATES}
    most = max(int(np.isfinite(seconds).sum()) for seconds in read.values())
    possible = [order for order, seconds in read.items() if np.isfinite(seconds).sum() == most > 0]
    if not possible:
        return None
    plain = texts.filter(pa.array(np.isfinite(read[possible[0]]))).to_pylist()
    ordered, told = _rises(plain), {}
    for order in possible:
        dates = read[order][np.isfinite(read[order])]
        told[order] = not ordered and _rises(dates), _fills_months(dates)
    usual = "dmy" if re.match(r"\d+\.", plain[0]) else ""
    order = max(possible, key=lambda one: (told[one], one == usual))
    words = "text that reads as dates" + f", {_ORDERS[order]}" * (order != "ymd")
    others = " or ".join(_ORDERS[one] for one in possible if one != order and told[one] == told[order])
    return order, words, f"may be {others}: no date tells (2020-01-31 would)" if others else ""


def _read_dates(texts: pa.Array, how: str) -> np.ndarray:
    """Seconds since 1970 of dates as days or months first, with names of months, two digits of a year, times and zones."""
    order = how.rstrip("+-")
    parts = _groups(texts, f"^{_WEEKDAY}{_DATES[order]}{_TIME}{_ZONES[how[len(order) :]]}$")
    year, day, clock = _whole(parts["year"]), _whole(parts["day"]), _day_seconds(parts)
    word = pc.index_in(pc.utf8_lower(parts["month"]), value_set=pa.array(_NAMES, parts["month"].type))
    named = word.is_valid().to_numpy(zero_copy_only=False)
    digits = pc.if_else(pc.match_substring_regex(parts["month"], r"^\d+$"), parts["month"], None)
    month = np.where(named, _NUMBERS[word.fill_null(0).to_numpy()], _whole(digits))
    short = _is(pc.less_equal(pc.binary_length(parts["year"]), 2))
    year = np.where(short, year + np.where(year < 69, 2000, 1900), year)  # as POSIX
    good = (year > 0) & (month > 0) & (month <= 12) & (day > 0)
    # 1.2.10 is a version rather than a day.
    long = _is(pc.equal(pc.add(pc.binary_length(parts["day"]), pc.binary_length(parts["month"])), 4))
    good &= ~short | long | ~_is(pc.equal(parts["mark"], "."))
    months = (np.where(good, (year - 1970) * 12 + month - 1, 0)).astype("M8[M]")
    days = months.astype("M8[D]") + (day - 1)
    good &= days.astype("M8[M]") == months
    zone = parts["zone"]
    plain = pc.replace_substring_regex(zone, r"^[A-Z]+$|[^0-9]", "")
    offset = _whole(pc.utf8_slice_codeunits(plain, 0, 2)) * 60 + _whole(pc.utf8_slice_codeunits(plain, 2))
    offset = np.where(_is(pc.starts_with(zone, "-")), -60, 60) * offset
    seconds = days.astype(np.int64) * _DAY - offset + np.floor(clock) + (clock - np.floor(clock))
    return np.where(good, seconds, np.nan)


def _rises(values: Sequence[Any]) -> bool:
    """Whether enough values rise or fall from row to row: others do so by chance once in 10! / 2 columns."""
    pairs = list(itertools.pairwise(values))
    return len(values) >= _RISING and (all(a <= b for a, b in pairs) or all(a >= b for a, b in pairs))


def _fills_months(seconds: np.ndarray) -> bool:
    """Whether the days are spread over the month, as a year or a month hardly is."""
    days = np.floor(seconds / _DAY).astype("M8[D]")
    numbers = np.unique(days - days.astype("M8[M]")).astype(int) + 1
    return len(numbers) > 15 and bool(numbers[0] <= 3 and numbers[-1] >= 28)


def _find_stamps(texts: pa.Array) -> tuple[str, str, str] | None:
    if 2 * np.isfinite(_read_stamps(texts, "ymd")).sum() >= len(texts):
        return "ymd", "numbers that read as dates such as 20200131", ""
    numbers = np.abs(_read_stamps(texts, "s"))
    size = np.median(numbers[np.isfinite(numbers)]) if np.isfinite(numbers).any() else np.inf
    unit = next((unit for unit, per in PER_SECOND.items() if size < 1e11 * per), None)
    return None if unit is None else (unit, f"numbers that read as {unit} since 1970", "")


def _read_stamps(texts: pa.Array, how: str) -> np.ndarray:
    """Dates as numbers: 20200131, or seconds to nanoseconds since 1970, whichever unit puts them before the year 5138."""
    if how == "ymd":
        days = pc.replace_substring_regex(texts, r"^(\d{4})(\d\d)(\d\d)(\.0*)?$", r"\1-\2-\3")
        return _read_dates(days, "ymd")
    number = pc.match_substring_regex(texts, r"^-?\d+(\.\d*)?([eE][+-]?\d+)?$")
    numbers = pc.if_else(number, texts, None).cast(pa.float64()).to_numpy(zero_copy_only=False)
    return numbers / PER_SECOND[how]


def _find_quantities(texts: pa.Array) -> tuple[str, str, str] | None:
    texts = _plain_blanks(texts)
    read = [_quantities(texts, style, _CURRENCY, _UNIT) for style in _STYLES]
    best, doubt = _style(texts, read)
    numbers, parts = read[best]
    thousands, decimal = _STYLES[best]
    good = pa.array(np.isfinite(numbers))
    before, after, whole, part = (parts[name].filter(good) for name in ("before", "after", "whole", "part"))
    counted = Counter(pc.utf8_rtrim(_joined(before, after), ".").to_pylist())
    bare = counted.pop("", 0)
    # Where units are the exception, texts with one are none; nor are those with another unit: 2 M is not 2 m.
    unit = counted.most_common(1)[0][0] if counted and 2 * bare <= len(whole) else ""
    marked = _is(pc.match_substring(whole, thousands)).any()
    fractions = _is(pc.not_equal(part, "")).any()
    comma = decimal != "." and fractions
    exact = (pc.max(pc.binary_length(whole)).as_py() or 0) <= _DIGITS
    codes = _is(pc.match_substring_regex(whole, r"^0\d")).any()
    if not (len(whole) and exact) or (codes and not (unit or marked or comma)):
        return None  # codes
    doubt = CODES if bare == len(texts) and not (fractions or marked) else doubt
    words = f", {thousands!r} between thousands" * bool(marked) + ", with a decimal comma" * bool(comma)
    return f"{thousands}{decimal}{unit}", PLAIN + words + (f", with {unit!r}" if unit else ""), doubt


def _read_quantities(texts: pa.Array, how: str) -> np.ndarray:
    """Numbers with marks between thousands, decimal commas, a currency, a percent sign or one unit; (5) is -5."""
    unit = f"{re.escape(how[2:])}\\.?" if how[2:] else "[^\\s\\S]"
    return _quantities(_plain_blanks(texts), (how[0], how[1]), unit, unit)[0]


def _style(texts: pa.Array, read: Sequence[tuple[np.ndarray, dict[str, pa.Array]]]) -> tuple[int, str]:
    """Which of the styles is meant, and what may be otherwise; read : what each makes of the texts

    Where nearly as many texts are other numbers in another style, a mark stands before three digits (1.250): between thousands
    where others go without it (999) or are money, unless it stands behind a 0 (0.250).
    """
    good = [np.isfinite(numbers) for numbers, _ in read]
    best = int(np.argmax([one.sum() for one in good]))
    numbers, parts = read[best]
    for i, (other, _) in enumerate(read):
        both = good[best] & good[i]
        if good[i].sum() < SHARE * good[best].sum() or not (other[both] != numbers[both]).any():
            continue
        digits = pc.binary_length(parts["part"]).fill_null(0).to_numpy(zero_copy_only=False)
        behind_0 = (good[best] & ~good[i] & (digits == 3)).any()
        money = _is(pc.match_substring_regex(texts, _CURRENCY)).any()
        if (digits[both] == 3).any() and not behind_0 and (money or (digits[both] == 0).any()):
            best = i
        return best, f"{_STYLES[best][0]!r} may be a decimal mark" if best else ""
    return best, ""


def _quantities(
    texts: pa.Array, style: tuple[str, str], before: str, after: str
) -> tuple[np.ndarray, dict[str, pa.Array]]:
    """The numbers of texts, NaN where they are none, and their parts; before, after : patterns of units"""
    thousands, decimal = map(re.escape, style)
    parts = _groups(
        texts,
        rf"^(?P<open>\()?(?P<sign>[+−-])? ?(?P<before>{before})? ?(?P<minus>[+−-])?"
        rf"(?P<whole>[1-9]\d{{0,2}}(?:{thousands}\d{{3}})+|\d*)(?:{decimal}(?P<part>\d*))?(?P<power>[eE][+-]?\d{{1,3}})?"
        rf" ?(?P<after>{after})?(?P<close>\))?$",
    )
    good = _is(pc.equal(parts["open"], pc.replace_substring(parts["close"], ")", "(")))
    good &= _is(pc.greater(pc.binary_length(_joined(parts["whole"], parts["part"])), 0))
    good &= _is(pc.less_equal(pc.utf8_length(_joined(parts["before"], parts["after"])), _UNIT_LENGTH))
    written = _joined(pc.replace_substring(parts["whole"], style[0], ""), ".", parts["part"], parts["power"])
    written = pc.if_else(pa.array(good), pc.replace_substring_regex(written, r"\.([eE]|$)", r".0\1"), None)
    negative = _joined(parts["open"], parts["sign"], parts["minus"])
    signs = np.where(_is(pc.match_substring_regex(negative, "[(−-]")), -1.0, 1.0)
    return signs * written.cast(pa.float64()).to_numpy(zero_copy_only=False), parts


def _joined(*texts: pa.Array | str) -> pa.Array:
    large = [pa.scalar(text, pa.large_string()) if isinstance(text, str) else text for text in (*texts, "")]
    return pc.binary_join_element_wise(*large)


def _plain_blanks(texts: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(texts, "[\u00a0\u202f\u2009]", " ")


#: By name, in the order in which they are tried, the last one where it is said that a column has dates: the kind, what looks at distinct
#: texts without blanks around them, and what reads them. The first says what the second is to know, words for reports, and what may be
#: otherwise; None rejects the column, as does the second where it reads fewer than nine in ten. This gives the number of each text by
#: itself, NaN where it is none.
FORMS: dict[str, tuple[str, Callable[..., Any], Callable[..., np.ndarray]]] = {
    "date": ("date", _find_dates, _read_dates),
    "quantity": ("number", _find_quantities, _read_quantities),
    "stamp": ("date", _find_stamps, _read_stamps),
}


def find_form(column: pa.ChunkedArray | np.ndarray, kind: str | None = None) -> Found | None:
    """How a column of text writes numbers.

    Parameters
    ----------
    column : pa.ChunkedArray or array of text
        Of some rows.
    kind : str, optional
        What the column is said to be: then it may hold more texts that are none.

    Returns
    -------
    Found, or None where no form takes the column
    """
    texts = pc.unique(pc.ascii_trim_whitespace(_arrow(column).cast(pa.large_string())))
    texts = texts.filter(pc.greater(pc.binary_length(texts), 0))
    if kind == "number":  # who says so wants no codes: leading zeros say nothing
        texts = pc.replace_substring_regex(texts, r"^([+-]?)0+(\d)", r"\1\2")
    # Where two thirds have no digit, a quick look tells that these are no numbers.
    if not len(texts) or 3 * int(_is(pc.match_substring_regex(texts, r"\d")).sum()) < len(texts):
        return None
    for name, (found, find, read) in FORMS.items():
        if kind not in (None, found) or (name == "stamp" and kind is None):
            continue
        if (told := find(texts)) is None:
            continue
        how, words, doubt = told
        good = np.isfinite(read(texts, how))
        fewest = FEWEST if kind is None and (name == "quantity" or not good.all()) else 1
        if good.sum() >= max(fewest, (0.5 if kind else SHARE) * len(texts)):
            strays = texts.filter(pa.array(~good)).to_pylist()
            return Found(f"{name}:{how}", found, words, doubt, strays[0] if strays else "")
    return None


def _arrow(texts: pa.ChunkedArray | pa.Array | np.ndarray) -> Any:
    return pa.array(texts.tolist(), pa.large_string()) if isinstance(texts, np.ndarray) else texts


def read_text(texts: pa.Array | np.ndarray, form: str) -> np.ndarray:
    """The numbers of texts.

    Parameters
    ----------
    texts : array of text
    form : str
        Of `Found`.

    Returns
    -------
    float64 array, NaN where a text is none of this form
    """
    name, _, how = form.partition(":")
    return FORMS[name][2](pc.ascii_trim_whitespace(_arrow(texts).cast(pa.large_string())), how)
