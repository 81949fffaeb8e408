"""Nystroem features (Williams & Seeger 2001): the kernel against m landmark rows L.

With K = k(L, L) = V diag(w) V', w in descending order,

    z(x) = k(x, L) V_r diag(w_r)^(-1/2),    z(x).z(y) = k(x, L) (K)_r^+ k(L, y),

the projection of the kernel's feature vectors onto the span of the landmarks (exact on it when r is the
rank of K). Directions below rounding, w <= m eps w_1, are dropped: equal landmarks cost nothing but time.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from ..errors import InputError, SpecMismatchError
from ..kernels.base import AnyKernel
from ..kernels.exact import exact_kernel, kernel_block, lean, middle
from ..kernels.registry import get_kernel
from .base import FeatureMap, arrays_fingerprint, check_rows, row_tiles, verify_fingerprint, working_dtype

#: Numbers of the kernel block of one row tile (16 MiB).
_TILE_NUMBERS = 2**21
#: What was made of landmarks, by the name of the function and the `id` of the array, while that lives.
_made: dict[tuple[str, int], tuple[weakref.ref, Any]] = {}


@dataclass(frozen=True)
class NystroemMap(FeatureMap):
    """k(x, landmarks) @ normalization, computed in float64 and cast last: small w magnify rounding.

    landmarks : array of shape (m, d)
    normalization : V_r diag(w_r)^(-1/2), shape (m, r), float64; r = n_components
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
        """The map of these landmarks; at most `rank` directions, by default all above rounding.

        Raises InputError where the kernel is zero between all landmarks, or not finite.
        """
        with np.errstate(over="ignore"):  # refused below
            K = exact_kernel(kernel, landmarks, length_scale)
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
        # A fixed sign for each direction: LAPACK's choice differs between machines.
        largest = abs(normalization).argmax(axis=0)
        normalization *= np.where(normalization[largest, np.arange(r)] < 0, -1.0, 1.0)
        m, d = landmarks.shape
        return cls(d, r, kernel, float(length_scale), m, landmarks, normalization)

    def fill(self, X, out):
        self._fill(X, out, 0, self.n_components)

    def columns(self, X, start, stop):
        X = check_rows(X, self.n_features_in)
        out = np.empty((X.shape[0], stop - start), dtype=working_dtype(X.dtype))
        self._fill(X, out, start, stop)
        return out

    def _fill(self, X, out: np.ndarray, start: int, stop: int) -> None:
        assert self.landmarks is not None
        assert self.normalization is not None
        self.kernel.check_rows(X)
        M, most, centre = self.normalization[:, start:stop], 512, None
        if sp.issparse(X):
            X, most, L = sp.csr_array(X), 4096, _once(_beside_csr, self.landmarks)
        else:
            L, centre = self.landmarks.astype(np.float64, copy=False), _once(middle, self.landmarks)
        for a, b in row_tiles(X.shape[0], max(64, min(most, _TILE_NUMBERS // self.n_landmarks))):
            out[a:b] = kernel_block(self.kernel, X[a:b], L, self.length_scale, centre) @ M

    def exact_kernel(self, X, Y=None):
        return self.kernel(X, Y, self.length_scale)

    @property
    def arrays(self):
        if self.landmarks is None or self.normalization is None:
            return {}
        return {"landmarks": self.landmarks, "normalization": self.normalization}

    def with_arrays(self, arrays):
        return replace(self, landmarks=arrays["landmarks"], normalization=arrays["normalization"])

    def without_arrays(self):
        return replace(self, landmarks=None, normalization=None)

    def work(self):
        m, d, r = self.n_landmarks, self.n_features_in, self.n_components
        # Float64 products run at half the rate of those the plan counts.
        return 4.0 * m * (d + r) + 40.0 * m, 8.0 * m * (d + r)

    def spec(self) -> dict[str, Any]:
        return {
            "map": self.kind,
            "kernel": self.kernel.spec(),
            "length_scale": self.length_scale,
            "n_features_in": self.n_features_in,
            "n_components": self.n_components,
            "n_landmarks": self.n_landmarks,
            "digest": arrays_fingerprint(self.arrays),
        }

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> NystroemMap:
        map_ = cls(
            n_features_in=int(spec["n_features_in"]),
            n_components=int(spec["n_components"]),
            kernel=get_kernel(dict(spec["kernel"])),
            length_scale=float(spec["length_scale"]),
            n_landmarks=int(spec["n_landmarks"]),
            landmarks=arrays.get("landmarks"),
            normalization=arrays.get("normalization"),
        )
        wanted = {
            "landmarks": (map_.n_landmarks, map_.n_features_in),
            "normalization": (map_.n_landmarks, map_.n_components),
        }
        for name, shape in wanted.items():
            if name not in arrays or arrays[name].shape != shape:
                got = arrays[name].shape if name in arrays else "none"
                raise SpecMismatchError(
                    f"the spec of a Nystroem map needs its array {name!r} of shape {shape}, got {got}; "
                    "save the map again"
                )
        verify_fingerprint(arrays, spec["digest"])
        return map_


def _once(make: Callable[[np.ndarray], Any], landmarks: np.ndarray) -> Any:
    """make(landmarks), made once for each array. It must be no view: what is kept must not keep its key alive."""
    key = make.__name__, id(landmarks)
    kept = _made.get(key)
    if kept is not None and kept[0]() is landmarks:
        return kept[1]
    made = make(landmarks)
    _made[key] = weakref.ref(landmarks, lambda _: _made.pop(key, None)), made
    return made


def _beside_csr(landmarks: np.ndarray) -> Any:
    """Landmarks in float64, a copy: CSR where few entries are not zero, else by columns."""
    made = lean(landmarks)
    # SciPy multiplies CSR rows by the rows of the transpose.
    return made.astype(np.float64) if sp.issparse(made) else np.array(made, dtype=np.float64, order="F")
