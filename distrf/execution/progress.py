"""Progress of a pass, block by block, from wherever its tasks run."""

from __future__ import annotations

import logging
import math
import threading
import time
import uuid
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

#: Called as listener(label, rows_done, rows_total) in the client process.
Listener = Callable[[str, int, int], None]
_LOG = logging.getLogger("distrf.progress")
#: Seconds between two lines of a log, at least.
EVERY = 60.0
#: The topic of all passes. An event of it is pairs of the id of a pass and the rows that a worker has done since its last event.
TOPIC = "distrf-progress"
#: Seconds between two events of a worker, at least: the scheduler has better things to do than to hear of every block.
_SEND_EVERY = 1.0

_listener: ContextVar[Listener | None] = ContextVar("distrf_progress", default=None)
_lock = threading.Lock()
#: What counts the rows of each pass that runs in threads of this process, and of each pass of a client.
_local: dict[str, Callable[[int], None]] = {}
_remote: weakref.WeakKeyDictionary[Any, dict[str, Callable[[int], None]]] = weakref.WeakKeyDictionary()
#: Of a worker: when it last sent an event, and the rows of each pass since.
_unsent: weakref.WeakKeyDictionary[Any, tuple[float, Counter[str]]] = weakref.WeakKeyDictionary()


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Report every pass inside the `with` block to a listener.

    Parameters
    ----------
    listener : callable
        Called as ``listener(label, rows_done, rows_total)`` in the client process.
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def current_listener() -> Listener | None:
    """What hears of work now: the listener that is set, and Python's log, unless neither is wanted.

    A label may carry a remark after a bar: "epoch 1/3|loss 0.3".
    """
    heard, log = _listener.get(), _LOG.isEnabledFor(logging.INFO)
    listeners = ([] if heard is None else [heard]) + ([_logged] if log else [])

    def tell(label: str, done: int, total: int) -> None:
        for listener in listeners:
            listener(label, done, total)

    return tell if listeners else None


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


class Lines:
    """A listener that says in lines how far the work is.

    Parameters
    ----------
    say : callable
        Called with a line, once a minute at most.
    ends : bool
        Whether to say it too when a pass or an epoch ends, which may be often.
    """

    def __init__(self, say: Callable[[str], None], ends: bool = False):
        self._say, self._ends = say, ends
        self._begun: dict[str, float] = {}
        self._spoke = time.monotonic()

    def __call__(self, label: str, done: int, total: int) -> None:
        (name, remark), now = split_label(label), time.monotonic()
        begun = self._begun[name] = self._begun.get(name, now) if done else now
        if (self._ends and done >= total > 0) or (done and now - self._spoke >= EVERY):
            self._spoke = now
            parts = [f"{done:,} of {total:,} rows"]
            if now - begun > 0.1:
                rate = done / (now - begun)
                parts += [f"{rate:,.0f} rows/s"] + [f"{(total - done) / rate:,.0f} s left"] * (done < total)
            self._say(f"{name}: {', '.join([*parts, remark] if remark else parts)}")


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
