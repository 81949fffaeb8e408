"""Random binning features (Rahimi & Recht 2007, Section 4): CSR rows of one entry a grid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from ..compiled.binning import bin_hashes, bin_hashes_csr, signed_columns
from ..errors import InputError, SpecMismatchError
from ..kernels.shift_invariant import Kernel, get_shift_invariant_kernel
from ..projections.cache import weight_cache
from ..randomness import raw_words, uniforms
from .base import FeatureMap, check_rows, row_tiles, verify_checksum, working_dtype
from .reach import near_rows

BINS = ("hashed", "exact")
#: Bytes of grids held at once, rows of a dense block cast to float64 at once, and hashes held at once.
_GRID_BYTES, _TILE, _HASHES = 2**24, 512, 2**20


def check_pitch(kernel: Kernel) -> None:
    """Raise InputError, with the reason, for a kernel that random binning cannot serve."""
    if kernel.why_not_binned is not None:
        able = [repr(name) for name, k in kernel.registry.items() if k.why_not_binned is None]
        raise InputError(
            "random binning needs a product of one-dimensional kernels, convex and decreasing on (0, inf), whose "
            f"pitch has the density p(u) = u k''(u) (Rahimi & Recht 2007); got kernel={kernel.name!r}: "
            f"{kernel.why_not_binned}; use kernel={' or '.join(able)}, or RandomFourierFeatures"
        )


@dataclass(frozen=True)
class BinningMap(FeatureMap):
    """z(x): in each of P grids the bin of x, 1 / sqrt(P) in its column. E[z(x) . z(y)] = k(x, y).

    bins="hashed": grid p owns D / P neighbouring columns; a hash of the bin chooses one, and a sign. Two bins of
    a grid that share a column add s s' / P to the estimate, and E[s s'] = 0 as the signs of different bins are
    pairwise independent, given the places (`distrf.compiled.binning`); that, and a mean of 0, is all that is
    assumed of the hash, so the estimate is exactly unbiased, at any width. The price, for all P grids, is a
    variance of (1 - k) / D; one segment shared by all grids would cost up to (1 + k^2) / D, and signs that
    were all 1 a bias of (1 - k) P / D. Where D < P neighbouring grids share a column, at the same mean.

    bins="exact": the bins met in training have a column each, the others none. They are told apart by the whole
    64-bit hash: two that differ by multiples of 2^v agree with probability 2^(v - 64).
    """

    kernel: Kernel
    length_scale: float
    n_grids: int
    seed: int
    bins: str = "hashed"
    keys: np.ndarray | None = field(default=None, compare=False, repr=False)
    starts: np.ndarray | None = field(default=None, compare=False, repr=False)

    kind: ClassVar[str] = "binning"
    sparse_output: ClassVar[bool] = True

    def __post_init__(self):
        if self.n_components < 1 or self.n_grids < 1:
            raise InputError(
                f"n_components and n_grids must be at least 1, got {self.n_components} and {self.n_grids}"
            )
        if self.n_components >= 2**31:
            raise InputError(f"n_components must be below 2^31, got {self.n_components}")
        if not (np.isfinite(self.length_scale) and self.length_scale > 0):
            raise InputError(f"length_scale must be a positive number, got {self.length_scale}")
        if self.bins not in BINS:
            raise InputError(f"bins is 'hashed' or 'exact', got {self.bins!r}")
        check_pitch(self.kernel)

    @property
    def entries_per_row(self) -> int:
        return 2 * self.n_grids  # a value and a column each

    def grids(self, start: int = 0, stop: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Pitches u and shifts s of grids start:stop, shape (stop - start, d) each; bin floor(x / u + s)."""
        d, made = self.n_features_in, range(start, self.n_grids if stop is None else stop)
        pitches = [self.kernel.pitches(self.seed, p, d) for p in made]
        shifts = [uniforms(self.seed, "binning shift", p, d) for p in made]
        return self.length_scale * np.stack(pitches), np.stack(shifts)

    def _words(self, start: int, stop: int) -> np.ndarray:
        count = self.n_features_in + 1
        words = [raw_words(self.seed, "binning hash", p, count) for p in range(start, stop)]
        return np.stack(words).view(np.int64)

    def _grids(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        key = (self.kernel, self.length_scale, self.n_features_in, self.seed, start, stop)
        return (
            weight_cache.get(("binning rates", *key), lambda: 1.0 / self.grids(start, stop)[0]),
            weight_cache.get(("binning shifts", *key), lambda: self.grids(start, stop)[1]),
            weight_cache.get(("binning words", *key), lambda: self._words(start, stop)),
        )

    def refuse_far(self, X: Any) -> None:
        """Raise InputError for rows beyond the bins that float64 tells apart; see `distrf.maps.reach`."""
        double = np.dtype(np.float64)
        with np.errstate(over="ignore"):
            for a, b in row_tiles(X.shape[0], _TILE):
                tile = X[a:b].astype(double) if sp.issparse(X) else np.ascontiguousarray(X[a:b], dtype=double)
                near_rows(tile, a, 1.0 / self.length_scale, double, [])

    def hashes(self, X: Any, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Hash of the bin of each checked row in grids start:stop, shape (n, stop - start), uint64."""
        stop = self.n_grids if stop is None else stop
        out = np.empty((X.shape[0], stop - start), dtype=np.uint64)
        for first, last in self._grid_blocks(start, stop):
            grids, hashes = self._grids(first, last), np.empty((X.shape[0], last - first), dtype=np.uint64)
            if sp.issparse(X):
                bin_hashes_csr(X.data.astype(np.float64), X.indices, X.indptr, *grids, hashes)
            else:
                for a, b in row_tiles(X.shape[0], _TILE):
                    bin_hashes(np.ascontiguousarray(X[a:b], dtype=np.float64), *grids, hashes[a:b])
            out[:, first - start : last - start] = hashes
        return out

    def _grid_blocks(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Cut grids start:stop into blocks of bounded size, on a fixed raster."""
        step = max(1, _GRID_BYTES // (24 * self.n_features_in))
        for first in range(start - start % step, stop, step):
            yield max(first, start), min(first + step, stop)

    def __call__(self, X: Any) -> sp.csr_array:
        """Features of a block as a CSR array of shape (n, D) with P entries a row (fewer for "exact")."""
        X = check_rows(X, self.n_features_in)
        return self._features(X, 0, self.n_grids)

    def columns(self, X: Any, start: int, stop: int) -> sp.csr_array:
        X = check_rows(X, self.n_features_in)
        if start == stop:
            return sp.csr_array((X.shape[0], 0), dtype=working_dtype(X.dtype))
        ends = self._segments[1:]  # first grid that ends behind `start`, last that begins before `stop`
        first = int(np.searchsorted(ends, start, side="right"))
        last = max(first + 1, int(np.searchsorted(self._segments[:-1], stop, side="left")))
        if self.n_components < self.n_grids and self.bins == "hashed":
            first, last = 0, self.n_grids
        return self._features(X, first, min(last, self.n_grids))[:, start:stop]

    @property
    def _segments(self) -> np.ndarray:
        """First column of each grid, and D, shape (P + 1,)."""
        if self.bins == "exact":
            assert self.starts is not None
            return self.starts
        return np.arange(self.n_grids + 1) * self.n_components // self.n_grids

    def _features(self, X: Any, start: int, stop: int) -> sp.csr_array:
        dtype = working_dtype(X.dtype)
        if sp.issparse(X):
            X = sp.csr_array(X)
        self.refuse_far(X)
        n, P = X.shape[0], stop - start
        index = np.int32 if n * P < 2**31 else np.int64
        columns, size = np.empty((n, P), dtype=index), dtype.type(1.0 / np.sqrt(self.n_grids))
        exact = self.bins == "exact"
        values, known = (
            np.empty((0 if exact else n, P), dtype=dtype),
            np.empty((n if exact else 0, P), dtype=bool),
        )
        segments = self._segments
        widths = np.maximum(np.diff(segments), 1)[start:stop]
        firsts = np.minimum(segments[start:stop], self.n_components - 1)
        # Grids that do not fit the cache are made once for all rows, not for every tile of them.
        fit = 24 * P * self.n_features_in <= weight_cache.max_bytes
        for a, b in row_tiles(n, max(_TILE, _HASHES // P) if fit else max(n, 1)):
            hashes = self.hashes(X[a:b], start, stop)
            if exact:
                known[a:b] = self._look_up(hashes, start, columns[a:b])
            else:
                signed_columns(hashes, firsts, widths, columns[a:b], values[a:b], size)
        if exact:
            counts = np.concatenate([[0], np.cumsum(known.sum(axis=1))]).astype(index)
            data = np.full(int(counts[-1]), size, dtype=dtype)
            return sp.csr_array((data, columns[known], counts), shape=(n, self.n_components))
        indptr = np.arange(n + 1, dtype=index) * P
        out = sp.csr_array((values.ravel(), columns.ravel(), indptr), shape=(n, self.n_components))
        if self.n_components < self.n_grids:
            out.sum_duplicates()
        return out

    def _look_up(self, hashes: np.ndarray, start: int, columns: np.ndarray) -> np.ndarray:
        """Write the columns of the bins that `fit` met. Returns which bins those are, shape (n, P)."""
        assert self.keys is not None
        segments, known = self._segments, np.empty(hashes.shape, dtype=bool)
        for p in range(hashes.shape[1]):
            a, b = segments[start + p], segments[start + p + 1]
            place = np.minimum(np.searchsorted(self.keys[a:b], hashes[:, p]), max(b - a - 1, 0))
            known[:, p] = self.keys[a:b][place] == hashes[:, p] if b > a else False
            columns[:, p] = a + place
        return known

    def exact_kernel(self, X, Y=None):
        return self.kernel(X, Y, self.length_scale)

    def work(self):
        entries = float(self.n_grids * self.n_features_in)
        return 8.0 * entries, 24.0 * entries

    @property
    def arrays(self):
        return {} if self.keys is None else {"keys": self.keys, "starts": self.starts}

    def with_arrays(self, arrays):
        return replace(self, keys=arrays.get("keys"), starts=arrays.get("starts"))

    def without_arrays(self):
        return replace(self, keys=None, starts=None)

    def _checksum(self) -> float:
        """Of the first and the last grid: logarithms of pitches, shifts and words of up to 64 columns."""
        total = 0.0
        for p in (0, self.n_grids - 1):
            pitches, shifts = self.grids(p, p + 1)
            words = self._words(p, p + 1)[0, :64]
            total += float(np.log(pitches[0, -64:] / self.length_scale).sum() + shifts[0, -64:].sum())
            total += float(words.astype(np.float64).sum() * 2.0**-63)
        return total

    def checksum(self) -> float:
        return _checksum(self.without_arrays())

    def spec(self) -> dict[str, Any]:
        return {
            "map": self.kind,
            "kernel": self.kernel.spec(),
            "length_scale": self.length_scale,
            "n_features_in": self.n_features_in,
            "n_components": self.n_components,
            "n_grids": self.n_grids,
            "bins": self.bins,
            "seed": self.seed,
            "checksum": self.checksum(),
        }

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> BinningMap:
        if spec["bins"] == "exact" and not {"keys", "starts"} <= set(arrays):
            raise SpecMismatchError(
                "the spec says bins='exact', but its arrays 'keys' and 'starts' are missing; save the map again"
            )
        map_ = cls(
            n_features_in=int(spec["n_features_in"]),
            n_components=int(spec["n_components"]),
            kernel=get_shift_invariant_kernel(dict(spec["kernel"])),
            length_scale=float(spec["length_scale"]),
            n_grids=int(spec["n_grids"]),
            seed=int(spec["seed"]),
            bins=spec["bins"],
            keys=arrays.get("keys") if spec["bins"] == "exact" else None,
            starts=arrays.get("starts") if spec["bins"] == "exact" else None,
        )
        verify_checksum(map_.checksum(), spec["checksum"])
        return map_


@lru_cache(maxsize=64)
def _checksum(map_: BinningMap) -> float:
    return map_._checksum()
