"""Benchmarks are run by hand, so a renamed part of the package would break them unseen: every name they import exists."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

BENCHMARKS = sorted((Path(__file__).parents[1] / "benchmarks").rglob("*.py"))


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_names_that_a_benchmark_imports_exist(path):
    tree = ast.parse(path.read_text())
    imports = [
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "distrf"
        for alias in node.names
    ]
    missing = [f"{module}.{name}" for module, name in imports if not exists(module, name)]
    assert not missing


def exists(module: str, name: str) -> bool:
    """Whether `from module import name` works."""
    if hasattr(importlib.import_module(module), name):
        return True
    try:
        importlib.import_module(f"{module}.{name}")
    except ImportError:
        return False
    return True
