"""Progress of what runs on a cluster or here: bars in a terminal or a notebook, lines in the log of a batch job."""

from __future__ import annotations

import os
import re
import stat
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .execution.progress import Lines, listening, split_label

if TYPE_CHECKING:
    from rich.console import Console

#: Variables that batch systems set. What their jobs write to a pipe goes to a log.
_BATCH = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "KUBERNETES_SERVICE_HOST")


@contextmanager
def show_progress(console: Console | None = None) -> Iterator[None]:
    """Show a bar for each pass that runs inside the `with` block: rows done, rows per second, time left.

    The epochs of a fit share one bar, with the loss beside it, the passes of gradients another.
    In a log file, or the log of a batch job, there is a line a minute at most, and in a notebook without ipywidgets one for each
    pass that has ended. Nothing is written to a pipe. The logger "distrf" has all of it at the level INFO, also without this
    function.

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
    display: _Bars | Lines
    if widgets or console.is_terminal:
        display = _Bars(console)
    elif console.is_jupyter or is_log(console.file):
        say = partial(console.print, markup=False, highlight=False, soft_wrap=True)
        display = Lines(say, ends=console.is_jupyter)
    else:
        yield
        return
    try:
        with listening(display):
            yield
    finally:
        if isinstance(display, _Bars):
            display.close()


def is_log(file: Any, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether what is written to a file that is no terminal stays for someone to read: a file, or the output of a batch job."""
    if any(name in environment for name in _BATCH):
        return True
    try:
        return stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except (AttributeError, OSError, ValueError):
        return True  # text in memory


class _Bars:
    """Bars of rich, below what is printed meanwhile: one for the epochs of a fit, one for the passes of each name."""

    def __init__(self, console: Console):
        from rich.progress import (
            BarColumn,
            Progress,
            ProgressColumn,
            Task,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.text import Text

        class Rate(ProgressColumn):
            def render(self, task: Task) -> Text:
                return Text(f"{task.finished_speed or task.speed or 0:,.0f} rows/s")

        # What is printed goes to a file, or into the cell of a notebook, where output does.
        self.bars = Progress(
            TextColumn("{task.description:>14}", markup=False),
            BarColumn(20),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} rows"),
            Rate(),
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
