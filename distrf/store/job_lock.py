"""One job writes an output: a small file beside it says which, and the job renews it as long as it lives.

A job that ends removes its lock. One that was killed leaves it, and the next job takes it over: at once if it can see that
the process is gone, else if the file stays as it is for `STALE` seconds of watching. So the clocks of two machines are never
compared.
"""

from __future__ import annotations

import getpass
import logging
import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..errors import InUseError, StoreError
from . import files
from .files import Options

#: Seconds between two signs of life: of no weight on an object store (six requests a minute, and six to look at them).
BEAT = 10.0
#: Seconds without one after which a job counts as dead. An owner may miss five: file systems stall, networks fail for a while.
STALE = 60.0
#: Looks at the lock of another job in that time. They are counted, since a file system that stalls stops both jobs.
_LOOKS = 30

_LOG = logging.getLogger(__name__)
_held: ContextVar[tuple[Claim, ...]] = ContextVar("distrf_locks", default=())
#: Tokens of the locks that this process owns.
_OWN: set[str] = set()
#: token -> when this process has looked last whether the lock is still there, by two clocks.
_LOOKED: dict[str, tuple[float, float]] = {}


@dataclass(frozen=True)
class Claim:
    """The lock that a job holds; it travels to the workers that write for the job.

    Parameters
    ----------
    output : str
        What the job writes, normalised.
    path : str
        The lock file.
    token : str
        Which the file holds as long as the lock is this job's.
    storage_options : mapping, optional
        Options of the fsspec file system.
    """

    output: str
    path: str
    token: str
    storage_options: Options = None

    def check(self) -> None:
        """Raise InUseError if another job has the lock. The file is read if the last look was `BEAT` seconds ago.

        A worker may be late to see a new file, so it takes a missing one for good; the owner does not.
        """
        # One clock stops while the machine sleeps, the other may be set.
        now = time.monotonic(), time.time()
        last = _LOOKED.setdefault(self.token, now)
        if all(abs(a - b) < BEAT for a, b in zip(now, last, strict=True)):
            return
        try:
            found = files.read_object(*files.filesystem(self.path, self.storage_options))
        except OSError:  # no answer says nothing
            found = {"token": self.token}
        if found is None and self.token in _OWN:
            raise InUseError(
                f"this job no longer holds {self.output!r} and writes nothing more: its lock {self.path!r} is gone. Somebody "
                "removed it, or another job took it over and has ended; start this one again"
            )
        if found and found.get("token") != self.token:
            raise InUseError(
                f"this job no longer holds {self.output!r} and writes nothing more: for {STALE:g} s it gave no sign of life "
                f"(its machine slept, or was cut off), and {_who(found)} took it over; let that job end before this one "
                "is started again"
            )
        _LOOKED[self.token] = now


def held() -> tuple[Claim, ...]:
    """The locks that are held where this is called."""
    return _held.get()


def check(claims: tuple[Claim, ...] | None = None) -> None:
    """Raise InUseError if a lock was taken over; called before something is written.

    Parameters
    ----------
    claims : tuple of Claim, optional
        Those of the job, in its workers. None takes those that are held here.
    """
    for claim in held() if claims is None else claims:
        claim.check()


def require_id(path: str, found: Any, wanted: Any) -> None:
    """Raise InUseError where an output has another id than the one that a job writes: another job has made it anew.

    Locks alone do not exclude that: they are taken over, removed, and hints on an object store.
    """
    if found != wanted:
        raise InUseError(
            f"this job writes nothing more to {path!r}: another job has made it anew, or finished it, since this one began "
            f"(its id is {found!r}, that of this job {wanted!r}); let that job end, and give each job a path of its own"
        )


