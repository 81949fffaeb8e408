"""Ridge regression without a Gram matrix: block conjugate gradients, for all targets and alphas in the same passes.

The system is (S + alpha I) u = c, S the (centred) covariance of the features, see normal_equations.py. One pass multiplies S
by a block of directions V. S V is kept for all directions so far, so that for each alpha the best solution in the space
they span (of least error in the norm of S + alpha I) follows from a small dense system, for all targets at once. These
are block conjugate gradients with full orthogonalisation, which rounding in float32 passes does not spoil. The space
starts with the dominant directions of the features, from the range finder. The rest of the problem is well conditioned,
so a handful of passes is enough. Memory is O(D l); a Gram matrix takes D^2 / 2 numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh

from ..errors import InputError
from ..linalg import svd
from ..maps import working_dtype
from ..maps.base import arrays_fingerprint
from ..subspace.sketches import add_product
from ..targets import Targets
from .gram import FoldRule
from .normal_equations import Solution

_TILE_BYTES = 64 * 2**20
ALL_ROWS = FoldRule()
#: New directions are dropped whose singular value, after orthogonalisation, is below this share of the largest.
_INDEPENDENT = 1e-3


@dataclass(frozen=True)
class _RowsReduction:
    """Base of the reductions: cuts blocks into tiles of rows, by set (with a holdout, 0 is held out and 1 is the rest).

    CSR rows stay CSR. The rows of their tiles are chosen by the bytes of the products, those of dense rows by their own.
    """

    n_features: int
    targets: Targets
    rule: FoldRule = ALL_ROWS

    def tiles(
        self, first_row: int, Z: Any, y: Any, more: Sequence[Any]
    ) -> Iterator[tuple[int, Any, np.ndarray, np.ndarray]]:
        """(set, rows of Z, encoded targets, weights), weights float64; `more` are the weights and folds that are given."""
        if Z.shape[1] != self.n_features:
            raise InputError(f"blocks must have {self.n_features} columns, got {Z.shape[1]}")
        step = max(1, _TILE_BYTES // (8 * (self.products_width if sp.issparse(Z) else self.n_features)))
        for a in range(0, len(y), step):
            tile = slice(a, min(a + step, len(y)))
            rows = Z[tile].astype(working_dtype(Z.dtype), copy=False)  # of whole numbers products would be, too
            if not np.isfinite(rows.sum(dtype=np.float64)):
                raise InputError(
                    f"features must be finite, but rows {first_row + a} on are not; impute or drop such rows"
                )
            own = [np.asarray(array[tile]) for array in more]
            sets, weight = self.rule.of_block(first_row + a, tile.stop - a, own)
            Y, weight = self.targets.encode(np.asarray(y[tile]), weight)
            weight = np.ones(len(Y)) if weight is None else weight
            for s in range(self.sets):
                chosen = sets == s
                if chosen.all():
                    yield s, rows, Y, weight
                elif chosen.any():
                    yield s, rows[chosen], Y[chosen], weight[chosen]

    @property
    def sets(self) -> int:
        return 2 if self.rule.holdout else 1

    @property
    def products_width(self) -> int:
        """Columns of the matrix that the rows are multiplied by."""
        return self.targets.width + 1

    @property
    def scratch_per_row(self) -> float:
        return 8.0 * self.n_features

    @property
    def csr_scratch_bytes(self) -> int:
        return 3 * _TILE_BYTES

    def combine(self, left: Any, right: Any) -> Any:
        left += right
        return left


@dataclass(frozen=True)
class RightReduction(_RowsReduction):
    """Right-hand sides: state (sets, D + 2, C + 1), rows Z'w[Y, 1], then sums of w[Y, 1] and of w[Y^2, |z|^2]."""

    @property
    def nbytes(self) -> int:
        return 8 * self.sets * (self.n_features + 2) * (self.targets.width + 1)

    @property
    def flops_per_row(self) -> float:
        return 2.0 * self.n_features * (self.targets.width + 1)

    def initial(self) -> np.ndarray:
        return np.zeros((self.sets, self.n_features + 2, self.targets.width + 1))

    def update(self, state: np.ndarray, first_row: int, Z: Any, y: Any, *more: Any) -> np.ndarray:
        for s, rows, Y, weight in self.tiles(first_row, Z, y, more):
            right = np.column_stack([Y, np.ones(len(Y))]) * weight[:, None]
            add_product(rows, right.astype(rows.dtype), state[s, :-2])
            state[s, -2] += right.sum(axis=0)
            state[s, -1, :-1] += weight @ Y**2
            squares = (
                rows.multiply(rows).sum(axis=1) if sp.issparse(rows) else np.einsum("ij,ij->i", rows, rows)
            )
            state[s, -1, -1] += weight @ np.asarray(squares, dtype=np.float64).ravel()
        return state


