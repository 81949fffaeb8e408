"""TensorSketch (Pham & Pagh 2013): random features of the polynomial kernel by convolving count sketches.

With t(x) = (sqrt(gamma) x, sqrt(coef0)), so that t(x).t(y) = gamma x.y + coef0, p = degree, independent
hashes h_k: columns -> range(D) and signs s_k, k = 1 ... p,

    C_k(x)_b = sum_{j: h_k(j) = b} s_k(j) t(x)_j,    z(x) = FFT^-1( FFT C_1(x) * ... * FFT C_p(x) ):

the count sketch of the tensor power of t(x) whose hash is the sum of the h_k modulo D and whose sign is the
product of the s_k. E z(x).z(y) = (gamma x.y + coef0)^p, exactly.

Variance, exact for fully random hashes. With X = |t(x)|^2, Y = |t(y)|^2, s = t(x).t(y) and
q = sum_j t(x)_j^2 t(y)_j^2, the square of the estimate is a sum over four index tuples, and in each of the p
modes signs pair their indices: both estimates agree with themselves (worth s^2), with each other straight
(X Y - q, indices unlike) or crosswise (s^2 - q). Straight modes shift the two hash differences alike,
crossed ones against each other; both vanish with probability 1 / D where only one kind occurs and c / D^2
where both do, c = 2 for even D and 1 for odd:

    Var = (1 / D) [(s^2 + X Y - q)^p + (2 s^2 - q)^p - 2 s^2p]
        + (c / D^2) [(2 s^2 + X Y - 2 q)^p - (s^2 + X Y - q)^p - (2 s^2 - q)^p + s^2p].

O(d + D log D) for a row of d columns, of which a CSR row touches its nonzeros alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import scipy.fft
import scipy.sparse as sp

from ..compiled.count_sketches import count_sketch, count_sketch_csr
from ..errors import InputError
from ..kernels.dot_product import Polynomial, get_dot_product_kernel
from ..projections.cache import weight_cache
from ..randomness import raw_words
from .base import FeatureMap, check_rows, refuse_overflow, row_tiles, verify_checksum, working_dtype

#: Bytes of the sketches of one row tile, which then stay near the core through the FFT.
_TILE_BYTES = 2**20


@dataclass(frozen=True)
class TensorSketchMap(FeatureMap):
    """z(x) with E[z(x) . z(y)] = (gamma x.y + coef0)^degree. A column costs as much as all of them."""

    kernel: Polynomial
    seed: int

    kind: ClassVar[str] = "tensor-sketch"
    whole_rows: ClassVar[bool] = True

    def __post_init__(self):
        if not isinstance(self.kernel, Polynomial):
            raise InputError(
                f"TensorSketch is for the polynomial kernel, got {self.kernel!r}; use random Maclaurin features"
            )
        if not 1 <= self.n_components < 2**31:
            raise InputError(f"n_components must lie in [1, 2**31), got {self.n_components}")

    def hashes(self) -> tuple[np.ndarray, np.ndarray]:
        """h_k(j) and s_k(j), shapes (degree, d + 1), int32 and float64; column d is the constant's."""
        places = np.empty((self.kernel.degree, self.n_features_in + 1), dtype=np.int32)
        signs = np.empty(places.shape)
        for k in range(len(places)):
            words = raw_words(self.seed, "tensor-sketch", k, self.n_features_in + 1)
            # The upper half of a word is the hash, its lowest bit the sign.
            places[k] = ((words >> np.uint64(32)) * np.uint64(self.n_components)) >> np.uint64(32)
            signs[k] = 1.0 - 2.0 * (words & np.uint64(1))
        return places, signs

    def _tables(self, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        """Hashes, and signs times the scale of their coordinate."""

        def weights():
            signs = self.hashes()[1] * np.sqrt(self.kernel.gamma)
            signs[:, -1] *= np.sqrt(self.kernel.coef0 / self.kernel.gamma)
            return signs.astype(dtype)

        places = weight_cache.get((self, "places"), lambda: self.hashes()[0])
        return places, weight_cache.get((self, "weights", dtype.str), weights)

    def fill(self, X, out):
        for rows, features in self._tiles(X, out.dtype):
            out[rows] = features
        refuse_overflow(out)

    def columns(self, X, start, stop):
        X = check_rows(X, self.n_features_in)
        out = np.empty((X.shape[0], stop - start), dtype=working_dtype(X.dtype))
        for rows, features in self._tiles(X, out.dtype):
            out[rows] = features[:, start:stop]
        refuse_overflow(out)
        return out

    def _tiles(self, X, dtype: np.dtype) -> Iterator[tuple[slice, np.ndarray]]:
        """Features of one row tile after another."""
        p, D = self.kernel.degree, self.n_components
        places, weights = self._tables(dtype)
        tile = max(1, min(256, _TILE_BYTES // (p * D * dtype.itemsize)))
        sparse = sp.issparse(X)
        if sparse:
            X = sp.csr_array(X)
            values = X.data.astype(dtype, copy=False)
        buffer = np.empty((tile, p, D), dtype=dtype)
        for a, b in row_tiles(X.shape[0], tile):
            sketch = buffer[: b - a]
            if sparse:
                count_sketch_csr(values, X.indices, X.indptr[a : b + 1], places, weights, sketch)
            else:
                count_sketch(np.ascontiguousarray(X[a:b], dtype=dtype), places, weights, sketch)
            if p == 1:
                yield slice(a, b), sketch[:, 0]
                continue
            spectra = scipy.fft.rfft(sketch)
            product = spectra[:, 0]
            with np.errstate(over="ignore", invalid="ignore"):  # refused when they are all there
                for k in range(1, p):
                    product *= spectra[:, k]
            yield slice(a, b), scipy.fft.irfft(product, D, overwrite_x=True)

    def exact_kernel(self, X, Y=None):
        return self.kernel(X, Y)

    def variance(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """Exact variance of z(x).z(y) over seeds for each pair of rows, shape (n,), float64 (see above)."""
        gamma, coef0, p, D = self.kernel.gamma, self.kernel.coef0, self.kernel.degree, self.n_components
        X, Y = np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64)
        s2 = (gamma * (X * Y).sum(axis=1) + coef0) ** 2
        q = gamma**2 * (X * X * Y * Y).sum(axis=1) + coef0**2
        XY = (gamma * (X * X).sum(axis=1) + coef0) * (gamma * (Y * Y).sum(axis=1) + coef0)
        straight, crossed, both = (s2 + XY - q) ** p, (2 * s2 - q) ** p, (2 * s2 + XY - 2 * q) ** p
        c = 2.0 - D % 2
        return (straight + crossed - 2 * s2**p) / D + c * (both - straight - crossed + s2**p) / D**2

    def work(self):
        p, D, d = self.kernel.degree, self.n_components, self.n_features_in
        transforms = (p + 1) * 2.5 * D * np.log2(max(D, 2)) if p > 1 else 0.0
        return 4.0 * p * d + 2.0 * transforms, 8.0 * p * (d + 1)

    def checksum(self) -> float:
        return _checksum(self)

    def spec(self) -> dict[str, Any]:
        return {
            "map": self.kind,
            "kernel": self.kernel.spec(),
            "n_features_in": self.n_features_in,
            "n_components": self.n_components,
            "seed": self.seed,
            "checksum": self.checksum(),
        }

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> TensorSketchMap:
        map_ = cls(
            n_features_in=int(spec["n_features_in"]),
            n_components=int(spec["n_components"]),
            kernel=get_dot_product_kernel(dict(spec["kernel"])),  # type: ignore[arg-type]  # checked by the map
            seed=int(spec["seed"]),
        )
        verify_checksum(map_.checksum(), spec["checksum"])
        return map_


@lru_cache(maxsize=64)
def _checksum(map_: TensorSketchMap) -> float:
    """Sum of signed hashes, each plus 1, of the first 64 columns and the last 64."""
    places, signs = map_.hashes()
    signed = (places.astype(np.int64) + 1) * signs.astype(np.int64)
    return float(signed[:, :64].sum() + signed[:, -64:].sum())
