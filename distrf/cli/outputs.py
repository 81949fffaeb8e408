"""Whether an output can be written, and whether it is there already: asked before anything is computed."""

from __future__ import annotations

import os
from dataclasses import fields
from typing import Any

from ..errors import SpecMismatchError, StoreError
from ..store import is_bundle, read_spec
from ..store.files import is_local
from ..store.spec import differences, to_json


def check_writable(*paths: str | None) -> None:
    """Raise StoreError for a local path that cannot be made or replaced: no folder above it, or no permission."""
    for path in paths:
        if path is None or not is_local(path):
            continue
        place = os.path.abspath(os.path.expanduser(path))
        try:
            there = place
            while not os.path.lexists(there):
                there = os.path.dirname(there)
            os.lstat(place)  # a name that is too long
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            raise StoreError(f"{path!r} cannot be written: {error}; choose another path") from error
        folder = os.path.dirname(place) if there == place else there
        if not os.path.isdir(folder):
            raise StoreError(f"{path!r} cannot be written: {folder!r} is no folder; choose another path")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise StoreError(f"{path!r} cannot be written: no permission in {folder!r}; choose another path")


def said(*groups: Any) -> dict[str, Any]:
    """{option: value} of the options that differ from their defaults."""
    return {
        f.name: getattr(group, f.name)
        for group in groups
        for f in fields(group)
        if getattr(group, f.name) != f.default
    }


def is_done(out: str, asked: dict[str, Any]) -> bool:
    """Whether `out` holds the model of this very job, for one that is started again with --resume.

    asked : rows and options, as they are saved with the model. Raises SpecMismatchError for a model of another job.
    """
    if not is_bundle(out):
        return False
    found = read_spec(out)
    changed = differences({k: found.get(k) for k in asked}, to_json(asked))
    if changed:
        raise SpecMismatchError(
            f"{out!r} holds a model of another job ({'; '.join(changed[:12])}); give the options it was made with, or "
            "another path, or --overwrite"
        )
    return True
