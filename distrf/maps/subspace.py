"""Features projected onto a learned subspace: G = F Q (Chen et al. 2016, Algorithm 1, step 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from ..errors import InputError, SpecMismatchError
from .base import FeatureMap, check_rows, working_dtype
from .tiles import FeatureTiles

_BASE = "base."


@dataclass(frozen=True)
class SubspaceMap(FeatureMap):
    """z(x) = base(x) Q, divided by `scale` where it is given; base None takes rows that are features.

    basis : Q, shape (D, l), orthonormal columns; scale : shape (l,)
    """

    base: FeatureMap | None
    scaled: bool = False
    basis: np.ndarray | None = field(default=None, compare=False, repr=False)
    scale: np.ndarray | None = field(default=None, compare=False, repr=False)

    kind: ClassVar[str] = "subspace"

    @property
    def tiles(self) -> FeatureTiles:
        """The base features, tile by tile."""
        return FeatureTiles(self.base, self.n_features_in if self.base is None else self.base.n_components)

    def weights(self) -> np.ndarray:
        """Q / scale, shape (D, l): z(x) = base(x) weights."""
        assert self.basis is not None
        return self.basis if self.scale is None else self.basis / self.scale.astype(self.basis.dtype)

    def fill(self, X, out):
        assert self.basis is not None
        self._fill(X, out, self.basis, self.scale)

    def columns(self, X, start, stop):
        assert self.basis is not None
        X = check_rows(X, self.n_features_in)
        out = np.empty((X.shape[0], stop - start), dtype=working_dtype(X.dtype))
        self._fill(X, out, self.basis[:, start:stop], None if self.scale is None else self.scale[start:stop])
        return out

    def _fill(self, X, out, basis, scale) -> None:
        tiles = self.tiles
        for a, tile in tiles.row_tiles(X):
            G = tiles.times(tile, basis)
            out[a : a + tile.shape[0]] = G if scale is None else G / scale.astype(G.dtype)

    def exact_kernel(self, X, Y=None):
        if self.scaled:
            raise InputError(
                "features of whiten=True are divided by their root mean squares and approximate no kernel; compare "
                "those of the base, or of whiten=False"
            )
        return super().exact_kernel(X, Y) if self.base is None else self.base.exact_kernel(X, Y)

    @property
    def arrays(self):
        named = {"basis": self.basis, "scale": self.scale}
        if self.base is not None:
            named |= {f"{_BASE}{name}": array for name, array in self.base.arrays.items()}
        return {name: array for name, array in named.items() if array is not None}

    def with_arrays(self, arrays):
        below = {name.removeprefix(_BASE): a for name, a in arrays.items() if name.startswith(_BASE)}
        base = self.base.with_arrays(below) if self.base is not None and below else self.base
        return replace(self, base=base, basis=arrays["basis"], scale=arrays.get("scale"))

    def without_arrays(self):
        base = None if self.base is None else self.base.without_arrays()
        return replace(self, base=base, basis=None, scale=None)

    def work(self):
        operations, parameters = (0.0, 0.0) if self.base is None else self.base.work()
        return operations + 2.0 * self.tiles.n_features * self.n_components, parameters

    def held_bytes(self, itemsize: int) -> int:
        return itemsize * self.tiles.n_features * self.n_components  # the basis

    def scratch_bytes(self, itemsize: int) -> int:
        return self.tiles.scratch_bytes(itemsize)  # a part of the base features

    def spec(self) -> dict[str, Any]:
        return {
            "map": self.kind,
            "base": None if self.base is None else self.base.spec(),
            "n_features_in": self.n_features_in,
            "n_components": self.n_components,
            "scaled": self.scaled,
        }

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> SubspaceMap:
        from . import map_from_spec

        base = spec["base"]
        below = {name.removeprefix(_BASE): a for name, a in arrays.items() if name.startswith(_BASE)}
        map_ = cls(
            int(spec["n_features_in"]),
            int(spec["n_components"]),
            None if base is None else map_from_spec(base, below),
            bool(spec["scaled"]),
        )
        if "basis" not in arrays or ("scale" in arrays) != map_.scaled:
            raise SpecMismatchError(
                "the spec of a 'subspace' map needs its arrays 'basis' and, if scaled, 'scale'; save it again"
            )
        return map_.with_arrays(arrays)
