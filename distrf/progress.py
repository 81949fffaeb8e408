"""Progress of what runs on a cluster or here: bars in a terminal or a notebook, lines in the log of a batch job."""

from __future__ import annotations

import os
import stat
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .execution.progress import Lines, Work, Works, listening

if TYPE_CHECKING:
    from rich.console import Console

#: Variables that batch systems set. What their jobs write to a pipe goes to a log.
_BATCH = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "KUBERNETES_SERVICE_HOST")


@contextmanager
def show_progress(console: Console | None = None) -> Iterator[None]:
    """Show a bar for each pass that runs inside the `with` block: rows done, rows per second, time left.

    The epochs of a fit share one bar, with the loss beside it, the passes of conjugate gradients another, with the residual.
    Workers that are lost or come are named. In a log file, or the log of a batch job, there is a line a minute at most, and in
    a notebook without ipywidgets one for each pass that has ended. Nothing is written to a pipe. The logger "distrf" has all of it
    at the level INFO, also without this function.

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
        with listening(display, display.remark):
            yield
    finally:
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
    """Bars of rich, below what is printed meanwhile. Nothing is drawn before the first pass."""

    def __init__(self, console: Console):
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.table import Column

        columns = (
            TextColumn("{task.description:>14}", markup=False),
            BarColumn(20),
            TextColumn(
                "{task.completed:,.0f}/{task.total:,.0f} rows {task.fields[rate]} {task.fields[remark]}"
            ),
            TimeElapsedColumn(Column(min_width=7)),
            TimeRemainingColumn(table_column=Column(min_width=7)),
        )
        # What is printed goes to a file, or into the cell of a notebook, where output does.
        self.bars = Progress(
            *columns,
            console=console,
            redirect_stdout=sys.stdout.isatty() and not console.is_jupyter,
            redirect_stderr=not console.is_jupyter,
        )
        self._works = Works()
        self._drawn: dict[str, tuple[Work | None, Any]] = {}
        self._lock = threading.Lock()

    def __call__(self, label: str, done: int, total: int) -> None:
        kind, work = self._works.update(label, done, total)
        with self._lock:
            self.bars.start()
            drawn: Work | None
            task: Any
            drawn, task = self._drawn.get(kind, (None, None))
            if drawn is not work:
                if task is not None:
                    self.bars.remove_task(task)
                task = self.bars.add_task(work.name, total=total, rate="", remark="")
                self._drawn[kind] = work, task
            rate = f"{work.rate:,.0f} rows/s" if work.rate else ""
            self.bars.update(task, completed=done, total=total, rate=rate, remark=work.remark)

    def remark(self, text: str) -> None:
        self.bars.console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        if self.bars.live.is_started:  # else it would print an empty line, before an error too
            self.bars.refresh()  # in a notebook `stop` does not draw the end
            self.bars.stop()
