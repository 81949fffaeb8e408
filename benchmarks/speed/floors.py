"""What a map cannot do without: the transforms or the product of its projection, on arrays that stay in the cache."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from distrf.compiled import jit, walsh_hadamard
from distrf.compiled.circular_products import (
    forward_transform,
    inverse_transform,
    transform_plan,
    twiddles_of,
)
from distrf.maps import FourierMap
from distrf.projections import Projection
from distrf.projections.circulant import CirculantProjection
from distrf.projections.hadamard import HadamardProjection

#: Rows of the tile in cache on which the floor of the Walsh-Hadamard projections is measured.
_TILE = 16


def floor(projector: Projection, X: np.ndarray) -> Callable[[], object]:
    """The bare GEMM, FFTs or Walsh-Hadamard transforms of a projection, on arrays that stay in the cache where it lets them."""
    if isinstance(projector, HadamardProjection):
        return hadamard_floor(projector, X)
    if isinstance(projector, CirculantProjection):
        return fft_floor(projector, X)
    return gemm_floor(projector, X)


def gemm_floor(projector: Projection, X: np.ndarray) -> Callable[[], object]:
    W = np.ones((projector.n_frequencies, X.shape[1]), X.dtype)
    out = np.empty((len(X), len(W)), X.dtype)
    return lambda: np.matmul(X, W.T, out=out)


def hadamard_floor(projector: HadamardProjection, X: np.ndarray) -> Callable[[], object]:
    """As many transforms of a tile in cache as the projection makes."""
    p = projector.block_rows
    transforms = 1 + projector.n_diagonals * -(-projector.n_frequencies // p)
    tile = np.zeros((_TILE, p), X.dtype)

    def run() -> None:
        for _ in range(transforms * -(-len(X) // _TILE)):
            walsh_hadamard(tile)

    return run


def fft_floor(projector: CirculantProjection, X: np.ndarray) -> Callable[[], object]:
    """The forward and inverse transforms that the projection makes, in cache."""
    L, rows, dtype = projector.order, projector.rows_per_tile, X.dtype
    blocks, tiles = -(-projector.n_frequencies // L), -(-len(X) // projector.rows_per_tile)
    plan = transform_plan(L)
    pair, (cos, sin) = np.zeros((2, L), dtype), twiddles_of(L, dtype.str)
    forward, inverse = rows * projector.n_mixed, rows * -(-blocks // 2)

    def run_pairs() -> None:
        for _ in range(tiles):
            transforms(pair, forward, inverse, plan.radices, cos, sin)

    return run_pairs


@jit
def transforms(
    pair: np.ndarray, forward: int, inverse: int, radices: np.ndarray, cos: np.ndarray, sin: np.ndarray
) -> None:
    for _ in range(forward):
        forward_transform(pair[0], pair[1], radices, cos, sin)
    for _ in range(inverse):
        inverse_transform(pair[0], pair[1], radices, cos, sin)


def project(map_: FourierMap, X: np.ndarray) -> None:
    """The projection of the map alone: every column block of every tile, dropped."""
    projector, tile = map_.projector, map_.projector.rows_per_tile
    scale = 1.0 / (2.0 * np.pi * map_.length_scale)  # the map's own: the weights in its cache serve both
    for a in range(0, len(X), tile):
        for _ in projector.phases(X[a : a + tile], 0, map_.n_frequencies, scale, X.dtype):
            pass
