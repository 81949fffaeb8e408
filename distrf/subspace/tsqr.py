"""QR of tall, skinny matrices given as blocks of rows (here: blocks of features), in bounded memory.

Number code: NumPy in and out. Besides the blocks and their orthonormal factors, which may take the same
memory, only l x l factors are kept: one for each block, and `fan_in` of them meet at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigvalsh, qr, solve_triangular

#: Rows of a block of a matrix that arrives whole; fewer rows are factored in one piece, the short way.
BLOCK_ROWS = 16_384
#: Cholesky-QR2 loses no digit up to condition 1 / sqrt(eps) / 8 (Yamamoto et al. 2015); kept well below it.
_SAFE_CONDITION = 1e6


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
        """Blocks of Q, or of Q M for M of shape (k, m), one at a time; each leaf is dropped after use."""
        for i in range(len(self.leaves)):
            path = self.paths[i] if M is None else self.paths[i] @ M
            yield self.leaves[i] @ path


def qr_positive(Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Reduced QR of one matrix with a diagonal of R >= 0, which makes it unique."""
    Q, R = qr(Y, mode="economic", check_finite=False)
    flip = np.where(np.diag(R) < 0, -1.0, 1.0)
    return Q * flip, R * flip[:, None]


def combine(factors: Sequence[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
    """One node of the tree: QR of stacked factors. Returns the part of Q that belongs to each, and R."""
    Q, R = qr_positive(np.concatenate(factors))
    edges = np.cumsum([0, *(len(f) for f in factors)])
    return [Q[a:b] for a, b in itertools.pairwise(edges)], R


def tree_qr(blocks: Sequence[np.ndarray], fan_in: int = 8) -> TreeQR:
    """Tall-skinny QR (Demmel et al. 2012): QR of each block, then of stacked factors up a tree.

    Parameters
    ----------
    blocks : arrays of shape (rows_i, l), float64, at least one; rows_i may be below l
    fan_in : factors that meet in one node
    """
    leaves, factors = [], []
    for block in blocks:
        Q, R = qr_positive(block)
        leaves.append(Q)
        factors.append(R)
    paths = [np.eye(len(R)) for R in factors]
    members = [[i] for i in range(len(factors))]
    while len(factors) > 1:
        above, joined = [], []
        for a in range(0, len(factors), fan_in):
            parts, R = combine(factors[a : a + fan_in])
            for part, leaf_ids in zip(parts, members[a : a + fan_in], strict=True):
                for i in leaf_ids:
                    paths[i] = paths[i] @ part
            above.append(R)
            joined.append([i for leaf_ids in members[a : a + fan_in] for i in leaf_ids])
        factors, members = above, joined
    return TreeQR(leaves, paths, factors[0])


def cholesky_qr2(blocks: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """Blocks of Q by two rounds of Cholesky QR: products alone. None where the condition is not safe."""
    current = list(blocks)
    for _ in range(2):
        gram = sum(block.T @ block for block in current)
        scale = np.sqrt(np.diag(gram))
        if not (scale > 0).all():
            return None
        values = eigvalsh(gram / np.outer(scale, scale), check_finite=False)
        # Columns are scaled first: their lengths do not count as condition.
        if not values[0] > values[-1] / _SAFE_CONDITION**2:
            return None
        try:
            R = cholesky(gram / np.outer(scale, scale), check_finite=False)
        except LinAlgError:
            return None
        inverse = solve_triangular(R, np.eye(len(R)), check_finite=False) / scale[:, None]
        current = [block @ inverse for block in current]
    return current


def orthonormal(blocks: Sequence[np.ndarray], fan_in: int = 8) -> list[np.ndarray]:
    """Orthonormal basis of the columns of a tall matrix, block by block.

    Takes the shortest safe way: one Householder QR for a small matrix, Cholesky-QR2 where the condition
    allows, else the tree.

    blocks : arrays of shape (rows_i, l), float64. Where the columns have rank below l, the basis is completed.
    """
    if len(blocks) == 1 and len(blocks[0]) <= BLOCK_ROWS:
        return [qr_positive(blocks[0])[0]]
    fast = cholesky_qr2(blocks)
    return list(tree_qr(blocks, fan_in).blocks()) if fast is None else fast


def cut_blocks(Y: np.ndarray) -> list[np.ndarray]:
    """Views of a whole matrix as blocks of rows, none shorter than it is wide where that can be."""
    step = max(BLOCK_ROWS, 2 * Y.shape[1])
    return [Y[a : a + step] for a in range(0, len(Y), step)] or [Y]
