"""The features of a block in bounded memory: by tiles of rows and, where D is large, by column blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..typing import Rows
from .base import ArraysApart, FeatureMap, check_rows, dense, working_dtype

#: Bytes of the features of a tile; but a tile of whole rows of features has at least 256 rows.
_TILE_BYTES = 64 * 2**20
#: If 256 whole rows of features take at most this many bytes, tiles hold whole rows. Wider features are made column block
#: by column block.
_WHOLE_BYTES = 128 * 2**20
#: The fewest rows of a tile of whole rows of features.
_ROWS = 256
#: Rows of a tile, and columns of a column block, where features are made by column blocks.
_TILED_ROWS, _COLUMNS = 1024, 16_384


@dataclass(frozen=True)
class FeatureTiles(ArraysApart):
    """The features F = base(X) of a block, tile by tile.

    Parameters
    ----------
    base : FeatureMap, or None where the rows X are the features
    n_features : D, the number of features
    """

    base: FeatureMap | None
    n_features: int

    @property
    def n_features_in(self) -> int:
        """Number of columns of the rows."""
        return self.n_features if self.base is None else self.base.n_features_in

    def whole(self, itemsize: int = 8) -> bool:
        """Whether the features of a tile of rows are made all at once, for numbers of `itemsize` bytes."""
        whole_rows = self.base is not None and self.base.whole_rows
        return whole_rows or _ROWS * self.n_features * itemsize <= _WHOLE_BYTES

    def row_tiles(self, X: Rows) -> Iterator[tuple[int, Rows]]:
        """Cut a block into tiles of rows whose features, or one column block of them, take about 64 MiB.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)

        Yields
        ------
        first : int, the row of the block that row 0 of the tile is
        rows : the rows of the tile
        """
        X = check_rows(X, self.n_features_in)
        itemsize = working_dtype(X.dtype).itemsize
        step = max(_ROWS, _TILE_BYTES // (self.n_features * itemsize)) if self.whole(itemsize) else _TILED_ROWS
        if self.base is not None and self.base.whole_rows:
            step = max(1, _TILE_BYTES // (self.n_features * itemsize))
        for a in range(0, X.shape[0], step):
            yield a, X[a : a + step]

    def all(self, rows: Rows) -> np.ndarray:
        """All features of some rows as an array of shape (m, D), also where the map makes CSR."""
        if self.base is not None:
            return dense(self.base(rows))
        rows = dense(rows)
        return rows.astype(working_dtype(rows.dtype), copy=False)

    def column_blocks(
        self, rows: Rows, first: int = 0, last: int | None = None
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Make features first:last of some rows, a column block at a time.

        Parameters
        ----------
        rows : array or CSR matrix of shape (m, d)
        first, last : the features wanted; all by default

        Yields
        ------
        first : int, the feature that column 0 of the column block is
        features : array of shape (m, width)
        """
        last = self.n_features if last is None else last
        itemsize = working_dtype(rows.dtype).itemsize
        if (first, last) == (0, self.n_features) and self.whole(itemsize):
            yield 0, self.all(rows)
            return
        step = last - first if self.whole(itemsize) else _COLUMNS
        for a in range(first, last, step):
            b = min(a + step, last)
            if self.base is not None:
                yield a, dense(self.base.columns(rows, a, b))
            else:
                yield a, FeatureTiles(None, b - a).all(rows[:, a:b])

    def times(self, rows: Rows, basis: np.ndarray) -> np.ndarray:
        """The product F Q for some rows and a matrix Q of shape (D, l): shape (m, l), in the dtype of F."""
        out = None
        for a, F in self.column_blocks(rows):
            product = F @ basis[a : a + F.shape[1]].astype(F.dtype, copy=False)
            out = product if out is None else np.add(out, product, out=out)
        assert out is not None
        return out

    def flops_per_row(self) -> float:
        """Floating-point operations that make the features of one row."""
        return 0.0 if self.base is None else self.base.work()[0]

    def scratch_bytes(self, itemsize: int = 8) -> int:
        """The most bytes that the features made at once take, for numbers of `itemsize` bytes."""
        row = self.n_features * itemsize
        if self.whole(itemsize):
            return max(_TILE_BYTES, _ROWS * row)
        return _TILED_ROWS * min(_COLUMNS * itemsize, row)
