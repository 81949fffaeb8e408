"""Progress of a pass, block by block, from wherever its tasks run."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

#: Called as listener(label, rows_done, rows_total) in the client process.
Listener = Callable[[str, int, int], None]

_listener: ContextVar[Listener | None] = ContextVar("distrf_progress", default=None)
_local: dict[str, Callable[[int], None]] = {}


@contextmanager
def show_progress(listener: Listener) -> Iterator[None]:
    """Report every pass that runs inside the `with` to `listener(label, rows_done, rows_total)`."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def current_listener() -> Listener | None:
    """Who listens now; for work that is no pass. A label may carry a remark after a bar: "epoch 1/3|loss 0.3"."""
    return _listener.get()


def split_label(label: str) -> tuple[str, str]:
    """("epoch 1/3", "loss 0.3") of "epoch 1/3|loss 0.3"; the remark is empty where there is none."""
    name, _, remark = label.partition("|")
    return name, remark


@contextmanager
def pass_topic(label: str, total: int, client: Any) -> Iterator[str | None]:
    """A topic that tasks of one pass report rows to; None while nobody listens."""
    listener = _listener.get()
    if listener is None:
        yield None
        return
    topic = f"distrf-{uuid.uuid4().hex}"
    lock, done = threading.Lock(), [0]

    def add(rows: int) -> None:
        with lock:
            if done[0] < total:  # a block that ran again, or an event that arrives late, adds nothing
                done[0] = min(done[0] + rows, total)
                listener(label, done[0], total)

    listener(label, 0, total)
    if client is None:
        _local[topic] = add
    else:
        client.subscribe_topic(topic, lambda event: add(event[1]))
    try:
        yield topic
        add(total)
    finally:
        if client is None:
            _local.pop(topic, None)
        else:
            client.unsubscribe_topic(topic)


def report(topic: str | None, rows: int) -> None:
    """Called by a task after a block: `rows` more rows are done."""
    if topic is None:
        return
    if topic in _local:
        _local[topic](rows)
        return
    try:
        from distributed import get_worker

        get_worker().log_event(topic, rows)
    except ValueError:  # not inside a worker
        pass
