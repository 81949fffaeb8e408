"""Progress of passes, block by block, from wherever their tasks run: bars in a terminal or a notebook, lines in logs."""

from __future__ import annotations

import logging
import math
import re
import sys
import threading
import time
import uuid
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

#: Called as listener(label, rows_done, rows_total) in the client process.
Listener = Callable[[str, int, int], None]
_LOG = logging.getLogger("distrf.progress")
#: Seconds between two lines of a log, at least.
EVERY = 10.0
#: The topic of all passes. An event of it is pairs of the id of a pass and the rows that a worker has done since its last event.
TOPIC = "distrf-progress"
#: Seconds between two events of a worker, at least: the scheduler has better things to do than to hear of every block.
_SEND_EVERY = 1.0

_listener: ContextVar[Listener | None] = ContextVar("distrf_progress", default=None)
_lock = threading.Lock()
#: What counts the rows of each pass of this process, and the clients that tell of those of their workers.
_counters: dict[str, Callable[[int], None]] = {}
_clients: weakref.WeakSet[Any] = weakref.WeakSet()
#: Of a worker: when it last sent an event, and the rows of each pass since.
_unsent: weakref.WeakKeyDictionary[Any, tuple[float, Counter[str]]] = weakref.WeakKeyDictionary()


@contextmanager
def show_progress(console: Console | None = None) -> Iterator[None]:
    """Show a bar for each pass that runs inside the `with` block: rows done, and the time left.

    The epochs of a fit share one bar, with the loss beside it, the passes of gradients another.
    In a file, or a notebook without ipywidgets, there is a line every ten seconds at most. The logger "distrf" has such lines at
    the level INFO, also without this function.

    Parameters
    ----------
    console : rich.console.Console or None, default=None
        Where to draw. None is standard error in a terminal, and the output of the cell in a notebook.

    Yields
    ------
    None

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import StreamingRidge, show_progress
    >>> X = np.eye(4)
    >>> with show_progress():
    ...     model = StreamingRidge(alpha=1e-3).fit(X, X[:, 0])
    """
    from rich.console import Console

    if console is None:
        console = Console(highlight=False)
        console = console if console.is_jupyter else Console(stderr=True, highlight=False)
    widgets = console.is_jupyter and find_spec("ipywidgets") is not None  # without which rich only warns
    if not (widgets or console.is_terminal):
        with listening(Lines(partial(console.print, markup=False, highlight=False, soft_wrap=True))):
            yield
        return
    bars = _Bars(console)
    try:
        with listening(bars):
            yield
    finally:
        bars.close()


class _Bars:
    """Bars of rich, below what is printed meanwhile: one for the epochs of a fit, one for the passes of each name."""

    def __init__(self, console: Console):
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        # What is printed goes to a file, or into the cell of a notebook, where output does.
        self.bars = Progress(
            TextColumn("{task.description:>14}", markup=False),
            BarColumn(20),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} rows"),
            TextColumn("{task.fields[remark]}", markup=False),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            redirect_stdout=sys.stdout.isatty() and not console.is_jupyter,
            redirect_stderr=not console.is_jupyter,
        )
        self._drawn: dict[str, tuple[str, Any]] = {}
        self._lock = threading.Lock()

    def __call__(self, label: str, done: int, total: int) -> None:
        name, remark = split_label(label)
        kind = re.split(r" *\d", name)[0] or name
        with self._lock:
            self.bars.start()  # not before the first pass: an error before it would follow an empty line
            before, task = self._drawn.get(kind, ("", None))
            if task is None:
                task = self.bars.add_task(name, total=total, remark=remark)
            elif not done or before != name:
                self.bars.reset(task, total=total, description=name)
            self._drawn[kind] = name, task
            self.bars.update(task, completed=done, remark=remark)

    def close(self) -> None:
        if self.bars.live.is_started:
            self.bars.refresh()  # in a notebook `stop` does not draw the end
            self.bars.stop()


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
    wanted = _listener.get(), _logged if _LOG.isEnabledFor(logging.INFO) else None
    listeners = [listener for listener in wanted if listener is not None]

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
    """A listener that says in lines how far the work is, every ten seconds at most."""

    def __init__(self, say: Callable[[str], None]):
        self._say, self._spoke = say, time.monotonic()

    def __call__(self, label: str, done: int, total: int) -> None:
        if done and time.monotonic() - self._spoke >= EVERY:
            self._spoke = time.monotonic()
            name, remark = split_label(label)
            self._say(f"{name}: {done:,} of {total:,} rows" + f", {remark}" * bool(remark))


_logged = Lines(_LOG.info)


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
    with _lock:
        if client is not None and client not in _clients:
            client.subscribe_topic(TOPIC, _hear)
            _clients.add(client)
    _counters[topic] = add
    try:
        yield topic
        add(total)
    finally:
        del _counters[topic]


def _hear(event: tuple[float, list[tuple[str, int]]]) -> None:
    for topic, rows in event[1]:
        _counters.get(topic, int)(rows)  # a pass may have ended, or be that of another client


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
    if topic in _counters:
        _counters[topic](rows)
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
