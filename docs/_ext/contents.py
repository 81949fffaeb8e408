"""The tree of pages follows from index.md: the lists of links under its headings, which a code host shows as they are."""

from __future__ import annotations

import re

from sphinx.application import Sphinx

#: An item of a list that begins with a link to a page.
ITEM = re.compile(r"^\* \[[^\]]+\]\((?:\.\./|/)?([\w/]+)\.(?:md|rst|ipynb)\)", re.MULTILINE)
#: Notebooks stand beside docs in the repository, and are copied into them for the site.
NOTEBOOKS = re.compile(r"\]\((?:\.\./)+notebooks/")


def trees(text: str) -> str:
    """A hidden toctree for each heading of the second level that has a list of pages below it."""
    made = ""
    for part in text.split("\n## ")[1:]:
        if pages := ITEM.findall(part):
            lines = ["", "```{toctree}", ":hidden:", f":caption: {part.splitlines()[0]}", "", *pages, "```", ""]
            made += "\n".join(lines)
    return made


def read(app: Sphinx, page: str, source: list[str]) -> None:
    """What Sphinx reads of a page."""
    source[0] = NOTEBOOKS.sub("](/notebooks/", source[0])
    if page == app.config.root_doc:
        source[0] += trees(source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", read)
    return {"parallel_read_safe": True}
