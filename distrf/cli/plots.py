"""Write a plot to a file; what cannot be written is refused before the work starts."""

from __future__ import annotations

import os
from typing import Any

from ..errors import InputError
from ..store import check_apart, check_writable
from .usage import UsageError


def check_place(path: str | None, source: str) -> None:
    """Raise for a plot that cannot be written: UsageError for a kind of file that matplotlib does not write."""
    if path is None:
        return
    check_apart(path, [source], what="--plot")
    check_writable(path)
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError as error:
        raise InputError(
            f'--plot needs matplotlib, which cannot be imported ({error}); pip install "distrf[plot]"'
        ) from error
    known = FigureCanvasBase.get_supported_filetypes()
    ending = os.path.splitext(path)[1].removeprefix(".").lower()
    if ending not in known:
        raise UsageError(f"--plot writes {', '.join(sorted(known))} by the ending of the file, got {path!r}")
    if os.path.isdir(path):
        raise UsageError(f"--plot names a file, but {path!r} is a folder")


def write_plot(axes: Any, path: str) -> None:
    """Save the figure of the axes and close it; missing folders are made."""
    from matplotlib import pyplot

    if folder := os.path.dirname(path):
        os.makedirs(folder, exist_ok=True)
    axes.figure.savefig(path, dpi=150)
    pyplot.close(axes.figure)
