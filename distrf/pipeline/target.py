"""Labels or numbers: what a target is, and which models it takes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import InputError
from ..store.text_forms import Found, find_form

#: Whole numbers of so few values are labels unless held-out rows say otherwise; more where they look like codes, 0 ... c - 1 or
#: 1 ... c, each for so many rows on average.
_FEW, _CODE_ROWS, _CODES_SEEN = 20, 10, 0.9
#: Values from which on held-out rows decide: an order of two or three says little.
_FEWEST_EITHER = 4
#: By how much labels must do better, in nats a row: numbers take one model in place of one for each value.
_LEAD = 0.1
#: Text is no label where so many values, and this share of them, are distinct.
_FEWEST_APART, _APART = 50, 0.9
#: Classes up to which a classifier that is asked for takes whole numbers of ten rows or more each.
_MOST_CLASSES = 1000
#: The largest number and the smallest spread of which predictions in float32 still tell something.
_LARGEST, _SMALLEST = 1e37, 1e-35
#: Beyond it, floating-point numbers have no units.
_EXACT = 2**53


@dataclass(frozen=True)
class Target:
    """What a sample of the target says about it.

    Attributes
    ----------
    labels : bool, whether they are classes rather than numbers
    distinct, rows : int, distinct values, and rows of the sample
    why : str, a sentence for messages
    whole : bool, whether classes can be made of them; only numbers that are not whole, or several columns, cannot
    apart : bool, whether nearly all of this text is distinct: no label is there twice
    either : bool, whether these labels are whole numbers, which may tell more as numbers: held-out rows decide
    """

    labels: bool
    distinct: int
    rows: int
    why: str
    whole: bool = True
    apart: bool = False
    either: bool = False


def look_at(y: np.ndarray) -> Target:
    """What a sample of the target is. Strings and booleans are labels, and so are few or code-like whole numbers."""
    if y.ndim > 1 and y.shape[1] > 1:
        return Target(False, len(y), len(y), f"{y.shape[1]} columns of numbers", False)
    y, rows = y.ravel(), len(y)
    sampled = f"{rows:,} row{'s' * (rows != 1)} looked at"
    if y.dtype.kind in "USOb":
        distinct, kind = len(set(y.tolist())), "booleans" if y.dtype.kind == "b" else "strings"
        why = f"labels are {kind}, {distinct:,} of them in {sampled}"
        return Target(True, distinct, rows, why, apart=distinct >= max(_APART * rows, _FEWEST_APART))
    if y.dtype.kind not in "fiu":
        raise InputError(f"y must be numbers, strings or booleans, got dtype {y.dtype}")
    _refuse_extremes(y.astype(np.float64))
    values = np.unique(y)
    distinct, first, last = len(values), values[0], values[-1]
    whole = bool((values == np.floor(values)).all() and max(abs(first), abs(last)) <= _EXACT)
    if distinct == 1:
        return Target(False, 1, rows, f"the target is one number in {sampled}", whole)
    seen = f"{distinct:,} distinct values in {sampled}"
    if not whole:
        return Target(False, distinct, rows, f"the target is not whole numbers: {seen}", False)
    few = distinct == 2 or 2 * distinct <= min(rows, 2 * _FEW)
    codes = (
        rows >= _CODE_ROWS * distinct
        and first in (0, 1)
        and distinct >= _CODES_SEEN * (float(last) - float(first) + 1)
    )
    taken, remedy = "quantities", "if they are labels, write them as text, such as 'class 7'"
    if few or codes:
        taken, remedy = "labels", "model='ridge' takes them for numbers"
    either = (few or codes) and distinct >= _FEWEST_EITHER
    why = f"whole numbers with {seen} are taken for {taken}; {remedy}"
    return Target(few or codes, distinct, rows, why, either=either)


def tell_apart(target: Target, race: Callable[[bool], Any], judged: int) -> Target:
    """Whole numbers as what tells more of held-out rows: as labels if these lead, else as numbers.

    Parameters
    ----------
    target : Target, which takes them for labels
    race : function of whether they are labels that returns a Race on a sample
    judged : int, rows that are held out
    """
    nats = [race(labels).nats() for labels in (True, False)]
    labels = nats[0] < nats[1] - _LEAD
    words = [("labels", "ridge-classifier"), ("numbers", "ridge")]
    (chosen, _), (other, option) = words if labels else reversed(words)
    why = (
        f"whole numbers with {target.distinct:,} distinct values in {target.rows:,} rows looked at are taken for {chosen}: log "
        f"loss {nats[0]:.2f} as labels and {nats[1]:.2f} as numbers, on {judged:,} held-out rows; model={option!r} takes "
        f"them for {other}"
    )
    return replace(target, labels=labels, why=why, either=False)


def _refuse_extremes(y: np.ndarray) -> None:
    """Raise InputError for numbers that float32 does not hold, or whose differences it does not."""
    largest, spread = float(np.abs(y).max()), float(np.ptp(y))
    size, most = ("large", largest) if largest > _LARGEST else ("small", spread)
    if largest > _LARGEST or 0 < spread < _SMALLEST:
        raise InputError(f"y is too {size}, predictions are float32: up to {most:g}; give it in other units")


def written_form(y: np.ndarray, numbers: bool | None) -> Found | None:
    """How a sample of texts writes numbers; None for labels.

    numbers : whether numbers are asked for; None decides by the texts: few are labels, unless they have a unit, a decimal comma or the like

    Raises InputError where nearly all are numbers, but not all.
    """
    texts = set(y.tolist())
    distinct, plain = len(texts), all(re.fullmatch(r"\s*[+-]?\d+(,\d+)?\s*", text) for text in texts)
    apart = 2 * distinct > len(y)
    found = find_form(y, "number" if numbers or apart or plain else None)
    digits = plain and not (numbers or apart or any("," in text for text in texts))
    if found is None or found.kind != "number" or digits:
        return None
    if found.stray:
        raise InputError(
            f"a target of numbers holds numbers alone; its {distinct:,} distinct values in {len(y):,} rows looked at are "
            f"{found.words}, but not {found.stray[:60]!r}: mend such rows, leave them out, or give model='ridge-classifier' to "
            "take the values for labels"
        )
    return found


def check_target(name: str, classifier: bool, target: Target) -> None:
    """Refuse a model that does not go with the target, before anything runs. Raises InputError with the remedy."""
    if target.apart and classifier:
        raise InputError(
            f"the target is text of nearly all distinct values, {target.distinct:,} in {target.rows:,} rows looked at: no label "
            "can be learned from its rows; make numbers of it for a regressor, or give another target"
        )
    few = target.distinct <= max(_FEW, min(target.rows // _CODE_ROWS, _MOST_CLASSES))
    if classifier and not (target.whole and (target.labels or few)):
        text = (
            "write them as text, such as 'class 7', if they are labels" if target.whole else "make labels of y"
        )
        raise InputError(
            f"model {name!r} is a classifier, but {target.why}; take model='ridge' (regression), or {text}"
        )
    if not classifier and target.labels and "strings" in target.why:
        raise InputError(
            f"model {name!r} is a regressor, but {target.why}; take model='ridge-classifier', or numbers as y"
        )
    if classifier and target.distinct < 2:
        raise InputError(
            f"a classifier needs at least 2 classes, but {target.why}: 1 class; give rows of another class too"
        )
