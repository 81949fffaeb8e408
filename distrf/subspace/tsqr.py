"""QR of tall, skinny matrices by blocks of rows (here: blocks of features), in bounded memory (Demmel et al. 2012).

Number code: NumPy in and out. Blocks are factored in float64, one at a time, and overwritten by their rows of Q. Beside them there is one
l x l factor for each block; these factors, stacked, are the matrix of the next level of the tree.
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy.linalg import eigh, qr

#: Rows of a block; fewer rows are factored at once.
BLOCK_ROWS = 16_384


def qr_positive(Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Reduced QR of one matrix, in float64, with a diagonal of R >= 0, which makes it unique."""
    Q, R = qr(Y.astype(np.float64, copy=False), mode="economic", check_finite=False)
    flip = np.where(np.diag(R) < 0, -1.0, 1.0)
    return Q * flip, R * flip[:, None]


def orthonormalise(Y: np.ndarray) -> np.ndarray:
    """Turn Y into an orthonormal basis of its columns, in place, and return it.

    Y : array of shape (D, l), D >= l, float32 or float64. Where its rank is below l, the basis is completed.
    """
    blocks = cut_blocks(Y)
    factors = []
    for block in blocks:
        block[:], R = qr_positive(block)
        factors.append(R)
    if len(blocks) > 1:
        above = orthonormalise(np.concatenate(factors))
        for block, rows in zip(blocks, np.split(above, len(blocks)), strict=True):
            block[:] = block @ rows
    return Y


def leading(Y: np.ndarray, keep: int) -> np.ndarray:
    """The `keep` leading left singular directions of Y (D, l), D >= l: orthonormal, float64, shape (D, keep).

    From the eigenvectors of Y'Y, a fraction of the work of a decomposition of Y: directions below 1e-8 of the first
    are not told apart.
    """
    Y = Y.astype(np.float64, copy=False)
    last = Y.shape[1] - 1
    vectors = eigh(Y.T @ Y, subset_by_index=[last - keep + 1, last], check_finite=False)[1]
    return qr_positive(Y @ vectors[:, ::-1])[0]


def cut_blocks(Y: np.ndarray) -> list[np.ndarray]:
    """Cut a matrix into blocks of rows (views), none of which has fewer rows than columns."""
    step = max(BLOCK_ROWS, 2 * Y.shape[1])
    edges = [*range(0, max(len(Y) - Y.shape[1], 1), step), len(Y)]
    return [Y[a:b] for a, b in itertools.pairwise(edges)]
