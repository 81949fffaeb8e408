"""Outputs: whether a path can be written, and one job at a time.

On a file system a lock file beside the output is locked, by `locket`, which ends with the process however it ends. Object stores
have no such locks: see `distrf.store.writer`.
"""

from __future__ import annotations

import logging
import os
import re
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar

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
    """Raise StoreError for a local path that cannot be made or replaced: no folder above it, or none can be made."""
    for path in paths:
        if path is None or not files.is_local(os.fspath(path)):
            continue
        place = os.path.abspath(os.path.expanduser(path))
        folder = os.path.dirname(place)
        try:
            with suppress(FileNotFoundError):
                os.lstat(place)  # a name that is too long, or a file where a folder should be
            while not os.path.lexists(folder):
                folder = os.path.dirname(folder)
            # Permissions do not tell all: a disk may be read-only or full, and /proc takes no folder from anyone.
            os.rmdir(tempfile.mkdtemp(prefix=".distrf-", dir=folder))
        except (OSError, ValueError) as error:
            # Its text does not name the path again: it may be long.
            why = getattr(error, "strerror", None) or error
            raise StoreError(
                f"{os.fspath(path)!r} cannot be written: {why} in {folder!r}; choose another path"
            ) from error


def check_apart(
    out: str | os.PathLike[str] | None,
    inputs: Iterable[str | os.PathLike[str] | None],
    *,
    what: str = "an output",
    than: str = "its input",
) -> None:
    """Refuse an output that is one of the inputs, lies inside one or around one.

    Links are followed, and different names of one place (``file://``, a slash at the end, ``..``) are one.

    Parameters
    ----------
    out : path or URL, or None
        None is no path.
    inputs : iterable of path or URL or None
        Globs stand for every file that they match.
    what, than : str
        The output and the inputs in words, for the message.

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
                    f"{what} must lie apart from {than}: {os.fspath(out)!r} {how} {os.fspath(source)!r} "
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
    """
    held = _held.get()
    with ExitStack() as stack:
        for output in (files.normalise(output) for output in outputs if output is not None):
            parent, base = os.path.split(os.path.realpath(output))
            path = f"{parent}/.{base}.lock"
            if not files.is_local(output) or path in held:
                continue
            try:
                stack.enter_context(_locked(path))
            except locket.LockError as error:
                raise InUseError(
                    f"one job at a time writes an output: {output!r} is being written by another job ({error}); let it end, or stop it, "
                    "or choose another path"
                ) from error
            except OSError as error:  # files cannot be locked here, or not beside the output
                _LOG.warning("%r gets no lock, so a second job would not be seen: %s", output, error)
            else:
                held = (*held, path)
        before = _held.set(held)
        stack.callback(_held.reset, before)
        yield


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Lock a local file, and remove it while it is locked: later the next owner would lose it."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    while True:
        lock = locket.lock_file(path, timeout=0)
        lock.acquire()
        if os.path.exists(path):
            break
        lock.release()  # its owner has removed it meanwhile
    try:
        yield
    finally:
        try:
            with suppress(OSError):
                os.unlink(path)
        finally:
            lock.release()


@contextmanager
def partial_file(path: str) -> Iterator[str]:
    """A name to write a local file under, which then gets its own in one step. What a killed job left there is written anew.

    Parameters
    ----------
    path : str
        Of the file, whose bytes are the same whoever writes it.
    """
    made = f"{path}.partial"
    with ExitStack() as stack:
        try:
            stack.enter_context(_locked(f"{made}.lock"))
        except (locket.LockError, OSError):  # another job writes it too, or files cannot be locked here
            os.makedirs(os.path.dirname(path), exist_ok=True)
            made = f"{path}.{uuid.uuid4().hex}.partial"
        try:
            yield made
            os.replace(made, path)
        finally:
            with suppress(OSError):
                os.unlink(made)