@contextmanager
def hold(*outputs: str | os.PathLike[str] | None, storage_options: Options = None) -> Iterator[None]:
    """Be the one job that writes these outputs. Those that the caller holds already remain his.

    Parameters
    ----------
    *outputs : path or URL, or None for none
        The root of a bucket has no place beside it, and gets no lock.
    storage_options : mapping, optional
        Options of the fsspec file system.

    Raises
    ------
    InUseError
        Another job writes one of them.
    """
    claims = held()
    with ExitStack() as stack:
        for output in [files.normalise(output) for output in outputs if output is not None]:
            path = _place(output)
            if path is not None and path not in [claim.path for claim in claims]:
                claim = Claim(output, path, uuid.uuid4().hex, storage_options)
                stack.enter_context(_owned(claim))
                claims = (*claims, claim)
        before = _held.set(claims)
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
def _owned(claim: Claim) -> Iterator[None]:
    """Take a lock, renew it, and remove it in the end, whatever happens."""
    fs, root = files.filesystem(claim.path, claim.storage_options)
    record: dict[str, Any] = {
        "token": claim.token, "host": socket.gethostname(), "machine": _machine(), "user": _user(), "pid": os.getpid(),
        "born": _born(os.getpid()), "since": _now(), "seen": _now(), "beats": 0,
    }  # fmt: skip
    ended, writing = threading.Event(), threading.Lock()

    def renew() -> None:
        while not ended.wait(BEAT):
            # Whatever fails may do so for a while only; the next beat is another chance.
            with suppress(Exception), writing:
                found = files.read_object(fs, root)
                if ended.is_set() or (found and found.get("token") != claim.token):
                    return
                record.update(seen=_now(), beats=record["beats"] + 1)
                files.write_json(fs, root, record)

    _OWN.add(claim.token)
    try:
        try:
            _take(claim.output, fs, root, record)
        except (PermissionError, StoreError) as error:
            if not isinstance(error, PermissionError) and not isinstance(error.__cause__, PermissionError):
                raise
            _LOG.warning("%r gets no lock, so a second job would not be seen: %s", claim.output, error)
            yield
            return
        _LOOKED[claim.token] = time.monotonic(), time.time()
        threading.Thread(target=renew, name="distrf-lock", daemon=True).start()
        yield
    finally:
        ended.set()
        with writing, suppress(OSError, ValueError):
            if (files.read_object(fs, root) or {}).get("token") == claim.token:
                fs.rm_file(root)
        _OWN.discard(claim.token)
        _LOOKED.pop(claim.token, None)


def _take(output: str, fs: Any, root: str, record: dict[str, Any]) -> None:
    """Create a lock file, or take over one that a dead job has left. Raises InUseError while a job lives."""
    while not files.create_json(fs, root, record):
        if (files.read_object(fs, root) or {}).get("token") == record[
            "token"
        ]:  # it was created, and the answer was lost
            return
        left = _left(output, fs, root)
        if left is None:
            continue
        # Of several jobs that find it so, one at a time looks again and replaces it.
        turn = f"{root}.{left.get('token', '')}"
        _take(output, fs, turn, record)
        try:
            if files.read_object(fs, root) == left:
                files.write_json(fs, root, record)
                return
        finally:
            with suppress(OSError):
                fs.rm_file(turn)


def _left(output: str, fs: Any, root: str) -> dict[str, Any] | None:
    """What a dead job has left in its lock file, None where there is none now. Raises InUseError while the job lives."""
    first = found = files.read_object(fs, root)
    looks = 0
    while found is not None:
        alive = _alive(found)
        if alive is False or (found == first and looks == _LOOKS):
            return found
        if alive or found != first:
            raise InUseError(
                f"one job at a time writes an output: {output!r} is being written by {_who(found)}, since {found.get('since')}, "
                f"last sign of life {found.get('seen')}; let it end, or stop it, or choose another path. A job that was "
                f"killed is replaced within {STALE:g} s"
            )
        if not looks:
            _LOG.warning(
                "%r has a lock of %s, last sign of life %s: watching for %g s whether that job lives",
                output, _who(found), found.get("seen"), STALE,
            )  # fmt: skip
        time.sleep(STALE / _LOOKS)
        looks, found = looks + 1, files.read_object(fs, root)
    return None


def _alive(record: dict[str, Any]) -> bool | None:
    """Whether the process of a lock lives; None for one that cannot be seen from here."""
    if (
        record.get("machine") != _machine() or record.get("user") != _user()
    ):  # processes of others may be hidden
        return None
    if record["pid"] == os.getpid() and record["token"] not in _OWN:
        return False
    return _born(record["pid"]) == record["born"]


def _machine() -> str:
    """This machine since it was started, and the processes on it that see each other: a container has its own."""
    names = [socket.gethostname()]
    with suppress(OSError):  # not on Linux
        names += [Path("/proc/sys/kernel/random/boot_id").read_text().strip(), os.readlink("/proc/self/ns/pid")]
    return " ".join(names)


def _user() -> str:
    with suppress(OSError, KeyError, ImportError):
        return getpass.getuser()
    return ""


def _born(pid: int) -> str | None:
    """When a process began, by a clock that nobody sets, since numbers are used again; None for one that is gone."""
    import psutil

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        if sys.platform == "linux":
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
        return str(process.create_time())
    except (psutil.Error, OSError):
        return None


def _who(record: dict[str, Any] | None) -> str:
    return f"process {record.get('pid')} on {record.get('host')}" if record else "another job"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
