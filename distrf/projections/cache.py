"""A bounded cache, one in each process, of weights that are made from seeds.

Workers make weights on first use and keep them here. Nothing of it is ever pickled.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

import numpy as np


class WeightCache:
    """Arrays up to a number of bytes; those that were used longest ago leave first.

    Parameters
    ----------
    max_bytes : the most bytes to keep. A larger array is made on each call and not kept
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._arrays: OrderedDict[Hashable, np.ndarray] = OrderedDict()
        self._bytes = 0
        self._lock = threading.RLock()

    def get(self, key: Hashable, make: Callable[[], np.ndarray]) -> np.ndarray:
        """Return the array of a key; if it is not in the cache, make it.

        It is made under a lock, so that threads never make the same array twice.

        Parameters
        ----------
        key : hashable, all that determines the array
        make : makes the array where it is not in the cache

        Returns
        -------
        The array, read-only.
        """
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
        """Forget all arrays."""
        with self._lock:
            self._arrays.clear()
            self._bytes = 0


#: The most bytes of weights that a process keeps. The environment variable DISTRF_CACHE_BYTES changes it.
CACHE_BYTES = int(os.environ.get("DISTRF_CACHE_BYTES", 512 * 2**20))
weight_cache = WeightCache(CACHE_BYTES)


def cached_bytes(weights: float, itemsize: int) -> int:
    """Bytes of cached weights on a worker; `weights` : bytes of all weights in float32."""
    return int(min(weights * itemsize / 4, CACHE_BYTES))
