"""Features multiplied by a learned basis: G = F Q (Chen et al. 2016, Algorithm 1, step 5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ..errors import InputError, rows_from
from ..typing import Rows
from .base import FeatureMap
from .tiles import FeatureTiles


@dataclass(frozen=True)
class SubspaceMap(FeatureMap):
    """Features z(x) = base(x) Q for a learned matrix Q, divided by `scale` where it is given.

    Parameters
    ----------
    n_features_in : d
    n_components : l, the number of columns of Q
    base : FeatureMap with D features, or None where the rows are features already
    scaled : whether features are divided by `scale`
    basis : Q, array of shape (D, l), orthonormal columns
    scale : array of shape (l,)

    References
    ----------
    Chen et al., "Training-efficient feature map for shift-invariant kernels", 2016, Algorithm 1, step 5.
    """

    base: FeatureMap | None
    scaled: bool = False
    basis: np.ndarray | None = field(default=None, compare=False, repr=False)
    scale: np.ndarray | None = field(default=None, compare=False, repr=False)

    kind: ClassVar[str] = "subspace"

    @property
    def tiles(self) -> FeatureTiles:
        """The features of the base map, tile by tile."""
        return FeatureTiles(self.base, self.n_features_in if self.base is None else self.base.n_components)

    def weights(self) -> np.ndarray:
        """Q, divided by `scale` where features are: shape (D, l), such that z(x) = base(x) @ weights."""
        assert self.basis is not None
        return self.basis if self.scale is None else self.basis / self.scale.astype(self.basis.dtype)

    def fill_columns(self, X: Rows, out: np.ndarray, start: int, stop: int) -> None:
        assert self.basis is not None
        basis, scale = self.basis[:, start:stop], None if self.scale is None else self.scale[start:stop]
        for a, tile in self.tiles.row_tiles(X):
            with rows_from(a):
                G = self.tiles.times(tile, basis)
            out[a : a + tile.shape[0]] = G if scale is None else G / scale.astype(G.dtype)

    def exact_kernel(self, X: Rows, Y: Rows | None = None) -> np.ndarray:
        if self.scaled:
            raise InputError(
                "features of whiten=True are divided by their root mean squares and approximate no kernel; compare "
                "those of the base, or of whiten=False"
            )
        return super().exact_kernel(X, Y) if self.base is None else self.base.exact_kernel(X, Y)

    def work(self) -> tuple[float, float]:
        operations, parameters = (0.0, 0.0) if self.base is None else self.base.work()
        return operations + 2.0 * self.tiles.n_features * self.n_components, parameters

    def held_bytes(self, itemsize: int) -> int:
        return itemsize * self.tiles.n_features * self.n_components  # the basis

    def scratch_bytes(self, itemsize: int) -> int:
        return self.tiles.scratch_bytes(itemsize)  # base features, as many as are made at once
