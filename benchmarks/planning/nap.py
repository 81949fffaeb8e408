"""What reading a block takes in benchmarks/planning/naps.py: a nap. In a module of its own, which workers of one process share."""

from __future__ import annotations

import threading
import time

import numpy as np
from distributed import get_worker


class Naps:
    """The seconds of a nap, and those slept so far. slow : the factor of the naps of the worker "0"."""

    def __init__(self, seconds: float = 0.0, slow: float = 1.0):
        self.seconds, self.slow, self.slept, self.lock = seconds, slow, 0.0, threading.Lock()

    def take(self) -> None:
        time.sleep(self.seconds * (self.slow if str(get_worker().name) == "0" else 1.0))
        with self.lock:
            self.slept += self.seconds


_now = [Naps()]


def begin(seconds: float, slow: float) -> Naps:
    """The naps of a new run."""
    _now[0] = Naps(seconds, slow)
    return _now[0]


def nap(block: np.ndarray) -> np.ndarray:
    """The block, after a nap."""
    if len(block) > 1:  # Dask tries functions on empty blocks
        _now[0].take()
    return block
