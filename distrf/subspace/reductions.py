"""The reductions of the range finder: what its passes sum up, block by block. Number code: NumPy in and out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import rows_from
from ..gram_tiles import add_tiles, empty_tiles, tiles_nbytes
from ..maps.base import ArraysApart
from ..maps.tiles import FeatureTiles
from .sketches import Sketch, add_product

#: Most bytes of float64 copies of features for the Gram matrix.
_TILE_BYTES = 64 * 2**20


@dataclass(frozen=True)
class _TilesReduction(ArraysApart):
    """Base of the reductions. Features come from `source`. Learned arrays of its map and the basis are `arrays`."""

    source: FeatureTiles
    basis: np.ndarray | None = field(default=None, compare=False, repr=False)

    @classmethod
    def _inner(cls) -> list[str]:
        return ["source"]

    @property
    def scratch_bytes(self) -> int:
        return 2 * self.source.scratch_bytes()

    def update(self, state: np.ndarray, first_row: int, X: Any) -> np.ndarray:
        for a, tile in self.source.row_tiles(X):
            with rows_from(a):
                self._add(state, first_row + a, tile)
        return state

    def _add(self, state: np.ndarray, first_row: int, tile: Any) -> None:
        """Add the features of a tile to the state; `first_row` is that of the tile."""
        raise NotImplementedError

    def combine(self, left: Any, right: Any) -> Any:
        left += right
        return left


@dataclass(frozen=True)
class SketchReduction(_TilesReduction):
    """Columns first:last of F' Theta, transposed: state (last - first, l), float64."""

    sketch: Sketch | None = None
    first: int = 0
    last: int = 0

    @property
    def nbytes(self) -> int:
        assert self.sketch is not None
        return 8 * (self.last - self.first) * self.sketch.width

    @property
    def flops_per_row(self) -> float:
        assert self.sketch is not None
        width = self.last - self.first
        share = width / self.source.n_features
        return self.source.flops_per_row() * share + self.sketch.flops_per_row(width)

    def initial(self) -> np.ndarray:
        assert self.sketch is not None
        return np.zeros((self.last - self.first, self.sketch.width))

    def _add(self, state: np.ndarray, first_row: int, tile: Any) -> None:
        assert self.sketch is not None
        for column, F in self.source.column_blocks(tile, self.first, self.last):
            place = column - self.first
            self.sketch.add(first_row, F, state[place : place + F.shape[1]])


@dataclass(frozen=True)
class ProductReduction(_TilesReduction):
    """Features first:last of F' (F Q): state (last - first, l), float64. One step of subspace iteration."""

    width: int = 0
    first: int = 0
    last: int = 0

    @property
    def nbytes(self) -> int:
        return 8 * (self.last - self.first) * self.width

    @property
    def flops_per_row(self) -> float:
        D, again = self.source.n_features, 0 if self.source.whole() else 1
        share = (self.last - self.first) / D
        return self.source.flops_per_row() * (1 + again * share) + 2.0 * D * self.width * (1 + share)

    def initial(self) -> np.ndarray:
        return np.zeros((self.last - self.first, self.width))

    def _add(self, state: np.ndarray, first_row: int, tile: Any) -> None:
        assert self.basis is not None
        if self.source.whole(self.basis.itemsize):
            F = self.source.all(tile)
            add_product(F[:, self.first : self.last], F @ self.basis.astype(F.dtype, copy=False), state)
            return
        G = self.source.times(tile, self.basis)
        for column, F in self.source.column_blocks(tile, self.first, self.last):
            place = column - self.first
            add_product(F, G, state[place : place + F.shape[1]])


@dataclass(frozen=True)
class RitzReduction(_TilesReduction):
    """Q'F'FQ and |F|^2: state (l + 1, l), the last row holding the energy. Float64."""

    width: int = 0

    @property
    def nbytes(self) -> int:
        return 8 * (self.width + 1) * self.width

    @property
    def flops_per_row(self) -> float:
        return self.source.flops_per_row() + 2.0 * self.source.n_features * self.width + 2.0 * self.width**2

    def initial(self) -> np.ndarray:
        return np.zeros((self.width + 1, self.width))

    def _add(self, state: np.ndarray, first_row: int, tile: Any) -> None:
        assert self.basis is not None
        G = None
        for a, F in self.source.column_blocks(tile):
            product = F @ self.basis[a : a + F.shape[1]].astype(F.dtype, copy=False)
            G = product if G is None else G + product
            state[-1, 0] += np.einsum("ij,ij->i", F, F).sum(dtype=np.float64)
        if G is not None:
            G = G.astype(np.float64)  # small singular values beside large ones
            state[:-1] += G.T @ G


@dataclass(frozen=True)
class GramTilesReduction(_TilesReduction):
    """Sum of the lower tiles of F'F. Products are made in float64 too.

    F'F holds the squares of singular values, so the rounding of float32 products would drown all of them below 3e-4 of
    the first.
    """

    @property
    def nbytes(self) -> int:
        return tiles_nbytes(self.source.n_features)

    @property
    def flops_per_row(self) -> float:
        return self.source.flops_per_row() + float(self.source.n_features) ** 2

    def initial(self) -> np.ndarray:
        return empty_tiles(self.source.n_features)

    def _add(self, state: np.ndarray, first_row: int, tile: Any) -> None:
        F = self.source.all(tile)
        step = max(256, _TILE_BYTES // (8 * F.shape[1]))
        for a in range(0, F.shape[0], step):
            add_tiles(state, F[a : a + step].astype(np.float64, copy=False))
