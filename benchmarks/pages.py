"""The tables of the documentation, from benchmarks/results.

A page shows a part between `<!-- results: NAME PART -->` and `<!-- end of results -->`, and below its table how, when and where it was
measured; all else on it is written by hand.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from benchmarks import names, results

BLOCK = re.compile(r"<!-- results: (?P<name>\w+) (?P<part>\w+) -->.*?<!-- end of results -->", re.DOTALL)


def write() -> list[Path]:
    """Fill all pages; returns those that changed."""
    changed = {path: made for path, made in filled().items() if path.read_text() != made}
    for path, made in changed.items():
        path.write_text(made)
    return [*changed]


def filled() -> dict[Path, str]:
    """{path: text} of all pages that show results."""
    texts = {path: path.read_text() for path in sorted((names.ROOT / "docs").rglob("*.md"))}
    return {path: fill(text) for path, text in texts.items() if BLOCK.search(text)}


def fill(text: str, folder: Path = results.FOLDER) -> str:
    """The text with its tables made anew."""

    def block(match: re.Match[str]) -> str:
        name, what = match["name"], match["part"]
        part = names.parts(name).get(what) if name in names.NAMES else None
        kept = results.read(folder / f"{name}.json")["parts"].get(what)
        if part is None or kept is None or kept["small"]:
            raise SystemExit(f"a page shows {name} {what}, of which {folder} holds no full run")
        made, data = part.show(kept["records"]), " --data DATA" if part.data else ""
        how = f"`python -m benchmarks {name} --parts {what}{data}`: {measured(kept)}."
        return f"<!-- results: {name} {what} -->\n\n{made}\n\n{how}\n\n<!-- end of results -->"

    return BLOCK.sub(block, text)


def measured(part: dict[str, Any]) -> str:
    """How long it took, when, on which processor, of which version; the file has the cores and other versions."""
    seconds = part["seconds"]
    took = f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
    said = f"{took} on {part['date']}, {part['machine']['processor']}; distrf {part['machine']['distrf']}"
    for before in part.get("before", ()):
        said += f"; the first {before['records']} records: {measured(before)}"
    return said
