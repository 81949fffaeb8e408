"""Write a plot to a file; what cannot be written is refused before the work starts."""

from __future__ import annotations

import os
from typing import Any

import typer

from ..errors import InputError


def check_place(path: str | None, source: str) -> None:
    """Raise for a plot that cannot be written, or of a kind that matplotlib does not write."""
    if path is None:
        return
    from ..store import check_apart, check_writable

    check_apart(path, [source], what="--plot")
    check_writable(path)
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError as error:
        raise InputError(f'--plot needs matplotlib ({error}); pip install "distrf[plot]"') from error
    known = FigureCanvasBase.get_supported_filetypes()
    if os.path.splitext(path)[1].removeprefix(".").lower() not in known:
        raise typer.BadParameter(
            f"--plot writes {', '.join(sorted(known))} by the ending of the file, got {path!r}"
        )
    if os.path.isdir(path):
        raise typer.BadParameter(f"--plot names a file, but {path!r} is a folder")


def check_drawable(pipeline: Any) -> None:
    """Raise for a pipeline whose training leaves nothing to draw."""
    spectrum = any(hasattr(step, "n_iter") and hasattr(step, "sketch") for step in pipeline)
    if not (spectrum or hasattr(pipeline[-1], "n_epochs") or getattr(pipeline[-1], "compares_alphas", False)):
        raise typer.BadParameter(
            "--plot draws epochs, the errors of several --alpha, or the spectrum of --map tefm"
        )


def draw_training(model: Any, path: str) -> str:
    """Draw how a model, or the one in a folder, was trained; returns the path."""
    from ..persistence import load_model
    from ..plot import plot_training

    return _write(plot_training(load_model(model) if isinstance(model, str) else model), path)


def draw_importance(found: Any, path: str) -> str:
    """Draw what `permutation_importance` found; returns the path."""
    from ..plot import displays

    return _write(displays(found)["importance"].plot().ax_, path)


def _write(axes: Any, path: str) -> str:
    """Save the figure of the axes and close it; missing folders are made."""
    from matplotlib import pyplot

    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    axes.figure.savefig(path, dpi=150)
    pyplot.close(axes.figure)
    return path
