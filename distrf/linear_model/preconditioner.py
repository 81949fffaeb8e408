"""Step sizes, batch sizes and a preconditioner from the spectrum of the features (EigenPro).

Ma & Belkin, "Diving into the shallows" (NIPS 2017), and Ma, Bassily & Belkin, "The power of interpolation"
(ICML 2018), for the objective here: mean loss + (alpha / 2) |w|^2. With L the smoothness of the loss, the
Hessian is at most L Sigma + alpha, Sigma = E[z z'], whose eigenvalues are mu_i = L lambda_i + alpha. With

    P = I - Q diag(1 - mu_{k+1} / mu_i) Q',   Q the top k eigenvectors of Sigma,

the largest eigenvalue of P (L Sigma + alpha) falls from mu_1 to mu = mu_{k+1}, and so the gradient of all rows
takes steps of 1 / mu. The gradient of m random rows takes steps of

    eta(m) = m / (beta + (m - 1) mu),   beta = L max z'P z + alpha,

which grow with m up to the critical batch m* = beta / mu: below it, a pass learns as much with large batches
as with small ones. Number code: NumPy in and out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cholesky, eigh, qr, solve_triangular

from ..randomness import variates

#: Rows of the sample, and its dense bytes at most.
SAMPLE_ROWS = 6_000
SAMPLE_BYTES = 256 * 2**20
#: Sampled rows for each direction: fewer, and the sample's own directions say little about other rows.
_ROWS_PER_DIRECTION = 6
#: Up to this size eigenvalues are computed exactly, in float64.
_DENSE_UP_TO = 1_536
_SPARE = 64
#: Directions below this share of the largest curvature are left alone: rounding of gradients would grow in them.
_FLOOR = {"float32": 1e-5, "float64": 1e-6}


@dataclass(frozen=True)
class Preconditioner:
    """P and the two numbers that set the steps; rows may carry a constant last column for the intercept.

    directions : Q, shape (P, k); shrink : 1 - mu_{k+1} / mu_i, shape (k,)
    curvature : mu, times a safety factor for what a sample does not see; row_bound : beta
    """

    directions: np.ndarray
    shrink: np.ndarray
    curvature: float
    row_bound: float

    def __call__(self, G: np.ndarray) -> np.ndarray:
        """P G, shape (P, C) as G."""
        if not len(self.shrink):
            return G
        Q = self.directions
        along = self.shrink[:, None] * (Q.T @ G.astype(Q.dtype))
        return G - (Q @ along.astype(Q.dtype)).astype(G.dtype)

    @property
    def critical_rows(self) -> float:
        """m*, above which larger batches are a waste."""
        return self.row_bound / self.curvature

    def step(self, rows: int | None) -> float:
        """eta(m); None is the gradient of all rows."""
        if rows is None:
            return 1.0 / self.curvature
        return rows / (self.row_bound + (rows - 1) * self.curvature)


def sample_size(n_rows: int, n_features: int) -> int:
    """Rows to sample for a spectrum."""
    return int(min(n_rows, SAMPLE_ROWS, max(256, SAMPLE_BYTES // (4 * n_features))))


def direction_count(sample_rows: int, n_features: int) -> int:
    """Directions that so many sampled rows can tell, at most all."""
    return int(min(n_features, max(1, sample_rows // _ROWS_PER_DIRECTION)))


def intercept_scale(Z: np.ndarray) -> float:
    """The constant that stands for the intercept among the features: the square root of lambda_1.

    So the intercept learns as fast as the fastest direction, and costs a factor of two in step size at most.
    """
    v = np.ones(Z.shape[1]) / np.sqrt(Z.shape[1])
    value = 0.0
    for _ in range(10):
        u = Z.T @ (Z @ v.astype(Z.dtype))
        value = float(np.linalg.norm(u.astype(np.float64)))
        if value == 0:
            return 1.0
        v = u / value
    return float(np.sqrt(value / len(Z)))


def make_preconditioner(
    Z: np.ndarray, smoothness: float, alpha: float, k: int, whole: bool, seed: int
) -> Preconditioner:
    """The preconditioner of sampled rows.

    Parameters
    ----------
    Z : rows, shape (s, P), each times the square root of its weight (mean weight 1)
    smoothness, alpha : L and the l2 penalty
    k : directions, 0 for none
    whole : whether the sample is all rows there are; then no safety factor is needed
    """
    s, P = Z.shape
    k = min(k, P)
    values, Q = top_directions(Z, k, seed)
    mu = smoothness * np.maximum(values, 0.0) + alpha
    floor = max(_FLOOR[Z.dtype.name] * float(mu[0]), np.finfo(np.float64).tiny * 1e9)
    k = min(k, int(np.count_nonzero(mu > floor)))
    target = max(float(mu[min(k, len(mu) - 1)]), floor)
    shrink = 1.0 - target / mu[:k]
    squares = np.einsum("ij,ij->i", Z, Z, dtype=np.float64)
    if k:
        squares -= ((Z @ Q[:, :k]).astype(np.float64) ** 2) @ shrink
    largest = float(np.maximum(squares, 0.0).max())
    # Eigenvalues of s random rows in k directions miss by up to (1 + sqrt(k / s))^2 (Marchenko & Pastur).
    safety = 1.0 if whole else (1.0 + np.sqrt(k / s)) ** 2
    curvature = target * safety
    bound = max(smoothness * largest + alpha, curvature)
    return Preconditioner(np.ascontiguousarray(Q[:, :k]), shrink, float(curvature), float(bound))


def top_directions(Z: np.ndarray, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of Z'Z / s, descending, at least min(k + 1, P) of them, and the first k eigenvectors (P, k).

    Exact for small matrices; else by subspace iteration with two steps, orthonormalised between them
    (Halko, Martinsson & Tropp 2011, Algorithm 4.4), and the Rayleigh-Ritz values of the subspace.
    """
    s, P = Z.shape
    if min(s, P) <= _DENSE_UP_TO:
        values, Q = _exact_directions(Z.astype(np.float64))
        return values[: max(k + 1, 1)], np.ascontiguousarray(Q[:, :k], dtype=Z.dtype)
    width = min(k + _SPARE, s, P)
    omega = variates(seed, "sgd sketch", 0, s * width, "normal").reshape(s, width).astype(Z.dtype)
    Q = orthonormal(Z.T @ omega, passes=2)
    Q = orthonormal(Z.T @ (Z @ Q), passes=2)
    Q = orthonormal(Z.T @ (Z @ Q))
    B = Z @ Q
    values, V = eigh((B.T @ B).astype(np.float64) / s, check_finite=False)
    values, V = values[::-1], V[:, ::-1]
    return values[: k + 1], np.ascontiguousarray(Q @ V[:, :k].astype(Z.dtype))


