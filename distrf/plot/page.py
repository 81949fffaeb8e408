"""A page of HTML in one file: headings, facts, tables and figures. Everything that is added as text is escaped."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any

from .axes import new_figure

#: Rows of a table, letters of a cell and of a listing that are shown.
_ROWS, _CELL, _LISTING = 200, 300, 60_000
#: Letters of a cell that stays one line, and of a word that is broken: others are broken between words.
_ONE_LINE, _WORD = 24, 30
#: Bytes of a drawing beyond which it becomes an image of pixels.
_DRAWING = 120_000

_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 2rem 1.5rem 4rem; background: #fff; color: #1f2328;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; padding-bottom: .25rem; border-bottom: 1px solid #d8dee4; }
h3 { font-size: 1rem; margin: 1.2rem 0 .4rem; }
p { margin: .4rem 0; }
.sub { color: #59636e; font-size: .9rem; }
nav { font-size: .9rem; margin-top: .8rem; }
nav a { color: #0550ae; margin-right: .9rem; text-decoration: none; white-space: nowrap; }
.cards { display: flex; flex-wrap: wrap; gap: .6rem; margin: 1.2rem 0 0; }
.card { border: 1px solid #d8dee4; border-radius: 6px; padding: .5rem .9rem; min-width: 8rem; }
.card b { display: block; font-size: 1.25rem; font-weight: 600; overflow-wrap: anywhere; }
.card span { color: #59636e; font-size: .85rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; margin: .4rem 0; }
th, td { text-align: left; vertical-align: top; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid #eaeef2; }
th { font-weight: 600; color: #424a53; }
td.l { overflow-wrap: anywhere; min-width: 12rem; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
td.n, td.s, th.s { white-space: nowrap; }
details { margin: .4rem 0; }
summary { cursor: pointer; color: #0550ae; }
.figures { display: flex; flex-wrap: wrap; gap: 1rem; }
figure { margin: .5rem 0; flex: 1 1 26rem; max-width: 36rem; break-inside: avoid; }
figure img { display: block; width: 100%; height: auto; }
figcaption { color: #59636e; font-size: .85rem; }
pre { background: #f6f8fa; border-radius: 6px; padding: .7rem .9rem; font-size: .82rem; line-height: 1.45; margin: .4rem 0;
  white-space: pre-wrap; overflow-wrap: anywhere; }
ul.warnings { list-style: none; padding: 0; margin: .4rem 0; }
ul.warnings li { background: #fff8e1; border-left: 4px solid #d4a72c; padding: .45rem .8rem; margin: .4rem 0; }
@media print { body { max-width: none; padding: 0; font-size: 11pt; } nav { display: none; }
  h2, h3 { break-after: avoid; } tr { break-inside: avoid; } .scroll { overflow: visible; }
  pre { border: 1px solid #d8dee4; } }
"""


