"""Times that a busy machine disturbs little: processor seconds, and runs that take turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any


def cpu(call: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds of all threads of this process, and what the call gave."""
    started = time.process_time()
    made = call()
    return time.process_time() - started, made


def in_turn(
    calls: dict[str, Callable[[], Any]],
    rounds: int,
    warm: bool = True,
    before: Callable[[], Any] | None = None,
) -> dict[str, list[float]]:
    """Processor seconds of each call in each round. All take their turn in a round; the first, to warm up, does not count.

    before : is called before each of them, and does not count
    """
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for i in range(rounds + warm):
        for name, call in calls.items():
            if before:
                before()
            seconds, _ = cpu(call)
            if i >= warm:
                taken[name].append(seconds)
    return taken


def medians(taken: dict[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in taken.items()}
