"""Rayleigh-Ritz: from a basis to singular directions, and the residual that they leave. Number code: NumPy in and out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.special import stdtrit

from ..maps.tiles import FeatureTiles

_BLOCK_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Residual:
    """|F - F Q Q'| / |F| estimated on probe rows, with approximate bounds of 95 % confidence (Student's t).

    The bounds fail if few rows have most of the energy or most of the residual; no bounds hold without knowledge of the
    tail. Fourier features are safe, because all rows have norm 1. With the columns themselves as features and 1,000 of
    200,000 rows, the bounds hold in 96 % of trials for normal columns, and for Student's t with 3, 2, 1.5 degrees of
    freedom in 92, 79, 15 %.
    """

    value: float
    low: float
    high: float
    rows: int


def ritz(T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rayleigh-Ritz within span Q, from T = Q'F'FQ: singular values of F Q, largest first, and their directions."""
    values, vectors = eigh((T + T.T) / 2, check_finite=False)
    return np.sqrt(np.maximum(values[::-1], 0.0)), vectors[:, ::-1]


def rotated(basis: np.ndarray, directions: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Q V with the signs fixed, by blocks of rows; the entry of largest magnitude of a column is positive.

    basis : shape (D, k); directions : V, shape (k, l)
    """
    out = np.empty((len(basis), directions.shape[1]), dtype=dtype)
    step = max(1, _BLOCK_BYTES // (8 * basis.shape[1]))
    for a in range(0, len(basis), step):
        out[a : a + step] = basis[a : a + step].astype(np.float64, copy=False) @ directions
    return fix_signs(out)


def fix_signs(basis: np.ndarray) -> np.ndarray:
    """Fix the sign of each column in place: its entry of largest magnitude becomes positive."""
    basis *= np.where(-basis.min(axis=0, initial=0) > basis.max(axis=0, initial=0), -1, 1).astype(basis.dtype)
    return basis


def probe_residual(
    source: FeatureTiles, rows: np.ndarray, basis: np.ndarray, n: int, together: int = 1
) -> Residual:
    """Relative residual on some rows, by a ratio estimate over draws without replacement; see `Residual`.

    rows : array of shape (m, d), a uniform sample of n rows; together : rows of one draw, which may be alike.
    Features are computed in float64.
    """
    misses, energies = [], []
    for _, tile in source.row_tiles(rows.astype(np.float64)):
        G = source.times(tile, basis)
        miss = np.zeros(len(tile))
        energy = np.zeros(len(tile))
        for a, F in source.column_blocks(tile):
            energy += np.einsum("ij,ij->i", F, F)
            F = F - G @ basis[a : a + F.shape[1]].T
            miss += np.einsum("ij,ij->i", F, F)
        misses.append(miss)
        energies.append(energy)
    draws = np.arange(0, len(rows), together)
    e, s = (np.add.reduceat(np.concatenate(x), draws) for x in (misses, energies))
    if not s.sum() > 0:
        return Residual(0.0, 0.0, 0.0, len(rows))
    m, ratio = len(draws), e.sum() / s.sum()
    spread = np.sqrt(np.sum((e - ratio * s) ** 2) / max(m - 1, 1))
    quantile = stdtrit(max(m - 1, 1), 0.975)
    error = quantile * spread / (np.sqrt(m) * s.mean()) * np.sqrt(max(0.0, 1.0 - len(rows) / n))
    bounds = np.sqrt(np.clip([ratio - error, ratio + error], 0.0, 1.0))
    return Residual(float(np.sqrt(ratio)), float(bounds[0]), float(bounds[1]), len(rows))


def top_eigenpairs(S: np.ndarray, keep: int) -> tuple[np.ndarray, np.ndarray]:
    """Leading singular values and directions from the lower triangle of S = F'F, overwritten."""
    D = len(S)
    subset = None if keep == D else [D - keep, D - 1]
    values, vectors = eigh(S, lower=True, subset_by_index=subset, overwrite_a=True, check_finite=False)
    return np.sqrt(np.maximum(values[::-1], 0.0)), np.ascontiguousarray(vectors[:, ::-1])
