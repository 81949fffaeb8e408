"""Fourier features whose frequencies were learned: compact nonlinear maps (Yu et al. 2015)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from ..compiled import cos_offset, cos_sin
from ..errors import InputError, SpecMismatchError
from ..kernels.shift_invariant import Kernel, get_shift_invariant_kernel
from .base import FeatureMap, arrays_fingerprint, check_rows, row_tiles, verify_fingerprint, working_dtype
from .fourier import count_frequencies
from .frequencies import Frequencies, get_frequencies
from .reach import fill_by_reach, near_rows


@dataclass(frozen=True)
class LearnedFourierMap(FeatureMap):
    """z(x) = sqrt(2/D) cos(theta_i.x + b_i), or "paired" cosines and sines of D/2 frequencies, side by side.

    structure : "dense" | "circulant", see `distrf.maps.frequencies`; seed is of its signs
    kernel, length_scale : the kernel that the features approximate; None where they were learned for a loss
    frequencies : what makes Theta, in radians: shape (m, d), or (blocks, L) numbers if circulant, float64
    offsets : b in turns, shape (m,), float64; None for paired phases
    """

    phase: str
    structure: str
    seed: int
    kernel: Kernel | None = None
    length_scale: float | None = None
    frequencies: np.ndarray | None = field(default=None, compare=False, repr=False)
    offsets: np.ndarray | None = field(default=None, compare=False, repr=False)

    kind: ClassVar[str] = "learned"
    whole_rows: ClassVar[bool] = True

    def __post_init__(self):
        self.linear  # noqa: B018  checks phase, structure and the number of components

    @property
    def n_frequencies(self) -> int:
        return count_frequencies(self.phase, self.n_components)

    @property
    def linear(self) -> Frequencies:
        """The linear part x -> Theta x."""
        return get_frequencies(self.structure, self.n_features_in, self.n_frequencies, self.seed)

    def matrix(self) -> np.ndarray:
        """Theta, shape (m, d), in radians, float64."""
        assert self.frequencies is not None
        return self.linear.matrix(self.frequencies)

    def fill(self, X, out):
        fill_by_reach(X, out, out.dtype, self._fill_in)

    def _column_sizes(self) -> np.ndarray:
        """Root mean squares of the columns of Theta, shape (d,), see `distrf.maps.reach`."""
        assert self.frequencies is not None
        if self.structure == "circulant":  # every column holds all the numbers
            return np.full(self.n_features_in, np.sqrt(np.mean(self.frequencies**2)))
        return np.sqrt(np.einsum("ij,ij->j", self.frequencies, self.frequencies) / len(self.frequencies))

    def _fill_in(self, X: Any, out: np.ndarray, dtype: np.dtype) -> list[int]:
        """Features into `out`, phases in that dtype; returns the rows that are too far for it."""
        assert self.frequencies is not None
        linear, sizes = self.linear, self._column_sizes()
        far: list[int] = []
        prepared = linear.prepare(self.frequencies, dtype)
        amplitude = np.sqrt(2.0 / self.n_components)
        offsets = None if self.offsets is None else self.offsets.astype(dtype)
        for a, b in row_tiles(X.shape[0], linear.rows_per_tile):
            tile = X[a:b]
            if sp.issparse(tile):
                tile = near_rows(tile.astype(dtype), a, sizes, dtype, far)
                tile = tile if tile.nnz < 0.05 * np.prod(tile.shape) else tile.toarray()
            else:
                tile = near_rows(np.ascontiguousarray(tile, dtype=dtype), a, sizes, dtype, far)
            phases, _ = linear.phases(tile, prepared)
            if offsets is None:
                cos_sin(phases, out[a:b], 0, amplitude)
            else:
                cos_offset(phases, offsets, out[a:b], 0, amplitude)
        return far

    def columns(self, X, start, stop):
        X = check_rows(X, self.n_features_in)
        out = np.empty((X.shape[0], self.n_components), dtype=working_dtype(X.dtype))
        self.fill(X, out)
        return np.ascontiguousarray(out[:, start:stop])

    def exact_kernel(self, X, Y=None):
        if self.kernel is None or self.length_scale is None:
            raise InputError(
                "these frequencies were learned for a loss and approximate no given kernel; "
                "objective='kernel' learns those of one"
            )
        return self.kernel(X, Y, self.length_scale)

    def work(self):
        operations, parameters = self.linear.work()
        return operations + 20.0 * self.n_components, parameters + 4.0 * self.n_components

    @property
    def arrays(self):
        named = {"frequencies": self.frequencies, "offsets": self.offsets}
        return {name: array for name, array in named.items() if array is not None}

    def with_arrays(self, arrays):
        return replace(self, frequencies=arrays["frequencies"], offsets=arrays.get("offsets"))

    def without_arrays(self):
        return replace(self, frequencies=None, offsets=None)

    def spec(self) -> dict[str, Any]:
        return {
            "map": self.kind,
            "n_features_in": self.n_features_in,
            "n_components": self.n_components,
            "phase": self.phase,
            "structure": self.structure,
            "seed": self.seed,
            "kernel": None if self.kernel is None else self.kernel.spec(),
            "length_scale": self.length_scale,
            "digest": arrays_fingerprint(self.arrays),
        }

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> LearnedFourierMap:
        kernel, scale = spec["kernel"], spec["length_scale"]
        map_ = cls(
            n_features_in=int(spec["n_features_in"]),
            n_components=int(spec["n_components"]),
            phase=spec["phase"],
            structure=spec["structure"],
            seed=int(spec["seed"]),
            kernel=None if kernel is None else get_shift_invariant_kernel(dict(kernel)),
            length_scale=None if scale is None else float(scale),
        )
        wanted = {"frequencies": map_.linear.shape}
        if map_.phase == "offset":
            wanted["offsets"] = (map_.n_frequencies,)  # type: ignore[assignment]
        for name, shape in wanted.items():
            if name not in arrays or arrays[name].shape != shape:
                got = arrays[name].shape if name in arrays else "none"
                raise SpecMismatchError(
                    f"the spec of a learned map needs its array {name!r} of shape {shape}, got {got}; save the map again"
                )
        verify_fingerprint(arrays, spec["digest"])
        return map_.with_arrays(arrays)
