"""Random Fourier features (Rahimi & Recht 2007, Algorithm 1), in both phase conventions; and the precision that phases need.

The size of a row x is the root mean square of its phases w.x in radians: |x| / l for a kernel of length scale l. A phase is rounded by eps
times the size, about 1e-3 radians at size 1e4 in float32 and at 5e12 in float64. Beyond 2^23 turns in float32, and 2^52 in float64, every
phase is a whole number of turns, so that all rows have the features of the origin.

So the phases of a tile with a row of size above `SINGLE` are made in float64, and rows of size above `DOUBLE` are refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

import numpy as np

from ..errors import InputError, RowError
from ..execution.planned import Costs, PlannedRows
from ..kernels.base import as_float64, get_kernel, parameter_rule
from ..kernels.shift_invariant import KERNELS, Kernel
from ..parameters import NONE, estimator, instance, name_in, number, one_of, param, whole
from ..projections import PROJECTIONS, Projection, choose_projection, make_projection
from ..projections.base import COSINE_COST
from ..randomness import uniforms
from ..typing import ArrayLike, Rows
from .base import SeededMap, for_product, row_tiles, times_diagonal, times_root
from .estimator import DrawnFeatures, FeatureEstimator
from .rules import LENGTH_SCALES, METRIC, WEIGHTS, resolve_length_scale, rule_costs
from .scaling import MomentsReduction, covariance

PHASE = one_of("paired", "offset")
#: Length scales for which weights over the length scale stay within float32, and within float64.
_SINGLE_SCALES, _DOUBLE_SCALES = number(1e-30, 1e30), number(1e-290, 1e290)

#: Size of a row beyond which its phases are made in float64, and beyond which it is refused.
SINGLE, DOUBLE = 1e4, 1e15


@np.errstate(over="ignore")  # of squares: such rows are refused, or measured again in float64
def phase_dtype(tile: Rows, first: int, factors: np.ndarray | float, dtype: np.dtype) -> np.dtype:
    """The dtype in which to make the phases of a tile: `dtype`, or float64 where a row is too large for float32.

    Parameters
    ----------
    tile : array or CSR matrix of shape (n, d), float32 or float64
    first : row of the block that row 0 of the tile is
    factors : array of shape (d,) or one number, such that |factors * x| is the size of a row x
    dtype : float32 or float64, for rows that are not large

    Raises
    ------
    RowError : a row is too large for float64
    """
    scaled, factor = (tile, factors) if np.ndim(factors) == 0 else (times_diagonal(tile, factors), 1.0)
    values = scaled.reshape(-1) if isinstance(scaled, np.ndarray) else scaled.data
    if factor * factor * float(values.dot(values)) <= SINGLE**2:  # the sum of all squared sizes
        return dtype
    scaled = scaled.astype(np.float64) * factor
    squares = np.square(scaled) if isinstance(scaled, np.ndarray) else scaled.power(2)
    sizes = np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
    if (sizes <= SINGLE).all():
        return dtype
    beyond = np.flatnonzero(~(sizes <= DOUBLE))
    if beyond.size:
        row = int(beyond[0])
        raise RowError(
            f"row {{row}} of the block is {sizes[row]:.2g} length scales from the origin, and beyond {DOUBLE:.0e} float64 "
            "tells no two rows apart; scale or centre the columns, drop constant ones, or leave out what stands for missing values",
            first + row,
        )
    return np.dtype(np.float64)


def phase_tile(
    X: Rows, start: int, stop: int, factors: np.ndarray | float, dtype: np.dtype, keep_csr: bool
) -> Rows:
    """Rows start:stop of a block in the dtype of their phases, ready for a product.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    start, stop : the rows wanted
    factors, dtype : see `phase_dtype`
    keep_csr : whether CSR rows of few entries stay CSR; all others become a C-contiguous array
    """
    tile = X[start:stop].astype(dtype, copy=False)
    return for_product(tile, phase_dtype(tile, start, factors, dtype), keep_csr)


@dataclass(frozen=True)
class FourierMap(SeededMap):
    """Features z(x) with E[z(x) . z(y)] = k(x, y) for a shift-invariant kernel k.

    With the phase "paired", columns 2 j and 2 j + 1 are sqrt(2 / D) cos(w_j . x) and sqrt(2 / D) sin(w_j . x),
    for D / 2 frequencies w_j. With "offset", column j is sqrt(2 / D) cos(w_j . x + b_j) for D frequencies, each
    b_j uniform on a turn; so is the last column of an odd number of paired ones. A frequency is a row of the projection
    divided by the length scale.

    Parameters
    ----------
    n_features_in : d
    n_components : D
    kernel : Kernel, shift-invariant
    length_scale : l, the unit of the distances between rows
    projection : str, key in `distrf.projections.PROJECTIONS`
    phase : "paired" or "offset"
    seed : seed of all draws
    order : q, the columns that a frequency looks at; None is all
    root : array A of shape (d, d), or its diagonal, by which rows are multiplied first: distances are those in the metric
        A A'. None is the identity
    column_weights : array of shape (d,), in proportion to which the columns of a frequency of order q are drawn; None draws
        all alike

    References
    ----------
    Rahimi & Recht, "Random features for large-scale kernel machines", NIPS 2007, Algorithm 1.
    """

    kernel: Kernel
    length_scale: float = field(metadata={"rule": _DOUBLE_SCALES})
    projection: str = field(metadata={"rule": name_in(PROJECTIONS)})
    phase: str = field(metadata={"rule": PHASE})
    seed: int
    order: int | None = None
    root: np.ndarray | None = field(default=None, compare=False, repr=False)
    column_weights: np.ndarray | None = field(default=None, compare=False, repr=False)

    kind: ClassVar[str] = "fourier"

    @property
    def longest(self) -> float:
        """1 for cosines with their sines, whose squares sum to 1; 2 where there are cosines alone."""
        return 1.0 if self.phase == "paired" and self.n_components % 2 == 0 else 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.projector  # noqa: B018  checks the combination of kernel and projection

    @property
    def n_frequencies(self) -> int:
        """Number of frequencies: D / 2, rounded up, for the phase "paired", D for "offset"."""
        return count_frequencies(self.phase, self.n_components)

    @property
    def _per_frequency(self) -> int:
        """Columns of the features that belong to one frequency."""
        return 2 if self.phase == "paired" else 1

    @property
    def projector(self) -> Projection:
        """The projection that draws the frequencies, for length scale 1."""
        d, m = self.n_features_in, self.n_frequencies
        weights = None if self.column_weights is None else tuple(self.column_weights.tolist())
        few = None if self.order is None else (self.order, weights)
        return make_projection(self.projection, self.kernel, d, m, self.seed, few)

    def frequencies(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Frequencies start:stop as rows of a matrix of shape (stop - start, d), in radians, float64."""
        W = self.projector.weights(start, stop) / self.length_scale
        return W if self.root is None else times_root(W, self.root.T)

    def offsets(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Offsets b of frequencies start:stop, for cosines without sines, shape (stop - start,), in turns, float64."""
        stop = self.n_frequencies if stop is None else stop
        offsets = self.projector.offsets(start, stop)
        return uniforms(self.seed, "offset", 0, stop - start, start) if offsets is None else offsets

    def columns(self, X: Rows, start: int, stop: int) -> Rows:
        per = self._per_frequency  # a cosine is made with its sine
        first, last = start - start % per, min(stop + stop % per, self.n_components)
        return np.ascontiguousarray(super().columns(X, first, last)[:, start - first : stop - first])

    def fill_columns(self, X: Rows, out: np.ndarray, start: int, stop: int) -> None:
        from ..compiled.cosine import cos_offset, cos_sin  # late, with Numba

        # Weights without a mean make phases of millions of turns: their fractions need float64.
        single = not self.kernel.heavy_tailed and _SINGLE_SCALES.allows(self.length_scale)
        dtype = out.dtype if single else np.dtype(np.float64)
        projector, per, root = self.projector, self._per_frequency, self.root
        scale, amplitude = 1.0 / (2.0 * np.pi * self.length_scale), np.sqrt(2.0 / self.n_components)
        paired = self.n_components // 2 if per == 2 else 0  # the first frequencies have a sine
        keep_csr = projector.accepts_sparse and (root is None or root.ndim < 2)
        alone = max(start // per, paired)  # the first of those that have none
        # Drawn for all tiles at once: that takes longer than the cosines of a tile.
        offsets = cache(self.offsets(alone, max(-(-stop // per), alone)).astype)
        cast, sizes = None if root is None else cache(root.astype), self._column_sizes
        for begin, end in projector.weight_blocks(start // per, -(-stop // per), dtype.itemsize):
            for a, b in row_tiles(X.shape[0], projector.rows_per_tile):
                tile = phase_tile(X, a, b, sizes, dtype, keep_csr)
                kind = tile.dtype
                if cast is not None:
                    tile = times_root(tile, cast(kind))
                for first, phases in projector.phases(tile, begin, end, scale, kind):
                    both = min(max(paired - first, 0), phases.shape[1])
                    if both:
                        cos_sin(
                            np.ascontiguousarray(phases[:, :both]), out[a:b], first * per - start, amplitude
                        )
                    if both < phases.shape[1]:
                        others, at = np.ascontiguousarray(phases[:, both:]), first + both - alone
                        added = offsets(kind)[at : at + others.shape[1]]
                        cos_offset(others, added, out[a:b], (first + both) * per - start, amplitude)

    @property
    def _column_sizes(self) -> np.ndarray | float:
        """Factors f for which |f * x| is the size of a row x, see `phase_dtype`."""
        if self.root is None:
            return 1.0 / self.length_scale
        if self.root.ndim == 1:
            return np.abs(self.root) / self.length_scale
        # A is the root. The size is that of the products x_i A_ij before they are summed: they may cancel
        # in the sum, but their rounding does not.
        return np.sqrt((self.root**2).sum(axis=1)) / self.length_scale

    def exact_kernel(self, X: Rows, Y: Rows | None = None) -> np.ndarray:
        if self.order is not None:
            raise InputError(
                f"order={self.order} is a mean of too many kernels to be computed; compare without order"
            )
        if self.root is not None:
            X = times_root(as_float64(X), self.root)
            Y = None if Y is None else times_root(as_float64(Y), self.root)
        return super().exact_kernel(X, Y)

    def work(self) -> tuple[float, float]:
        operations, parameters = self.projector.work()
        if self.root is not None:
            operations += 2.0 * self.root.size
        return operations + COSINE_COST * self.n_components, parameters

    def held_bytes(self, itemsize: int) -> int:
        # The root, and a copy in the dtype of the rows.
        return 0 if self.root is None else (8 + itemsize) * self.root.size

    def _sum_of_weights(self) -> float:
        """Sum of the first 64 coordinates of the first frequency and the last 64 of the last, at l = 1; of all of few columns."""
        m, most = self.n_frequencies, 64 if self.order is None else self.n_features_in
        head, tail = self.projector.weights(0, 1)[0, :most], self.projector.weights(m - 1, m)[0, -most:]
        return float(head.sum() + tail.sum())


def count_frequencies(phase: str, n_components: int) -> int:
    """The number of frequencies behind D features: D / 2 for the phase "paired", rounded up, D for "offset"."""
    return n_components if phase == "offset" else -(-n_components // 2)


KERNEL = name_in(KERNELS) | instance(Kernel, "a distrf.kernels.shift_invariant.Kernel")
PROJECTION = one_of("auto") | name_in(PROJECTIONS)
GAMMA = number(above=0) | NONE
NU = parameter_rule("nu")


@estimator
class RandomFourierFeatures(DrawnFeatures):
    """Random Fourier features of a shift-invariant kernel.

    The inner product of two feature rows estimates the kernel of the two input rows. The fitted map is a seed:
    no weight is stored or sent. The same seed gives the same weights everywhere, and features that are equal up to
    rounding for NumPy and Dask input and in every chunking.

    Parameters
    ----------
    kernel : {"gaussian", "laplacian", "cauchy", "matern"} or Kernel, default="gaussian"
        With v = x - y and l the length scale: "gaussian" is exp(-|v|^2 / (2 l^2)), "laplacian" exp(-|v|_1 /
        l), "cauchy" prod_j 1 / (1 + (v_j / l)^2), "matern" the Matern kernel of |v| / l. Or an object of
        `distrf.kernels.shift_invariant`.
    length_scale : float, sequence of float or {"knn", "knn-cnm", "median", "scale"}, default="knn"
        l, in the units of the columns, one for each column, or a rule that sets it from at most 1,000 sampled rows:
        "knn" is the mean distance to the 50th neighbour, "knn-cnm" half of that, "median" the median distance
        between rows, "scale" scikit-learn's rule.
    gamma : float or None, default=None
        scikit-learn's parameter, which sets l: 1 / (2 l^2) for the gaussian kernel, 1 / l for the
        laplacian. With it, leave `length_scale` at its default.
    n_components : int, default=1024
        D, the number of features. An odd D adds one cosine with an offset to paired ones.
    projection : str, default="auto"
        How the weights are drawn: "dense" (independent), "circulant", "alternating_circulant", "fastfood",
        "structured_orthogonal", "orthogonal", "quasi", or another name in `distrf.projections.PROJECTIONS`. "auto" is
        "structured_orthogonal" for isotropic kernels where that is faster than explicit weights, from about 54 columns
        on; else "quasi", or "dense" for no more frequencies than columns and above 21,200 columns.
        "structured_orthogonal" warns below 33 columns.
    phase : {"paired", "offset"}, default="paired"
        "paired" takes cosine and sine of D/2 frequencies: less variance for near rows, and exactly
        shift-invariant. "offset" takes cos(w.x + b) of D frequencies.
    metric : {"whiten"}, matrix of shape (d, d) or None, default=None
        M, in which distances are measured: |v|^2 is v'Mv. Rows are multiplied by S R^(1/2) first, where S holds the
        roots of the diagonal of M = S R S. "whiten" is the inverse covariance, for columns of unlike units; one pass
        learns it. The map keeps the matrix.
    order : int or None, default=None
        q, the columns that each frequency looks at. The kernel is then the mean of kernels of q columns, whose
        differences are multiplied by sqrt(d / q). Give columns like spreads first. None is all.
    column_weights : sequence of float or None, default=None
        Columns of a frequency of order q are drawn in proportion to these. None draws all alike.
    nu : {0.5, 1.5, 2.5}, default=1.5
        Smoothness of the Matern kernel. Read by that kernel alone.

    Attributes
    ----------
    map_ : FourierMap
        The frozen map. It pickles to a few hundred bytes unless it has a metric, of which `map_.root` is the root.
    length_scale_ : float
        l, in the units of the columns, or of the metric; 1 where each column has its own.
    projection_ : str
        Name of the projection in use.
    n_features_in_ : int
        Number of input columns, d.

    References
    ----------
    .. [1] A. Rahimi and B. Recht, "Random Features for Large-Scale Kernel Machines", NIPS 2007, Algorithm 1.
    .. [2] C. Feng, Q. Hu and S. Liao, "Random Feature Mapping with Signed Circulant Matrix Projection", IJCAI
           2015.

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import RandomFourierFeatures
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> Z = RandomFourierFeatures(length_scale=2.0, n_components=512, random_state=7).fit_transform(X)
    >>> Z.shape
    (100, 512)
    """

    kernel: str | Kernel = param(default="gaussian", rule=KERNEL, kw_only=False)
    length_scale: float | str | ArrayLike = param(default="knn", rule=LENGTH_SCALES)
    gamma: float | None = param(default=None, rule=GAMMA)
    n_components: int = param(default=1024, rule=whole())
    projection: str = param(default="auto", rule=PROJECTION)
    phase: str = param(default="paired", rule=PHASE)
    metric: str | ArrayLike | None = param(default=None, rule=METRIC)
    order: int | None = param(default=None, rule=whole() | NONE)
    column_weights: ArrayLike | None = param(default=None, rule=WEIGHTS)
    nu: float = param(default=1.5, rule=NU)

    def trial_map(self, D: int, seed: int) -> FeatureEstimator:
        return kernel_trial(self, D, seed) or super().trial_map(D, seed)

    def _make_map(self, d: int, seed: int, X: Any = None) -> FourierMap:
        """The map for d columns; None in place of rows is a plan."""
        kernel = get_kernel(self.kernel, Kernel, vars(self))
        scale: Any = self.length_scale
        root, order = None, None if self.order is None else int(self.order)
        weights = None if self.column_weights is None else np.asarray(self.column_weights, dtype=np.float64)
        if weights is not None and order is None:
            raise InputError("column_weights draw the columns of frequencies of few columns; give order=, too")
        for name, shape in (("metric", (d, d)), ("length_scale", (d,)), ("column_weights", (d,))):
            value = getattr(self, name)
            if np.ndim(value) and np.shape(value) != shape:
                raise InputError(f"{name} must have shape {shape}, as X has {d} columns, got {np.shape(value)}")
        if np.ndim(scale):
            if self.metric is not None:
                raise InputError(
                    "length scales of columns are a metric; give metric= or length_scale=, not both"
                )
            scale, root = 1.0, 1.0 / np.asarray(scale, dtype=np.float64)
        if self.metric is not None:
            whitens = isinstance(self.metric, str)
            M = np.eye(d) if X is None else covariance(X) if whitens else np.asarray(self.metric, np.float64)
            root = root_of(M, whitens)
        scale = resolve_length_scale(kernel, scale, self.gamma, X, seed, root)
        D, m = int(self.n_components), count_frequencies(self.phase, int(self.n_components))
        projection = choose_projection(self.projection, kernel, d, m, order)
        if X is not None:
            self.length_scale_, self.projection_ = scale, projection
        return FourierMap(d, D, kernel, scale, projection, self.phase, seed, order, root, weights)

    def planned_costs(self, rows: PlannedRows, planned: Any) -> Costs:
        costs = rule_costs(rows, self.kernel, self.length_scale, self.gamma)
        if isinstance(self.metric, str):
            costs += rows.costs_of(MomentsReduction(rows.width, products=True))
        if self.projection != "auto":
            return costs
        note = f"projection 'auto' takes {planned.projection!r} for {planned.n_features_in} columns"
        return costs + Costs(notes=(note,))


def root_of(M: np.ndarray, inverse: bool = False) -> np.ndarray:
    """A matrix A with A A' = M, or the inverse of M on all directions in which it is not 0.

    A = S R^(1/2), where S is the diagonal matrix with M = S R S and a diagonal of ones in R; the inverse is S^(-1) R^(-1/2).
    Directions are dropped if R is 0 along them. M^(-1/2) would instead drop columns that are small beside a column in large
    units, as a covariance has them.

    Parameters
    ----------
    M : array of shape (d, d), symmetric
    inverse : whether M is a covariance, whose inverse is the metric

    Returns
    -------
    Array of shape (d, d).

    Raises
    ------
    InputError : M has no positive entry on its diagonal, or negative eigenvalues
    """
    sizes = np.sqrt(np.maximum(np.diag(M), 0.0))
    varies = sizes > 0
    if not varies.any():
        what = "metric='whiten' needs columns that vary, got a covariance" if inverse else "metric is a matrix"
        raise InputError(f"{what} of zeros (n_samples = 1, or equal rows); drop metric")
    inverted = np.where(varies, 1.0 / np.where(varies, sizes, 1.0), 0.0)
    values, vectors = np.linalg.eigh(inverted[:, None] * M * inverted)
    if values[0] < -1e-8 * values[-1]:
        raise InputError(
            f"metric must have no negative eigenvalues, got {values[0]:.3g} beside {values[-1]:.3g}"
        )
    varied = values > values[-1] * len(values) * np.finfo(float).eps
    units, power = (inverted, -0.5) if inverse else (sizes, 0.5)
    return units[:, None] * ((vectors[:, varied] * values[varied] ** power) @ vectors[:, varied].T)


def kernel_trial(map_: FeatureEstimator, D: int, seed: int) -> RandomFourierFeatures | None:
    """D Fourier features of the kernel of a map, for trials in its place; None if the kernel is not shift-invariant."""
    known = map_.get_params(deep=False)
    if not KERNEL.allows(known["kernel"]):
        return None
    parts = {
        name: known[name]
        for name in ("kernel", "nu", "metric", "order", "column_weights", "length_scale", "gamma")
        if name in known
    }
    return RandomFourierFeatures(**parts, n_components=D, random_state=seed)
