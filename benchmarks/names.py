"""All benchmarks by their names: every file here that holds `PARTS`."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

from benchmarks.benchmark import Part

ROOT = Path(__file__).parents[1]
#: {name: file}, of which none is imported before it is run.
NAMES = {
    path.stem: path
    for path in sorted((ROOT / "benchmarks").rglob("*.py"))
    if re.search(r"^PARTS\b", path.read_text(), re.MULTILINE)
}


def summary(name: str) -> str:
    """What a benchmark measures: the first line of its file."""
    return (ast.get_docstring(ast.parse(NAMES[name].read_text())) or "").splitlines()[0]


def parts(name: str) -> dict[str, Part]:
    """The parts of a benchmark by their names."""
    module = ".".join(NAMES[name].relative_to(ROOT).with_suffix("").parts)
    return {part.name: part for part in importlib.import_module(module).PARTS}
