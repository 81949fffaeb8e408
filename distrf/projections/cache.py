"""A bounded per-process cache of weights made from seeds.

Workers make weights on first use and keep them here; nothing of it is ever pickled.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

import numpy as np


class WeightCache:
    """Least-recently-used arrays up to `max_bytes`; an array above the bound is made and not kept."""

    def __init__(self, max_bytes: int):
        self.max_bytes = max_bytes
        self._arrays: OrderedDict[Hashable, np.ndarray] = OrderedDict()
        self._bytes = 0
        self._lock = threading.RLock()

    def get(self, key: Hashable, make: Callable[[], np.ndarray]) -> np.ndarray:
        """The array of `key`, made under the lock, so that threads never make the same one twice."""
        with self._lock:
            if key in self._arrays:
                self._arrays.move_to_end(key)
                return self._arrays[key]
            array = make()
            array.flags.writeable = False
            if array.nbytes <= self.max_bytes:
                self._arrays[key] = array
                self._bytes += array.nbytes
                while self._bytes > self.max_bytes:
                    self._bytes -= self._arrays.popitem(last=False)[1].nbytes
            return array

    def clear(self) -> None:
        with self._lock:
            self._arrays.clear()
            self._bytes = 0


#: Bytes of weights one process may keep; set DISTRF_CACHE_BYTES to change it.
CACHE_BYTES = int(os.environ.get("DISTRF_CACHE_BYTES", 512 * 2**20))
weight_cache = WeightCache(CACHE_BYTES)
