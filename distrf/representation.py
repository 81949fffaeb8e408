"""Values as text."""

from __future__ import annotations

from typing import Any

#: Most letters of a value.
_MOST = 500


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
