"""Random Fourier features (Rahimi & Recht 2007, Algorithm 1), in both phase conventions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from ..compiled import cos_offset, cos_sin
from ..errors import InputError, SpecMismatchError
from ..kernels.shift_invariant import Kernel, get_shift_invariant_kernel
from ..projections import Projection, make_projection
from ..randomness import uniforms
from .base import FeatureMap, check_rows, row_tiles, verify_checksum, working_dtype
from .reach import fill_by_reach, near_rows

PHASES = ("paired", "offset")
#: Length scales for which weights over them keep their digits in float32, and in float64.
_SINGLE_SCALES, _DOUBLE_SCALES = (1e-30, 1e30), (1e-290, 1e290)


@dataclass(frozen=True)
class FourierMap(FeatureMap):
    """z(x) with E[z(x) . z(y)] = k(x, y).

    "paired": sqrt(2/D) (cos w.x, sin w.x) for D/2 frequencies, columns 2k and 2k + 1.
    "offset": sqrt(2/D) cos(w.x + b) for D frequencies, b uniform on a turn.
    Frequencies are rows of the projection divided by the length scale. `whitening`, of shape (d, d),
    is applied to the rows first.
    """

    kernel: Kernel
    length_scale: float
    projection: str
    phase: str
    seed: int
    whitening: np.ndarray | None = field(default=None, compare=False, repr=False)

    kind: ClassVar[str] = "fourier"

    @property
    def longest(self) -> float:
        """Squares of cosine and sine of a frequency sum to one; a cosine alone may be twice as long."""
        return 1.0 if self.phase == "paired" else 2.0

    def __post_init__(self):
        count_frequencies(self.phase, self.n_components)
        if not (np.isfinite(self.length_scale) and self.length_scale > 0):
            raise InputError(f"length_scale must be a positive number, got {self.length_scale}")
        if not _within(self.length_scale, _DOUBLE_SCALES):
            raise InputError(
                f"length_scale must lie between {_DOUBLE_SCALES[0]} and {_DOUBLE_SCALES[1]}, as weights over it must "
                f"in float64, got {self.length_scale}; scale the columns"
            )
        self.projector  # noqa: B018  checks the combination of kernel and projection

    @property
    def n_frequencies(self) -> int:
        return self.n_components // self._per_frequency

    @property
    def _per_frequency(self) -> int:
        return 2 if self.phase == "paired" else 1

    @property
    def projector(self) -> Projection:
        return _projector(self.projection, self.kernel, self.n_features_in, self.n_frequencies, self.seed)

    def frequencies(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Rows start:stop of the frequency matrix, shape (stop - start, d), in radians, float64."""
        W = self.projector.weights(start, stop) / self.length_scale
        return W if self.whitening is None else W @ self.whitening.T

    def offsets(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Offsets b of the "offset" phase in turns, shape (stop - start,), float64."""
        stop = self.n_frequencies if stop is None else stop
        offsets = self.projector.offsets(start, stop)
        return uniforms(self.seed, "offset", 0, stop - start, start) if offsets is None else offsets

    def fill(self, X, out):
        self._fill(X, out, 0, self.n_components)

    def columns(self, X, start, stop):
        X = check_rows(X, self.n_features_in)
        per = self._per_frequency
        first, last = start - start % per, stop + stop % per  # whole frequencies
        out = np.empty((X.shape[0], last - first), dtype=working_dtype(X.dtype))
        self._fill(X, out, first, last)
        return (
            out
            if (first, last) == (start, stop)
            else np.ascontiguousarray(out[:, start - first : stop - first])
        )

    def _fill(self, X: Any, out: np.ndarray, start: int, stop: int) -> None:
        """Features start:stop (whole frequencies) of checked rows into `out`."""
        # Heavy-tailed weights make phases of thousands of turns: their fractions need float64.
        single = not self.kernel.heavy_tailed and _within(self.length_scale, _SINGLE_SCALES)
        dtype = out.dtype if single else np.dtype(np.float64)
        fill_by_reach(
            X, out, dtype, lambda rows, features, dtype: self._fill_in(rows, features, start, stop, dtype)
        )

    def _fill_in(self, X: Any, out: np.ndarray, start: int, stop: int, dtype: np.dtype) -> list[int]:
        """Features start:stop into `out`, phases in that dtype; returns the rows that are too far for it."""
        projector, per = self.projector, self._per_frequency
        scale = 1.0 / (2.0 * np.pi * self.length_scale)
        amplitude = np.sqrt(2.0 / self.n_components)
        offsets = None
        if self.phase == "offset":
            offsets = self.offsets(start, stop).astype(dtype)
        far: list[int] = []
        for begin, end in projector.runs(start // per, stop // per, dtype.itemsize):
            far = []  # the same in every run
            for tile, rows in self._tiles(X, projector, dtype, far):
                target = out[rows]
                for first, column_block in projector.phases(tile, begin, end, scale, dtype):
                    column = first * per - start
                    if offsets is None:
                        cos_sin(column_block, target, column, amplitude)
                    else:
                        cos_offset(
                            column_block,
                            offsets[column : column + column_block.shape[1]],
                            target,
                            column,
                            amplitude,
                        )
        return far

    def _tiles(
        self, X: Any, projector: Projection, dtype: np.dtype, far: list[int]
    ) -> Iterator[tuple[np.ndarray, slice]]:
        """Row tiles of X in working precision, whitened; dense unless the projection takes CSR."""
        whitening = None if self.whitening is None else self.whitening.astype(dtype)
        sizes = self._column_sizes
        for a, b in row_tiles(X.shape[0], projector.rows_per_tile):
            tile = X[a:b]
            if sp.issparse(tile):
                keep = projector.accepts_sparse and whitening is None and tile.nnz < 0.05 * np.prod(tile.shape)
                tile = near_rows(tile.astype(dtype), a, sizes, dtype, far)
                tile = tile if keep else tile.toarray()
            else:
                tile = near_rows(np.ascontiguousarray(tile, dtype=dtype), a, sizes, dtype, far)
            if whitening is not None:
                tile = tile @ whitening
            yield tile, slice(a, b)

    @property
    def _column_sizes(self) -> np.ndarray | float:
        """Factors that turn |factors * x| into the size of a row, see `distrf.maps.reach`."""
        if self.whitening is None:
            return 1.0 / self.length_scale
        # Of the products in x A, not of their sum: what cancels there has been rounded.
        return np.sqrt((self.whitening**2).sum(axis=1)) / self.length_scale

    def exact_kernel(self, X, Y=None):
        X = np.asarray(X, dtype=np.float64)
        Y = X if Y is None else np.asarray(Y, dtype=np.float64)
        if self.whitening is not None:
            X, Y = X @ self.whitening, Y @ self.whitening
        return self.kernel(X, Y, self.length_scale)

    def work(self):
        operations, parameters = self.projector.work()
        if self.whitening is not None:
            operations += 2.0 * self.n_features_in**2
        # A cosine costs about as much as this many multiply-adds of a GEMM on the same core.
        return operations + 20.0 * self.n_components, parameters

    @property
    def arrays(self):
        return {} if self.whitening is None else {"whitening": self.whitening}

    def with_arrays(self, arrays):
        return replace(self, whitening=arrays.get("whitening"))

    def without_arrays(self):
        return replace(self, whitening=None)

    def _checksum(self) -> float:
        """Sum of the first frequency's first 64 coordinates and of the last frequency's last 64."""
        m = self.n_frequencies
        head, tail = self.projector.weights(0, 1)[0, :64], self.projector.weights(m - 1, m)[0, -64:]
        return float(head.sum() + tail.sum())

    def checksum(self) -> float:
        return _checksum(self.without_arrays())

    def spec(self) -> dict[str, Any]:
        return {
            "map": self.kind,
            "kernel": self.kernel.spec(),
            "length_scale": self.length_scale,
            "n_features_in": self.n_features_in,
            "n_components": self.n_components,
            "projection": self.projection,
            "phase": self.phase,
            "seed": self.seed,
            "whitened": self.whitening is not None,
            "checksum": self.checksum(),
        }

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> FourierMap:
        if spec["whitened"] and "whitening" not in arrays:
            raise SpecMismatchError(
                "the spec says 'whitened', but the whitening matrix is missing; save the map again"
            )
        map_ = cls(
            n_features_in=int(spec["n_features_in"]),
            n_components=int(spec["n_components"]),
            kernel=get_shift_invariant_kernel(dict(spec["kernel"])),
            length_scale=float(spec["length_scale"]),
            projection=spec["projection"],
            phase=spec["phase"],
            seed=int(spec["seed"]),
            whitening=arrays["whitening"] if spec["whitened"] else None,
        )
        verify_checksum(map_.checksum(), spec["checksum"])
        return map_


def _within(number: float, bounds: tuple[float, float]) -> bool:
    return bounds[0] <= number <= bounds[1]


def count_frequencies(phase: str, n_components: int) -> int:
    """Frequencies behind D features. Raises InputError for an unknown phase, and for odd D if paired."""
    if phase not in PHASES:
        raise InputError(f"phase is 'paired' or 'offset', got {phase!r}")
    if n_components < 1:
        raise InputError(f"n_components must be at least 1, got {n_components}")
    if phase == "offset":
        return n_components
    if n_components % 2:
        raise InputError(
            f"phase='paired' makes a cosine and a sine of each frequency, so n_components must be even, "
            f"got {n_components}; use {n_components + 1} or phase='offset'"
        )
    return n_components // 2


@lru_cache(maxsize=64)
def _projector(name: str, kernel: Kernel, d: int, m: int, seed: int) -> Projection:
    return make_projection(name, kernel, d, m, seed)


@lru_cache(maxsize=64)
def _checksum(map_: FourierMap) -> float:
    return map_._checksum()
