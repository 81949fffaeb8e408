"""`Plan`: what a job will read, write, hold and compute, as it is printed or refused before anything runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dask.utils import format_bytes

from ..errors import MemoryPlanError
from ..execution.memory import PassMemory, Workers, check_client
from ..execution.timing import Phase, Speeds
from ..representation import facts_html


@dataclass
class Plan:
    """What a job will read, write, hold and compute, worked out before any of it runs."""

    job: str
    rows: int
    blocks: int
    block_rows: int
    phases: tuple[Phase, ...]
    sweep_bytes: int
    sweep_blocks: int
    bytes_written: int
    memory: PassMemory
    client_peak: int
    workers: Workers
    notes: list[str] = field(default_factory=list)

    @property
    def passes(self) -> int:
        """All passes, over rows or over targets alone."""
        return sum(phase.passes for phase in self.phases)

    @property
    def tasks(self) -> int:
        return sum(phase.tasks for phase in self.phases)

    @property
    def bytes_read(self) -> int:
        return round(sum(phase.sweeps for phase in self.phases) * self.sweep_bytes)

    @property
    def flops(self) -> float:
        return sum(phase.flops for phase in self.phases)

    def seconds(self, speeds: Speeds | None = None) -> float:
        """The seconds that the job takes, by the model of distrf/execution/timing.py.

        Parameters
        ----------
        speeds : Speeds or None, default=None
            None measures the arithmetic of this machine, and assumes the rest.
        """
        speeds = speeds or Speeds()
        return sum(phase.seconds(self._sweep(speeds), self.workers, speeds) for phase in self.phases)

    def _sweep(self, speeds: Speeds) -> float:
        """Seconds in which one thread reads all rows."""
        return self.sweep_bytes / speeds.read + self.sweep_blocks * speeds.block

    def bound(self, speeds: Speeds | None = None) -> str:
        """What takes the time of the longest phase; `speeds` as in `seconds`."""
        speeds = speeds or Speeds()
        each = [phase.bounds(self._sweep(speeds), self.workers, speeds) for phase in self.phases]
        longest = max(each, key=lambda bounds: max(bounds.values()))
        return next(name for name, seconds in longest.items() if seconds > 0.8 * max(longest.values()))

    @property
    def fits(self) -> bool:
        try:
            self.check()
        except MemoryPlanError:
            return False
        return True

    def check(self) -> None:
        """Raise MemoryPlanError where a worker or the client cannot hold its peak."""
        self.memory.check(self.workers, self.job)
        check_client(self.client_peak, self.job)

    def lines(self) -> list[tuple[str, str]]:
        """(what, how much) in words, as it is printed."""
        limit = self.workers.memory_limit
        held = f"{format_bytes(self.memory.peak)} of {format_bytes(limit) if limit else 'no limit'}"
        return [
            ("rows", f"{self.rows:,} in {self.blocks} blocks of up to {self.block_rows:,}"),
            ("tasks", f"{self.tasks} in {self.passes} passes"),
            ("read", format_bytes(self.bytes_read)),
            ("written", format_bytes(self.bytes_written)),
            ("peak per worker", held),
            *((f"  {part}", format_bytes(size)) for part, size in self.memory.parts.items() if size),
            ("peak of the client", format_bytes(self.client_peak)),
            ("workers", f"{self.workers.count} x {self.workers.threads} threads{self._idle()}"),
            ("time, roughly", f"{self.seconds():,.0f} s, mostly {self.bound()}"),
            *(("note", note) for note in self.notes),
        ]

    def _idle(self) -> str:
        """What is said of workers for which no step has a part."""
        busy = max((phase.parts for phase in self.phases), default=1)
        return f", of which at most {busy} have work at once" if busy < self.workers.count else ""

    def __str__(self) -> str:
        lines = [f"plan: {self.job}", *(f"{what:<20}{value}" for what, value in self.lines())]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        fits = [("fits", "yes" if self.fits else "no: the job is refused")]
        return facts_html(f"plan: {self.job}", [*self.lines(), *fits])

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "job": self.job,
            "rows": self.rows,
            "blocks": self.blocks,
            "block_rows": self.block_rows,
            "passes": self.passes,
            "tasks": self.tasks,
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
            "peak_bytes_per_worker": self.memory.peak,
            "peak_parts": self.memory.parts,
            "peak_bytes_client": self.client_peak,
            "memory_limit_per_worker": self.workers.memory_limit,
            "fits": self.fits,
            "workers": self.workers.count,
            "threads_per_worker": self.workers.threads,
            "flops": self.flops,
            "time_bound_by": self.bound(),
            "seconds_estimate": round(self.seconds(), 1),
            "notes": self.notes,
        }
