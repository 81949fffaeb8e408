"""The notebooks as pages of the site: copied beside the others before Sphinx reads them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx


def copy(app: Sphinx) -> None:
    """Copy notebooks that have changed, and drop pages of notebooks that are gone."""
    folder = Path(app.srcdir) / "notebooks"
    folder.mkdir(exist_ok=True)
    sources = {path.name: path for path in (Path(app.srcdir).parent / "notebooks").glob("*.ipynb")}
    for page in folder.glob("*.ipynb"):
        if page.name not in sources:
            page.unlink()
    for name, source in sources.items():
        page = folder / name
        if not page.exists() or page.read_bytes() != source.read_bytes():
            shutil.copyfile(source, page)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", copy)
    return {"version": "1", "parallel_read_safe": True}
