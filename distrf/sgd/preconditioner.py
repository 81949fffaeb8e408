"""Step sizes, batch sizes and a preconditioner from the spectrum of the features (EigenPro).

Ma & Belkin, "Diving into the shallows" (NIPS 2017), and Ma, Bassily & Belkin, "The power of interpolation"
(ICML 2018), for the objective here: mean loss + (alpha / 2) |w|^2. With L the smoothness of the loss, the
Hessian is at most L Sigma + alpha, Sigma = E[z z'], whose eigenvalues are mu_i = L lambda_i + alpha. With

    P = I - Q diag(1 - mu_{k+1} / mu_i) Q',   Q the top k eigenvectors of Sigma,

the largest eigenvalue of P (L Sigma + alpha) falls from mu_1 to mu = mu_{k+1}, and so the gradient of all rows
takes steps of 1 / mu. The gradient of m random rows takes steps of

    eta(m) = m / (beta + (m - 1) mu),   beta = L max z'P z + alpha,

which grow with m up to the critical batch m* = beta / mu: below it, a pass learns as much with large batches
as with small ones.

Q comes from sampled rows, and mu_{k+1} of those rows says little about others: where directions are many, or rows
heavy-tailed, the true mu was 9 to 22 times as large. So mu and beta are measured on sampled rows that Q has not seen,
and as many directions are kept as keep mu within 8 times mu_{k+1}. What no sampled row shows is bounded: directions
that carry less than about 1 / s of the weight may hide, and have a curvature of at most beta / s.
Number code: NumPy in and out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cholesky, eigh, eigvalsh, qr, solve_triangular
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from ..randomness import variates

#: Rows of the sample, and its dense bytes at most. Two thirds give the directions, a third tests them.
SAMPLE_ROWS = 9_000
SAMPLE_BYTES = 256 * 2**20
#: Up to this size eigenvalues are computed exactly, in float64.
_DENSE_UP_TO = 1_536
_SPARE = 64
_LANCZOS_ABOVE = 32
#: Directions below this share of the largest curvature are left alone: rounding of gradients would grow in them.
_FLOOR = {"float32": 1e-5, "float64": 1e-6}
#: The true curvature over that of the next direction, at most: top directions learn slower by as much. On eleven
#: data sets 8 was better after one pass and after twenty than 2 or 4.
_MOST_RATIO = 8.0
#: The next number of directions that is tried is this share of the last.
_FEWER = 0.67
#: Rows that were not sampled may be so much longer than those that were, in the metric of P.
_ROW_SAFETY = 2.0


@dataclass(frozen=True)
class Preconditioner:
    """P and the two numbers that set the steps; rows may carry a constant last column for the intercept.

    Attributes
    ----------
    directions : array of shape (P, k), Q
    shrink : array of shape (k,), 1 - mu_{k+1} / mu_i
    curvature : float, mu
    row_bound : float, beta
    certain : bool, whether no row can exceed beta, sampled or not
    smoothness : float, L
    unseen : float, the share of beta that directions no sampled row shows may have of curvature
    """

    directions: np.ndarray
    shrink: np.ndarray
    curvature: float
    row_bound: float
    certain: bool = True
    smoothness: float = 1.0
    unseen: float = 0.0

    def __call__(self, G: np.ndarray) -> np.ndarray:
        """P G, shape (P, C) as G."""
        if not len(self.shrink):
            return G
        Q = self.directions
        along = self.shrink[:, None] * (Q.T @ G.astype(Q.dtype))
        return G - (Q @ along.astype(Q.dtype)).astype(G.dtype)

    def lengths(self, Z: Any, constant: float = 0.0) -> np.ndarray:
        """z'P z of rows Z, shape (b, P) or, with a constant last column that Z lacks, (b, P - 1); shape (b,)."""
        Q = self.directions
        squares = Z.multiply(Z).sum(axis=1) if sp.issparse(Z) else np.einsum("ij,ij->i", Z, Z)
        out = np.asarray(squares, dtype=np.float64).ravel() + constant**2
        if len(self.shrink):
            along = np.asarray(Z @ Q[:-1]) + constant * Q[-1] if constant else np.asarray(Z @ Q)
            out -= (along.astype(np.float64) ** 2) @ self.shrink
        return np.maximum(out, 0.0)

    def bounded(self, length: float) -> Preconditioner:
        """The same where a row has turned up with this z'P z."""
        more = self.smoothness * length - self.row_bound
        if not more > 0:
            return self
        bound, curvature = self.row_bound + more, self.curvature + self.unseen * more
        return replace(self, row_bound=float(bound), curvature=float(curvature))

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


