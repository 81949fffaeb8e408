"""Paths and file systems: the one place that knows a local folder from an object store."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import socket
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import infer_compression

from ..errors import DistrfError, InputError, StoreError, brief, reworded

#: The names of temporary files of `write_file`.
PARTIAL = r".*\.[0-9a-f]{32}\.partial"
#: In a URL: a password, or what signs a query.
_PASSWORD = re.compile(
    r"://[^/]*:[^/]*@|[?&](sig|signature|token|x-amz-signature|x-goog-signature)=", re.IGNORECASE
)


def normalise(path: str | os.PathLike[str]) -> str:
    """A path in the form in which it is stored and compared. Local ones are absolute: workers may be in another folder.

    Parameters
    ----------
    path : path or URL

    Returns
    -------
    str
        An absolute local path, or the URL as given.
    """
    text = os.fspath(path).removeprefix("file://")
    return os.path.abspath(os.path.expanduser(text)) if is_local(text) else text.rstrip("/")


def is_local(path: str) -> bool:
    """Whether a normalised path is local, without a protocol such as ``s3://``.

    Parameters
    ----------
    path : str

    Returns
    -------
    bool
    """
    return "://" not in path and "::" not in path


def is_web(path: str) -> bool:
    """Whether a path is on a web server, which need not say what is in a folder, nor that there is one."""
    return path.startswith(("http://", "https://"))


def filesystem(path: str) -> tuple[Any, str]:
    """The file system of a normalised path, and the path inside it.

    Parameters
    ----------
    path : str

    Returns
    -------
    (fsspec.AbstractFileSystem, str)

    Raises
    ------
    InputError
        The URL has a password, which would be written beside what is made.
    StoreError
        The protocol is not known, or its package is not installed.
    """
    if is_local(path):
        return LocalFileSystem(), str(path)
    if _PASSWORD.search(path):
        raise InputError(
            "credentials come from the environment of each machine, or its configuration of fsspec; received a URL with a password "
            "or a signature; take it out"
        )
    try:
        with explained(path):
            fs, root = fsspec.core.url_to_fs(path, **options_of(path))
    except (ValueError, ImportError) as error:
        raise StoreError(
            f"{socket.gethostname()} cannot use {path!r}: {error}; check the protocol, and install its package there"
        ) from error
    return fs, root


def options_of(path: str) -> dict[str, Any]:
    """The options of the file system of a URL."""
    # A cached listing would hide blocks that other processes have just written.
    ours: dict[str, Any] = {"use_listings_cache": False}
    if path.startswith(("s3://", "s3a://")):
        # With more, each read of a whole object asks for its size first. Dask and Zarr read objects beside each other.
        ours["max_concurrency"] = 1
    return ours


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Raise StoreError for whatever the store behind a URL raises: on which machine, and what to look at. Other errors pass."""
    try:
        yield
    except DistrfError:
        raise
    except Exception as error:
        ours = type(error).__module__ == "builtins" and not isinstance(error, OSError)
        if is_local(path) or ours or isinstance(error, FileExistsError):
            raise
        hint = " (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or ~/.aws/credentials; AWS_ENDPOINT_URL)"
        raise StoreError(
            f"{socket.gethostname()} cannot use {path!r} ({brief(error)}); check the name, the network, and on "
            f"that machine the credentials, what they permit and the endpoint{hint if path.startswith('s3') else ''}"
        ) from error


def explains(function: Callable[..., Any]) -> Any:
    """Wrap a function whose first argument is a path in `explained`."""

    @wraps(function)
    def call(path: Any, *args: Any, **options: Any) -> Any:
        with explained(str(path)):
            return function(path, *args, **options)

    return call


def state(path: str, remote: bool = False) -> str:
    """Size and time of a local file; of others what the store says of their version, where `remote` asks it, else ""."""
    if is_local(path):
        found = os.stat(path)
        return f"{found.st_size} {found.st_mtime_ns}"
    fs, root = filesystem(path)
    return str(fs.ukey(root)) if remote else ""


def check_state(path: str, known: str, remote: bool = False) -> None:
    """Raise StoreError where a file is no longer in the state in which it was opened."""
    now = state(path, remote) if known else ""
    # Copies on the disks of several machines may have the whole seconds alone.
    whole = "000000000"
    if now and (now != known and not (now[:-9] == known[:-9] and whole in (now[-9:], known[-9:]))):
        raise StoreError(f"{path!r} was written anew since it was opened; open it again")


def damaged(what: str) -> StoreError:
    """The error for a file that is not what was written."""
    return StoreError(
        f"{what}; it is damaged, was edited or is of another format: restore it, or make it again"
    )


@contextmanager
def reading(path: str, what: str) -> Iterator[None]:
    """Turn whatever a library raises over the bytes of a file into a StoreError with the path and what to do.

    Damaged files raise nearly anything in Zarr, Arrow, NumPy, zip and gzip. Our own errors pass, and those of the
    system (not permitted, no space left, no memory).

    Parameters
    ----------
    path : str
    what : str
        The format, for the message.

    Returns
    -------
    context manager
    """

    def meant(error: Exception) -> Exception:
        if isinstance(error, FileNotFoundError):
            return StoreError(f"no such file: {path!r} ({error}); check the path, or restore the file")
        # EINVAL: a damaged file led to a seek before its start.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise error
        return damaged(f"{path!r} cannot be read as {what} ({brief(error)})")

    with explained(path), reworded(meant):
        yield


