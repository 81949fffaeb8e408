"""QR of tall, skinny matrices by blocks of rows (here: blocks of features), in bounded memory.

Number code: NumPy in and out. Blocks are factored in float64, one at a time, and can be overwritten by their rows of Q.
Beside the blocks there is one l x l factor for each; `fan_in` factors at a time are stacked and factored again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, qr

#: Rows of a block of a matrix that arrives whole; fewer rows are factored at once.
BLOCK_ROWS = 16_384


@dataclass
class TreeQR:
    """Y = Q R with Q implicit: block i of Q is `leaves[i] @ paths[i]`.

    leaves : orthonormal factors of the blocks, shapes (rows_i, k_i); paths : shapes (k_i, k)
    R : shape (k, l), upper triangular with a diagonal >= 0
    """

    leaves: list[np.ndarray]
    paths: list[np.ndarray]
    R: np.ndarray

    def block(self, i: int) -> np.ndarray:
        """Rows of Q for block i, shape (rows_i, k)."""
        return self.leaves[i] @ self.paths[i]

    def blocks(self, M: np.ndarray | None = None) -> Iterator[np.ndarray]:
        """Blocks of Q, or of Q M for M of shape (k, m), one at a time."""
        for leaf, path in zip(self.leaves, self.paths, strict=True):
            yield leaf @ (path if M is None else path @ M)


def qr_positive(Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Reduced QR of one matrix with a diagonal of R >= 0, which makes it unique."""
    Q, R = qr(Y, mode="economic", check_finite=False)
    flip = np.where(np.diag(R) < 0, -1.0, 1.0)
    return Q * flip, R * flip[:, None]


def combine(factors: Sequence[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
    """One node of the tree: QR of stacked factors. Returns the rows of Q that belong to each factor, and R."""
    Q, R = qr_positive(np.concatenate(factors))
    edges = np.cumsum([0, *(len(f) for f in factors)])
    return [Q[a:b] for a, b in itertools.pairwise(edges)], R


def tree_qr(blocks: Sequence[np.ndarray], fan_in: int = 8, *, in_place: bool = False) -> TreeQR:
    """Tall-skinny QR (Demmel et al. 2012): QR of each block, then of stacked factors up a tree.

    Parameters
    ----------
    blocks : arrays of shape (rows_i, l), at least one; rows_i may be below l
    fan_in : factors that meet in one node
    in_place : leaves overwrite their blocks, in the dtype of these; then no block may be shorter than wide
    """
    leaves, factors = [], []
    for block in blocks:
        Q, R = qr_positive(block.astype(np.float64, copy=False))
        if in_place:
            block[:] = Q
            Q = block
        leaves.append(Q)
        factors.append(R)
    paths = [np.eye(len(R)) for R in factors]
    members = [[i] for i in range(len(factors))]
    while len(factors) > 1:
        above, joined = [], []
        for a in range(0, len(factors), fan_in):
            rows, R = combine(factors[a : a + fan_in])
            for own, leaf_ids in zip(rows, members[a : a + fan_in], strict=True):
                for i in leaf_ids:
                    paths[i] = paths[i] @ own
            above.append(R)
            joined.append([i for leaf_ids in members[a : a + fan_in] for i in leaf_ids])
        factors, members = above, joined
    return TreeQR(leaves, paths, factors[0])


def orthonormalise(Y: np.ndarray) -> np.ndarray:
    """Turn Y into an orthonormal basis of its columns, in place, and return it.

    By one Householder QR of a small matrix, else by the tree.

    Y : array of shape (D, l), D >= l, float32 or float64. Where its rank is below l, the basis is completed.
    """
    if len(Y) <= BLOCK_ROWS:
        Y[:] = qr_positive(Y.astype(np.float64, copy=False))[0]
        return Y
    blocks = cut_blocks(Y)
    for block, rows in zip(blocks, tree_qr(blocks, in_place=True).blocks(), strict=True):
        block[:] = rows
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
    """Cut a matrix into blocks of rows (views). Where possible, no block has fewer rows than columns."""
    step = max(BLOCK_ROWS, 2 * Y.shape[1])
    edges = [*range(0, max(len(Y) - Y.shape[1], 1), step), len(Y)]
    return [Y[a:b] for a, b in itertools.pairwise(edges)]
