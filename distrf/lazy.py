"""Names that are imported on first use, so that the command line and cold workers start quickly."""

from __future__ import annotations

import importlib
import sys
from collections import UserDict
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def exports(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], list[str]]:
    """`__getattr__` and `__all__` of a package, whose `dir` lists these names too.

    modules : {module: names, between spaces}, relative to the package
    """
    module_of = {name: module for module, names in modules.items() for name in names.split()}

    def found(name: str) -> Any:
        if name in module_of:
            return getattr(importlib.import_module(module_of[name], package), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    own = vars(sys.modules[package])
    own["__dir__"] = lambda: sorted({*own, *module_of})
    return found, sorted(module_of)


class Registry(UserDict[str, T]):
    """Classes by name; one that is entered as "module:Class" is imported when it is asked for."""

    def __init__(self, places: Mapping[str, str]) -> None:
        super().__init__(places)  # type: ignore[arg-type]

    def __getitem__(self, name: str) -> T:
        found: Any = self.data[name]
        if isinstance(found, str):
            module, _, attribute = found.partition(":")
            found = self.data[name] = getattr(importlib.import_module(module), attribute)
        return found  # type: ignore[no-any-return]
