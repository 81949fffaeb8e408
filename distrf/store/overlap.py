"""Refuses an output at, inside or around another place that its job reads or writes: it would destroy that one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import zarr
from zarr.storage import FsspecStore

from ..errors import InputError
from . import files
from .files import Options


def check_apart(
    out: str | os.PathLike[str] | None,
    inputs: Iterable[str | os.PathLike[str] | None],
    *,
    what: str = "an output",
    than: str = "its input",
    storage_options: Options = None,
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
    storage_options : mapping, optional
        Options of the fsspec file system.

    Raises
    ------
    InputError
        With both paths, before anything is created.
    """
    if out is None:
        return
    for source in inputs:
        if source is None:
            continue
        place = _place(out, storage_options)
        for other in _places(source, storage_options):
            if _inside(place, other):
                how = "is" if _inside(other, place) else "lies inside"
            elif _inside(other, place):
                how = "lies around"
            else:
                continue
            raise InputError(
                f"{what} must lie apart from {than}: {os.fspath(out)!r} {how} {os.fspath(source)!r} "
                f"({place} and {other}); choose another path for {what}"
            )


def _places(path: str | os.PathLike[str], storage_options: Options) -> Iterator[str]:
    """Where an input is: every file that a glob stands for."""
    text = files.normalise(path)
    if not files.is_glob(text, storage_options):
        yield _place(text, storage_options)
        return
    fs, root = files.filesystem(text, storage_options)
    for name in fs.glob(root):
        yield _place(name if files.is_local(text) else fs.unstrip_protocol(name), storage_options)


def _place(path: str | os.PathLike[str], storage_options: Options) -> str:
    """One name of a place: the real path of a local one, the protocol and the key of a remote one."""
    text = files.normalise(path)
    if files.is_local(text):
        return os.path.realpath(text)
    fs, root = files.filesystem(text.rsplit("::", 1)[-1], storage_options)
    return str(fs.unstrip_protocol(root)).rstrip("/")


def _inside(inner: str, outer: str) -> bool:
    """Whether a place is another one or lies inside it."""
    if not (files.is_local(inner) and files.is_local(outer)):
        return f"{inner}/".startswith(f"{outer}/")
    known = os.path.exists(outer)
    while True:
        # The same file under two names: a bind mount, or a file system that ignores case.
        if inner == outer or (known and os.path.exists(inner) and os.path.samefile(inner, outer)):
            return True
        parent = os.path.dirname(inner)
        if parent == inner:
            return False
        inner = parent


def place_of_array(value: Any) -> str | None:
    """Where an open Zarr array lies, such as Dask's ``from_zarr`` holds.

    Parameters
    ----------
    value : object

    Returns
    -------
    str, or None
        A path or URL; None for anything but a Zarr array.
    """
    if not isinstance(value, zarr.Array):
        return None
    store = value.store
    if isinstance(store, FsspecStore):
        fs = getattr(store.fs, "sync_fs", store.fs)  # a local folder opened through fsspec is wrapped
        root = str(fs.unstrip_protocol(store.path))
    else:
        root = str(getattr(store, "root", store))
    return f"{root}/{value.path}".rstrip("/")
