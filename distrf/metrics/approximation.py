"""The error of a kernel approximation, out of core."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import eigvalsh
from scipy.sparse.linalg import LinearOperator, eigsh

from ..errors import InputError
from ..execution.labelled import plain_rows
from ..execution.sampling import sampled_rows, take_rows
from ..features.base import FeatureEstimator
from ..maps import FeatureMap, check_rows, working_dtype
from ..randomness import variates
from ..typing import ArrayLike

NORMS = ("frobenius", "spectral", "mse")
#: Bytes of a tile of rows of the kernel matrix, and of a column block of features. Both matrices are kept whole while
#: they take no more than the last of these numbers.
_TILE_BYTES = 32 * 2**20
_COLUMN_BYTES = 32 * 2**20
_WHOLE_BYTES = 256 * 2**20


@dataclass(frozen=True)
class KernelError:
    """Error of Z Z' as an approximation of the kernel matrix K of sampled rows; None where not asked for.

    Attributes
    ----------
    n_rows : rows compared
    n_components : D
    frobenius : |K - Z Z'|_F / |K|_F
    spectral : |K - Z Z'|_2 / |K|_2
    mse : mean of the squared entries of K - Z Z'
    """

    n_rows: int
    n_components: int
    frobenius: float | None = None
    spectral: float | None = None
    mse: float | None = None


def kernel_error(
    map_: FeatureEstimator | FeatureMap,
    X: ArrayLike,
    *,
    n_rows: int = 2000,
    seed: int = 0,
    norms: Sequence[str] = NORMS,
) -> KernelError:
    """Measure how well a map approximates its kernel, on a seeded sample of rows.

    Memory is bounded whatever n, n_rows and D are: kernel and approximation are compared tile by tile of rows,
    and features are made a column block at a time. The spectral norm of more than 4,096 rows makes both anew
    for each of some dozens of products, so it takes that much longer.

    Parameters
    ----------
    map_ : fitted feature estimator or FeatureMap
        A fitted feature estimator or its `map_`, which must know its kernel (`exact_kernel`).
    X : {array, CSR matrix, Dask array} of shape (n, d)
        Rows. Of a Dask array only sampled blocks are read.
    n_rows : int, default=2000
        Rows to sample; all rows where X has fewer. Above 64,000 rows of X, neighbours are sampled eight at
        a time.
    seed : int, default=0
        Seed of the sample.
    norms : sequence of str, default=("frobenius", "spectral", "mse")
        Which errors to compute.

    Returns
    -------
    KernelError
        The errors. Features are computed in the precision of the rows, the kernel in float64.

    Raises
    ------
    InputError
        The map is not fitted, a norm is unknown, `n_rows` is below 1, or the kernel matrix is zero.

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import RandomFourierFeatures
    >>> from distrf.metrics import kernel_error
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> features = RandomFourierFeatures(length_scale=2.0, n_components=4096, random_state=7).fit(X)
    >>> kernel_error(features, X).frobenius < 0.05
    True
    """
    map_ = getattr(map_, "map_", map_)
    if not isinstance(map_, FeatureMap):
        raise InputError(
            f"kernel_error takes a fitted feature estimator or its map_, got {type(map_).__name__}; call fit first"
        )
    unknown = [norm for norm in norms if norm not in NORMS]
    if unknown or not norms:
        raise InputError(f"norms are one or more of {', '.join(NORMS)}, got {tuple(norms)!r}")
    if n_rows < 1:
        raise InputError(f"n_rows must be at least 1, got {n_rows}")
    X = plain_rows(X)
    rows = take_rows(X, sampled_rows(X.shape[0], n_rows, seed, "kernel-error"))
    rows = check_rows(rows, map_.n_features_in)
    pair = _KernelPair(map_, rows.astype(working_dtype(rows.dtype), copy=False))
    squares, kernel_squares = pair.squares()
    if not kernel_squares > 0 and set(norms) != {"mse"}:
        raise InputError(
            f"the kernel matrix of the sampled rows is zero (of {len(rows)} rows, such as rows of zeros under a "
            "homogeneous kernel), and no error is relative to it; ask for norms=('mse',), or give other rows"
        )
    return KernelError(
        n_rows=len(rows),
        n_components=map_.n_components,
        frobenius=float(np.sqrt(squares / kernel_squares)) if "frobenius" in norms else None,
        spectral=pair.spectral_ratio(seed) if "spectral" in norms and squares > 0 else _zero(norms),
        mse=squares / len(rows) ** 2 if "mse" in norms else None,
    )


def _zero(norms: Sequence[str]) -> float | None:
    return 0.0 if "spectral" in norms else None


class _KernelPair:
    """The matrices K and E = K - Z Z' of some rows, whole where they are small, else one tile of rows after another."""

    def __init__(self, map_: FeatureMap, rows: np.ndarray):
        self.map_, self.rows = map_, rows
        n = len(rows)
        self._whole: tuple[np.ndarray, np.ndarray] | None = None
        if 16 * n * n <= _WHOLE_BYTES:
            self._whole = self._tile(0, n)
        self.height = max(1, _TILE_BYTES // (8 * n))

    def _columns(self) -> Iterator[tuple[int, int]]:
        # Whole random blocks of the dense projection (256 frequencies, 512 features) where memory allows.
        width = min(8192, max(2, _COLUMN_BYTES // (self.rows.dtype.itemsize * len(self.rows)) // 2 * 2))
        width = width // 512 * 512 or width
        for start in range(0, self.map_.n_components, width):
            yield start, min(start + width, self.map_.n_components)

    def _tile(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows first:last of K and of E."""
        K = self.map_.exact_kernel(self.rows[first:last], self.rows)
        E = K.copy()
        whole = (first, last) == (0, len(self.rows))
        for a, b in self._columns():
            Z = self.map_.columns(self.rows, a, b)
            # Z @ Z.T of one array is a symmetric rank-k update in NumPy: half the arithmetic.
            E -= Z @ Z.T if whole else Z[first:last] @ Z.T
        return K, E

    def _tiles(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        if self._whole is not None:
            yield self._whole
            return
        for first in range(0, len(self.rows), self.height):
            yield self._tile(first, min(first + self.height, len(self.rows)))

    def squares(self) -> tuple[float, float]:
        """Squared Frobenius norms of E and of K."""
        total = kernel_total = 0.0
        for K, E in self._tiles():
            total += float(np.vdot(E, E))
            kernel_total += float(np.vdot(K, K))
        return total, kernel_total

    def _kernel_times(self, v: np.ndarray) -> np.ndarray:
        if self._whole is not None:
            return self._whole[0] @ v
        out = np.empty(len(self.rows))
        for first in range(0, len(self.rows), self.height):
            tile = slice(first, first + self.height)
            out[tile] = self.map_.exact_kernel(self.rows[tile], self.rows) @ v
        return out

    def _error_times(self, v: np.ndarray) -> np.ndarray:
        if self._whole is not None:
            return self._whole[1] @ v
        out = self._kernel_times(v)
        low = v.astype(self.rows.dtype)
        for a, b in self._columns():
            Z = self.map_.columns(self.rows, a, b)
            out -= Z @ (Z.T @ low)
        return out

    def spectral_ratio(self, seed: int) -> float:
        """|E|_2 / |K|_2; Lanczos from a seeded vector, exact below 200 rows."""
        n = len(self.rows)
        if n < 200:
            assert self._whole is not None
            K, E = self._whole
            return float(abs(eigvalsh(E)).max() / abs(eigvalsh(K)).max())
        start = variates(seed, "kernel-error/start", 0, n, "normal")
        norm = partial(_largest, n=n, start=start)
        return norm(self._error_times) / norm(self._kernel_times)


def _largest(product: Any, n: int, start: np.ndarray) -> float:
    """Largest absolute eigenvalue of a symmetric operator, to about 1e-4."""
    operator = LinearOperator((n, n), matvec=lambda v: product(v.ravel()), dtype=np.float64)
    return float(abs(eigsh(operator, k=1, which="LM", v0=start, tol=1e-4, return_eigenvectors=False)[0]))
