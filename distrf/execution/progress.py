"""Progress of a pass, block by block, from wherever its tasks run."""

from __future__ import annotations

import logging
import math
import re
import threading
import time
import uuid
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

#: Called as listener(label, rows_done, rows_total) in the client process.
Listener = Callable[[str, int, int], None]
#: Called with a sentence on the workers that were lost or came.
Remark = Callable[[str], None]

_LOG = logging.getLogger("distrf.progress")
#: Seconds between two lines of a log, at least.
EVERY = 60.0
#: The topic of all passes. An event of it is pairs of the id of a pass and the rows that a worker has done since its last event.
TOPIC = "distrf-progress"
#: Seconds between two events of a worker, at least: the scheduler has better things to do than to hear of every block.
_SEND_EVERY = 1.0

_listener: ContextVar[tuple[Listener, Remark | None] | None] = ContextVar("distrf_progress", default=None)
_lock = threading.Lock()
#: What counts the rows of each pass that runs in threads of this process, and of each pass of a client.
_local: dict[str, Callable[[int], None]] = {}
_remote: weakref.WeakKeyDictionary[Any, dict[str, Callable[[int], None]]] = weakref.WeakKeyDictionary()
#: Of a worker: when it last sent an event, and the rows of each pass since.
_unsent: weakref.WeakKeyDictionary[Any, tuple[float, Counter[str]]] = weakref.WeakKeyDictionary()
#: The workers of each client when they were last looked at.
_workers: weakref.WeakKeyDictionary[Any, frozenset[str]] = weakref.WeakKeyDictionary()


@contextmanager
def listening(listener: Listener, remark: Remark | None = None) -> Iterator[None]:
    """Report every pass inside the `with` block to a listener.

    Parameters
    ----------
    listener : callable
        Called as ``listener(label, rows_done, rows_total)`` in the client process.
    remark : callable, optional
        Called as ``remark(text)`` when workers are lost or come.
    """
    token = _listener.set((listener, remark))
    try:
        yield
    finally:
        _listener.reset(token)


def current_listener() -> Listener | None:
    """What hears of work now: the listener that is set, and Python's log, unless neither is wanted.

    A label may carry a remark after a bar: "epoch 1/3|loss 0.3".
    """
    heard, log = _listener.get(), _LOG.isEnabledFor(logging.INFO)
    listeners = ([] if heard is None else [heard[0]]) + ([_logged] if log else [])

    def tell(label: str, done: int, total: int) -> None:
        for listener in listeners:
            listener(label, done, total)

    return tell if listeners else None


def saw_workers(client: Any, names: Iterable[str]) -> None:
    """Say which workers were lost, and how many came, since the workers of a client were last looked at.

    Parameters
    ----------
    client : distributed.Client
    names : iterable of str
        Addresses of the workers that there are now.
    """
    now = frozenset(names)
    before = _workers.get(client)
    _workers[client] = now
    if before is None or before == now:
        return
    lost, found = sorted(before - now), len(now - before)
    parts = [f"lost {', '.join(lost[:3])}{' ...' if len(lost) > 3 else ''}"] if lost else []
    parts += [f"{found} came"] if found else []
    text = f"workers: {'; '.join(parts)}; {len(now)} now"
    _LOG.info(text)
    heard = _listener.get()
    if heard is not None and heard[1] is not None:
        heard[1](text)


def split_label(label: str) -> tuple[str, str]:
    """The name and the remark of a label: "epoch 1/3|loss 0.3" has both.

    Parameters
    ----------
    label : str

    Returns
    -------
    name : str
    remark : str
        Empty where there is no bar.
    """
    name, _, remark = label.partition("|")
    return name, remark


@dataclass
class Work:
    """A pass or an epoch under way."""

    name: str
    total: int
    begun: float = field(default_factory=lambda: time.monotonic())
    done: int = 0
    remark: str = ""
    ended: float | None = None

    @property
    def rate(self) -> float | None:
        """Rows per second; None at the start."""
        seconds = (time.monotonic() if self.ended is None else self.ended) - self.begun
        return self.done / seconds if self.done and seconds > 0.1 else None

    @property
    def left(self) -> float | None:
        """Seconds until it is done, at this rate."""
        return (self.total - self.done) / self.rate if self.rate else None

    @property
    def text(self) -> str:
        """All in a line."""
        parts = [f"{self.done:,} of {self.total:,} rows"]
        parts += [f"{self.rate:,.0f} rows/s"] if self.rate else []
        parts += [f"{self.left:,.0f} s left"] if self.left else []
        return f"{self.name}: {', '.join([*parts, self.remark] if self.remark else parts)}"


