"""The files of a data set that may be one file, a folder or a glob, in natural order."""

from __future__ import annotations

import glob
import hashlib
import re
from collections.abc import Sequence

from ..errors import StoreError
from . import files

#: Endings of the names of Parquet and of CSV files, of other text, and of what is packed.
PARQUET = (".parquet", ".parq", ".pq")
_PACKED = ("", ".gz", ".bz2", ".zst", ".xz")
TEXT = tuple(name + packed for name in (".csv", ".tsv") for packed in _PACKED)
ANY_TEXT = TEXT + tuple(
    name + packed for name in (".txt", ".data", ".dat", ".tab", ".psv") for packed in _PACKED
)


def list_files(path: str, suffixes: tuple[str, ...], what: str) -> list[files.Place]:
    """The files of a path in natural order (part-2 before part-10).

    Parameters
    ----------
    path : str
        Normalised: a file, a folder or a glob.
    suffixes : tuple of str
        Endings of the files that are taken of a folder. Those that begin with ``_`` or ``.`` are left out.
    what : str
        The format, for messages.

    Returns
    -------
    list of str
        Paths, or URLs.

    Raises
    ------
    StoreError
        There is none, the folder holds files of both formats, or it is one of ours that is not complete.
    """
    fs, root = files.filesystem(path)
    found = all_files(path)
    root = root if files.is_local(path) else fs.unstrip_protocol(root)
    if found != [root] and not files.is_glob(path):
        if (
            f"{root}/_spec.json" in found and f"{root}/_SUCCESS" not in found
        ):  # part files of ours, still written
            raise StoreError(
                f"only a complete folder of part files can be read: {path!r} has no _SUCCESS; run the command that writes "
                "it again, and it resumes where it stopped"
            )
        inside = [name for name in found if not name[len(root) :].lstrip("/").startswith(("_", "."))]
        found = [name for name in inside if name.endswith(suffixes)]
        others = [name for name in inside if name.endswith(PARQUET + TEXT) and name not in found]
        if found and others:
            raise StoreError(
                f"a folder is read from files of one format: {path!r} holds {found[0][len(root) + 1 :]!r} and "
                f"{others[0][len(root) + 1 :]!r}; name one of them, or a glob such as '*.parquet'"
            )
    if not found:
        raise StoreError(f"no such data: no {what} file at {path!r}; check the path")
    return sorted(found, key=lambda name: [int(t) if t.isdigit() else t for t in re.split(r"(\d+)", name)])


def all_files(path: str) -> list[files.Place]:
    """Every file at a path, of any format: a file, those in a folder, or those of a glob."""
    fs, root = files.filesystem(path)
    if files.is_glob(path):
        found = glob.glob(root, recursive=True) if files.is_local(path) else fs.glob(root)
    elif fs.isdir(root):
        found = fs.find(root)
    else:
        found = [root] if fs.exists(root) else []
    names = found if files.is_local(path) else map(fs.unstrip_protocol, found)
    return sorted(files.Place(name, getattr(path, "options", None)) for name in names)


def version_of(names: Sequence[str]) -> str:
    """A text that changes when one of the files is rewritten: the version of the data in the keys of tasks.

    Parameters
    ----------
    names : sequence of str
        Paths or URLs.

    Returns
    -------
    str
        16 hexadecimal digits.
    """
    found = hashlib.sha256()
    for name in names:
        fs, inner = files.filesystem(name)
        found.update(f"{name}\0{files.fingerprint(fs, inner)}\0".encode())
    return found.hexdigest()[:16]
