"""How docstrings become reference pages: methods that distrf defines, and plain formulas that stay plain text."""

from __future__ import annotations

import inspect
import re
from typing import Any

from sphinx.application import Sphinx

#: A reference whose author begins with an initial, which reStructuredText would read as the number of a list.
INITIAL = re.compile(r"^(\s*\.\. \[\d+\] [A-Z])\.")
#: Code in backquotes, which stays as it is; a bar or an underscore before a bracket, which reStructuredText would read.
MARKS = re.compile(r"(`+[^`]*`+)|([|]|_(?=[<\x22]))")


def skip_foreign(app: Sphinx, kind: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:
    """What autodoc asks of each member of a class: True leaves it out, None leaves the decision to autodoc."""
    value = getattr(value, "fn", value)  # of scikit-learn's `available_if`
    value = getattr(value, "fget", value)
    module = getattr(inspect.unwrap(value) if callable(value) else value, "__module__", None)
    if kind == "class" and not str(module).startswith("distrf"):
        return True
    return None


def keep_plain(app: Sphinx, kind: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """The norms of docstrings, |x|, are plain text and no substitutions."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[i] = INITIAL.sub(r"\1\\.", MARKS.sub(lambda found: found[1] or "\\" + found[2], line))


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the above to autodoc, before numpydoc."""
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("autodoc-process-docstring", keep_plain, priority=100)
    return {"parallel_read_safe": True}