@contextmanager
def open_text(path: str) -> Iterator[Any]:
    """A file of bytes that is open to read, unpacked where the ending of its name says so: .gz, .bz2, .xz, .zst.

    Parameters
    ----------
    path : str

    Returns
    -------
    context manager of a file

    Raises
    ------
    StoreError
        It is gone or damaged.
    """
    fs, root = filesystem(path)
    # Callers read large pieces, each by one request; an unpacker reads small ones.
    options = {} if infer_compression(path) is not None or is_local(path) else {"cache_type": "none"}
    zstd = path.lower().endswith(".zst")
    with reading(path, "text"), fs.open(root, "rb", compression=None if zstd else "infer", **options) as file:
        if zstd:  # fsspec knows it beside another package only, which stops behind the first frame
            import pyarrow as pa  # `inspect` does without

            file = pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd")
        yield file


def exists(path: str) -> bool:
    """Whether there is a file or folder at a normalised path."""
    fs, root = filesystem(path)
    return bool(fs.exists(root))


def is_file(path: str) -> bool:
    """Whether there is a file at a normalised path."""
    fs, root = filesystem(path)
    return bool(fs.isfile(root))


def require(path: str) -> None:
    """Raise StoreError if nothing exists at a normalised path."""
    if not (exists(path) or is_web(path)):
        raise StoreError(f"no such store or folder: nothing exists at {path!r}; check the path")


def is_glob(path: str) -> bool:
    """Whether a path is a pattern; a file whose name has such a character is a file.

    Parameters
    ----------
    path : str

    Returns
    -------
    bool
    """
    return any(mark in path for mark in "*?[") and not exists(path)


def opened(path: str) -> Any:
    """A file of bytes that is open to read, as a context manager."""
    fs, root = filesystem(path)
    return fs.open(root, "rb")


def read_bytes(path: str) -> bytes:
    """The content of a file, by one request."""
    fs, root = filesystem(path)
    data: bytes = fs.cat_file(root)
    return data


@explains
def read_json(path: str) -> Any:
    """The content of a JSON file, None if there is no such file."""
    try:
        return json.loads(read_bytes(path))
    except (FileNotFoundError, NotADirectoryError):
        return None


def write_bytes(path: str, data: bytes) -> None:
    """Write a small file so that it appears whole or not at all."""
    write_file(path, lambda file: file.write(data))


@explains
def write_file(path: str, write: Callable[[Any], Any]) -> None:
    """Write a file that appears whole or not at all, by a function that is called with it open."""
    if not is_local(path):
        fs, root = filesystem(path)
        with tempfile.NamedTemporaryFile() as file:
            write(file)
            file.flush()
            fs.put_file(file.name, root)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = f"{path}.{uuid.uuid4().hex}.partial"
    try:
        with open(temporary, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())  # else the new name may survive a power cut, and the bytes not
        os.replace(temporary, path)
    except BaseException:  # such as a full disk
        with suppress(OSError):
            os.unlink(temporary)
        raise


def write_json(path: str, value: Any) -> None:
    """Write pretty JSON in one step."""
    text = json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    write_bytes(path, text.encode())


@explains
def names_in(path: str) -> set[str]:
    """Base names inside a folder; empty if there is no such folder."""
    fs, root = filesystem(path)
    try:
        return {p.rstrip("/").rsplit("/", 1)[-1] for p in fs.ls(root, detail=False)}
    except FileNotFoundError:
        return set()


def require_ours(path: str, ours: Any, what: str, free: str = "") -> None:
    """Refuse an output path that holds something else: what is there is not ours to replace.

    Parameters
    ----------
    path : str
    ours : object
        What of distrf is there; None for nothing.
    what : str
        What may be there, for the message.
    free : str
        Pattern of names that may be there all the same.

    Raises
    ------
    StoreError
        With what is there and what to do.
    """
    if ours is not None:
        return
    names = sorted(name for name in names_in(path) if not re.fullmatch(rf"{free}|{PARTIAL}", name))
    found = "a file" if is_file(path) else str(names[:5]) + f" and {len(names) - 5:,} more" * (len(names) > 5)
    if names:
        raise StoreError(
            f"the output path must be free or hold {what}: {path!r} holds {found}; choose another path, or remove "
            "it yourself"
        )


def refuse_root(path: str) -> None:
    """Raise StoreError for the root of a file system, which is no data."""
    if os.path.dirname(path) == path:
        raise StoreError(
            f"{path!r} is the root of a file system; give the path of a store, of a file, or of a folder of Parquet files"
        )


def remove(path: str) -> None:
    """Remove a file or folder if it is there; of a link the link."""
    fs, root = filesystem(path)
    if is_local(path) and os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif fs.lexists(root):
        fs.rm(root, recursive=not is_local(path))


def remove_partials(path: str) -> None:
    """Remove the temporary files that a killed writer left in a local folder."""
    for file in Path(path).rglob(f"*.{'[0-9a-f]' * 32}.partial") if is_local(path) else ():
        file.unlink()
