"""Lower tiles of a Gram matrix Z'Z: half the arithmetic, memory and traffic of the full product.

Number code: rows are multiplied in their own precision and summed in float64, float32 ones a few hundred at a
time, so that the error of a sum does not grow with the rows of a block.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

_TILE = 1024
#: float32 rows of one product. The largest error of a sum over 65,536 rows is 6e-8 of it, 6e-7 with one product; fewer
#: rows lose time: with 512 a pass takes 20 % longer than with 4,096, with 1,024 it takes 5 to 10 %.
SLICE_ROWS = 1024


def tile_width(n_features: int) -> int:
    """Columns of one tile: the features in equal column blocks of at most 1,024."""
    return -(-n_features // -(-n_features // _TILE))


def lower_tiles(n_features: int) -> list[tuple[slice, slice]]:
    """(row, column) slices of the lower tiles, diagonal ones included."""
    T = tile_width(n_features)
    edges = [slice(a, min(a + T, n_features)) for a in range(0, n_features, T)]
    return [(edges[i], edges[j]) for i in range(len(edges)) for j in range(i + 1)]


def count_tiles(n_features: int) -> int:
    """How many `lower_tiles` there are."""
    count = -(-n_features // _TILE)
    return count * (count + 1) // 2


def empty_tiles(n_features: int) -> np.ndarray:
    """Zeros of shape (tiles, T, T), float64."""
    T = tile_width(n_features)
    return np.zeros((count_tiles(n_features), T, T))


def tiles_nbytes(n_features: int) -> int:
    """Bytes of `empty_tiles`."""
    return 8 * count_tiles(n_features) * tile_width(n_features) ** 2


def add_tiles(tiles: np.ndarray, Z: np.ndarray) -> None:
    """Add the lower tiles of Z'Z to `tiles` in place; Z of shape (n, D)."""
    scratch = np.empty((tiles.shape[1],) * 2, dtype=Z.dtype)
    step = max(1, SLICE_ROWS if Z.dtype == np.float32 else len(Z))
    for tile, (rows, columns) in zip(tiles, lower_tiles(Z.shape[1]), strict=True):
        shape = (rows.stop - rows.start, columns.stop - columns.start)
        out = scratch.ravel()[: shape[0] * shape[1]].reshape(shape)
        for a in range(0, len(Z), step):
            row_tile = Z[a : a + step]
            np.matmul(row_tile[:, rows].T, row_tile[:, columns], out=out)
            tile[: shape[0], : shape[1]] += out


def each_tile(tiles: np.ndarray, n_features: int) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """(rows, columns, values) of every lower tile."""
    for tile, (rows, columns) in zip(tiles, lower_tiles(n_features), strict=True):
        yield rows, columns, tile[: rows.stop - rows.start, : columns.stop - columns.start]


def lower_matrix(tiles: np.ndarray, n_features: int) -> np.ndarray:
    """The lower triangle as a (D, D) matrix in Fortran order, for LAPACK in place; zeros above the tiles."""
    S = np.zeros((n_features, n_features), order="F")
    for rows, columns, tile in each_tile(tiles, n_features):
        S[rows, columns] = tile
    return S
