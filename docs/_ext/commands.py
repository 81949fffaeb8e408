"""A page for each command of the command line, written from what the command itself says before Sphinx reads the pages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

FOLDER = Path("reference/commands")


def escaped(text: str) -> str:
    """Plain text as Markdown that shows the same; words in backquotes are code, as in docstrings."""
    parts = re.split(r"(`[^`]+`)", " ".join(text.split()))
    return "".join(
        part if part.startswith("`") else re.sub(r"([\\*_<>\[\]|$#~{}`])", r"\\\1", part) for part in parts
    )


def page(name: str) -> str:
    """The page of a command: its text, how it is called, examples, and each argument and option in the groups of `--help-all`."""
    from distrf.cli.app import get_command

    command = get_command(name)
    context: Any = command.make_context(name, [], resilient_parsing=True)
    first, *rest = (command.help or "").split("\n\n")
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [f"(command-{name})=", f"# distrf {name}", "", escaped(first), ""]
    for paragraph in rest:
        lines += [escaped(paragraph), ""]
    lines += ["```text", f"distrf {name} {usage}", "```", ""]
    lines += ["```bash", *command.examples, "```", ""]
    for panel, records in command.groups(context).items():
        lines += [f"## {panel}", ""]
        for names, text in records:
            lines += [f"`` {names} ``", f": {escaped(text) or 'No text.'}", ""]
    return "\n".join(lines)


def write_pages(app: Sphinx) -> None:
    """Write what differs from the files that are there, so that Sphinx reads again only what has changed."""
    from distrf.cli.app import COMMANDS, get_command

    folder = Path(app.srcdir) / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        f"| [{name}](#command-{name}) | {escaped(get_command(name).help.split(chr(10))[0])} |"
        for name in COMMANDS
    ]
    (folder / "summary.txt").write_text("\n".join(["| command | |", "|---|---|", *rows, ""]))
    for old in folder.glob("*.md"):
        if old.stem not in COMMANDS:
            old.unlink()
    for name in COMMANDS:
        place, text = folder / f"{name}.md", page(name)
        if not place.exists() or place.read_text() != text:
            place.write_text(text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Pages are written when the builder is made, before the source files are listed."""
    app.connect("config-inited", lambda app, config: write_pages(app))
    return {"parallel_read_safe": True}