@dataclass(frozen=True)
class NormalReduction(_RowsReduction):
    """Z'w(Z V) of each set: state (sets, D, m), float64."""

    width: int = 0
    directions: np.ndarray | None = field(default=None, compare=False, repr=False)

    @property
    def products_width(self) -> int:
        return self.width

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return {} if self.directions is None else {"directions": self.directions}

    def with_arrays(self, arrays: Mapping[str, np.ndarray]) -> NormalReduction:
        return replace(self, directions=arrays["directions"])

    def without_arrays(self) -> NormalReduction:
        return replace(self, directions=None)

    @property
    def nbytes(self) -> int:
        return 8 * self.sets * self.n_features * self.width

    @property
    def flops_per_row(self) -> float:
        return 4.0 * self.n_features * self.width

    def initial(self) -> np.ndarray:
        return np.zeros((self.sets, self.n_features, self.width))

    def update(self, state: np.ndarray, first_row: int, Z: Any, y: Any, *more: Any) -> np.ndarray:
        assert self.directions is not None
        for s, rows, _, weight in self.tiles(first_row, Z, y, more):
            G = rows @ self.directions.astype(rows.dtype, copy=False)
            add_product(rows, G * weight[:, None].astype(rows.dtype), state[s])
        return state

    def __dask_tokenize__(self) -> tuple[object, ...]:
        return (
            type(self).__name__,
            self.n_features,
            self.targets,
            self.rule,
            self.width,
            arrays_fingerprint(self.arrays),
        )


class System:
    """The linear system of all rows, or of all but the held-out ones: right-hand side, means, weight.

    eps : machine epsilon of the features. A right-hand side that is rounding after centring, as of constant features, is
        set to 0
    """

    def __init__(self, sums: np.ndarray, fit_intercept: bool, eps: float = 0.0):
        self.weight = sums[-2, -1]
        if not self.weight > 0:
            raise InputError("sample_weight must not be zero everywhere, nor on all rows that are not held out")
        self.centred = fit_intercept
        self.mean = sums[:-2, -1] / self.weight
        self.target_mean = sums[-2, :-1] / self.weight
        mean = float(np.linalg.norm(self.mean)) if fit_intercept else 0.0
        #: Mean |z|^2 of the features, about their mean where there is an intercept.
        moment = float(sums[-1, -1] / self.weight)
        self.energy = max(0.0, moment - mean**2)
        #: Whether the mean is so large beside the spread that products lose half of the digits of the spread.
        self.far = bool(mean**2 * np.sqrt(eps) > self.energy)
        #: Alphas below this size are lost in rounding, as for the Gram matrix.
        self.rounding_floor = float(
            max(eps / 2 * moment / np.sqrt(len(self.mean)), len(self.mean) * np.finfo(float).eps * self.energy)
        )
        self.right = sums[:-2, :-1] / self.weight
        if fit_intercept:
            self.right = self.right - np.outer(self.mean, self.target_mean)
            rounding = eps * np.linalg.norm(self.mean) * np.sqrt(sums[-1, :-1] / self.weight)
            self.right[:, np.linalg.norm(self.right, axis=0) <= rounding] = 0.0

    def covariance_times(self, V: np.ndarray, product: np.ndarray) -> np.ndarray:
        """S V from Z'wZ V."""
        out = product / self.weight
        if self.centred:
            out -= np.outer(self.mean, self.mean @ V)
        return out

    def solution(self, alpha: float, u: np.ndarray) -> Solution:
        """The weights u and their intercept as a Solution."""
        zero = np.zeros_like(self.target_mean)
        return Solution(alpha, u, self.target_mean - self.mean @ u if self.centred else zero)


