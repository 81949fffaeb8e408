"""What every projection offers: the linear part x -> W x of a map, tile by tile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..errors import InputError
from ..kernels import Kernel


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

    def weights(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Rows start:stop of W as an explicit matrix, shape (stop - start, d), float64."""
        raise NotImplementedError

    def phases(
        self, X: np.ndarray, start: int, stop: int, scale: float, dtype: np.dtype
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Products scale * X @ W[start:stop].T, one panel of columns at a time.

        Parameters
        ----------
        X : array of shape (n, d), n <= rows_per_tile (CSR only if `accepts_sparse`)
        start, stop : rows of W wanted
        scale : factor on W
        dtype : float32 or float64, the working precision

        Yields
        ------
        first, panel : index of the panel's first row of W, and a C-contiguous array of shape
            (n, width) that is valid until the next panel is asked for
        """
        raise NotImplementedError

    def offsets(self, start: int, stop: int) -> np.ndarray | None:
        """Phase offsets of rows start:stop in turns where they belong to the point set, else None."""
        return None

    def work(self) -> tuple[float, float]:
        """Floating-point operations per row of X, and bytes of cached parameters in float32."""
        raise NotImplementedError


def require_isotropic(projection: str, kernel: Kernel) -> None:
    if not kernel.isotropic:
        raise InputError(
            f"projection={projection!r} needs an isotropic kernel (gaussian, matern), got kernel={kernel.name!r}; "
            "use projection='dense'"
        )
