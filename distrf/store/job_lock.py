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
def hold(*outputs: str | os.PathLike[str] | None, takeover: bool = False) -> Iterator[None]:
    """Be the one job that writes these outputs. Those that the caller holds already remain his.

    Parameters
    ----------
    *outputs : path or URL, or None for none
        The root of a bucket has no place beside it, and gets no lock.
    takeover : bool
        Take the place of a job that was killed and has left its lock file.

    Raises
    ------
    InUseError
        Another job writes one of them.
    """
    held = _held.get()
    with ExitStack() as stack:
        for output in [files.normalise(output) for output in outputs if output is not None]:
            path = _lock_file(output)
            if path is None or path in held:
                continue
            owner = {
                "token": uuid.uuid4().hex, "host": socket.gethostname(), "pid": os.getpid(),
                "since": datetime.now(UTC).isoformat(timespec="seconds"),
            }  # fmt: skip
            locks = files.is_local(path) and fcntl and _can_lock(path)
            try:
                if locks:
                    other = _lock(stack, path, owner)
                else:
                    other = _create(stack, files.normalise(path, output.options), owner, takeover)
            except (PermissionError, StoreError) as error:
                if not isinstance(error, PermissionError) and not isinstance(error.__cause__, PermissionError):
                    raise
                _LOG.warning("%r gets no lock, so a second job would not be seen: %s", output, error)
                continue
            if other is not None:
                what = (
                    "process {pid} on {host}, since {since}" if owner.keys() <= other.keys() else "another job"
                )
                killed = (
                    f"If it was killed, remove {path!r}, or take its place with overwrite=True (--overwrite)"
                )
                raise InUseError(
                    f"one job at a time writes an output: {output!r} is being written by {what.format(**other)}; let it end, "
                    f"or stop it, or choose another path{'' if locks else f'. {killed}'}"
                )
            held = (*held, path)
        before = _held.set(held)
        try:
            yield
        finally:
            _held.reset(before)


def _lock_file(output: str) -> str | None:
    """The lock file of an output: beside it, so that it is no part of it. Two links to one output have one lock."""
    local = files.is_local(output)
    parent, base = os.path.split(os.path.realpath(output)) if local else output.rpartition("/")[::2]
    return None if parent.endswith(":/") else f"{parent}/.{base}.lock"


def _can_lock(path: str) -> bool:
    """Whether files can be locked where this one lies; its folder is made."""
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        _LOG.info("files in %r cannot be locked: %s", folder, error)
        return False
    return True


def _lock(stack: ExitStack, path: str, owner: dict[str, Any]) -> dict[str, Any] | None:
    """Lock a file until the stack ends. Returns who has it where another job does."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return _owner(path)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file), os.stat(path)):
                break
        os.close(file)  # its owner has removed it meanwhile
    os.ftruncate(file, 0)
    os.write(file, json.dumps(owner).encode())

    stack.callback(os.close, file)  # whatever becomes of the other
    stack.callback(_unlink, path)
    return None


def _unlink(path: str) -> None:
    """Remove a file while it is locked: later the next owner would lose it."""
    with suppress(OSError):
        os.unlink(path)


def _create(stack: ExitStack, path: str, owner: dict[str, Any], takeover: bool) -> dict[str, Any] | None:
    """Create a file until the stack ends. Returns who has done so where another job has, which lives or was killed."""
    fs, root = files.filesystem(path)

    def release() -> None:
        _OWN.discard(owner["token"])
        with suppress(OSError, ValueError):
            if _owner(path).get("token") == owner["token"]:
                fs.rm_file(root)

    if takeover:
        files.write_json(fs, root, owner)
    elif not files.create_json(fs, root, owner):
        other = _owner(path)
        ours = (
            all(other.get(name) == owner[name] for name in ("host", "pid")) and other.get("token") not in _OWN
        )
        if not ours:  # else this process could not remove it, or has just created it, and the answer was lost
            return other
        files.write_json(fs, root, owner)
    _OWN.add(owner["token"])
    stack.callback(release)
    return None


def _owner(path: str) -> dict[str, Any]:
    """Who has a lock file; empty where its owner has just begun."""
    return files.read_object(*files.filesystem(path)) or {}
