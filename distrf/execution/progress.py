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
    """The listener that is set now, for work that is not a pass. A label may carry a remark after a bar: "epoch 1/3|loss 0.3"."""
    return _listener.get()


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


@contextmanager
def pass_topic(label: str, total: int, client: Any) -> Iterator[str | None]:
    """A topic to which the tasks of one pass report their rows.

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
    listener = _listener.get()
    if listener is None:
        yield None
        return
    topic = f"distrf-{uuid.uuid4().hex}"
    lock, done = threading.Lock(), [0]

    def add(rows: int) -> None:
        with lock:
            if done[0] < total:  # blocks that were computed twice must not count beyond the total
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
    """A task calls this after a block.

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
    try:
        from distributed import get_worker

        get_worker().log_event(topic, rows)
    except ValueError:  # not inside a worker
        pass
