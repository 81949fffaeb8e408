"""Outputs: whether a path can be written, and one job at a time.

On a file system a lock file beside the output is locked, by `locket`, which ends with the process however it ends. Object stores
have no such locks: see `distrf.store.writer`.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import locket

from ..errors import InputError, InUseError, StoreError
from . import file_lists, files

_LOG = logging.getLogger(__name__)
#: The lock files that are held where this is asked.
_held: ContextVar[tuple[str, ...]] = ContextVar("distrf_locks", default=())


def to_parquet(out: str) -> bool:
    """Whether an output is Parquet, by the ending of its path."""
    return out.rstrip("/").lower().endswith((".parquet", ".pq"))


def check_zarr_ending(out: str) -> None:
    """Raise StoreError for a Zarr store that is called like a file of another format."""
    stem, ending = os.path.splitext(out.rstrip("/"))
    if ending.lower() != ".zarr" and re.fullmatch(r"\.[A-Za-z]+\d?", ending):
        raise StoreError(
            f"{out!r} cannot be written: the output is a Zarr store, which ends in .zarr; predictions and rows are also "
            f"written to Parquet, which ends in .parquet: {stem + '.parquet'!r}; choose another path"
        )


def check_writable(*paths: str | os.PathLike[str] | None) -> None:
    """Raise StoreError for a local path that cannot be made or replaced, InUseError for one that another job writes."""
    with hold(*paths):
        pass


def check_apart(
    out: str | os.PathLike[str] | None,
    inputs: Iterable[str | os.PathLike[str] | None],
    *,
    what: str = "an output",
) -> None:
    """Refuse an output that is one of the inputs, lies inside one or around one.

    Links are followed, and different names of one place (``file://``, a slash at the end, ``..``) are one.

    Parameters
    ----------
    out : path or URL, or None
        None is no path.
    inputs : iterable of path or URL or None
        Globs stand for every file that they match.
    what : str
        The output in words, for the message.

    Raises
    ------
    InputError
        With both paths, before anything is created.
    """
    if out is None:
        return
    place = _place(files.normalise(out))
    for source in (source for source in inputs if source is not None):
        path = files.normalise(source)
        for other in map(_place, file_lists.all_files(path) if files.is_glob(path) else [path]):
            if f"{place}/".startswith(f"{other}/") or f"{other}/".startswith(f"{place}/"):
                how = "is" if place == other else "lies inside" if len(place) > len(other) else "lies around"
                raise InputError(
                    f"{what} must lie apart from its input: {os.fspath(out)!r} {how} {os.fspath(source)!r} "
                    f"({place} and {other}); choose another path for {what}"
                )


def _place(path: str) -> str:
    """One name of a place: the real path of a local one, the protocol and the key of a remote one."""
    if files.is_local(path):
        return os.path.realpath(path)
    fs, root = files.filesystem(path.rsplit("::", 1)[-1])
    return str(fs.unstrip_protocol(root)).rstrip("/")


@contextmanager
def hold(*outputs: str | os.PathLike[str] | None) -> Iterator[None]:
    """Be the one job that writes these outputs. Those that the caller holds already remain his.

    Parameters
    ----------
    *outputs : path or URL, or None for none
        Those on object stores get no lock.

    Raises
    ------
    InUseError
        Another job writes one of them.
    StoreError
        There can be no file beside one.
    """
    held = _held.get()
    with ExitStack() as stack:
        for output in (files.normalise(output) for output in outputs if output is not None):
            if not files.is_local(output):
                continue
            try:
                parent, base = os.path.split(os.path.realpath(output))
                path = f"{parent}/.{base}.lock"
                if path in held:
                    continue
                os.makedirs(parent, exist_ok=True)
                # Permissions do not tell all: a disk may be read-only or full, and /proc takes no file.
                with open(path, "ab"):
                    pass
            except (OSError, ValueError) as error:
                # Its text does not name the path again: it may be long.
                why = getattr(error, "strerror", None) or error
                raise StoreError(
                    f"{output!r} cannot be written: {why} in {os.path.dirname(output)!r}; choose another path"
                ) from error
            try:
                lock = _lock(path)
            except locket.LockError as error:
                raise InUseError(
                    f"one job at a time writes an output: {output!r} is being written by another job ({error}); let it end, or stop it, "
                    "or choose another path"
                ) from error
            except OSError as error:  # files cannot be locked here
                _LOG.warning("%r gets no lock, so a second job would not be seen: %s", output, error)
                os.unlink(path)
                continue
            stack.callback(lock.release)
            # While it is locked: later the next owner would lose it.
            stack.callback(Path(path).unlink, missing_ok=True)
            held = (*held, path)
        stack.callback(_held.reset, _held.set(held))
        yield


def _lock(path: str) -> Any:
    """Lock a local file."""
    while True:
        lock = locket.lock_file(path, timeout=0)
        lock.acquire()
        if os.path.exists(path):
            return lock
        lock.release()  # its owner has removed it meanwhile
