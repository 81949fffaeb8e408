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

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh, lu, qr
from scipy.sparse.linalg import svds

from ..randomness import variates

#: Most rows of the sample, and most bytes of it. Two thirds give the directions, a third tests them.
SAMPLE_ROWS = 9_000
SAMPLE_BYTES = 256 * 2**20
#: Directions of the preconditioner where features are many: as accurate as 1,000 on MNIST with D = 4,096
#: (96.65 and 96.63 % after one pass), in a third of the time. Few features get all directions.
_MOST_DIRECTIONS = 512
_MANY_FEATURES = 1_536
#: Up to this size eigenvalues are computed exactly, in float64.
_DENSE_UP_TO = 1_536
_SPARE = 64
_LANCZOS_ABOVE = 32
#: Directions whose curvature is below this share of the largest are not preconditioned: steps would amplify rounding.
_FLOOR = {"float32": 1e-5, "float64": 1e-6}
#: The largest allowed ratio of mu, as measured, to mu_{k+1}: the top directions learn slower by that factor. If it is
#: exceeded, fewer directions are tried. On eleven data sets 8 was better than 2 or 4, after one pass and after twenty.
_MOST_RATIO = 8.0
#: Each try keeps this share of the directions of the one before.
_FEWER = 0.67
#: Rows outside the sample are assumed to have z'P z up to this many times the largest one of the sample.
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
    smoothness : float, L
    unseen : float, bound on the curvature along directions that no sampled row has, as a share of beta
    """

    directions: np.ndarray
    shrink: np.ndarray
    curvature: float
    row_bound: float
    smoothness: float = 1.0
    unseen: float = 0.0

    def __call__(self, G: np.ndarray) -> np.ndarray:
        """P G, shape (P, C) as G."""
        if not len(self.shrink):
            return G
        Q = self.directions
        along = self.shrink[:, None] * (Q.T @ G.astype(Q.dtype))
        return G - (Q @ along.astype(Q.dtype)).astype(G.dtype)

    def lengths(self, Z: np.ndarray) -> np.ndarray:
        """z'P z of rows Z, shape (b, P); shape (b,)."""
        squares = np.einsum("ij,ij->i", Z, Z).astype(np.float64)
        return np.maximum(squares - ((Z @ self.directions).astype(np.float64) ** 2) @ self.shrink, 0.0)

    def bounded(self, length: float) -> Preconditioner:
        """The preconditioner with its bounds raised, if need be, to hold for a row with z'P z = `length`."""
        more = self.smoothness * length - self.row_bound
        if not more > 0:
            return self
        bound, curvature = self.row_bound + more, self.curvature + self.unseen * more
        return replace(self, row_bound=float(bound), curvature=float(curvature))

    @property
    def critical_rows(self) -> float:
        """m*, the critical batch: with larger batches a pass learns less."""
        return self.row_bound / self.curvature

    def step(self, rows: int | None) -> float:
        """eta(m); None is the gradient of all rows."""
        if rows is None:
            return 1.0 / self.curvature
        return rows / (self.row_bound + (rows - 1) * self.curvature)


