"""What a subspace leaves of some features, over the least that any subspace of its size leaves."""

from __future__ import annotations

import numpy as np


def energies(F: np.ndarray) -> np.ndarray:
    """Squares of the singular values of F, the largest first."""
    return np.maximum(np.linalg.eigvalsh(F.T @ F)[::-1], 0)


def residual_over_least(F: np.ndarray, Q: np.ndarray, squares: np.ndarray) -> float:
    """|F - F Q Q'| over the least for as many columns as Q has.

    Q : a basis, orthonormal up to rounding: that of float32 is made so in float64
    squares : `energies` of F
    """
    Q = np.linalg.qr(Q.astype(np.float64))[0]
    return float(np.linalg.norm(F - (F @ Q) @ Q.T) / np.sqrt(squares[Q.shape[1] :].sum()))
