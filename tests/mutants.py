"""Mutants: one small fault at a time in the package, and whether a test fails for it.

    python tests/mutants.py --seed 0 --count 40

A mutant swaps an operator or a comparison, changes a number, drops or adds a `not`, or deletes a statement. Texts,
annotations and docstrings are left alone, and so is distrf/compiled, whose loops are tested through their callers. Each
mutant is put into a copy of what git knows; the tests of the mirrored folder run there, then, if all pass, the
default ones. Tests that fail without a fault say nothing: they run on the code as it is first, and must pass. It
stands beside the tests since it asks what they notice. It takes minutes a mutant: no test runs it. `--near` asks the
tests of the mirrored folder and those that import the file, which takes a minute or so.

A mutant that no test can notice is listed in EQUIVALENT with its reason.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: A suite that hangs longer is stopped, and its mutant is caught.
SECONDS = 1800

#: (file, line of the original, line of the mutant): why both do the same.
EQUIVALENT: dict[tuple[str, str, str], str] = {}

OPERATORS: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
COMPARISONS: dict[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
#: Statements whose loss leaves no name undefined.
DELETED = (ast.AugAssign, ast.Raise, ast.Delete, ast.Expr)


@dataclass(frozen=True)
class Mutant:
    """`after` in the place of the bytes `start` to `stop` of the file."""

    path: str
    kind: str
    line: int
    start: int
    stop: int
    after: str

    def source(self) -> bytes:
        """The file with the fault."""
        whole = (ROOT / self.path).read_bytes()
        return whole[: self.start] + self.after.encode() + whole[self.stop :]

    def lines(self) -> tuple[str, str]:
        """The line of the fault before and after, without indent."""
        return tuple(s.decode().splitlines()[self.line - 1].strip() for s in self.sources())  # type: ignore[return-value]

    def sources(self) -> tuple[bytes, bytes]:
        return (ROOT / self.path).read_bytes(), self.source()

    def __str__(self) -> str:
        before, after = self.lines()
        return f"{self.path}:{self.line} ({self.kind})\n    - {before}\n    + {after}"


def changed(node: ast.AST) -> Iterator[tuple[str, str]]:
    """(kind, new text) of every mutant of one node."""
    if isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in OPERATORS:
        other = copy.deepcopy(node)
        other.op = OPERATORS[type(node.op)]()
        yield "operator", ast.unparse(other) if isinstance(node, ast.AugAssign) else f"({ast.unparse(other)})"
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            other = copy.deepcopy(node)
            other.ops[i] = COMPARISONS[type(op)]()
            yield "comparison", f"({ast.unparse(other)})"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not", f"bool({ast.unparse(node.operand)})"
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "constant", str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield "constant", f"({node.value!r} + 1)"
        yield "constant", f"({node.value!r} - 1)"
    if isinstance(node, DELETED) and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        yield "deleted statement", "pass"
    if isinstance(node, ast.Assign) and not any(isinstance(t, ast.Name | ast.Tuple) for t in node.targets):
        yield "deleted statement", "pass"


def reached(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below but texts (whose places Python 3.11 does not know) and annotations."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                yield from reached(child)


def conditions(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """The condition of an `if` or `while`, and its contrary."""
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        yield node.test, f"(not ({ast.unparse(node.test)}))"


def mutants_of(path: Path) -> Iterator[Mutant]:
    """All mutants of a file."""
    source = path.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in reached(ast.parse(source)):
        made = [(node, *change) for change in changed(node)]
        made += [(test, "not", text) for test, text in conditions(node)]
        for place, kind, text in made:
            start = starts[place.lineno - 1] + place.col_offset  # type: ignore[attr-defined]
            stop = starts[place.end_lineno - 1] + place.end_col_offset  # type: ignore[attr-defined]
            yield Mutant(str(path.relative_to(ROOT)), kind, place.lineno, start, stop, text)  # type: ignore[attr-defined]


def draw(seed: int, count: int, files: list[str]) -> list[Mutant]:
    """`count` mutants: of each kind as many, whatever there are more of in the code."""
    rng, kinds = random.Random(seed), defaultdict(list)
    for path in files:
        for mutant in mutants_of(ROOT / path):
            kinds[mutant.kind].append(mutant)
    return [rng.choice(kinds[sorted(kinds)[i % len(kinds)]]) for i in range(count)]


def mirrored(path: str) -> list[str]:
    """The tests that mirror a file of the package: those of its folder, or its own at the top."""
    inner = Path(path).relative_to("distrf")
    tests = Path("tests", inner.parts[0]) if len(inner.parts) > 1 else Path("tests", f"test_{inner.name}")
    return [str(tests)] if (ROOT / tests).exists() else []


def near(path: str) -> list[str]:
    """The test files that import a file of the package by its full name, after those that mirror it."""
    module = ".".join(Path(path).with_suffix("").parts).removesuffix(".__init__")
    package, _, name = module.rpartition(".")
    said = re.compile(rf"{re.escape(module)}\b|from {re.escape(package)} import .*\b{name}\b")
    mirror = mirrored(path)
    importing = (p for p in sorted((ROOT / "tests").rglob("test_*.py")) if said.search(p.read_text()))
    names = (str(p.relative_to(ROOT)) for p in importing)
    return [*mirror, *(n for n in names if not any(Path(n).is_relative_to(m) for m in mirror))]


def failure_of(folder: Path, tests: list[str]) -> str | None:
    """None if all tests pass in the copy, else what failed first."""
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "300"}
    environment.setdefault("DISTRF_DATA", str(ROOT.parent / "shared" / "data"))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"stopped after {SECONDS} s"
    if done.returncode in (0, 5):  # 5: the folder has no test that is not slow
        return None
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0][:300] if failed else (done.stdout + done.stderr)[-300:]


#: (folder, tests): what fails in the code as it is.
BASELINES: dict[tuple[Path, tuple[str, ...]], str | None] = {}


def baseline(folder: Path, tests: list[str]) -> str | None:
    """What fails without a fault, once for each set of tests."""
    key = (folder, tuple(tests))
    if key not in BASELINES:
        BASELINES[key] = failure_of(folder, tests)
    return BASELINES[key]


def verdict(folder: Path, mutant: Mutant, asked: list[list[str]]) -> tuple[str, str]:
    """("caught", "equivalent", "not caught" or "no baseline", why); the tests are `asked` one set after the other."""
    before, after = mutant.sources()
    if ast.dump(ast.parse(before)) == ast.dump(ast.parse(after)):
        return "equivalent", "the same code"
    known = EQUIVALENT.get((mutant.path, *mutant.lines()))
    if known:
        return "equivalent", known
    for tests in asked:
        broken = baseline(folder, tests)
        if broken:
            return "no baseline", f"without the fault: {broken}"
        (folder / mutant.path).write_bytes(after)
        try:
            failure = failure_of(folder, tests)
        finally:
            (folder / mutant.path).write_bytes(before)
        if failure:
            return "caught", failure
    return "not caught", ""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--only", default="distrf/", help="mutate files whose path begins so")
    parser.add_argument(
        "--near", action="store_true", help="only the tests of its folder and those that import it"
    )
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    chosen = parser.parse_args()
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    tracked = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    files = [f for f in tracked if f.startswith(chosen.only) and f.startswith("distrf/") and f.endswith(".py")]
    mutants = draw(chosen.seed, chosen.count, [f for f in files if not f.startswith("distrf/compiled/")])
    if chosen.list:
        print("\n".join(map(str, mutants)))
        return
    counts: dict[str, int] = defaultdict(int)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "copy"
        for name in tracked:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
        for mutant in mutants:
            asked = [near(mutant.path)] if chosen.near else [mirrored(mutant.path), []]
            found, why = verdict(folder, mutant, asked)
            counts[found] += 1
            print(f"{found}: {mutant}\n    {why}", flush=True)
    print(", ".join(f"{count} {found}" for found, count in sorted(counts.items())))


if __name__ == "__main__":
    main()
