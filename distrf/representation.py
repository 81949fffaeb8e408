"""What a notebook shows of an object: a table of facts in a box, as Dask shows an array."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

_STYLE = "border: 1px solid currentcolor; border-radius: 4px; display: inline-block; padding: 0.5em; margin: 0.25em 0;"
_NAME = "text-align: left; vertical-align: top; padding-right: 0.8em;"
#: Most letters of a value.
_MOST = 500


def facts_html(title: str, facts: Iterable[tuple[str, Any]]) -> str:
    """A box with a title and a table of facts.

    Parameters
    ----------
    title : str
    facts : iterable of (str, object)
        Names and values. Numbers get thousands separators.

    Returns
    -------
    str
        HTML, with all text escaped.
    """
    rows = "".join(
        f'<tr><th style="{_NAME}">{html.escape(name)}</th>'
        f'<td style="text-align: left;">{html.escape(shown(value))}</td></tr>'
        for name, value in facts
    )
    return (
        f'<div class="distrf-facts" style="{_STYLE}"><strong>{html.escape(title)}</strong>'
        f'<table style="border-collapse: collapse;"><tbody>{rows}</tbody></table></div>'
    )


def size(nbytes: float) -> str:
    """Bytes in words: "3.05 MiB"."""
    from dask.utils import format_bytes  # what is shown once need not be loaded before

    return format_bytes(int(nbytes))


def shown(value: Any) -> str:
    """A value as text: numbers rounded, with thousands separators, and what is long cut."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        value = ", ".join(shown(v) for v in value)
    text = str(value)
    return text if len(text) <= _MOST else text[: _MOST - 3] + "..."
