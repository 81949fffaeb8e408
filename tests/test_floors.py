"""The floors of the package: who may import whom and which packages, and how large a file may grow."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "distrf"
FILES = sorted(PACKAGE.rglob("*.py"))
LINES = 500
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
#: Names under which packages are imported, where these differ.
IMPORTED = {"scikit-learn": "sklearn", "pyyaml": "yaml", "ipython": "IPython"}
#: Declared and imported by none of our files: Dask's dashboard needs it.
UNSEEN = {"bokeh"}

every_file = pytest.mark.parametrize(
    "files",
    [
        [f for f in FILES if f.relative_to(PACKAGE).parts[0] == part]
        for part in sorted({f.relative_to(PACKAGE).parts[0] for f in FILES})
    ],
    ids=lambda files: files[0].relative_to(PACKAGE).parts[0],
)


def floors():
    """Names of the package in the order of docs/design.md, lowest first."""
    text = (ROOT / "docs/design.md").read_text()
    chapter = text[text.index("## Floors") :]
    listing = chapter[: chapter.index(". A file imports")]
    return [name.strip() for group in re.findall(r"`([^`]+)`", listing) for name in group.split(",")]


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path, inside=True):
    """The module of every import in a file, `inside` functions too; names inside distrf are absolute."""
    name, tree = module_name(path), ast.parse(path.read_text())
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(tree) if inside else tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            if module == "distrf":  # from .. import store
                yield from (f"distrf.{alias.name}" for alias in node.names)
            else:
                yield module


def floor_of(module):
    """The part of the package that a module is in; a file that is listed by itself is a part of its own."""
    parts = module.split(".")
    own = "/".join([*parts[1:], "__init__"][:2])
    return own if own in floors() else parts[1] if len(parts) > 1 else None


def test_every_part_has_a_floor():
    parts = {floor_of(module_name(path)) for path in FILES} - {None, "__main__"}
    listed = floors()
    assert len(listed) == len(set(listed))
    assert parts == set(listed)


@every_file
def test_imports_go_down(files):
    for path in files:
        name, order = module_name(path), floors()
        own = floor_of(name)
        if own in (None, "__main__"):
            continue
        for module in imports(path):
            other = floor_of(module)
            if not module.startswith("distrf.") or other in (own, "__version__"):
                continue
            assert order.index(other) < order.index(own), f"{name} imports {module}, which is on a higher floor"


@every_file
def test_seams(files):
    """pandas nowhere; distributed and the console only where they belong."""
    for path in files:
        name = module_name(path)
        found = {module.split(".")[0] for module in imports(path)}
        assert "pandas" not in found, name
        assert (
            not any(module.startswith("dask.dataframe") for module in imports(path))
            or name == "distrf.execution.labelled"
        )
        assert "matplotlib" not in found or name.startswith("distrf.plot") or name.startswith("distrf.cli"), (
            name
        )
        assert not found & {"typer", "rich"} or name.startswith(("distrf.cli", "distrf.progress")), name
        assert not found & {"pyarrow", "zarr", "fsspec"} or name.startswith(
            ("distrf.store", "distrf.ingestion")
        )
        if floor_of(name) == "store":
            assert not found & {"dask", "distributed"}, (
                f"{name}: readers and writers of blocks do not know Dask"
            )
        of_blocks = name.startswith(
            tuple(f"distrf.{part}" for part in ("kernels", "compiled", "randomness", "projections", "maps"))
        )
        if of_blocks and name != "distrf.maps.estimator":
            assert not found & {"dask", "distributed", "zarr"}, (
                "a block function does not know that Dask exists"
            )


def test_one_file_imports_private_parts_of_dask():
    private = re.compile(r"(dask|distributed)(\.\w+)*\._\w+")
    users = [module_name(path) for path in FILES if any(private.fullmatch(module) for module in imports(path))]
    assert users == ["distrf.execution.graph"]


@every_file
def test_files_stay_readable(files):
    for path in files:
        lines = path.read_text().splitlines()
        assert len(lines) <= LINES, f"{path.name} has {len(lines)} lines: split it"
        if any(lines):
            assert ast.get_docstring(ast.parse(path.read_text())), f"{path.name} does not say what it is"


def test_importing_distrf_is_cheap():
    """`distrf --help` and cold workers do not pay for what they do not use."""
    code = "import sys, distrf; print(sorted({m.split('.')[0] for m in sys.modules} & {'numpy', 'dask', 'sklearn'}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_way_of_a_training_exists():
    """The stops that docs/design.md lists: at most 24 of ridge, each a function or a class of its file."""
    text = (ROOT / "docs/design.md").read_text()
    chapter = text[text.index("## The way of a training") : text.index("## Floors")]
    stops = re.findall(r"`([\w/]+\.py): (\w+)`", chapter)
    assert len(re.findall(r"^\| \d+ \|", chapter, re.MULTILINE)) <= 24
    assert len(stops) > 30
    for file, name in stops:
        assert re.search(rf"^ *(def|class) {name}\b", (PACKAGE / file).read_text(), re.MULTILINE), (file, name)


def declared(requirements):
    names = {re.split(r"[\[<>=~! ]", requirement)[0].lower() for requirement in requirements}
    return {IMPORTED.get(name, name) for name in names}


def packages(inside):
    found = {module.split(".")[0] for path in FILES for module in imports(path, inside)}
    return found - sys.stdlib_module_names - {"distrf"}


def test_what_is_imported_is_declared():
    """At the top of a file by the core: a package of an extra alone would fail there in a core install."""
    core = declared(PROJECT["dependencies"])
    extras = declared(r for requirements in PROJECT["optional-dependencies"].values() for r in requirements)
    assert packages(True) <= core | extras
    assert core - packages(True) == UNSEEN
    assert packages(False) <= core
