"""The files of a data set that may be one file, a folder or a glob, in natural order."""

from __future__ import annotations

import glob
import hashlib
import re
from collections.abc import Sequence

from ..errors import StoreError
from . import files
from .files import Options

#: Endings of the names of Parquet and of CSV files, of other text, and of what is packed.
PARQUET = (".parquet", ".parq", ".pq")
_PACKED = ("", ".gz", ".bz2", ".zst", ".xz")
TEXT = tuple(name + packed for name in (".csv", ".tsv") for packed in _PACKED)
ANY_TEXT = TEXT + tuple(
    name + packed for name in (".txt", ".data", ".dat", ".tab", ".psv") for packed in _PACKED
)


def list_texts(path: str, storage_options: Options = None) -> list[str]:
    """The CSV files of a path in natural order."""
    return list_files(path, TEXT, "CSV", storage_options)


def list_files(path: str, suffixes: tuple[str, ...], what: str, storage_options: Options = None) -> list[str]:
    """The files of a path in natural order (part-2 before part-10).

    Parameters
    ----------
    path : str
        Normalised: a file, a folder or a glob.
    suffixes : tuple of str
        Endings of the files that are taken of a folder. Those that begin with ``_`` or ``.`` are left out.
    what : str
        The format, for messages.
    storage_options : mapping, optional
        Options of the fsspec file system.

    Returns
    -------
    list of str
        Paths, or URLs.

    Raises
    ------
    StoreError
        There is none, the folder holds files of both formats, or it is one of ours that is not complete.
    """
    fs, root = files.filesystem(path, storage_options)
    if files.is_glob(path, storage_options):
        found = glob.glob(root, recursive=True) if files.is_local(path) else fs.glob(root)
    elif fs.isdir(root):
        inside = fs.find(root)
        if (
            f"{root}/_spec.json" in inside and f"{root}/_SUCCESS" not in inside
        ):  # part files of ours, still written
            raise StoreError(
                f"only a complete folder of part files can be read: {path!r} has no _SUCCESS; run the command that writes "
                "it again, and it resumes where it stopped"
            )
        inside = [name for name in inside if not name[len(root) :].lstrip("/").startswith(("_", "."))]
        found = [name for name in inside if name.endswith(suffixes)]
        other = next(
            (name for name in inside if name.endswith(PARQUET + TEXT) and not name.endswith(suffixes)), None
        )
        if found and other is not None:
            raise StoreError(
                f"a folder is read from files of one format: {path!r} holds {found[0][len(root) + 1 :]!r} and "
                f"{other[len(root) + 1 :]!r}; name one of them, or a glob such as '*.parquet'"
            )
    else:
        found = [root] if fs.exists(root) else []
    if not found:
        raise StoreError(f"no such data: no {what} file at {path!r}; check the path")
    if not files.is_local(path):
        found = [fs.unstrip_protocol(name) for name in found]
    return sorted(found, key=lambda name: [int(t) if t.isdigit() else t for t in re.split(r"(\d+)", name)])


def all_files(path: str, storage_options: Options = None) -> list[str]:
    """Every file at a path, of any format: a file, those in a folder, or those of a glob."""
    fs, root = files.filesystem(path, storage_options)
    if files.is_glob(path, storage_options):
        found = glob.glob(root, recursive=True) if files.is_local(path) else fs.glob(root)
    else:
        found = fs.find(root) if fs.isdir(root) else [root]
    return sorted(found if files.is_local(path) else map(fs.unstrip_protocol, found))


def version_of(names: Sequence[str], storage_options: Options = None) -> str:
    """A text that changes when one of the files is rewritten: the version of the data in the keys of tasks.

    Parameters
    ----------
    names : sequence of str
        Paths or URLs.
    storage_options : mapping, optional
        Options of the fsspec file system.

    Returns
    -------
    str
        16 hexadecimal digits.
    """
    found = hashlib.sha256()
    for name in names:
        fs, inner = files.filesystem(name, storage_options)
        found.update(f"{name}\0{files.fingerprint(fs, inner)}\0".encode())
    return found.hexdigest()[:16]
