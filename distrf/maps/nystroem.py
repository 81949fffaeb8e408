"""Nystroem features (Williams & Seeger 2001): the kernel between rows and m landmark rows L.

With K = k(L, L) = V diag(w) V', w in descending order,

    z(x) = k(x, L) V_r diag(w_r)^(-1/2),    z(x).z(y) = k(x, L) (K)_r^+ k(L, y).

In the space of the kernel's own features that is the projection onto the span of the landmarks; for rows within
that span the kernel is exact if r is the rank of K. Directions with w <= m eps w_1 are left out: they are
rounding. So landmarks that are equal cost time and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from ..errors import InputError
from ..kernels.base import AnyKernel
from ..kernels.exact import kernel_block, kernel_with_rows, lean
from ..typing import Rows
from .base import FeatureMap, row_tiles


@dataclass(frozen=True)
class NystroemMap(FeatureMap):
    """Features k(x, landmarks) @ normalization, computed in float64 and cast last: small w magnify rounding.

    Parameters
    ----------
    n_features_in : d
    n_components : r, the number of directions
    kernel : AnyKernel
    length_scale : that of a shift-invariant kernel
    n_landmarks : m
    landmarks : array of shape (m, d)
    normalization : V_r diag(w_r)^(-1/2), array of shape (m, r), float64

    References
    ----------
    Williams & Seeger, "Using the Nystroem method to speed up kernel machines", NIPS 2000.
    """

    kernel: AnyKernel
    length_scale: float
    n_landmarks: int
    landmarks: np.ndarray | None = field(default=None, compare=False, repr=False)
    normalization: np.ndarray | None = field(default=None, compare=False, repr=False)

    kind: ClassVar[str] = "nystroem"

    @classmethod
    def of_landmarks(
        cls, kernel: AnyKernel, length_scale: float, landmarks: np.ndarray, rank: int | None = None
    ) -> NystroemMap:
        """The map of some landmark rows.

        Parameters
        ----------
        kernel : AnyKernel
        length_scale : that of a shift-invariant kernel
        landmarks : array of shape (m, d)
        rank : the most directions to keep; None keeps all that are not rounding

        Returns
        -------
        NystroemMap

        Raises
        ------
        InputError : the kernel is zero between all landmarks, or not finite
        """
        with np.errstate(over="ignore"):  # refused below
            used = np.flatnonzero(landmarks.any(axis=0))  # columns of zeros change no kernel; in text most are
            points = lean(landmarks[:, used if used.size else slice(1)])
            K = kernel_block(kernel, points, points, length_scale)
        if not np.isfinite(K).all():
            raise InputError(
                "the kernel overflows between landmarks; scale the rows or the kernel's parameters"
            )
        values, vectors = scipy.linalg.eigh((K + K.T) / 2)
        values, vectors = values[::-1], vectors[:, ::-1]
        r = int((values > len(values) * np.finfo(np.float64).eps * max(values[0], 0.0)).sum())
        if r == 0:
            raise InputError(
                "the kernel is zero between all landmarks, so there is nothing to project on; "
                "use another kernel, or rows that are not all zeros"
            )
        r = r if rank is None else min(r, rank)
        normalization = np.ascontiguousarray(vectors[:, :r] / np.sqrt(values[:r]))
        # The sign that LAPACK gives an eigenvector differs between machines: here its largest entry is positive.
        largest = abs(normalization).argmax(axis=0)
        normalization *= np.where(normalization[largest, np.arange(r)] < 0, -1.0, 1.0)
        m, d = landmarks.shape
        return cls(d, r, kernel, float(length_scale), m, landmarks, normalization)

    def fill_columns(self, X: Rows, out: np.ndarray, start: int, stop: int) -> None:
        assert self.landmarks is not None
        assert self.normalization is not None
        self.kernel.check_rows(X)
        M = self.normalization[:, start:stop]
        values = kernel_with_rows(self.kernel, self.landmarks, self.length_scale, sp.issparse(X))
        # Of 512 rows a half for each doubling of the landmarks beyond 4,096: kernels of a tile take 16 MiB.
        rows = max(64, 512 >> max(0, (self.n_landmarks - 1).bit_length() - 12))
        for a, b in row_tiles(X.shape[0], rows):
            out[a:b] = values(X[a:b]) @ M

    def exact_kernel(self, X: Rows, Y: Rows | None = None) -> np.ndarray:
        return self.kernel(X, Y, self.length_scale)

    def work(self) -> tuple[float, float]:
        m, d, r = self.n_landmarks, self.n_features_in, self.n_components
        # The plan counts operations in float32; those in float64 take twice the time.
        return 4.0 * m * (d + r) + 40.0 * m, 8.0 * m * (d + r)
