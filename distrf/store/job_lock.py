"""One job writes an output: a lock file beside it.

On a file system the file is locked, by `locket`, which ends with the process however it ends. On an object store it is created on the
condition that there is none: there it outlives a job that was killed, and the next one says that it takes its place. So a lock
is a help, and no proof: what each task carries is (see `require_id`).
"""

from __future__ import annotations

import json
import logging
import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from typing import Any

import locket

from ..errors import InUseError
from . import files
from .files import Place

_LOG = logging.getLogger(__name__)
#: The lock files that are held where this is asked.
_held: ContextVar[tuple[str, ...]] = ContextVar("distrf_locks", default=())
#: Tokens of the files on object stores that this process holds.
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
        On an object store, take the place of a job that was killed and has left its lock file.

    Raises
    ------
    InUseError
        Another job writes one of them.
    """
    held = _held.get()
    with ExitStack() as stack:
        for output in (files.normalise(output) for output in outputs if output is not None):
            local = files.is_local(output)
            parent, base = os.path.split(os.path.realpath(output)) if local else output.rpartition("/")[::2]
            path = Place(f"{parent}/.{base}.lock", output.options)
            if parent.endswith(":/") or path in held:
                continue
            try:
                stack.enter_context(_locked(path) if local else _created(path, takeover))
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
def _created(path: Place, takeover: bool) -> Iterator[None]:
    """Create a file on an object store, and remove it in the end."""
    fs, root = files.filesystem(path)
    me: dict[str, Any] = {"host": socket.gethostname(), "pid": os.getpid()}
    owner = me | {"token": uuid.uuid4().hex}
    with files.explained(path):
        ours = files.write_json(fs, root, owner, new=not takeover)
        other = {} if ours else files.read_object(fs, root) or {}
        if me.items() <= other.items() and other["token"] not in _OWN:  # not removed, or the answer was lost
            ours = files.write_json(fs, root, owner)
    if not ours:
        raise locket.LockError(
            f"{json.dumps(other)}; if it was killed, remove {str(path)!r}, or take its place with overwrite=True, --overwrite"
        )
    _OWN.add(owner["token"])
    try:
        yield
    finally:
        _OWN.discard(owner["token"])
        with suppress(OSError, ValueError):
            if (files.read_object(fs, root) or {}).get("token") == owner["token"]:
                fs.rm_file(root)
