"""Rayleigh-Ritz: from a basis to singular directions. Number code: NumPy in and out."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

_BLOCK_BYTES = 64 * 2**20


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


def top_eigenpairs(S: np.ndarray, keep: int) -> tuple[np.ndarray, np.ndarray]:
    """Leading singular values and directions from the lower triangle of S = F'F, overwritten."""
    D = len(S)
    subset = None if keep == D else [D - keep, D - 1]
    values, vectors = eigh(S, lower=True, subset_by_index=subset, overwrite_a=True, check_finite=False)
    return np.sqrt(np.maximum(values[::-1], 0.0)), np.ascontiguousarray(vectors[:, ::-1])
