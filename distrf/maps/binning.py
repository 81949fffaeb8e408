"""Random binning features (Rahimi & Recht 2007, Section 4): CSR rows with one entry for each random grid."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from ..errors import InputError
from ..execution.planned import Costs, PlannedRows
from ..kernels.base import get_kernel
from ..kernels.shift_invariant import Kernel
from ..parameters import estimator, learned, number, param, whole
from ..projections.base import cut_at_multiples, weight_cache
from ..randomness import raw_words, uniforms
from ..typing import Rows
from .base import FeatureMap, SeededMap, check_rows, row_tiles, stored_entries, working_dtype
from .estimator import DrawnFeatures
from .fourier import GAMMA, KERNEL, phase_dtype
from .rules import LENGTH_SCALE, resolve_length_scale, rule_costs

#: Bytes of the pitches, shifts and hash words of the grids that are held at once.
_GRID_BYTES = 2**24
#: Rows of a dense block that are cast to float64 at once, and hashes of rows that are held at once.
_TILE, _HASHES = 512, 2**20


def check_pitch(kernel: Kernel) -> None:
    """Raise InputError, with the reason, for a kernel that random binning cannot serve."""
    if kernel.why_not_binned is not None:
        able = [repr(name) for name, k in kernel.registry.items() if k.why_not_binned is None]
        raise InputError(
            "random binning needs a product of one-dimensional kernels, convex and decreasing on (0, inf), whose "
            f"pitch has the density p(u) = u k''(u) (Rahimi & Recht 2007); got kernel={kernel.name!r}: "
            f"{kernel.why_not_binned}; use kernel={' or '.join(able)}, or RandomFourierFeatures"
        )


@dataclass(frozen=True)
class BinningMap(SeededMap):
    """Features z(x) with one entry for each of P random grids: 1 / sqrt(P) in the column of the bin that x falls into.

    E[z(x) . z(y)] = k(x, y): two rows share a bin of a random grid with probability k(x, y).

    Grid p owns about D / P neighbouring columns. A hash of the bin chooses one of them, and
    a sign. Two bins of a grid that share a column by chance add s s' / P to the estimate, where s and s' are
    their signs. Signs of different bins are pairwise independent given the columns (`distrf.compiled.binning`),
    so E[s s'] = 0, and the estimate is exactly unbiased for every number of columns. Sharing costs, over all P
    grids, a variance of (1 - k) / D. (One set of columns shared by all grids would cost up to (1 + k^2) / D,
    and signs that are all 1 a bias of (1 - k) P / D.) Where D < P, neighbouring grids share a column, with the
    same mean.

    Parameters
    ----------
    n_features_in : d
    n_components : D
    kernel : Kernel, shift-invariant, with a law of pitches
    length_scale : l, the unit of the distances between rows
    n_grids : P
    seed : seed of all draws

    References
    ----------
    Rahimi & Recht, "Random features for large-scale kernel machines", NIPS 2007, Section 4.
    """

    kernel: Kernel
    length_scale: float = field(metadata={"rule": number(above=0)})
    n_grids: int = field(metadata={"rule": whole()})
    seed: int

    kind: ClassVar[str] = "binning"
    sparse_output: ClassVar[bool] = True
    whole_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_pitch(self.kernel)

    @property
    def entries_per_row(self) -> int:
        return 2 * self.n_grids  # a value and a column each

    def grids(self, start: int = 0, stop: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The grids start:stop.

        Returns
        -------
        pitches : array of shape (stop - start, d), float64: u, the widths of the bins
        shifts : array of shape (stop - start, d), float64: s; x falls into bin floor(x / u + s)
        """
        d, numbers = self.n_features_in, range(start, self.n_grids if stop is None else stop)
        pitches = [self.kernel.pitches(self.seed, p, d) for p in numbers]
        shifts = [uniforms(self.seed, "binning shift", p, d) for p in numbers]
        return self.length_scale * np.stack(pitches), np.stack(shifts)

    def _words(self, start: int, stop: int) -> np.ndarray:
        """Words of the hashes of grids start:stop, shape (stop - start, d + 1), int64."""
        count = self.n_features_in + 1
        words = [raw_words(self.seed, "binning hash", p, count) for p in range(start, stop)]
        return np.stack(words).view(np.int64)

    def _cached_grids(self, start: int, stop: int) -> tuple[np.ndarray, ...]:
        """1 / pitches, shifts and words of grids start:stop, from the cache of weights."""
        key = (self.kernel, self.length_scale, self.n_features_in, self.seed, start, stop)
        return (
            weight_cache.get(("binning rates", *key), lambda: 1.0 / self.grids(start, stop)[0]),
            weight_cache.get(("binning shifts", *key), lambda: self.grids(start, stop)[1]),
            weight_cache.get(("binning words", *key), lambda: self._words(start, stop)),
        )

    def hashes(self, X: Rows) -> np.ndarray:
        """Hash of the bin of each row in each of the grids.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d) that `check_rows` has passed

        Returns
        -------
        Array of shape (n, P), uint64.
        """
        from ..compiled.binning import bin_hashes  # late, with Numba

        out = np.empty((X.shape[0], self.n_grids), dtype=np.uint64)
        for first, last in cut_at_multiples(0, self.n_grids, max(1, _GRID_BYTES // (24 * self.n_features_in))):
            grids, hashes = self._cached_grids(first, last), np.empty((X.shape[0], last - first), np.uint64)
            for a, b in row_tiles(X.shape[0], _TILE):
                bin_hashes(*stored_entries(X[a:b], np.dtype(np.float64)), *grids, hashes[a:b])
            out[:, first:last] = hashes
        return out

    def columns(self, X: Rows, start: int, stop: int) -> sp.csr_array:
        from ..compiled.binning import signed_columns

        X = check_rows(X, self.n_features_in)
        dtype, double = working_dtype(X.dtype), np.dtype(np.float64)
        X = X if isinstance(X, np.ndarray) else sp.csr_array(X)
        for a, b in row_tiles(X.shape[0], _TILE):  # whose bins float64 tells apart
            phase_dtype(X[a:b].astype(double), a, 1.0 / self.length_scale, double)
        n, P, D = X.shape[0], self.n_grids, self.n_components
        index = np.int32 if n * P < 2**31 else np.int64
        columns, values = np.empty((n, P), dtype=index), np.empty((n, P), dtype=dtype)
        size = dtype.type(1.0 / np.sqrt(self.n_grids))
        bounds = np.arange(P + 1) * D // P  # the first column of each grid, and D
        widths, firsts = np.maximum(np.diff(bounds), 1), np.minimum(bounds[:-1], D - 1)
        # Where the grids do not fit the cache, all rows go through them at once: else every tile would make
        # them anew.
        fit = 24 * P * self.n_features_in <= weight_cache.max_bytes
        for a, b in row_tiles(n, max(_TILE, _HASHES // P) if fit else max(n, 1)):
            signed_columns(self.hashes(X[a:b]), firsts, widths, columns[a:b], values[a:b], size)
        out = sp.csr_array((values.ravel(), columns.ravel(), np.arange(n + 1, dtype=index) * P), shape=(n, D))
        if D < P:
            out.sum_duplicates()
        return out if (start, stop) == (0, D) else out[:, start:stop]

    def work(self) -> tuple[float, float]:
        entries = float(self.n_grids * self.n_features_in)
        return 20.0 * entries, 24.0 * entries

    def _sum_of_weights(self) -> float:
        """Sum over the first and the last grid: log pitches, shifts and hash words of up to 64 columns."""
        total = 0.0
        for p in (0, self.n_grids - 1):
            pitches, shifts = self.grids(p, p + 1)
            words = self._words(p, p + 1)[0, :64]
            total += float(np.log(pitches[0, -64:] / self.length_scale).sum() + shifts[0, -64:].sum())
            total += float(words.astype(np.float64).sum() * 2.0**-63)
        return total


@estimator
class RandomBinningFeatures(DrawnFeatures):
    """Random binning features of the Laplacian kernel: sparse rows with one entry for each random grid.

    Two rows share an entry of a grid when they fall into the same bin, which happens with probability k(x, y).

    Parameters
    ----------
    kernel : {"laplacian"} or Kernel, default="laplacian"
        "laplacian" is exp(-|x - y|_1 / l). Kernels whose factors are not convex (gaussian, cauchy) and
        kernels that are no product (matern) are refused.
    length_scale : float or {"knn", "knn-cnm", "median", "scale"}, default="knn"
        l, in the units of the columns, or a rule that sets it from at most 1,000 sampled rows: "knn" is the
        mean distance to the 50th neighbour, "knn-cnm" half of that, "median" the median distance between
        rows, "scale" scikit-learn's rule.
    gamma : float or None, default=None
        scikit-learn's parameter 1 / l, which sets l. With it, leave `length_scale` at its default.
    n_grids : int, default=128
        P, the number of grids. A row has P entries, and the kernel estimate has variance k (1 - k) / P.
    n_components : int, default=4096
        D, the columns that bins are hashed into, about D / P for each grid. Hashing adds a variance of (1 -
        k) / D and no bias.

    Attributes
    ----------
    map_ : BinningMap
        The frozen map, a few hundred bytes.
    length_scale_ : float
        l, in the units of the columns.
    n_features_in_ : int
        Number of input columns, d.

    References
    ----------
    .. [1] A. Rahimi and B. Recht, "Random Features for Large-Scale Kernel Machines", NIPS 2007, Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import RandomBinningFeatures
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> Z = RandomBinningFeatures(n_grids=32, n_components=256, random_state=7).fit_transform(X)
    >>> Z.shape, Z.nnz
    ((100, 256), 3200)
    """

    map_: BinningMap = learned()

    joins_columns: ClassVar[bool] = False
    kernel: str | Kernel = param(default="laplacian", rule=KERNEL, kw_only=False)
    length_scale: float | str = param(default="knn", rule=LENGTH_SCALE)
    gamma: float | None = param(default=None, rule=GAMMA)
    n_grids: int = param(default=128, rule=whole())
    n_components: int = param(default=4096, rule=whole())

    def _make_map(self, d: int, seed: int, X: Any = None) -> BinningMap:
        kernel = get_kernel(self.kernel, Kernel, vars(self))
        check_pitch(kernel)
        scale = resolve_length_scale(kernel, self.length_scale, self.gamma, X, seed)
        if X is not None:
            self.length_scale_ = scale
        return BinningMap(d, self.n_components, kernel, scale, self.n_grids, seed)

    def planned_costs(self, rows: PlannedRows, planned: FeatureMap) -> Costs:
        return rule_costs(rows, self.kernel, self.length_scale, self.gamma)
