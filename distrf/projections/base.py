"""What every projection offers: the linear part x -> W x of a map, one tile of rows at a time; and the cache of weights.

Workers make weights from seeds on first use and keep them, up to a number of bytes in each process. Nothing of it is ever pickled.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..kernels.shift_invariant import WeightLaw
from ..typing import Rows

#: Operations are counted as those of a matrix product in float32. Others take the time of so many: of a Fourier transform by
#: SciPy and by compiled/circular_products.py, and of a Walsh-Hadamard transform. Measured on one core with AVX-512, at
#: 92 GF/s in matrix products.
FOURIER_COST, VECTOR_FOURIER_COST, HADAMARD_COST = 12.0, 6.0, 6.0
#: Of a cosine, with the memory that it is written to and the check that it is finite.
COSINE_COST = 60.0


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


@dataclass(frozen=True)
class Projection:
    """Base of the projections: a seeded matrix W of shape (m, d).

    Its rows have the kernel's law of weights at length scale 1.

    A subclass defines `weights`, `phases` and `work`, and is listed in `PROJECTIONS`.

    Parameters
    ----------
    kernel : WeightLaw
    n_features_in : d, the number of columns of the rows of X
    n_frequencies : m, the number of rows of W
    seed : seed of all its streams

    Attributes
    ----------
    name : str, key in `PROJECTIONS` and in specs
    rows_per_tile : int, how many rows of X to hand to `phases` at once
    least_features : int, the fewest columns for which an estimator takes it: with fewer its kernel is far off
    accepts_sparse : bool, whether `phases` takes CSR rows as they are; otherwise the map makes them dense
    isotropic : bool, whether it serves isotropic kernels alone
    """

    kernel: WeightLaw
    n_features_in: int
    n_frequencies: int
    seed: int

    name: ClassVar[str]
    rows_per_tile: ClassVar[int] = 512
    least_features: ClassVar[int] = 1
    accepts_sparse: ClassVar[bool] = False
    isotropic: ClassVar[bool] = False

    @property
    def made_at_once(self) -> int:
        """Rows of W whose weights are made and cached together; they begin at multiples of this number."""
        return 1024

    def weight_blocks(self, start: int, stop: int, itemsize: int) -> list[tuple[int, int]]:
        """Cut rows start:stop of W into weight blocks that each fit the cache.

        A map takes all rows of X through one weight block before it begins the next. If it took tile after tile
        of X through all weight blocks instead, weights that do not fit the cache together would be made anew
        for every tile.

        Parameters
        ----------
        start, stop : rows of W
        itemsize : bytes of a number in the dtype of the phases

        Returns
        -------
        List of (first, last + 1), rows of W.
        """
        row_bytes = self.work()[1] / self.n_frequencies * itemsize / 4
        if (stop - start) * row_bytes <= weight_cache.max_bytes:
            return [(start, stop)]
        grid = self.made_at_once
        return list(
            cut_at_multiples(start, stop, grid * max(1, int(weight_cache.max_bytes / 2 / (row_bytes * grid))))
        )

    def weights(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Rows start:stop of W as an explicit matrix, shape (stop - start, d), float64."""
        raise NotImplementedError

    def phases(
        self, X: Rows, start: int, stop: int, scale: float, dtype: np.dtype
    ) -> Iterator[tuple[int, np.ndarray]]:
        """The products scale * X @ W[start:stop].T, a column block at a time.

        Parameters
        ----------
        X : array of shape (n, d), n <= rows_per_tile; CSR only where `accepts_sparse` says so
        start, stop : the rows of W wanted
        scale : factor on W
        dtype : float32 or float64, in which the products are made

        Yields
        ------
        first : int, the row of W that column 0 of the column block belongs to
        column_block : C-contiguous array of shape (n, width), valid until the next column block is asked for
        """
        raise NotImplementedError

    def offsets(self, start: int, stop: int) -> np.ndarray | None:
        """Phase offsets of rows start:stop in turns, if the point set of the projection includes them; else None."""
        return None

    def work(self) -> tuple[float, float]:
        """Floating-point operations for one row of X, and bytes of cached weights in float32. The plan asks.

        Operations are those of a matrix product that take the same time.
        """
        raise NotImplementedError


def cut_at_multiples(start: int, stop: int, step: int) -> Iterator[tuple[int, int]]:
    """Cut start:stop at every multiple of `step`.

    Weights are drawn, made and cached in blocks that begin at multiples of some step. Cut in this way, whatever
    rows are asked for, each piece lies within one block.

    Yields
    ------
    first, last : int, the bounds of a piece first:last
    """
    for first in range(start - start % step, stop, step):
        yield max(first, start), min(first + step, stop)
