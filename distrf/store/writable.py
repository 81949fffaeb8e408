"""Whether an output can be written: asked before anything is computed."""

from __future__ import annotations

import os
import tempfile

from ..errors import StoreError
from .files import is_local

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
        try:
            there = place
            while not os.path.lexists(there):
                there = os.path.dirname(there)
            os.lstat(place)  # a name that is too long
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            why = (
                getattr(error, "strerror", None) or error
            )  # which does not name the path again: it may be long
            raise StoreError(f"{path!r} cannot be written: {why}; choose another path") from error
        folder = os.path.dirname(place) if there == place else there
        if not os.path.isdir(folder):
            raise StoreError(f"{path!r} cannot be written: {folder!r} is no folder; choose another path")
        try:  # permissions do not tell all: a disk may be read-only or full, and /proc takes no folder from anyone
            os.rmdir(tempfile.mkdtemp(prefix=".distrf-", dir=folder))
        except OSError as error:
            raise StoreError(
                f"{path!r} cannot be written: {error.strerror} in {folder!r}; choose another path"
            ) from error
