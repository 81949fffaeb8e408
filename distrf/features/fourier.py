"""Random Fourier features as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InputError
from ..execution.planned import Costs, PlannedRows
from ..kernels.base import kernel_with, parameter_rule
from ..kernels.shift_invariant import KERNELS, Kernel
from ..maps.fourier import PHASES, FourierMap, count_frequencies
from ..parameters import JOBS, NONE, SEED, estimator, instance, name_in, number, one_of, param, whole
from ..projections import PROJECTIONS, choose_projection
from ..typing import ArrayLike, RandomState
from .base import FeatureEstimator
from .length_scale import LENGTH_SCALES, METRIC, WEIGHTS, resolve_length_scale, rule_costs
from .moments import CovarianceReduction, covariance

KERNEL = name_in(KERNELS) | instance(Kernel, "a distrf.kernels.shift_invariant.Kernel")
PROJECTION = one_of("auto", *PROJECTIONS)
GAMMA = number(above=0) | NONE
NU = parameter_rule("nu")


@estimator
class RandomFourierFeatures(FeatureEstimator):
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
    n_jobs : int or None, default=-1
        Threads for NumPy and CSR input: -1 takes all cores, None takes one. Dask decides for Dask arrays.
    random_state : int, Generator, RandomState or None, default=None
        Seed of all draws. None draws one seed and keeps it in the map.

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
    phase: str = param(default="paired", rule=one_of(*PHASES))
    metric: str | ArrayLike | None = param(default=None, rule=METRIC)
    order: int | None = param(default=None, rule=whole() | NONE)
    column_weights: ArrayLike | None = param(default=None, rule=WEIGHTS)
    nu: float = param(default=1.5, rule=NU)
    n_jobs: int | None = param(default=-1, rule=JOBS)
    random_state: RandomState = param(default=None, rule=SEED)

    def trial_map(self, D: int, seed: int) -> FeatureEstimator:
        return kernel_trial(self, D, seed) or super().trial_map(D, seed)

    def _make_map(self, d: int, seed: int, X: Any = None) -> FourierMap:
        """The map for d columns; None in place of rows is a plan."""
        kernel = kernel_with(self.kernel, vars(self), Kernel)
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
            costs += rows.costs_of(CovarianceReduction(rows.width, (0.0,) * rows.width))
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
