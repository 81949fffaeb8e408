"""What the package imports is what it declares."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
#: Names under which packages are imported, where these differ.
IMPORTED = {"scikit-learn": "sklearn", "pyyaml": "yaml", "ipython": "IPython"}
#: Declared and imported by none of our files: Dask's dashboard needs it.
UNSEEN = {"bokeh"}


def declared(requirements):
    names = {re.split(r"[\[<>=~! ]", requirement)[0].lower() for requirement in requirements}
    return {IMPORTED.get(name, name) for name in names}


def imported():
    """{package: a file that imports it}, those inside functions too."""
    found = {}
    for file in sorted((ROOT / "distrf").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            modules = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                modules = [node.module]
            for module in modules:
                found.setdefault(module.split(".")[0], str(file.relative_to(ROOT)))
    return {
        name: file for name, file in found.items() if name not in sys.stdlib_module_names and name != "distrf"
    }


def test_what_is_imported_is_declared():
    core = declared(PROJECT["dependencies"])
    extras = declared(r for requirements in PROJECT["optional-dependencies"].values() for r in requirements)
    found = imported()
    assert {name: file for name, file in found.items() if name not in core | extras} == {}
    assert core - set(found) == UNSEEN


def test_extras_are_imported_when_they_are_needed():
    """A package of an extra alone, imported at the top of a file, would fail in a core install."""
    core = declared(PROJECT["dependencies"])
    for file in sorted((ROOT / "distrf").rglob("*.py")):
        for node in ast.parse(file.read_text()).body:
            modules = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                modules = [node.module]
            for module in modules:
                name = module.split(".")[0]
                assert name in core | {"distrf"} or name in sys.stdlib_module_names, (file, name)
