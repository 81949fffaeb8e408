"""Names that are imported on first use, so that the command line and cold workers start quickly."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
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


class Registry(MutableMapping[str, T]):
    """Classes by name; one that is entered as "module:Class" is imported when it is asked for."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._entries: dict[str, Any] = dict(places)

    def __getitem__(self, name: str) -> T:
        found = self._entries[name]
        if isinstance(found, str):
            module, _, attribute = found.partition(":")
            found = self._entries[name] = getattr(importlib.import_module(module), attribute)
        return found  # type: ignore[no-any-return]

    def __setitem__(self, name: str, entry: T) -> None:
        self._entries[name] = entry

    def __delitem__(self, name: str) -> None:
        del self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
