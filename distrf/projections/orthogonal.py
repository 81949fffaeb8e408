"""Orthogonal random features (Yu et al. 2016, "Orthogonal Random Features", Eq. 3).

A block of d rows is S Q. Q is uniform on the orthogonal group (Haar), and S is a diagonal of independent norms
of the chi_d law. Both come from one Gaussian matrix G with rows g_k: the rows are made orthonormal one after
the other (a QR decomposition with a positive diagonal), and keep their norms |g_k|. Q and the triangular factor
R of a Gaussian matrix are independent (Bartlett), and |g_k| is the norm of column k of R. So the norms are
independent of Q and of each other, and have the chi_d law. Row 0 of a block is g_0 itself.

Each row is exactly N(0, I_d), so the estimate is unbiased for isotropic kernels (for Matern, times a radius).
The rows of a block point away from each other, which lowers the variance of the estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..errors import InputError
from ..randomness import variates
from .base import cut_at_multiples, weight_cache
from .dense import DenseProjection


@dataclass(frozen=True)
class OrthogonalProjection(DenseProjection):
    """W in blocks of d orthogonal rows, made by QR and multiplied like a dense matrix.

    A block costs about 4 d^3 operations, which is too slow to repeat. So all of W must fit in the cache of weights.

    Raises
    ------
    InputError : W in float64 is larger than the cache
    """

    name: ClassVar[str] = "orthogonal"
    isotropic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        d, m = self.n_features_in, self.n_frequencies
        size, bound = 8 * d * m, weight_cache.max_bytes
        if size > bound:
            raise InputError(
                f"projection='orthogonal' keeps its weights, {m} x {d} in float64 = {size / 2**20:.0f} MiB, in a "
                f"cache of {bound / 2**20:.0f} MiB (a QR of {min(d, m)} x {d} is too slow to repeat); "
                "use projection='structured_orthogonal', fewer components, or a larger DISTRF_CACHE_BYTES"
            )

    def weights(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        d = self.n_features_in
        stop = self.n_frequencies if stop is None else stop
        out = np.empty((stop - start, d))
        for first, last in cut_at_multiples(start, stop, d):
            block = first // d
            out[first - start : last - start] = self._block(block, last - block * d)[first - block * d :]
        return out

    def _block(self, block: int, count: int) -> np.ndarray:
        """The first `count` <= d rows of a block, shape (count, d). They do not depend on the rows after them."""
        d = self.n_features_in
        G = variates(self.seed, "orthogonal", block, count * d, "normal").reshape(count, d)
        norms = np.sqrt((G * G).sum(axis=1))
        radii = self.kernel.radii(self.seed, block, count)
        Q, R = np.linalg.qr(G.T)
        return Q.T * (np.copysign(norms, np.diag(R)) * (1.0 if radii is None else radii))[:, None]

    @property
    def made_at_once(self) -> int:
        # Weight blocks hold whole blocks, so that no QR is made twice.
        d = self.n_features_in
        return d * max(1, 1024 // d)
