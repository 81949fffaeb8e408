"""Axes to draw on: matplotlib is imported when the first is made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Markers of lines, so that they are told apart without colours too.
MARKERS = "osD^vP*X"


class MissingPlotError(InputError, ImportError):
    """matplotlib is not installed."""


class Display:
    """A figure made of numbers that are stored: `plot` draws them, anew on other axes if asked.

    Attributes
    ----------
    ax_ : matplotlib axes
        Those that were drawn on.
    figure_ : matplotlib figure
        The figure of these.
    """

    ax_: Axes
    figure_: Figure

    def _begin(self, ax: Axes | None) -> Axes:
        """The axes that are given, or new ones of pyplot; they are kept."""
        self.ax_ = new_axes() if ax is None else ax
        self.figure_ = self.ax_.figure  # type: ignore[assignment]
        self.ax_.grid(alpha=0.3)
        self.ax_.set_axisbelow(True)
        return self.ax_


def new_axes() -> Axes:
    """Axes of a new figure of pyplot."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise missing(error) from error
    return pyplot.subplots(layout="constrained")[1]


def new_figure(width: float = 6.4, height: float = 4.0) -> Figure:
    """A figure of its own, which no window shows and pyplot does not keep. In inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing(error) from error
    return Figure(figsize=(width, height), layout="constrained")


def missing(error: ImportError) -> MissingPlotError:
    """The error where matplotlib cannot be imported."""
    return MissingPlotError(
        f'plots need matplotlib, which cannot be imported ({error}); pip install "distrf[plot]"'
    )


def plain(text: Any, most: int = 40) -> str:
    """A name from data as a label: dollars are no formulas, and what is long is cut."""
    text = "".join(c if c.isprintable() else "?" for c in " ".join(str(text).split())) or "(empty)"
    return (text if len(text) <= most else text[: most - 1] + "…").replace("$", r"\$")


def round_ticks(values: Iterable[Any]) -> list[float]:
    """1, 2 and 5 times powers of ten near the values: a log axis of less than a decade has too few labels."""
    positive = [float(v) for v in values if v > 0]
    if not positive:
        return []
    low, high = min(positive) / 1.5, max(positive) * 1.5
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    ticks = [m * 10.0**k for k in decades for m in (1, 2, 5) if low <= m * 10.0**k <= high]
    return ticks if len(ticks) <= 12 else [t for t in ticks if np.isclose(np.log10(t) % 1, 0)]


def set_round_ticks(ax: Axes, values: Iterable[Any], axis: str = "y") -> None:
    """Round ticks for a logarithmic axis, where there are two at least."""
    ticks = round_ticks(values)
    if len(ticks) > 1:
        setter = ax.set_yticks if axis == "y" else ax.set_xticks
        setter(ticks, [f"{t:g}" for t in ticks])
        (ax.yaxis if axis == "y" else ax.xaxis).minorticks_off()


def set_size_ticks(ax: Axes, sizes: Iterable[int]) -> None:
    """A logarithmic horizontal axis of counts, each with its label, or powers of ten where they are many."""
    sizes = sorted(set(sizes))
    ax.set_xscale("log", base=2)
    if len(sizes) <= 8:
        ax.set_xticks(sizes, [f"{k:,}" for k in sizes])
    ax.minorticks_off()