class Page:
    """A page that is put together section by section.

    Parameters
    ----------
    title, subtitle : str
    """

    def __init__(self, title: str, subtitle: str):
        self._title, self._subtitle = escape(title), escape(subtitle)
        self._sections: list[str] = []
        self._parts: list[str] = []

    def cards(self, facts: Iterable[tuple[str, Any]]) -> None:
        """The few numbers that say most."""
        cards = [f'<div class="card"><b>{_cell(v)}</b><span>{escape(k)}</span></div>' for k, v in facts]
        if cards:
            self._parts.append(f'<div class="cards">{"".join(cards)}</div>')

    def section(self, title: str) -> None:
        """Begin a section."""
        self._sections.append(title)
        self._parts.append(f'<h2 id="s{len(self._sections)}">{escape(title)}</h2>')

    @contextmanager
    def folded(self, summary: str, *, shown: bool = False) -> Iterator[None]:
        """What is added inside is hidden until the reader opens it; shown : whether it is open at first."""
        self._parts.append(f"<details{' open' * shown}><summary>{escape(summary)}</summary>")
        yield
        self._parts.append("</details>")

    def heading(self, title: str) -> None:
        """A heading inside a section."""
        self._parts.append(f"<h3>{escape(title)}</h3>")

    def text(self, text: str) -> None:
        """A paragraph."""
        self._parts.append(f"<p>{escape(text)}</p>")

    def warnings(self, texts: Sequence[str]) -> None:
        """A list of warnings."""
        self._parts.append(f'<ul class="warnings">{"".join(f"<li>{escape(t)}</li>" for t in texts)}</ul>')

    def listing(self, text: str) -> None:
        """Text as it is: a command, or JSON. What is too long is cut, and it is said."""
        cut = f"\n... {len(text) - _LISTING:,} more letters" if len(text) > _LISTING else ""
        self._parts.append(f"<pre>{escape(text[:_LISTING] + cut)}</pre>")

    def facts(self, facts: Iterable[tuple[str, Any]]) -> None:
        """Names and values; those that are None are left out."""
        rows = [f"<tr>{_boxed(k, 'th')}{_boxed(v)}</tr>" for k, v in facts if v is not None]
        if rows:
            self._parts.append(f'<div class="scroll"><table>{"".join(rows)}</table></div>')

    def table(self, rows: Sequence[Mapping[str, Any]], most: int = _ROWS) -> None:
        """At most so many records with the keys of the first as columns; those without any value are left out."""
        names = [name for name in rows[0] if any(row.get(name) is not None for row in rows)]
        numbers = {n for n in names if all(_is_number(row.get(n)) for row in rows)}
        style = {name: "n" if name in numbers else None for name in names}
        head = "".join(_boxed(n.replace("_", " "), "th", style[n]) for n in names)
        body = "".join(
            f"<tr>{''.join(_boxed(row.get(n), 'td', style[n]) for n in names)}</tr>" for row in rows[:most]
        )
        self._parts.append(
            f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        )
        if len(rows) > most:
            self.text(f"and {len(rows) - most:,} more rows")

    def figures(self, drawn: Mapping[str, Callable[[Any], Any]]) -> None:
        """Figures with their captions; each is drawn on the axes that it gets."""
        if drawn:
            parts = [_figure(caption, draw) for caption, draw in drawn.items()]
            self._parts.append(f'<div class="figures">{"".join(parts)}</div>')

    def html(self) -> str:
        """The page."""
        links = "".join(
            f'<a href="#s{k}">{escape(title)}</a>' for k, title in enumerate(self._sections, start=1)
        )
        return (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{self._title}</title>\n<style>{_STYLE}</style></head>\n<body>\n"
            f'<h1>{self._title}</h1><p class="sub">{self._subtitle}</p><nav>{links}</nav>\n'
            + "\n".join(self._parts)
            + "\n</body></html>\n"
        )


def _figure(caption: str, draw: Callable[[Any], Any]) -> str:
    """A drawing inside the page, as lines or, where these are many, as pixels."""
    import matplotlib

    figure = new_figure()
    with matplotlib.rc_context({"svg.hashsalt": "distrf", "font.size": 11}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a script that the font does not have: boxes
        draw(figure.add_subplot())
        data, kind = _saved(figure, "svg"), "svg+xml"
        if len(data) > _DRAWING:
            data, kind = _saved(figure, "png"), "png"
    source = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
    text = escape(caption)
    return f'<figure><img src="{source}" alt="{text}"><figcaption>{text}</figcaption></figure>'


def _saved(figure: Any, kind: str) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format=kind, dpi=130, metadata={"Date": None} if kind == "svg" else None)
    return file.getvalue()


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _boxed(value: Any, tag: str = "td", style: str | None = None) -> str:
    """A cell of a table. Words are not broken, but for those that would make the table wider than the page."""
    text = _cell(value)
    if style is None:
        style = "s" if len(text) <= _ONE_LINE else "l" if max(map(len, text.split())) > _WORD else None
    kind = "" if style is None else f' class="{style}"'
    return f"<{tag}{kind}>{text}</{tag}>"


def _cell(value: Any) -> str:
    """A value in few letters, escaped."""
    if value is None:
        return ""
    if isinstance(value, float):
        text = f"{value:,.4g}" if abs(value) < 1e6 else f"{value:.4g}"
    elif isinstance(value, int) and not isinstance(value, bool):
        text = f"{value:,}"
    else:
        text = str(value)
    return escape(text if len(text) <= _CELL else text[: _CELL - 1] + "…")
