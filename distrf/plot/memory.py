"""Memory of the workers over time, against what was planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from ..execution.memory_trace import MemoryTrace
from .axes import Display, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MIB, _NAMED = 2**20, 8


class MemoryDisplay(Display):
    """What each worker holds over time, with the planned peak and the limit of a worker.

    Parameters
    ----------
    trace : MemoryTrace
        Of `distrf.plot.tracing_memory`.
    planned : int or None, default=None
        Peak of a worker by the plan, in bytes; `distrf.plan(...).memory.peak`.
    limit : int or None, default=None
        Limit of a worker, in bytes. It is drawn where it is not far above all else.

    Attributes
    ----------
    lines_ : list of matplotlib lines
        For each process.
    planned_, limit_ : matplotlib line or None
        The levels.
    ax_, figure_ : matplotlib axes and figure
        What was drawn on.
    """

    def __init__(self, *, trace: MemoryTrace, planned: int | None = None, limit: int | None = None):
        self.trace = trace
        self.planned = planned
        self.limit = limit

    @classmethod
    def from_trace(
        cls,
        trace: MemoryTrace,
        *,
        planned: int | None = None,
        limit: int | None = None,
        ax: Axes | None = None,
    ) -> MemoryDisplay:
        """Draw what was traced.

        Parameters
        ----------
        trace : MemoryTrace
            Of `distrf.plot.tracing_memory`.
        planned : int or None, default=None
            Peak of a worker by the plan, in bytes.
        limit : int or None, default=None
            Limit of a worker, in bytes.
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.

        Returns
        -------
        MemoryDisplay

        Raises
        ------
        InputError
            The trace is empty.
        """
        return cls(trace=trace, planned=planned, limit=limit).plot(ax)

    def plot(self, ax: Axes | None = None) -> MemoryDisplay:
        """Draw on axes.

        Parameters
        ----------
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.

        Returns
        -------
        MemoryDisplay
            This one.

        Raises
        ------
        InputError
            The trace is empty.
        """
        trace = self.trace
        if not trace.processes:
            raise InputError("the trace is empty; run the job inside `with tracing_memory(client) as trace:`")
        ax = self._begin(ax)
        few = len(trace.processes) <= _NAMED
        self.lines_ = [
            ax.plot(
                trace.seconds[name], np.array(held) / _MIB,
                linewidth=1.2, label=plain(name) if few else None, marker="." if len(held) < 20 else None,
            )[0]
            for name, held in trace.processes.items()
        ]  # fmt: skip
        self.planned_ = self.limit_ = None
        highest = max([1, *trace.peaks.values(), self.planned or 0])
        if self.planned:
            self.planned_ = ax.axhline(
                self.planned / _MIB, color="C3", linestyle="--", label="planned peak of a worker"
            )
        if self.limit and self.limit <= 2.5 * highest:
            highest = max(highest, self.limit)
            self.limit_ = ax.axhline(self.limit / _MIB, color="black", linestyle=":", label="limit of a worker")
        ax.set_ylim(0, 1.08 * highest / _MIB)
        ax.set_xlabel("seconds")
        ax.set_ylabel("memory of a process (MiB)")
        ax.legend(frameon=False, fontsize="small", loc="best")
        return self
