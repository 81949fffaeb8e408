"""`Plan`: what a job will read, write and hold, as it is printed or refused before anything runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dask.utils import format_bytes

from ..errors import MemoryPlanError
from ..execution.memory import PassMemory, Workers, check_client
from ..execution.planned import Phase
from ..representation import facts_html

#: What `Plan.to_dict` has under the name of its attribute.
_NAMED = (
    "job", "rows", "blocks", "block_rows", "passes", "tasks", "bytes_read", "bytes_written", "fits", "notes"
)  # fmt: skip


@dataclass
class Plan:
    """What a job will read, write and hold, worked out before any of it runs."""

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
    def threads(self) -> int:
        """Threads of all workers."""
        return self.workers.count * self.workers.threads

    @property
    def at_once(self) -> tuple[int, int]:
        """Tasks that can run at once in the narrowest pass over the rows, and in the widest; of SGD gradients of a batch."""
        parts = [phase.parts for phase in self.phases if phase.parts]
        return min(parts, default=1), max(parts, default=1)

    @property
    def idle(self) -> str:
        """What a note says of threads that have no work in the narrowest pass; "" if all have some."""
        least = self.at_once[0]
        if least >= self.threads:
            return ""
        if any(phase.batches and phase.parts == least for phase in self.phases):
            why = "a batch has no more gradients; the others read rows and make features ahead"
        elif least < self.sweep_blocks:
            why = "with more segments, moving their states would take much of the time"
        else:
            why = f"the rows are stored in {self.sweep_blocks} block(s); write more (rows_per_block; row groups of Parquet)"
        return f"{least} of {self.threads} threads work at once in the narrowest pass: {why}"

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
            ("workers", f"{self.workers.count} x {self.workers.threads} threads"),
            ("tasks at once", " to ".join(f"{count:,}" for count in dict.fromkeys(self.at_once))),
            *(("note", note) for note in self.notes),
        ]

    def __str__(self) -> str:
        lines = [f"plan: {self.job}", *(f"{what:<20}{value}" for what, value in self.lines())]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        fits = [("fits", "yes" if self.fits else "no: the job is refused")]
        return facts_html(f"plan: {self.job}", [*self.lines(), *fits])

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {name: getattr(self, name) for name in _NAMED} | {
            "peak_bytes_per_worker": self.memory.peak,
            "peak_parts": self.memory.parts,
            "peak_bytes_client": self.client_peak,
            "memory_limit_per_worker": self.workers.memory_limit,
            "workers": self.workers.count,
            "threads_per_worker": self.workers.threads,
            "tasks_at_once": list(self.at_once),
        }