class Works:
    """What is under way or was done, by kind: the epochs of a fit are one kind, and the passes of one name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.kinds: dict[str, Work] = {}

    def update(self, label: str, done: int, total: int) -> tuple[str, Work]:
        """The kind of the work with this label, and the work, which is new where it is another one than before."""
        name, remark = split_label(label)
        kind = re.split(r" *\d", name)[0] or name
        with self._lock:
            work = self.kinds.get(kind)
            if work is None or work.name != name or work.total != total or done < work.done:
                work = self.kinds[kind] = Work(name, total)
            work.done, work.remark = done, remark
            if done >= total and work.ended is None:
                work.ended = time.monotonic()
        return kind, work


class Lines:
    """A listener that says in lines how far the work is, and what was remarked meanwhile.

    Parameters
    ----------
    say : callable
        Called with the line.
    ends : bool
        Whether to say it too when a pass or an epoch ends, which may be often.
    """

    def __init__(self, say: Callable[[str], None], ends: bool = False):
        self._say, self._ends = say, ends
        self._works, self._remarks = Works(), list[str]()
        self._said = time.monotonic()

    def __call__(self, label: str, done: int, total: int) -> None:
        _, work = self._works.update(label, done, total)
        due = time.monotonic() - self._said >= EVERY
        if (self._ends and done >= total > 0) or (due and done):
            self._said = time.monotonic()
            self._tell(work.text)

    def _tell(self, *texts: str) -> None:
        remarks, self._remarks = self._remarks, []
        if line := "; ".join([*texts, *remarks]):
            self._say(line)

    def remark(self, text: str) -> None:
        """Say this with the next line."""
        self._remarks.append(text)

    def close(self) -> None:
        """Say the remarks that no line has had."""
        self._tell()


_logged = Lines(_LOG.info, ends=True)


@contextmanager
def pass_topic(label: str, total: int, client: Any) -> Iterator[str | None]:
    """An id under which the tasks of one pass report their rows.

    Parameters
    ----------
    label : str
        What the pass is called.
    total : int
        Rows of the pass.
    client : distributed.Client or None

    Returns
    -------
    context manager of str, or of None while nobody listens
    """
    listener = current_listener()
    if listener is None:
        yield None
        return
    topic, lock, done = uuid.uuid4().hex, threading.Lock(), 0

    def add(rows: int) -> None:
        nonlocal done
        with lock:
            if done < total:  # blocks that were computed twice must not count beyond the total
                done = min(done + rows, total)
                listener(label, done, total)

    listener(label, 0, total)
    counters = _counters(client)
    counters[topic] = add
    try:
        yield topic
        add(total)
    finally:
        del counters[topic]


def _counters(client: Any) -> dict[str, Callable[[int], None]]:
    """What counts the rows of each pass of a client, which hears of the topic from its first pass to its end."""
    if client is None:
        return _local
    with _lock:
        if client not in _remote:
            counters: dict[str, Callable[[int], None]] = {}

            def hear(event: tuple[float, list[tuple[str, int]]]) -> None:
                for topic, rows in event[1]:
                    counters.get(topic, int)(rows)  # a pass may have ended, or be that of another client

            client.subscribe_topic(TOPIC, hear)
            _remote[client] = counters
        return _remote[client]


def report(topic: str | None, rows: int) -> None:
    """A task calls this after a block. Rows on a worker are added up, and sent at most once a second.

    The last ones may never be sent: the client counts all rows when the pass has ended.

    Parameters
    ----------
    topic : str or None
        Of `pass_topic`.
    rows : int
        Rows of the block.
    """
    if topic is None:
        return
    if topic in _local:
        _local[topic](rows)
        return
    from distributed import get_worker

    try:
        worker = get_worker()
    except ValueError:  # not inside a worker
        return
    with _lock:
        now = time.monotonic()
        sent, counts = _unsent.setdefault(worker, (-math.inf, Counter()))
        counts[topic] += rows
        if now - sent < _SEND_EVERY:
            return
        _unsent[worker] = now, Counter()
    worker.log_event(TOPIC, list(counts.items()))
