"""One job writes an output: a lock file beside it.

On a file system the file is locked (flock), which ends with the process however it ends. On an object store, and where files
cannot be locked, the file is created on the condition that there is none. There it outlives a job that was killed, and the next
one says that it takes its place. So a lock is a help, and no proof: what each task carries is (see `require_id`).
"""

from __future__ import annotations

import json
import logging
import os
import socket
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from ..errors import InUseError, StoreError
from . import files
from .files import Options

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

_LOG = logging.getLogger(__name__)
#: The lock files that are held where this is asked.
_held: ContextVar[tuple[str, ...]] = ContextVar("distrf_locks", default=())
#: Tokens of the files that this process has created and holds.
_OWN: set[str] = set()


def require_id(path: str, found: Any, wanted: Any) -> None:
    """Raise InUseError where an output has another id than the one that a job writes: another job has made it anew."""
    if found != wanted:
        raise InUseError(
            f"this job writes nothing more to {path!r}: another job has made it anew, or finished it, since this one began "
            f"(its id is {found!r}, that of this job {wanted!r}); let that job end, and give each job a path of its own"
        )


@contextmanager
def hold(
    *outputs: str | os.PathLike[str] | None, takeover: bool = False, storage_options: Options = None
) -> Iterator[None]:
    """Be the one job that writes these outputs. Those that the caller holds already remain his.

    Parameters
    ----------
    *outputs : path or URL, or None for none
        The root of a bucket has no place beside it, and gets no lock.
    takeover : bool
        Take the place of a job that was killed and has left its lock file.
    storage_options : mapping, optional
        Options of the fsspec file system.

    Raises
    ------
    InUseError
        Another job writes one of them.
    """
    held = _held.get()
    with ExitStack() as stack:
        for output in [files.normalise(output) for output in outputs if output is not None]:
            path = _place(output)
            if path is not None and path not in held:
                stack.enter_context(_owned(output, path, takeover, storage_options))
                held = (*held, path)
        before = _held.set(held)
        try:
            yield
        finally:
            _held.reset(before)


def _place(output: str) -> str | None:
    """The lock file of an output: beside it, so that it is no part of it. Two links to one output have one lock."""
    local = files.is_local(output)
    parent, base = os.path.split(os.path.realpath(output)) if local else output.rpartition("/")[::2]
    return None if parent.endswith(":/") else f"{parent}/.{base}.lock"


@contextmanager
def _owned(output: str, path: str, takeover: bool, storage_options: Options) -> Iterator[None]:
    """Take a lock, and remove it in the end, whatever happens."""
    record = {
        "token": uuid.uuid4().hex, "host": socket.gethostname(), "pid": os.getpid(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }  # fmt: skip
    with ExitStack() as stack:
        try:
            if files.is_local(path) and fcntl and _can_lock(path):
                _lock(stack, output, path, record)
            else:
                _create(stack, output, path, record, takeover, storage_options)
        except (PermissionError, StoreError) as error:
            if not isinstance(error, PermissionError) and not isinstance(error.__cause__, PermissionError):
                raise
            _LOG.warning("%r gets no lock, so a second job would not be seen: %s", output, error)
        yield


def _can_lock(path: str) -> bool:
    """Whether files can be locked where this one lies."""
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            _LOG.info("files in %r cannot be locked: %s", folder, error)
            return False
    return True


def _lock(stack: ExitStack, output: str, path: str, record: dict[str, Any]) -> None:
    """Lock a file until the stack ends. Raises InUseError while another job has it."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file), os.stat(path)):
                    break
            os.close(file)  # its owner has removed it meanwhile
        except BlockingIOError:
            owner = os.read(file, 4096)
            os.close(file)
            raise _in_use(output, owner, "") from None
    os.ftruncate(file, 0)
    os.write(file, json.dumps(record).encode())

    def release() -> None:
        try:
            with suppress(OSError):
                os.unlink(path)  # while it is locked, or the next owner would lose it
        finally:
            os.close(file)

    stack.callback(release)


def _create(
    stack: ExitStack, output: str, path: str, record: dict[str, Any], takeover: bool, storage_options: Options
) -> None:
    """Create a file until the stack ends. Raises InUseError where there is one, of a job that lives or was killed."""
    fs, root = files.filesystem(path, storage_options)
    if takeover:
        files.write_json(fs, root, record)
    elif not files.create_json(fs, root, record):
        found = files.read_object(fs, root) or {}
        if (found.get("host"), found.get("pid")) == (record["host"], record["pid"]) and found[
            "token"
        ] not in _OWN:
            files.write_json(
                fs, root, record
            )  # this process could not remove it; or has it, and the answer was lost
        else:
            raise _in_use(
                output, json.dumps(found).encode(),
                f". If it was killed, remove {path!r}, or take its place with overwrite=True (--overwrite)",
            )  # fmt: skip

    _OWN.add(record["token"])

    def release() -> None:
        _OWN.discard(record["token"])
        with suppress(OSError, ValueError):
            if (files.read_object(fs, root) or {}).get("token") == record["token"]:
                fs.rm_file(root)

    stack.callback(release)


def _in_use(output: str, owner: bytes, more: str) -> InUseError:
    try:
        found = json.loads(owner)
        who = f"process {found['pid']} on {found['host']}, since {found['since']}"
    except (ValueError, LookupError, TypeError):  # it has just begun
        who = "another job"
    return InUseError(
        f"one job at a time writes an output: {output!r} is being written by {who}; let it end, or stop it, or choose another "
        f"path{more}"
    )