def sample_size(n_rows: int, n_features: int) -> int:
    """Rows to sample for a spectrum."""
    return int(min(n_rows, SAMPLE_ROWS, max(256, SAMPLE_BYTES // (4 * n_features))))


def most_directions(requested: int | None, rows: int, width: int) -> int:
    """The most directions that the preconditioner of sampled rows of that width may have; None: as many as they support."""
    if requested is not None:
        return min(int(requested), width)
    return min(width, _MOST_DIRECTIONS) if min(rows, width) > _MANY_FEATURES else min(rows, width)


@dataclass(frozen=True)
class SampledRows:
    """The rows from which a preconditioner is made, each times the square root of its weight (mean weight 1).

    fitted : rows that give the directions, shape (s, P)
    held : other rows that test them, shape (r, P); None if there are too few, or `fitted` is all rows
    whole : whether `fitted` is all rows there are
    longest : an upper bound of z'z over all rows; infinity if none is known
    unseen : about the largest share of the weight that rows unlike all sampled ones may have
    """

    fitted: np.ndarray
    held: np.ndarray | None = None
    whole: bool = False
    longest: float = np.inf
    unseen: float = 0.0


def split_rows(
    rows: np.ndarray, together: int = 1, whole: bool = False, longest: float = np.inf
) -> SampledRows:
    """Two thirds of the sampled rows give the directions, the other third tests them; `together` neighbours are one draw."""
    held, unseen = (np.arange(len(rows)) // together) % 3 == 2, together / len(rows)
    if whole or len(rows) < 3:
        return SampledRows(rows, None, whole, longest, 0.0 if whole else unseen)
    return SampledRows(rows[~held], rows[held], whole, longest, unseen)


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
    most : the most directions, 0 for none; None is P
    chosen : whether fewer are kept if the test rows require it; else `most`, as far as the spectrum goes
    seed : of the random start of large decompositions
    """
    Z = sample.fitted
    most = Z.shape[1] if most is None else min(most, Z.shape[1])
    values, Q = top_directions(Z, most, seed)
    mu = smoothness * values + alpha
    floor = max(_FLOOR[Z.dtype.name] * float(mu[0]), np.finfo(np.float64).tiny * 1e9)
    k = min(most, Q.shape[1], int(np.count_nonzero(mu > floor)))
    while True:
        target = max(float(mu[k]) if k < len(mu) else alpha, floor)
        made = Preconditioner(
            np.ascontiguousarray(Q[:, :k]), 1.0 - target / mu[:k], target, target, smoothness, sample.unseen
        )
        made = _measured(made, sample, alpha, seed)
        if not chosen or sample.whole or k <= 1 or made.curvature <= _MOST_RATIO * target:
            return made
        k = max(1, int(_FEWER * k))


def _measured(P: Preconditioner, sample: SampledRows, alpha: float, seed: int) -> Preconditioner:
    """P with its curvature and bound on rows that its directions do not come from, or on all rows there are."""
    rows, curvature = sample.fitted if sample.held is None else sample.held, P.curvature
    length = float(P.lengths(rows).max())
    if not sample.whole:
        length = min(_ROW_SAFETY * length, sample.longest)
        curved = deflated_curvature(rows, P, seed) + sample.unseen * length
        curvature = float(max(P.smoothness * curved + alpha, curvature))
    return replace(P, curvature=curvature, row_bound=float(max(P.smoothness * length + alpha, curvature)))


def deflated_curvature(rows: np.ndarray, P: Preconditioner, seed: int) -> float:
    """The largest eigenvalue of P^(1/2) (rows' rows / r) P^(1/2), to about one percent."""
    root = (1.0 - np.sqrt(1.0 - P.shrink)).astype(rows.dtype)
    return largest_eigenvalue(rows - (rows @ P.directions * root) @ P.directions.T, seed)


def largest_eigenvalue(Z: np.ndarray, seed: int) -> float:
    """That of Z'Z / s, to about one percent (Lanczos)."""
    if min(Z.shape) <= _LANCZOS_ABOVE or not Z.any():
        return float(np.linalg.norm(Z.astype(np.float64), 2)) ** 2 / len(Z)
    first = variates(seed, "sgd curvature", 0, min(Z.shape), "normal")
    return float(svds(Z, 1, tol=1e-2, v0=first, return_singular_vectors=False)[0]) ** 2 / len(Z)


def top_directions(Z: np.ndarray, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of Z'Z / s, descending, and the eigenvectors of the first of them, shape (P, at most k).

    There is one more eigenvalue than vectors, unless there are P vectors. It is 0 along directions without variance.
    Exact for small matrices; else by subspace iteration with two steps, normalised between them
    (Halko, Martinsson & Tropp 2011, Algorithm 4.4), and the Rayleigh-Ritz values of the subspace.
    """
    s, P = Z.shape
    if min(s, P) <= _DENSE_UP_TO:
        values, Q = _exact_directions(Z.astype(np.float64))
        return values[: k + 1], np.ascontiguousarray(Q[:, :k], dtype=Z.dtype)
    width = min(k + _SPARE, s, P)
    omega = variates(seed, "sgd sketch", 0, s * width, "normal").reshape(s, width).astype(Z.dtype)
    Q = Z.T @ omega
    for _ in range(2):  # LU factors span the same columns in a third of the time of QR
        Q = Z.T @ (Z @ lu(Q, permute_l=True, check_finite=False)[0])
    Q = qr(Q, mode="economic", check_finite=False)[0]
    B = (Z @ Q).astype(np.float64)
    values, V = eigh(B.T @ B / s, check_finite=False)
    values, V = np.maximum(values[::-1], 0.0), V[:, ::-1]
    return values[: k + 1], np.ascontiguousarray(Q @ V[:, :k].astype(Z.dtype))


def _exact_directions(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All eigenvalues above rounding, followed by a 0 if there are fewer than P, and their eigenvectors."""
    s, P = Z.shape
    values, vectors = eigh(Z.T @ Z / s if s >= P else Z @ Z.T / s, check_finite=False)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    if s >= P:
        vectors[~Z.any(axis=0)] = 0.0  # rounding, that follows where arrays lie in memory
        return values, vectors
    keep = values > values[0] * s * np.finfo(np.float64).eps
    Q = Z.T @ (vectors[:, keep] / np.sqrt(values[keep] * s))
    return np.concatenate([values[keep], [0.0]]), Q


def weighted_rows(
    Z: np.ndarray, weight: np.ndarray | None, constant: float, mean_weight: float | None = None
) -> np.ndarray:
    """Dense rows with the constant column (none for 0), each times the root of its weight over the mean weight.

    mean_weight : that of all rows; None takes the mean of `weight`
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
