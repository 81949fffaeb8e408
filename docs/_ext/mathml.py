"""Formulas as MathML, which browsers draw by themselves: the pages need no script and no network."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

#: A function such as log, also with an index, which gets thin spaces around it but before a bracket.
NAME = r"<mi>(?:log|exp|sin|cos|cosh|max)</mi>"
FUNCTION = re.compile(
    rf"(<msub>{NAME}<m[in]>\w+</m[in]></msub>|(?<!<mrow>)(?<!<msub>)(?<!<msup>){NAME})(?!<mo[^>]*>&#x00028;)"
)
#: The bars of a norm.
BARS = re.compile(r"<mo[^>]*>(&#x02016;|&#x0007C;)</mo>")
SPACE = '<mspace width="0.17em"/>'


def drawn(formula: str, display: str) -> str:
    """The MathML of a formula. Bars of norms keep the size of letters, and stand close to them."""
    made = BARS.sub(
        r'<mo stretchy="false" lspace="0.05em" rspace="0.05em">\1</mo>', convert(formula, display=display)
    )
    return FUNCTION.sub(rf"{SPACE}\1{SPACE}", made)


def inline(self: Any, node: nodes.math) -> None:
    """A formula in a line of text."""
    self.body.append(drawn(node.astext(), "inline"))
    raise nodes.SkipNode


def block(self: Any, node: nodes.math_block) -> None:
    """A formula on lines of its own."""
    self.body.append(f'<div class="math">{drawn(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the renderer that `html_math_renderer` names."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
