"""Ridge solutions on a sample of rows in memory, for many penalties. Number code.

All penalties share one matrix: Z'Z, or ZZ' if there are fewer rows than features.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve, qr

from ..targets import Targets
from .gram import GramReduction
from .normal_equations import NormalEquations, Solution

#: Rows featurised at a time.
BLOCK_ROWS = 2048
#: Features beyond which fewer rows are turned into as many columns, and the most bytes of such rows: below, nothing is gained.
_WIDE, _SHORT_BYTES = 1024, 2**27


def ridge_path(
    features: Callable[[Any], Any],
    n_features: int,
    X: Any,
    y: np.ndarray,
    targets: Targets,
    alphas: Sequence[float],
    intercept: bool,
    weight: np.ndarray | None = None,
) -> list[Solution]:
    """The ridge solution on features(X) for each alpha, with the objective of StreamingRidge.

    features : function from rows of shape (b, d), dense or CSR, to (b, D), D = n_features
    weight : of the rows, shape (n,); None weighs all alike
    With fewer rows than features it solves the n x n system of the kernel matrix, else the D x D system. Up to a dozen
    alphas, a Cholesky factorisation for each costs less than one eigendecomposition for all.
    """
    if X.shape[0] < n_features:
        return _dual(features(X), *targets.encode(y, weight), alphas, intercept, targets.width)
    reduction = GramReduction(n_features, targets)
    state = reduction.initial()
    for a in range(0, X.shape[0], BLOCK_ROWS):
        tile = slice(a, a + BLOCK_ROWS)
        weights = () if weight is None else (weight[tile],)
        state = reduction.update(state, a, features(X[tile]), y[tile], *weights)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # an alpha below rounding: compared like the others
        return list(NormalEquations(state, n_features, intercept).solve(alphas))


def _dual(
    Z: Any, Y: np.ndarray, weight: np.ndarray | None, alphas: Sequence[float], intercept: bool, width: int
) -> list[Solution]:
    """The dual solution: u = Z'R c with (R Z Z' R / W + alpha) c = R Y / W, R the roots of the weights, Z and Y centred.

    CSR rows are not centred, which would make them dense; their products Z Z' are. The products are made in float64:
    those of float32 rows err by more than small alphas, and have negative eigenvalues.
    """
    Z = Z.astype(np.float64) if sp.issparse(Z) else Z
    w = np.ones(Z.shape[0]) if weight is None else weight
    total = w.sum()
    mean = np.asarray(w @ Z).ravel() / total if intercept else np.zeros(Z.shape[1])
    target_mean = w @ Y / total if intercept else np.zeros(width)
    root = np.sqrt(w)[:, None]
    if sp.issparse(Z):
        products = np.asarray(Z @ mean)
        K = (Z @ Z.T).toarray()
        lost = 8 * np.finfo(np.float64).eps * float(w @ K.diagonal()) / total
        K = (K - products - products[:, None] + mean @ mean) * root * root.T / total
    else:
        A = (Z - mean) * root
        K = A @ A.T / total
        lost = 0.0
    right = (Y - target_mean) * root / total
    floor = max(1e-13 * float(np.trace(K)), lost)  # below it the factorisation may fail
    solutions = []
    for alpha in alphas:
        shifted = K.copy()
        shifted.ravel()[:: len(K) + 1] += max(alpha, floor)
        factor = cho_factor(shifted, lower=True, overwrite_a=True, check_finite=False)
        c = cho_solve(factor, right, check_finite=False)
        if sp.issparse(Z):
            c = root * c
            weights = Z.T @ c - np.outer(mean, c.sum(axis=0))
        else:
            weights = A.T @ c
        solutions.append(Solution(alpha, weights, target_mean - mean @ weights))
    return solutions


def is_short(n_rows: int, n_features: int) -> bool:
    """Whether systems of as many unknowns as rows should take the place of those of the features."""
    return n_features > max(n_rows, _WIDE) and 8 * n_rows * n_features <= _SHORT_BYTES


def turned_rows(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Short rows (n, D), dense or CSR, as Z (n, n) with the same products of rows, and the basis Q (D, n) with Z = X Q.

    Ridge weights lie in the span of the rows: of any of the rows, for any penalty, those of X are Q times those of Z.
    """
    Q, R = qr((X.toarray() if sp.issparse(X) else X).astype(np.float64).T, mode="economic", check_finite=False)
    return np.ascontiguousarray(R.T), Q


def path_bytes(n_rows: int, n_features: int, width: int, n_alphas: int, itemsize: int) -> int:
    """The most memory that `ridge_path` takes beside the rows themselves."""
    weights = 8 * n_features * width * (n_alphas + 1)
    if n_rows < n_features:
        return n_rows * n_features * (itemsize + 16) + 24 * n_rows**2 + weights
    return BLOCK_ROWS * n_features * (itemsize + 8) + 24 * n_features**2 + weights
