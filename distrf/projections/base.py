"""What every projection offers: the linear part x -> W x of a map, tile by tile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..errors import InputError
from ..kernels.shift_invariant import Kernel
from .cache import weight_cache


@dataclass(frozen=True)
class Projection:
    """A seeded matrix W of shape (m, d) whose rows follow the kernel's weight law at length scale 1.

    Attributes
    ----------
    kernel : Kernel
    n_features_in : d
    n_frequencies : m, the number of rows of W
    seed : seed of all its streams
    """

    kernel: Kernel
    n_features_in: int
    n_frequencies: int
    seed: int

    name: ClassVar[str]
    #: Rows of X to hand to `phases` at once.
    rows_per_tile: ClassVar[int] = 512
    #: Whether `phases` takes a CSR tile as it is; otherwise the map densifies the tile.
    accepts_sparse: ClassVar[bool] = False

    @classmethod
    def check(cls, kernel: Kernel) -> None:
        """Raise InputError, naming what is missing, where this projection cannot serve the kernel."""

    @property
    def made_at_once(self) -> int:
        """Rows of W whose weights are made and cached together, on a grid from row 0."""
        return 1024

    def runs(self, start: int, stop: int, itemsize: int) -> list[tuple[int, int]]:
        """Rows start:stop of W in runs of which each fits the weight cache, for numbers of `itemsize` bytes.

        All rows of X go through one run before the next is begun: weights that do not fit together would else be
        made anew for every tile of X.
        """
        row_bytes = self.work()[1] / self.n_frequencies * itemsize / 4
        if (stop - start) * row_bytes <= weight_cache.max_bytes:
            return [(start, stop)]
        grid = self.made_at_once
        step = grid * max(1, int(weight_cache.max_bytes / 2 / (row_bytes * grid)))
        return [(max(a, start), min(a + step, stop)) for a in range(start - start % step, stop, step)]

    @property
    def caution(self) -> str | None:
        """Where the kernel is far from right at this size, in words for a warning."""
        return None

    def weights(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Rows start:stop of W as an explicit matrix, shape (stop - start, d), float64."""
        raise NotImplementedError

    def phases(
        self, X: np.ndarray, start: int, stop: int, scale: float, dtype: np.dtype
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Products scale * X @ W[start:stop].T, one column block at a time.

        Parameters
        ----------
        X : array of shape (n, d), n <= rows_per_tile (CSR only if `accepts_sparse`)
        start, stop : rows of W wanted
        scale : factor on W
        dtype : float32 or float64, the working precision

        Yields
        ------
        first, columns : index of the block's first row of W, and a C-contiguous array of shape
            (n, width) that is valid until the next one is asked for
        """
        raise NotImplementedError

    def offsets(self, start: int, stop: int) -> np.ndarray | None:
        """Phase offsets of rows start:stop in turns where they belong to the point set, else None."""
        return None

    def work(self) -> tuple[float, float]:
        """Floating-point operations per row of X, and bytes of cached parameters in float32."""
        raise NotImplementedError


def require_isotropic(projection: str, kernel: Kernel) -> None:
    """Raise InputError for a kernel whose weight directions are not uniform on the sphere."""
    if not kernel.isotropic:
        able = [name for name, k in kernel.registry.items() if k.isotropic]
        raise InputError(
            f"projection={projection!r} needs an isotropic kernel ({', '.join(able)}), got kernel={kernel.name!r}; "
            "use projection='dense'"
        )
