"""Progress bars for what runs on a cluster or here, in a terminal or a notebook."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .execution.progress import Listener, listening, split_label

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


@contextmanager
def show_progress(console: Console | None = None) -> Iterator[None]:
    """Show a bar for each pass that runs inside the `with` block: rows done, rows per second, time left.

    The epochs of a fit share one bar, with the loss beside it. Where the output is no terminal and no notebook, nothing moves:
    each epoch leaves a line, so that the log of a batch job shows how far it is.

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
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.table import Column

    if console is None:
        console = Console(highlight=False)
        console = console if console.is_jupyter else Console(stderr=True, highlight=False)
    columns = (
        TextColumn("{task.description:>14}"),
        BarColumn(20),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f} rows {task.fields[rate]} {task.fields[remark]}"),
        TimeElapsedColumn(Column(min_width=7)),
        TimeRemainingColumn(table_column=Column(min_width=7)),
    )
    # What is printed meanwhile stands above the bars, but in a file where output goes to one.
    bars = Progress(*columns, console=console, redirect_stdout=sys.stdout.isatty())
    listen = bar_for_each_pass(bars)

    def show(label: str, done: int, total: int) -> None:
        bars.start()
        listen(label, done, total)

    try:
        with listening(show):
            yield
    finally:
        if bars.live.is_started:  # else it would print an empty line, before an error too
            bars.stop()


def bar_for_each_pass(bars: Progress) -> Listener:
    """A listener that keeps a bar for each pass; the epochs of a fit share one."""
    tasks: dict[str, Any] = {}
    begun: dict[str, float] = {}
    shown: dict[str, str] = {}

    def listen(label: str, done: int, total: int) -> None:
        name, remark = split_label(label)
        bar = name.split(" ")[0] if remark else name
        if bar not in tasks or shown[bar] != name or done == 0:
            if bar in tasks:
                bars.remove_task(tasks[bar])
            tasks[bar] = bars.add_task(name, total=total, rate="", remark="")
            begun[bar], shown[bar] = time.perf_counter(), name
        elapsed = time.perf_counter() - begun[bar]
        rate = f"{done / elapsed:,.0f} rows/s" if done and elapsed > 0.1 else ""
        bars.update(tasks[bar], completed=done, total=total, rate=rate, remark=remark)
        if remark and done >= total and not bars.console.is_terminal:
            bars.console.print(" ".join(part for part in (name, remark, rate) if part))

    return listen
