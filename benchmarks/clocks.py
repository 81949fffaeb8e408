"""Times that a busy machine disturbs little: processor seconds, and runs that take turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from distrf.projections.cache import weight_cache


def cpu(call: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds of all threads of this process, and what the call gave."""
    started = time.process_time()
    made = call()
    return time.process_time() - started, made


def in_turn(
    calls: dict[str, Callable[[], Any]],
    rounds: int,
    before: Callable[[], Any] | None = None,
) -> dict[str, list[float]]:
    """Processor seconds of each call in each round. All take their turn in a round; the first, to warm up, does not count.

    before : is called before each of them, and does not count
    """
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for i in range(rounds + 1):
        for name, call in calls.items():
            if before:
                before()
            seconds, _ = cpu(call)
            if i:
                taken[name].append(seconds)
    return taken


def medians(taken: dict[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in taken.items()}


@contextmanager
def all_kept() -> Iterator[None]:
    """A job has one map, here several take turns: each keeps its weights in the cache, as it would alone."""
    before, weight_cache.max_bytes = weight_cache.max_bytes, max(weight_cache.max_bytes, 2**32)
    try:
        yield
    finally:
        weight_cache.max_bytes = before
        weight_cache.clear()
