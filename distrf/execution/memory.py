"""The memory of a pass, and the plan that is printed or refused before anything runs.

The peak of one worker is the sum of: its process; cached weights; for each thread a source block, the widest block and the
scratch of the reduction; and states, which the plan calls partial results. In the worst case one worker holds all states
that still wait to be added, and the sums that wait for others. While a state is sent it takes three times its size (measured).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from dask.utils import format_bytes
from threadpoolctl import threadpool_limits

from ..errors import MemoryPlanError
from .sum_tree import most_waiting
from .worker_checks import WorkerMemoryError

#: Bytes of a worker process that has imported everything and holds no data.
PROCESS_BYTES = 350 * 2**20
#: Factor for what allocators and messages take beyond the arrays themselves.
SLACK = 1.15
#: While a state is sent, it takes this many times its size.
_SENT = 3
#: Up to the first size, eight states may be under way for each thread; up to the second, three; above, one and a half.
#: Small states may run further ahead, so that threads do not wait for sums. At 32 MiB on two workers that saves 7 %.
_SMALL_STATE, _MEDIUM_STATE = 2**20, 64 * 2**20
_REMEDIES = {
    "partial results": "fewer components, cv='holdout' or a single alpha, or workers with more memory",
    "blocks": "smaller blocks (Dask's array.chunk-size, or rows_per_block), or fewer threads per worker",
    "scratch": "smaller blocks (Dask's array.chunk-size), or fewer threads per worker",
    "cached weights": "a structured projection, or a smaller DISTRF_CACHE_BYTES",
    "features": "a smaller batch_size, fewer components, or more workers",
    "gradients": "fewer components or outputs, or workers with more memory",
}


@dataclass(frozen=True)
class Workers:
    """Size of the cluster: processes, threads of each, and the smallest memory limit in bytes (0: none)."""

    count: int
    threads: int
    memory_limit: int

    @classmethod
    def of_client(cls, client: Any) -> Workers:
        if client is None:
            import psutil
            from dask.system import CPU_COUNT

            return cls(1, CPU_COUNT, psutil.virtual_memory().total)
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
        limits = [w["memory_limit"] for w in workers if w.get("memory_limit")]
        threads = max((w["nthreads"] for w in workers), default=1)
        return cls(max(1, len(workers)), threads, min(limits, default=0))


def states_ahead(nbytes: int, threads: int) -> int:
    """How many segments with states of `nbytes` may run, or wait to be added, at one time, beside sums that wait."""
    if nbytes <= _MEDIUM_STATE:
        return (8 if nbytes <= _SMALL_STATE else 3) * threads
    return threads + -(-threads // 2)


def states_held(nbytes: int, segments: int, threads: int = 1) -> int:
    """The most states of `nbytes` that one worker holds at a time: those of segments, and sums that wait for others."""
    return max(_SENT, min(segments, states_ahead(nbytes, threads) + most_waiting(segments)))


def reading_scratch(stored: float, block: float) -> int:
    """Bytes of scratch while stored rows are read: three copies (raw, decoded, copied) less the block, counted apart."""
    return max(0, int(3 * stored - block))


@dataclass(frozen=True)
class PassMemory:
    """Bytes one worker needs at the peak of a pass, by part; and those of the blocks that it keeps between passes."""

    block: int
    scratch: int
    partial: int
    weights: int = 0
    segments: int = 1
    threads: int = 1
    kept: int = 0

    @property
    def parts(self) -> dict[str, int]:
        held = states_held(self.partial, self.segments, self.threads) * self.partial
        return {
            "process": PROCESS_BYTES,
            "cached weights": self.weights,
            "blocks": int(SLACK * self.threads * self.block),
            "scratch": int(SLACK * self.threads * self.scratch),
            "partial results": int(SLACK * held),
            "kept rows": self.kept,
        }

    @property
    def peak(self) -> int:
        return sum(self.parts.values())

    def check(self, workers: Workers, label: str) -> None:
        """Raise MemoryPlanError where the peak exceeds the smallest worker."""
        if not workers.memory_limit or self.peak <= workers.memory_limit:
            return
        raise MemoryPlanError(
            f"{label} was refused: it needs {format_bytes(self.peak)} on each worker, which has "
            f"{format_bytes(workers.memory_limit)} ({self._listed}). Remedy: {self._remedy}, or --memory-limit / "
            f"memory_limit of at least {format_bytes(self.peak)}"
        )

    @contextmanager
    def explains(self, label: str) -> Iterator[None]:
        """Context of the tasks of this plan. If a worker runs out of memory all the same, the error states the plan."""
        try:
            yield
        except WorkerMemoryError as error:
            raise MemoryPlanError(
                f"{label} was ended: {error}. Planned was a peak of {format_bytes(self.peak)} ({self._listed}). Remedy: "
                f"{self._remedy}, or workers with more memory (--memory-limit / memory_limit)"
            ) from error

    @property
    def _listed(self) -> str:
        return ", ".join(f"{name} {format_bytes(size)}" for name, size in self.parts.items() if size)

    @property
    def _remedy(self) -> str:
        return _REMEDIES[max(self.parts, key=lambda part: self.parts[part] if part in _REMEDIES else 0)]


@dataclass
class Plan:
    """What a job will read, write, hold and compute, worked out before any of it runs."""

    job: str
    rows: int
    blocks: int
    block_rows: int
    passes: int
    tasks: int
    bytes_read: int
    bytes_written: int
    memory: PassMemory
    client_peak: int
    flops: float
    workers: Workers
    notes: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return self.flops / (gemm_rate() * self.workers.count * self.workers.threads)

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
            ("time, roughly", f"{self.seconds:,.0f} s ({self.flops:.2g} operations)"),
            *(("note", note) for note in self.notes),
        ]

    def __str__(self) -> str:
        lines = [f"plan: {self.job}", *(f"{what:<20}{value}" for what, value in self.lines())]
        return "\n".join(lines)

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
            "seconds_estimate": round(self.seconds, 1),
            "notes": self.notes,
        }


def check_client(needed: int, label: str) -> None:
    """Raise MemoryPlanError where the final solve, in this process, exceeds the memory of this machine."""
    import psutil

    have = psutil.virtual_memory().total
    if needed > have:
        raise MemoryPlanError(
            f"{label} was refused: its final solve needs {format_bytes(needed)} in the client, this machine has "
            f"{format_bytes(have)}. Remedy: fewer components, cv='holdout' or a single alpha"
        )


_rate: list[float] = []


def gemm_rate() -> float:
    """Sustained float32 operations per second of one core here, measured once in about 0.1 s.

    Counted are seven tenths of the measured rate of a matrix product, because a pass also reads rows, takes cosines and
    adds up states.
    """
    if not _rate:
        A = np.ones((1024, 1024), dtype=np.float32)
        with threadpool_limits(1):
            A @ A
            start = time.perf_counter()
            for _ in range(3):
                A @ A
            _rate.append(0.7 * 3 * 2 * 1024**3 / (time.perf_counter() - start))
    return _rate[0]