@dataclass(frozen=True)
class SampledRows:
    """The rows that a preconditioner is made of, each times the square root of its weight (mean weight 1).

    fitted : rows that give the directions, shape (s, P)
    held : other rows that test them, shape (r, P); None where there are too few, or `fitted` is all rows
    whole : whether `fitted` is all rows there are
    longest : a bound of z'z over all rows, if one is known
    draws : independent draws among the s + r rows; None is all of them
    """

    fitted: np.ndarray
    held: np.ndarray | None = None
    whole: bool = False
    longest: float = np.inf
    draws: float | None = None

    @property
    def count(self) -> int:
        return len(self.fitted) + (0 if self.held is None else len(self.held))

    @property
    def telling(self) -> np.ndarray:
        """The rows that steps are measured on."""
        return self.fitted if self.held is None else self.held

    @property
    def unseen(self) -> float:
        """The share of the weight that rows may have which are like no sampled one."""
        if self.whole:
            return 0.0
        return 1.0 / (self.count if self.draws is None else self.draws)


def make_preconditioner(
    sample: SampledRows,
    smoothness: float,
    alpha: float,
    *,
    most: int | None = None,
    chosen: bool = True,
    seed: int = 0,
) -> Preconditioner:
    """The preconditioner of sampled rows.

    Parameters
    ----------
    sample : SampledRows
    smoothness, alpha : L and the l2 penalty
    most : directions at most, 0 for none; None is P
    chosen : keep as many as the rows can tell, else `most` as far as the spectrum goes
    """
    Z = sample.fitted
    most = Z.shape[1] if most is None else min(most, Z.shape[1])
    values, Q = top_directions(Z, most, seed)
    mu = smoothness * values + alpha
    floor = max(_FLOOR[Z.dtype.name] * float(mu[0]), np.finfo(np.float64).tiny * 1e9)
    k = min(most, Q.shape[1], int(np.count_nonzero(mu > floor)))
    tried = _Tried(sample, smoothness, alpha, seed)
    while True:
        target = max(float(mu[k]) if k < len(mu) else alpha, floor)
        made = tried(np.ascontiguousarray(Q[:, :k]), 1.0 - target / mu[:k], target)
        if not chosen or sample.whole or k <= 1 or made.curvature <= _MOST_RATIO * target:
            return made
        k = max(1, int(_FEWER * k))


@dataclass(frozen=True)
class _Tried:
    """Measures a preconditioner on rows that its directions do not come from, or on all rows there are."""

    sample: SampledRows
    smoothness: float
    alpha: float
    seed: int

    def __call__(self, Q: np.ndarray, shrink: np.ndarray, target: float) -> Preconditioner:
        sample, rows = self.sample, self.sample.telling
        P = Preconditioner(Q, shrink, 1.0, 1.0)
        length, curvature = float(P.lengths(rows).max()), target
        if not sample.whole:
            length = min(_ROW_SAFETY * length, sample.longest)
            curved = deflated_curvature(rows, P, self.seed) + sample.unseen * length
            curvature = max(self.smoothness * curved + self.alpha, target)
        bound = max(self.smoothness * length + self.alpha, curvature)
        certain = sample.whole or length >= sample.longest
        return Preconditioner(
            Q, shrink, float(curvature), float(bound), certain, self.smoothness, sample.unseen
        )


