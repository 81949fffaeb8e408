"""Times that a busy machine disturbs little: processor seconds, and runs that take turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from distrf.projections.base import weight_cache


def cpu(call: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds of all threads of this process, and what the call gave."""
    started = time.process_time()
    made = call()
    return time.process_time() - started, made


def in_turn(
    calls: dict[str, Callable[[], Any]],
    rounds: int,
    before: Callable[[], Any] = lambda: None,
) -> dict[str, float]:
    """Processor seconds of each call, the median of its rounds. All take their turn in a round; the first, to warm up, does not count.

    before : is called before each of them, and does not count
    """
    taken: dict[str, list[float]] = {name: [] for name in calls}
    # A job has one map, here several take turns: each keeps its weights in the cache, as it would alone.
    usual, weight_cache.max_bytes = weight_cache.max_bytes, max(weight_cache.max_bytes, 2**32)
    try:
        for _ in range(rounds + 1):
            for name, call in calls.items():
                before()
                taken[name].append(cpu(call)[0])
    finally:
        weight_cache.max_bytes = usual
        weight_cache.clear()
    return {name: statistics.median(values[1:]) for name, values in taken.items()}
