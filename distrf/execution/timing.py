"""How long a job takes on so many workers: the model behind the time of a plan.

A job is a sequence of phases. A phase is a number of steps, one after the other: the passes over the rows, or the batches of
SGD. The work of a step is cut into parts, which run at once: segments, blocks, microbatches. A phase takes

    max((waiting + ahead) / threads,
        steps * (Speeds.step + (levels + 1) * state / Speeds.network) + waiting / parts * ceil(parts / threads),
        tasks * Speeds.task)

seconds. `waiting` is the work of the steps themselves: a step begins when the one before is done. `ahead` is work that
may be done before its step: SGD reads rows and makes their features before their turn. The states of the parts are
added on a tree of `levels` = log2(parts) levels; a state of `state` bytes is sent at each, and the sum to the client. The
last line is the time of client and scheduler, which handle one task after the other. A batch waits for the tasks of its
gradients, whose time is added to the second line.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from threadpoolctl import threadpool_limits

from .memory import Workers

#: What bounds a phase.
WORK, STEPS, TASKS = (
    "arithmetic and reading",
    "steps that wait for each other",
    "tasks, which one scheduler handles",
)


@dataclass(frozen=True)
class Phase:
    """A part of a job: steps one after the other, each a pass or a batch.

    Attributes
    ----------
    passes : int
        Over rows, or over targets alone.
    tasks : int
        Of all passes.
    sweeps : float
        How often all rows are read.
    flops : float
        Of all passes.
    parts : int
        Tasks of a step that can run at once.
    state : int
        Bytes of what a part sends.
    steps : int
        Steps one after the other, where these are not the passes.
    ahead : float
        Of `flops`, those that do not wait for the step before.
    written : int
        Bytes that the parts write.
    waited : int
        Of `tasks`, those that a step waits for: gradients and their sums.
    """

    passes: int = 1
    tasks: int = 0
    sweeps: float = 0.0
    flops: float = 0.0
    parts: int = 1
    state: int = 0
    steps: int = 0
    ahead: float = 0.0
    written: int = 0
    waited: int = 0

    @classmethod
    def of_passes(
        cls, passes: int, segments: int, flops: float, state: int, sweeps: float | None = None
    ) -> Phase:
        """Passes whose segments are added on a tree; each reads all rows, but for what `sweeps` says."""
        return cls(
            passes, passes * (2 * segments - 1), passes if sweeps is None else sweeps, flops, segments, state
        )

    def bounds(self, sweep: float, workers: Workers, speeds: Speeds) -> dict[str, float]:
        """The seconds that the phase takes at least, by what bounds it; it takes the longest of them.

        Parameters
        ----------
        sweep : float
            Seconds in which one thread reads all rows.
        workers : Workers
        speeds : Speeds
        """
        threads, parts = workers.count * workers.threads, max(self.parts, 1)
        reading = self.sweeps * sweep
        ahead = self.ahead / speeds.flops + (reading if self.steps else 0.0)
        waiting = (self.flops - self.ahead) / speeds.flops + (0.0 if self.steps else reading)
        waiting += self.written / speeds.write
        step = speeds.step + (math.ceil(math.log2(parts)) + 1) * self.state / speeds.network
        return {
            WORK: (waiting + ahead) / threads,
            STEPS: (self.steps or self.passes) * step
            + waiting / parts * math.ceil(parts / threads)
            + self.waited * speeds.task,
            TASKS: self.tasks * speeds.task,
        }

    def seconds(self, sweep: float, workers: Workers, speeds: Speeds) -> float:
        """The seconds that the phase takes; the parameters are those of `bounds`."""
        return max(self.bounds(sweep, workers, speeds).values())


@dataclass(frozen=True)
class Speeds:
    """What one thread, and the connections between workers, do in a second.

    Attributes
    ----------
    flops : float
        Operations of a thread; measured here by default.
    read : float
        Bytes of stored rows that a thread reads, decompresses and checks.
    block : float
        Seconds that reading a stored block takes beside its bytes.
    write : float
        Bytes that a thread writes, with their checksums.
    network : float
        Bytes between two workers, or a worker and the client.
    task : float
        Seconds of client and scheduler for a task.
    step : float
        Seconds from the end of a step to the start of the next.
    """

    flops: float = field(default_factory=lambda: gemm_rate())
    read: float = 200e6
    block: float = 2e-3
    write: float = 200e6
    network: float = 1e9
    task: float = 1e-3
    step: float = 0.02


_rate: list[float] = []


def gemm_rate() -> float:
    """Sustained float32 operations per second of one core here, measured once in about 0.1 s."""
    if not _rate:
        _rate.append(measured_gemm_rate())
    return _rate[0]


def measured_gemm_rate(clock: Callable[[], float] = time.perf_counter) -> float:
    """Sustained float32 operations per second of one core, measured now.

    Counted are seven tenths of the rate of a matrix product, because a pass also reads rows, takes cosines and adds up
    states.
    """
    A, taken = np.ones((1024, 1024), dtype=np.float32), []
    with threadpool_limits(1):
        for _ in range(4):
            start = clock()
            A @ A
            taken.append(clock() - start)
    return 0.7 * 2 * 1024**3 / min(taken)
