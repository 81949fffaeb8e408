"""Whether an output can be written: asked before anything is computed."""

from __future__ import annotations

import os
import tempfile

from ..errors import StoreError
from .files import is_local


def check_writable(*paths: str | os.PathLike[str] | None) -> None:
    """Raise StoreError for a local path that cannot be made or replaced: no folder above it, or none can be made."""
    for path in paths:
        if path is None or not is_local(os.fspath(path)):
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
            raise StoreError(f"{os.fspath(path)!r} cannot be written: {error}; choose another path") from error
        folder = os.path.dirname(place) if there == place else there
        if not os.path.isdir(folder):
            raise StoreError(
                f"{os.fspath(path)!r} cannot be written: {folder!r} is no folder; choose another path"
            )
        try:  # permissions do not tell all: a disk may be read-only or full, and /proc takes no folder from anyone
            os.rmdir(tempfile.mkdtemp(prefix=".distrf-", dir=folder))
        except OSError as error:
            raise StoreError(
                f"{os.fspath(path)!r} cannot be written: {error.strerror} in {folder!r}; choose another path"
            ) from error