@dataclass
class Space:
    """The space spanned so far: orthonormal directions V (D, k), and their products Z'wZ V for each set, (sets, D, k)."""

    V: np.ndarray
    products: np.ndarray

    def extend(self, V: np.ndarray, products: np.ndarray) -> None:
        self.V = np.concatenate([self.V, V], axis=1)
        self.products = np.concatenate([self.products, products], axis=2)

    def independent(self, R: np.ndarray) -> np.ndarray:
        """An orthonormal basis of the part of span R outside the space, shape (D, at most the columns of R)."""
        norms = np.linalg.norm(R, axis=0)
        R = R[:, norms > 0] / norms[norms > 0]
        for _ in range(2):
            R = R - self.V @ (self.V.T @ R)
        if R.shape[1] == 0:
            return R
        U, s, _ = svd(R)
        U = U[:, s > max(s[0] * _INDEPENDENT, 1e-10)]
        U = U - self.V @ (self.V.T @ U)
        return np.linalg.qr(U)[0]

    def projected(self, covariance: np.ndarray, old: np.ndarray | None = None) -> np.ndarray:
        """V' S V, shape (k, k), from S V; `old` is its known leading block, of the directions before the last ones."""
        k = 0 if old is None else len(old)
        T = np.empty((self.V.shape[1],) * 2)
        if old is not None:
            T[:k, :k] = old
        T[:, k:] = self.V.T @ covariance[:, k:]
        T[k:, :k] = T[:k, k:].T
        return T

    def solve(
        self, system: System, covariance: np.ndarray, T: np.ndarray, alphas: Sequence[float]
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Solutions (D, C) and residuals c - (S + alpha I) u for each alpha, from S V and T = V' S V."""
        values, vectors = eigh((T + T.T) / 2, check_finite=False)
        rotated = vectors.T @ (self.V.T @ system.right)
        floor = max(values[-1], 0.0) * len(values) * np.finfo(np.float64).eps
        solutions, residuals = [], []
        for alpha in alphas:
            inverse = np.where(values > floor, 1.0 / (np.maximum(values, floor) + alpha + (floor == 0)), 0.0)
            z = vectors @ (inverse[:, None] * rotated)
            u = self.V @ z
            solutions.append(u)
            residuals.append(system.right - covariance @ z - alpha * u)
        return solutions, residuals


class Projection:
    """S V and V' S V of one system, extended whenever the space has grown.

    first_set : 0 for the system of all rows, 1 for that without the held-out rows
    """

    def __init__(self, space: Space, system: System, first_set: int):
        self.space, self.system, self.first_set = space, system, first_set
        self.covariance = np.empty((len(space.V), 0))
        self.T: np.ndarray | None = None

    def solve(self, alphas: Sequence[float]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The best solution (D, C) in the present space, and its residual, for each alpha."""
        known = self.covariance.shape[1]
        products = self.space.products[self.first_set :, :, known:].sum(axis=0)
        added = self.system.covariance_times(self.space.V[:, known:], products)
        self.covariance = np.concatenate([self.covariance, added], axis=1)
        self.T = self.space.projected(self.covariance, self.T)
        return self.space.solve(self.system, self.covariance, self.T, alphas)


def relative_residuals(system: System, residuals: Sequence[np.ndarray]) -> np.ndarray:
    """|r| / |c| of each alpha and target, shape (alphas, C); 0 where c is 0."""
    size = np.linalg.norm(system.right, axis=0)
    norms = np.stack([np.linalg.norm(r, axis=0) for r in residuals])
    return np.divide(norms, size, out=np.zeros_like(norms), where=size > 0)


def prediction_bounds(
    system: System, alphas: Sequence[float], solutions: Sequence[np.ndarray], residuals: Sequence[np.ndarray]
) -> np.ndarray:
    """Bound on |Z (u - u*)| / |Z u| over the rows, of each alpha and target, shape (alphas, C).

    The error of the weights is (S + alpha I)^-1 r, and sqrt(s) / (s + alpha) is at most 1 / (2 sqrt(alpha)). Alphas
    below the rounding of float32 passes, 1e-7 times a mean eigenvalue, are replaced by that value in the bound.
    """
    out = []
    for alpha, u, r in zip(alphas, solutions, residuals, strict=True):
        applied = system.right - r - alpha * u
        size = np.sqrt(np.maximum((u * applied).sum(axis=0), 0.0))
        # |S| >= u'Su / u'u for any u.
        scale = (size**2).sum() / max((u * u).sum(), np.finfo(float).tiny)
        bound = np.linalg.norm(r, axis=0) / (2.0 * np.sqrt(max(alpha, 1e-7 * scale, np.finfo(float).tiny)))
        out.append(np.divide(bound, size, out=np.zeros_like(bound), where=size > 0))
    return np.stack(out)


def held_out_error(solution: Solution, z: np.ndarray, sums: np.ndarray, counts: np.ndarray) -> float:
    """Weighted sum of squared errors over the held-out rows.

    z : Z_h'w Z_h u, shape (D, C), over the held-out rows Z_h; sums : set 0 of the state of RightReduction; counts : factor
        on each target
    """
    u, b = solution.weights, solution.intercept
    weight, targets, squares = sums[-2, -1], sums[-2, :-1], sums[-1, :-1]
    quadratic = (u * z).sum(axis=0) - 2 * (u * sums[:-2, :-1]).sum(axis=0) + squares
    shifted = weight * b**2 + 2 * b * (u.T @ sums[:-2, -1] - targets)
    return float(((quadratic + shifted) * counts).sum())