def orthonormal(Y: np.ndarray, passes: int = 6) -> np.ndarray:
    """A basis of the columns of Y, in its dtype, orthonormal to about 1e-4 after enough passes, mostly two.

    Cholesky-QR, shifted while the columns are nearly dependent (Fukaya et al. 2020): all products, and a third
    of the time of Householder's at D = 4,096 and 1,064 columns, which takes over where passes do not suffice.
    """
    for _ in range(passes):
        scale = np.sqrt(np.einsum("ij,ij->j", Y, Y, dtype=np.float64))
        if not scale.min() > 0:
            break
        Y = Y / scale.astype(Y.dtype)
        gram = (Y.T @ Y).astype(np.float64)
        gap = float(np.abs(gram - np.eye(len(gram))).max())
        if gap < 1e-4:
            return Y
        if gap > 0.1:  # what rounding may have made negative becomes positive
            gram.ravel()[:: len(gram) + 1] += 30 * np.sqrt(len(gram)) * np.finfo(Y.dtype).eps
        try:
            factor = cholesky(gram, lower=False, check_finite=False)
        except LinAlgError:
            break
        Y = Y @ solve_triangular(factor, np.eye(len(gram)), check_finite=False).astype(Y.dtype)
    else:
        if passes < 3:
            return Y
    return qr(Y, mode="economic", check_finite=False)[0]


def _exact_directions(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    s, P = Z.shape
    if s >= P:
        values, vectors = eigh(Z.T @ Z / s, check_finite=False)
        return np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    values, vectors = eigh(Z @ Z.T / s, check_finite=False)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    keep = values > values[0] * s * np.finfo(np.float64).eps
    Q = Z.T @ (vectors[:, keep] / np.sqrt(values[keep] * s))
    # The other directions have no variance in the sample.
    return np.concatenate([values[keep], [0.0]]), Q


def weighted_rows(Z: np.ndarray, weight: np.ndarray | None, constant: float) -> np.ndarray:
    """Dense rows with the constant column (none for 0), times the root of their weight of mean 1."""
    rows = Z.toarray() if sp.issparse(Z) else np.asarray(Z)  # type: ignore[attr-defined]
    out = np.empty((rows.shape[0], rows.shape[1] + (constant != 0)), dtype=rows.dtype)
    out[:, : rows.shape[1]] = rows
    if constant:
        out[:, -1] = constant
    if weight is not None:
        out *= np.sqrt(weight / weight.mean()).astype(out.dtype)[:, None]
    return out
