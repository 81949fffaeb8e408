"""The memory of a pass.

The peak of one worker is the sum of: its process; cached weights; for each thread a source block, the widest block and the
scratch of the reduction; and states, which the plan calls partial results. In the worst case one worker holds all states
that wait to be added, and those that are being made. While a state is sent it takes three times its size (measured).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import psutil
from dask.utils import format_bytes

from ..errors import MemoryPlanError
from .scheduler import in_plain_words

#: Control groups of this process, and where the kernel shows them.
_OWN, _GROUPS = Path("/proc/self/cgroup"), "/sys/fs/cgroup"
#: Bytes of a worker process that has imported everything and holds no data.
PROCESS_BYTES = 350 * 2**20
#: Bytes of the process that starts local workers: it has imported as much, and shares the files of libraries with them.
CLIENT_BYTES = 200 * 2**20
#: Factor for what allocators and messages take beyond the arrays themselves.
SLACK = 1.15
#: The most segments of a pass: the graph of so many costs the client below half a second.
MOST_SEGMENTS = 4096
#: While a state is sent, it takes this many times its size.
_SENT = 3
_REMEDY = (
    "fewer components or outputs, a structured projection, a smaller batch_size, smaller blocks (Dask's array.chunk-size, or "
    "rows_per_block), cv='holdout' or a single alpha; fewer workers, each with more memory, or the one of cluster/local/small.yaml"
)


@dataclass(frozen=True)
class Workers:
    """Workers to plan with: processes, the most threads of one, and the smallest memory limit in bytes (0: none)."""

    count: int
    threads: int
    memory_limit: int

    @classmethod
    def of_client(cls, client: Any) -> Workers:
        if client is None:
            from dask.system import CPU_COUNT

            return cls(1, CPU_COUNT, machine_memory())
        with in_plain_words(client):
            found = client.scheduler_info(n_workers=-1)["workers"].values()
        limits = [worker["memory_limit"] for worker in found if worker.get("memory_limit")]
        threads = max((worker["nthreads"] for worker in found), default=1)
        return cls(max(1, len(found)), threads, min(limits, default=0))


def states_held(segments: int, threads: int = 1) -> int:
    """The most states that one worker holds at a time.

    They are those of its running segments, those that wait for their neighbours on the tree, and for each thread the copy
    that a sum is made in.
    """
    copies = threads if segments > 1 else 0
    return max(_SENT, copies + min(segments, 2 * threads - 1 + tree_height(segments)))


@dataclass(frozen=True)
class PassMemory:
    """Bytes one worker needs at the peak of a pass, by part.

    records : by which its process has grown, for good, when many small tasks ran on it before
    """

    block: int
    scratch: int
    partial: int
    weights: int = 0
    segments: int = 1
    threads: int = 1
    records: int = 0

    @property
    def parts(self) -> dict[str, int]:
        held = states_held(self.segments, self.threads) * self.partial
        return {
            "process": PROCESS_BYTES + self.records,
            "cached weights": self.weights,
            "blocks": int(SLACK * self.threads * self.block),
            "scratch": int(SLACK * self.threads * self.scratch),
            "partial results": int(SLACK * held),
        }

    @property
    def peak(self) -> int:
        return sum(self.parts.values())

    def check(self, workers: Workers, label: str) -> None:
        """Raise MemoryPlanError where the peak exceeds the worker with the least memory."""
        if workers.memory_limit and self.peak > workers.memory_limit:
            listed = ", ".join(f"{name} {format_bytes(size)}" for name, size in self.parts.items() if size)
            raise MemoryPlanError(
                f"{label} was refused: it needs {format_bytes(self.peak)} on each worker, which has "
                f"{format_bytes(workers.memory_limit)} ({listed}). Remedy: {_REMEDY}, or a memory_limit of at least "
                f"{format_bytes(self.peak)}"
            )


def check_client(needed: int, label: str) -> None:
    """Raise MemoryPlanError where the final solve, in this process, exceeds the memory of this machine."""
    have = machine_memory()
    if needed > have:
        raise MemoryPlanError(
            f"{label} was refused: its final solve needs {format_bytes(needed)} in the client, this machine has "
            f"{format_bytes(have)}. Remedy: fewer components, cv='holdout' or a single alpha"
        )


def machine_memory() -> int:
    """The most bytes that this process and those beside it may take.

    The memory of the machine, or the limit of the container, batch job or service in which it runs: that of its control
    group (cgroup), or of one above it. Beyond that the kernel kills. Dask looks at the uppermost group alone, which is that
    of a container, but not of a batch job or a service.

    Returns
    -------
    int
    """
    limits = [psutil.virtual_memory().total]
    for line in _OWN.read_text().splitlines() if _OWN.exists() else ():
        _, controllers, group = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        # Versions 1 and 2. In a container the path may be that outside of it: then only "/" is there.
        top, file = ("memory", "memory.limit_in_bytes") if controllers else ("", "memory.max")
        path = PurePosixPath(group)
        for folder in (path, *path.parents):
            with suppress(OSError, ValueError):  # "max" is no limit
                limits.append(int(Path(_GROUPS, top, str(folder).strip("/"), file).read_text()))
    return min(limits)


def tree_height(n_states: int) -> int:
    """The sums from a state to the root: as many states wait at most where they come in order."""
    return max(n_states - 1, 0).bit_length()
