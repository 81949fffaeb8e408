"""The files of a data set that may be one file, a folder or a glob, in natural order."""

from __future__ import annotations

import glob
import hashlib
import re
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import unquote

from ..errors import StoreError
from . import files

#: Endings of the names of Parquet and of CSV files, of other text, and of what is packed.
PARQUET = (".parquet", ".parq", ".pq")
PACKED = ("", ".gz", ".bz2", ".zst", ".xz", ".zip")
TEXT = tuple(name + packed for name in (".csv", ".tsv") for packed in PACKED)
ANY_TEXT = TEXT + tuple(
    name + packed for name in (".txt", ".data", ".dat", ".tab", ".psv") for packed in PACKED
)
#: What pandas and Spark write for a missing value of a folder.
_MISSING = "__HIVE_DEFAULT_PARTITION__"


def hidden(inside: str) -> bool:
    """Whether a file, or a folder on the way to it, begins with . or _: it is no data. Folders such as _k=1 are columns."""
    *folders, name = inside.strip("/").split("/")
    return any(part.startswith((".", "_")) for part in [name, *(one for one in folders if "=" not in one)])


def endings_of(path: str) -> tuple[str, ...]:
    """`PARQUET` or `TEXT`: of a table by its name, of a folder, that is no Zarr, by its first files that are either; () for others.

    Parameters
    ----------
    path : str
        Normalised.

    Raises
    ------
    StoreError
        For the root of a file system.
    """
    name = path.lower()
    if name.endswith(PARQUET + ANY_TEXT):
        return PARQUET if name.endswith(PARQUET) else TEXT
    if files.is_web(path) or files.is_glob(path):
        return () if files.is_web(path) else PARQUET
    fs, root = files.filesystem(path)
    if not fs.isdir(root) or {"zarr.json", ".zgroup", ".zarray"} & files.names_in(path):
        return ()
    files.refuse_root(root)
    for folder, _, names in fs.walk(root):
        inside = folder[len(root) :] if folder.startswith(root) else ""
        data = [name.lower() for name in names if not hidden(f"{inside}/{name}")]
        if data := [name for name in data if name.endswith(PARQUET + TEXT)]:
            return PARQUET if any(name.endswith(PARQUET) for name in data) else TEXT
    return ()


def list_files(path: str, suffixes: tuple[str, ...], what: str) -> list[str]:
    """The files of a path in natural order (part-2 before part-10).

    Parameters
    ----------
    path : str
        Normalised: a file, a folder or a glob.
    suffixes : tuple of str
        Endings of the files that are taken of a folder, in any case. Those that are `hidden` are left out, also of a glob
        that names no such file.
    what : str
        The format, for messages.

    Returns
    -------
    list of str
        Paths, or URLs.

    Raises
    ------
    StoreError
        There is none, the folder holds other files that may be data, or it is one of ours that is not complete.
    """
    fs, root = files.filesystem(path)
    found = all_files(path)
    root = root if files.is_local(path) else fs.unstrip_protocol(root)
    if found != [root]:
        if f"{root}/_spec.json" in found:  # part files of ours: still written, or some are gone
            with files.reading(f"{root}/_spec.json", "what distrf writes beside part files"):
                made = files.read_json(f"{path}/_spec.json")["attributes"]["distrf"]
                lost = made["n_rows"] - sum(name.startswith(f"{root}/part-") for name in found)
            if f"{root}/_SUCCESS" not in found or lost > 0:
                raise StoreError(
                    f"only a complete folder of part files can be read: {path!r} has no _SUCCESS, or lacks parts ({lost}); run the "
                    "command that writes it again, and it resumes where it stopped"
                )
        fixed = _fixed(root)
        if not re.search(r"(^|/)[._]", root[len(fixed) :].lstrip("/")):
            found = [name for name in found if not hidden(name[len(fixed) :])]
    if found != [root] and not files.is_glob(path):
        inside, found = found, [name for name in found if name.lower().endswith(suffixes)]
        data = [name for name in inside if name.lower().endswith(PARQUET + ANY_TEXT)]
        bare = [name for name in inside if "." not in name.rpartition("/")[2]]
        others = [name for name in data + bare if name not in found]
        if found and others:
            raise StoreError(
                f"a folder is read from files of one format: {path!r} holds {found[0][len(root) + 1 :]!r} and "
                f"{others[0][len(root) + 1 :]!r}; name one of them, or a glob such as '*{suffixes[0]}'"
            )
    if not found:
        raise StoreError(f"no such data: no {what} file at {path!r}; check the path")
    return sorted(found, key=lambda name: [int(t) if t.isdigit() else t for t in re.split(r"(\d+)", name)])


def all_files(path: str) -> list[str]:
    """Every file at a path, of any format: a file, those in a folder, or those of a glob."""
    fs, root = files.filesystem(path)
    if files.is_glob(path):
        found = glob.glob(root, recursive=True) if files.is_local(path) else fs.glob(root)
    elif fs.isdir(root):
        found = fs.find(root)
    else:
        found = [root] if fs.exists(root) else []
    names = found if files.is_local(path) else map(fs.unstrip_protocol, found)
    return sorted(names)


def _fixed(root: str) -> str:
    """A path; of a glob the folder before its first mark."""
    return re.split(r"[*?[]", root)[0].rpartition("/")[0] if re.search(r"[*?[]", root) else root


def folder_values(names: Sequence[str], root: str) -> list[dict[str, int | str | None]]:
    """What the folders between a root and each file stand for: of ``year=2020/city=a%20b`` {"year": 2020, "city": "a b"}.

    Parameters
    ----------
    names : sequence of str
        All files.
    root : str
        Of a glob the root is what stands before its first mark.

    Returns
    -------
    list of dict of str to int, str or None
        Whole numbers, but text where one of a column is none; None for a missing value.
    """
    root = _fixed(root)
    found: list[dict[str, int | str | None]] = []
    for name in names:
        inside = name[len(root) :] if name.startswith(root) else name.rpartition("://")[2]
        pairs = (folder.partition("=") for folder in inside.split("/")[:-1] if "=" in folder)
        found.append({unquote(key): None if value == _MISSING else unquote(value) for key, _, value in pairs})
    for key in {key for values in found for key in values}:
        having = [values for values in found if values.get(key) is not None]
        texts = [str(values[key]) for values in having]
        if all(re.fullmatch(r"-?\d{1,19}", text) and abs(int(text)) < 2**63 for text in texts):
            for values, text in zip(having, texts, strict=True):
                values[key] = int(text)
    return found


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
        with suppress(FileNotFoundError):
            found.update(f"{name}\0{files.state(name, remote=True)}\0".encode())
    return found.hexdigest()[:16]
