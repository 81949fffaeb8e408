"""What is asked of an output before anything is computed: whether it can be written, and lies apart from what the job reads."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import zarr
from zarr.storage import FsspecStore

from ..errors import InputError, StoreError
from . import files
from .files import Place, is_local

#: Endings that name formats which cannot be written.
_OTHERS = (
    ".csv", ".tsv", ".txt", ".json", ".npy", ".npz", ".h5", ".hdf5", ".feather", ".arrow", ".orc", ".avro", ".xls", ".xlsx",
    ".mat", ".pkl", ".pickle", ".joblib", ".svmlight", ".libsvm", ".gz", ".zip", ".zst",
)  # fmt: skip
_PARQUET = (".parquet", ".pq")


def to_parquet(out: str) -> bool:
    """Whether an output is Parquet, by the ending of its path."""
    return out.rstrip("/").lower().endswith(_PARQUET)


def check_zarr_ending(out: str) -> None:
    """Raise StoreError for a Zarr store that is called like a file of another format."""
    if out.rstrip("/").lower().endswith((*_OTHERS, *_PARQUET)):
        raise StoreError(
            f"{out!r} cannot be written: the output is a Zarr store, which ends in .zarr; predictions and rows are also "
            "written to Parquet, which ends in .parquet; choose another path"
        )


def check_writable(*paths: str | os.PathLike[str] | None) -> None:
    """Raise StoreError for a local path that cannot be made or replaced: no folder above it, or none can be made."""
    for path in paths:
        path = None if path is None else os.fspath(path)
        if path is None or not is_local(path):
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
            raise StoreError(f"{path!r} cannot be written: {why} in {folder!r}; choose another path") from error


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
    place = None if out is None else _place(out)
    for source in inputs:
        for other in [] if place is None or source is None else _places(source):
            if f"{place}/".startswith(f"{other}/") or f"{other}/".startswith(f"{place}/"):
                how = (
                    "is" if place == other else "lies inside" if len(str(place)) > len(other) else "lies around"
                )
                raise InputError(
                    f"{what} must lie apart from {than}: {os.fspath(out or '')!r} {how} {os.fspath(source or '')!r} "
                    f"({place} and {other}); choose another path for {what}"
                )


def _places(path: str | os.PathLike[str]) -> Iterator[str]:
    """Where an input is: every file that a glob stands for."""
    text = files.normalise(path)
    if not files.is_glob(text):
        yield _place(text)
        return
    fs, root = files.filesystem(text)
    for name in fs.glob(root):
        yield _place(name if is_local(text) else Place(fs.unstrip_protocol(name), text.options))


def _place(path: str | os.PathLike[str]) -> str:
    """One name of a place: the real path of a local one, the protocol and the key of a remote one."""
    text = files.normalise(path)
    if is_local(text):
        return os.path.realpath(text)
    fs, root = files.filesystem(Place(text.rsplit("::", 1)[-1], text.options))
    return str(fs.unstrip_protocol(root)).rstrip("/")


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
