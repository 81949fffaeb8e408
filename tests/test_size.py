"""Ceilings: the code lines and files of each folder, and the functions that are too long.

A change may make a folder smaller and leave the ceiling; none raises one, but lines may move from one folder to another, with the reason in
the commit. `python tests/test_size.py` prints both tables as they are now, to be written here from time to time. The goal is `distrf/`
of at most 21,000 lines in 190 files, `tests/` of 20,000 lines and `benchmarks/` of 2,500.

A code line is no docstring, no comment and not blank.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: {folder: (code lines, files)}; "distrf" has the files at its top.
SIZES: dict[str, tuple[int, ...]] = {
    "benchmarks": (2499, 28),
    "distrf": (2614, 24),
    "distrf/cli": (481, 4),
    "distrf/compiled": (629, 9),
    "distrf/datasets": (110, 3),
    "distrf/execution": (1849, 15),
    "distrf/kernels": (347, 6),
    "distrf/learned": (897, 7),
    "distrf/linear_model": (1133, 11),
    "distrf/maps": (2459, 19),
    "distrf/newton": (552, 6),
    "distrf/pipeline": (2132, 14),
    "distrf/plot": (134, 3),
    "distrf/projections": (546, 7),
    "distrf/ridge": (578, 6),
    "distrf/scores": (398, 6),
    "distrf/sgd": (1480, 11),
    "distrf/store": (2979, 23),
    "distrf/subspace": (469, 7),
    "distrf/tables": (800, 7),
    "tests": (19668, 159),
}  # fmt: skip
#: {function of the package of more than 60 code lines: its lines}.
LONG: dict[str, tuple[int, ...]] = {}  # fmt: skip
LIMIT = 60
Function = ast.FunctionDef | ast.AsyncFunctionDef


def code_lines(source: str, tree: ast.Module) -> list[int]:
    """The numbers of the lines that are code."""
    texts: set[int] = set()
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.ClassDef | Function)
            and ast.get_docstring(node, False) is not None
        ):
            texts.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = enumerate(source.split("\n"), 1)
    return [i for i, line in lines if line.strip() and not line.strip().startswith("#") and i not in texts]


def functions(node: ast.AST, name: str) -> list[tuple[str, Function]]:
    """All functions below a node with their qualified names."""
    found: list[tuple[str, Function]] = []
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, ast.ClassDef | Function)
        own = f"{name}.{child.name}" if named else name
        found += [(own, child)] if isinstance(child, Function) else []
        found += functions(child, own)
    return found


def measured() -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
    """Both tables, as they are."""
    lines: Counter[str] = Counter()
    files: Counter[str] = Counter()
    long: dict[str, tuple[int, ...]] = {}
    for path in sorted(p for top in ("distrf", "tests", "benchmarks") for p in (ROOT / top).rglob("*.py")):
        parts, source = path.relative_to(ROOT).with_suffix("").parts, path.read_text()
        folder = "/".join(parts[:-1][:2]) if parts[0] == "distrf" else parts[0]
        tree = ast.parse(source)
        code = code_lines(source, tree)
        lines[folder] += len(code)
        files[folder] += 1
        for name, node in functions(tree, ".".join(parts)) if parts[0] == "distrf" else ():
            count = sum(node.lineno <= i <= (node.end_lineno or 0) for i in code)
            long |= {name: (count,)} if count > LIMIT else {}
    return {folder: (lines[folder], files[folder]) for folder in sorted(lines)}, long


def larger(ceilings: dict[str, tuple[int, ...]], now: dict[str, tuple[int, ...]]) -> list[str]:
    """What is above its ceiling, or has none."""
    return [
        f"{name}: {found} is more than {ceilings.get(name)}: delete as much, or move it from where it became less"
        for name, found in now.items()
        if name not in ceilings or any(b > a for a, b in zip(ceilings[name], found, strict=True))
    ]


def test_no_folder_is_larger():
    assert not larger(SIZES, measured()[0])


def test_no_long_function_is_new_or_larger():
    assert not larger(LONG, measured()[1])


def test_more_and_new_are_told():
    """Neither fewer, nor gone, nor equal."""
    before, now = (
        {"a": (5, 1), "b": (5, 1), "c": (5, 1), "d": (5, 1)},
        {"a": (6, 1), "b": (4, 1), "d": (5, 1), "e": (1, 1)},
    )
    assert [line.split(":")[0] for line in larger(before, now)] == ["a", "e"]


if __name__ == "__main__":
    for title, table in zip(("SIZES", "LONG"), measured(), strict=True):
        print(
            f"{title}: dict[str, tuple[int, ...]] = {{\n"
            + "".join(f'    "{k}": {v},\n' for k, v in table.items())
            + "}  # fmt: skip"
        )
