"""The features of a block in bounded memory: tiles of its rows and, where D is large, column blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from .base import FeatureMap, check_rows, working_dtype

#: Bytes of features that are made at once, where 256 rows or more fit.
_TILE_BYTES = 64 * 2**20
#: Up to here 256 whole rows of features are kept while they are used twice; wider ones are made one column block after another.
_WHOLE_BYTES = 128 * 2**20
_ROWS = 256
_TILED_ROWS = 1024
_COLUMNS = 16_384


@dataclass(frozen=True)
class FeatureTiles:
    """F = base(X), or X itself where base is None, D = n_features wide."""

    base: FeatureMap | None
    n_features: int

    @property
    def n_features_in(self) -> int:
        return self.n_features if self.base is None else self.base.n_features_in

    def whole(self, itemsize: int = 8) -> bool:
        """Whether a tile of rows is made with all its features at once."""
        whole_rows = self.base is not None and self.base.whole_rows
        return whole_rows or _ROWS * self.n_features * itemsize <= _WHOLE_BYTES

    def row_tiles(self, X: Any) -> Iterator[tuple[int, Any]]:
        """(first row, rows) of each tile. Its features, or one column block of them, stay near 64 MiB."""
        X = check_rows(X, self.n_features_in)
        itemsize = working_dtype(X.dtype).itemsize
        step = max(_ROWS, _TILE_BYTES // (self.n_features * itemsize)) if self.whole(itemsize) else _TILED_ROWS
        if self.base is not None and self.base.whole_rows:
            step = max(1, _TILE_BYTES // (self.n_features * itemsize))
        for a in range(0, X.shape[0], step):
            yield a, X[a : a + step]

    def all(self, rows: Any) -> np.ndarray:
        """All features of some rows, shape (m, D), dense also where the map makes CSR."""
        if self.base is not None:
            return _dense(self.base(rows))
        rows = _dense(rows)
        return rows.astype(working_dtype(rows.dtype), copy=False)

    def column_blocks(
        self, rows: Any, first: int = 0, last: int | None = None
    ) -> Iterator[tuple[int, np.ndarray]]:
        """(first column, features) of each column block of the columns first:last, for some rows."""
        last = self.n_features if last is None else last
        itemsize = working_dtype(rows.dtype).itemsize
        if (first, last) == (0, self.n_features) and self.whole(itemsize):
            yield 0, self.all(rows)
            return
        step = last - first if self.whole(itemsize) else _COLUMNS
        for a in range(first, last, step):
            b = min(a + step, last)
            if self.base is not None:
                yield a, _dense(self.base.columns(rows, a, b))
            else:
                yield a, FeatureTiles(None, b - a).all(rows[:, a:b])

    def times(self, rows: Any, basis: np.ndarray) -> np.ndarray:
        """F Q for some rows and Q of shape (D, l), shape (m, l), in the precision of F."""
        out = None
        for a, F in self.column_blocks(rows):
            product = F @ basis[a : a + F.shape[1]].astype(F.dtype, copy=False)
            out = product if out is None else np.add(out, product, out=out)
        assert out is not None
        return out

    def flops_per_row(self) -> float:
        """Arithmetic that makes one row of features."""
        return 0.0 if self.base is None else self.base.work()[0]

    def scratch_bytes(self, itemsize: int = 8) -> int:
        """The most memory that the features made at once take."""
        row = self.n_features * itemsize
        if self.whole(itemsize):
            return max(_TILE_BYTES, _ROWS * row)
        return _TILED_ROWS * min(_COLUMNS * itemsize, row)


def _dense(features: Any) -> np.ndarray:
    return features.toarray() if sp.issparse(features) else np.asarray(features)
