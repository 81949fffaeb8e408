"""A page for each command of the command line: what its `--help` says, written before Sphinx reads the pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

FOLDER = Path("reference/commands")


def page(name: str, command: Any) -> str:
    """The page of a command."""
    context = command.make_context(f"distrf {name}", [], resilient_parsing=True)
    return "\n".join([f"# distrf {name}", "", "```text", command.get_help(context), "```", ""])


def write_pages(app: Sphinx) -> None:
    """Write what differs from the files that are there, so that Sphinx reads again only what has changed."""
    import typer

    from distrf.cli.app import app as distrf

    commands = typer.main.get_command(distrf).commands  # type: ignore[attr-defined]
    folder = Path(app.srcdir) / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    texts = {f"{name}.md": page(name, command) for name, command in commands.items()}
    for old in folder.glob("*.md"):
        if old.name not in texts:
            old.unlink()
    for name, text in texts.items():
        place = folder / name
        if not place.exists() or place.read_text() != text:
            place.write_text(text)


def list_pages(app: Sphinx, name: str, source: list[str]) -> None:
    """The page of all commands ends with their list, and leads to their pages."""
    if name == str(FOLDER):
        tree = ["", "```{toctree}", ":glob:", ":maxdepth: 1", "", "commands/*", "```", ""]
        source[0] += "\n".join(tree)


def setup(app: Sphinx) -> dict[str, bool]:
    """Pages are written when the builder is made, before the source files are listed."""
    app.connect("config-inited", lambda app, config: write_pages(app))
    app.connect("source-read", list_pages)
    return {"parallel_read_safe": True}
