"""The options of maps and models, kept in a file beside the compiled modules: making them imports every estimator.

As a compiled module is, the file is made on first use, and made again when a source file of the package has changed. Help,
completion and the reading of job files then start in a fifth of a second, as those of other commands do.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.util
import json
import os
import sys
from collections.abc import Iterable
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

from ..errors import InputError, reworded
from .spelling import Options, Spelling

_PACKAGE = Path(__file__).parents[1]


@functools.cache
def load_plugins() -> bool:
    """Import what installed packages name in the group "distrf" of their entry points: it registers itself.

    Returns whether there are any. Raises InputError for what cannot be imported.
    """
    found = entry_points(group="distrf")
    for entry in found:
        what = f"the plugin {entry.name!r} cannot be imported"
        with reworded(
            lambda error: InputError(f"{what}: {error!r}; mend or uninstall the package that names it")  # noqa: B023
        ):
            entry.load()
    return bool(found)


def group_class(name: str) -> Any:
    """The class of options that stand for estimators, of that name; its import takes seconds."""
    from . import estimator_options, search_options

    return (vars(estimator_options) | vars(search_options))[name]


def group_options(name: str) -> Options:
    """The options of such a class: what is registered now, or what was kept where only this package can have registered."""
    if load_plugins() or "distrf.registry" in sys.modules:
        return group_class(name).options()
    return _all_options()[name]


@functools.cache
def _all_options() -> dict[str, Options]:
    place, sources = _place(), _sources()
    try:
        kept = json.loads(place.read_text())
        if kept["sources"] == sources:
            return {name: _from_plain(options) for name, options in kept["groups"].items()}
    except (OSError, ValueError, TypeError, KeyError):
        pass  # none yet, or of no use
    found = {name: group_class(name).options() for name in _names()}
    plain = {
        name: {option: dataclasses.asdict(s) for option, s in group.items()} for name, group in found.items()
    }
    _write(place, json.dumps({"sources": sources, "groups": plain}))
    return found


def _names() -> list[str]:
    """The classes of options that stand for estimators."""
    from . import estimator_options, search_options
    from .signatures import Typed

    return [
        name
        for module in (estimator_options, search_options)
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, Typed) and hasattr(kind, "options")
    ]


def _place() -> Path:
    return Path(importlib.util.cache_from_source(__file__)).with_suffix(".json")


def _sources() -> list[Any]:
    """What the options follow from: each file of the package by time and size, and scikit-learn, whose transformers are listed."""
    return [version("scikit-learn"), *map(list, _files(_PACKAGE))]


def _files(folder: Path) -> Iterable[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir():
                yield from _files(Path(entry.path))
            elif entry.name.endswith(".py"):
                about = entry.stat()
                yield entry.path, about.st_mtime_ns, about.st_size


def _from_plain(options: dict[str, dict[str, Any]]) -> Options:
    tuples = ("names", "values")
    return {
        name: Spelling(**plain | {key: tuple(plain[key]) for key in tuples}) for name, plain in options.items()
    }


def _write(place: Path, text: str) -> None:
    """In one step, as several commands may start at once; where nothing can be written, the next one makes them again."""
    own = place.with_suffix(f".{os.getpid()}")
    try:
        place.parent.mkdir(exist_ok=True)
        own.write_text(text)
        own.replace(place)
    except OSError:
        with contextlib.suppress(OSError):
            own.unlink(missing_ok=True)