def deflated_curvature(rows: np.ndarray, P: Preconditioner, seed: int) -> float:
    """The largest eigenvalue of P^(1/2) (rows' rows / r) P^(1/2), to about one percent (Lanczos)."""
    r, width = rows.shape
    Q = P.directions
    root = (1.0 - np.sqrt(1.0 - P.shrink)).astype(Q.dtype)

    def half(x: np.ndarray) -> np.ndarray:
        return x - Q @ (root * (Q.T @ x)) if len(root) else x

    def apply(x: np.ndarray) -> np.ndarray:
        y = half(np.asarray(x, dtype=rows.dtype).ravel())
        return half(rows.T @ (rows @ y)).astype(np.float64) / r

    if width <= _LANCZOS_ABOVE:
        matrix = np.stack([apply(e) for e in np.eye(width)])
        return max(float(eigvalsh((matrix + matrix.T) / 2)[-1]), 0.0)
    if not np.abs(rows).max() > 0:
        return 0.0
    first = variates(seed, "sgd curvature", 0, width, "normal")
    operator = LinearOperator((width, width), matvec=apply, dtype=np.float64)
    try:
        return max(float(eigsh(operator, k=1, tol=1e-2, v0=first, return_eigenvectors=False)[0]), 0.0)
    except ArpackNoConvergence as stopped:
        return max([0.0, *stopped.eigenvalues]) or float(np.einsum("ij,ij->", rows, rows) / r)


def top_directions(Z: np.ndarray, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of Z'Z / s, descending, and the eigenvectors of the first of them, shape (P, at most k).

    There is one eigenvalue more than vectors unless the vectors are all: what the rows have no variance along, has 0.
    Exact for small matrices; else by subspace iteration with two steps, orthonormalised between them
    (Halko, Martinsson & Tropp 2011, Algorithm 4.4), and the Rayleigh-Ritz values of the subspace.
    """
    s, P = Z.shape
    if min(s, P) <= _DENSE_UP_TO:
        values, Q = _exact_directions(Z.astype(np.float64))
        return values[: k + 1], np.ascontiguousarray(Q[:, :k], dtype=Z.dtype)
    width = min(k + _SPARE, s, P)
    omega = variates(seed, "sgd sketch", 0, s * width, "normal").reshape(s, width).astype(Z.dtype)
    Q = orthonormal(Z.T @ omega, passes=2)
    Q = orthonormal(Z.T @ (Z @ Q), passes=2)
    Q = orthonormal(Z.T @ (Z @ Q))
    B = Z @ Q
    values, V = eigh((B.T @ B).astype(np.float64) / s, check_finite=False)
    values, V = np.maximum(values[::-1], 0.0), V[:, ::-1]
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
    """All eigenvalues that rounding can tell from 0, a 0 more where there are fewer than P, and their vectors."""
    s, P = Z.shape
    values, vectors = eigh(Z.T @ Z / s if s >= P else Z @ Z.T / s, check_finite=False)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    if s >= P:
        return values, vectors
    keep = values > values[0] * s * np.finfo(np.float64).eps
    Q = Z.T @ (vectors[:, keep] / np.sqrt(values[keep] * s))
    return np.concatenate([values[keep], [0.0]]), Q


def weighted_rows(
    Z: np.ndarray, weight: np.ndarray | None, constant: float, mean_weight: float | None = None
) -> np.ndarray:
    """Dense rows with the constant column (none for 0), times the root of their weight over its mean.

    mean_weight : of all rows; None takes that of these
    """
    rows = Z.toarray() if sp.issparse(Z) else np.asarray(Z)  # type: ignore[attr-defined]
    out = np.empty((rows.shape[0], rows.shape[1] + (constant != 0)), dtype=rows.dtype)
    out[:, : rows.shape[1]] = rows
    if constant:
        out[:, -1] = constant
    if weight is not None:
        out *= np.sqrt(weight / (weight.mean() if mean_weight is None else mean_weight)).astype(out.dtype)[
            :, None
        ]
    return out
