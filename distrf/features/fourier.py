"""Random Fourier features as a scikit-learn transformer."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..errors import InputError
from ..execution.planned import Costs, PlannedRows
from ..kernels.base import kernel_with, parameter_rule
from ..kernels.shift_invariant import KERNELS, Kernel
from ..maps import FourierMap
from ..maps.fourier import PHASES, count_frequencies
from ..parameters import (
    FLAG,
    JOBS,
    NONE,
    SEED,
    estimator,
    instance,
    name_in,
    number,
    one_of,
    param,
    whole,
)
from ..projections import PROJECTIONS, choose_projection
from ..randomness import draw_seed
from ..typing import ArrayLike, RandomState
from .base import FeatureEstimator, validate_rows
from .length_scale import LENGTH_SCALE, known_length_scale, resolve_length_scale, rule_costs
from .moments import covariance

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
    length_scale : float or {"knn", "knn-cnm", "median", "scale"}, default="knn"
        l, in the units of the columns, or a rule that sets it from at most 1,000 sampled rows: "knn" is the
        mean distance to the 50th neighbour, "knn-cnm" half of that, "median" the median distance between
        rows, "scale" scikit-learn's rule.
    gamma : float or None, default=None
        scikit-learn's parameter, which sets l: 1 / (2 l^2) for the gaussian kernel, 1 / l for the
        laplacian. With it, leave `length_scale` at its default.
    n_components : int, default=1024
        D, the number of features. Even for phase="paired".
    projection : str, default="auto"
        How the weights are drawn: "dense" (independent), "circulant", "alternating_circulant", "fastfood",
        "structured_orthogonal", "orthogonal", "quasi", or another name in `distrf.projections.PROJECTIONS`. "auto" is
        "structured_orthogonal" for isotropic kernels where that is faster than explicit weights, from about 54 columns
        on; else "quasi", or "dense" for no more frequencies than columns and above 21,200 columns.
        "structured_orthogonal" warns below 33 columns.
    phase : {"paired", "offset"}, default="paired"
        "paired" takes cosine and sine of D/2 frequencies: less variance for near rows, and exactly
        shift-invariant. "offset" takes cos(w.x + b) of D frequencies.
    whiten : bool, default=False
        Map rows to unit covariance first, for columns of unlike units: columns to unit variance, then the
        inverse square root of their correlation. One pass learns the matrix, and the map keeps it.
    nu : {0.5, 1.5, 2.5}, default=1.5
        Smoothness of the Matern kernel. Read by that kernel alone.
    n_jobs : int or None, default=-1
        Threads for NumPy and CSR input: -1 takes all cores, None takes one. Dask decides for Dask arrays.
    random_state : int, Generator, RandomState or None, default=None
        Seed of all draws. None draws one seed and keeps it in the map.

    Attributes
    ----------
    map_ : FourierMap
        The frozen map. It pickles to a few hundred bytes unless it whitens.
    length_scale_ : float
        l, in the units of the columns (of whitened ones with whiten=True).
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
    length_scale: float | str = param(default="knn", rule=LENGTH_SCALE)
    gamma: float | None = param(default=None, rule=GAMMA)
    n_components: int = param(default=1024, rule=whole())
    projection: str = param(default="auto", rule=PROJECTION)
    phase: str = param(default="paired", rule=one_of(*PHASES))
    whiten: bool = param(default=False, rule=FLAG)
    nu: float = param(default=1.5, rule=NU)
    n_jobs: int | None = param(default=-1, rule=JOBS)
    random_state: RandomState = param(default=None, rule=SEED)

    def trial_map(self, D: int, seed: int) -> FeatureEstimator:
        return kernel_trial(self, D, seed) or super().trial_map(D, seed)

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> RandomFourierFeatures:
        """Set the length scale (and whitening) from the rows, and freeze the map.

        A rule for the length scale reads at most 1,000 rows, a number reads none. Whitening takes one pass.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, d)
            Input rows. A Dask array is read block by block.
        y : ignored, default=None
            Not used; it is there so that the estimator fits into a Pipeline.

        Returns
        -------
        RandomFourierFeatures
            The fitted estimator itself.

        Raises
        ------
        InputError
            A parameter breaks a rule, the kernel does not suit the projection, X holds NaN or infinity, or
            all sampled rows are equal.
        """
        X = validate_rows(self, X, reset=True)
        kernel = kernel_with(self.kernel, vars(self), Kernel)
        seed = draw_seed(self.random_state)
        whitening = whitening_matrix(covariance(X)) if self.whiten else None
        self.length_scale_ = resolve_length_scale(kernel, self.length_scale, self.gamma, X, seed, whitening)
        m = count_frequencies(self.phase, int(self.n_components))
        self.projection_ = choose_projection(self.projection, kernel, X.shape[1], m)
        self.map_ = FourierMap(
            n_features_in=X.shape[1],
            n_components=int(self.n_components),
            kernel=kernel,
            length_scale=self.length_scale_,
            projection=self.projection_,
            phase=self.phase,
            seed=seed,
            whitening=whitening,
        )
        if caution := self.map_.projector.caution:
            warnings.warn(caution, stacklevel=2)
        return self

    def _planned_map(self, d: int) -> FourierMap:
        D = int(self.n_components)
        kernel = kernel_with(self.kernel, vars(self), Kernel)
        projection = choose_projection(self.projection, kernel, d, count_frequencies(self.phase, D))
        scale = known_length_scale(kernel, self.length_scale, self.gamma)
        return FourierMap(d, D, kernel, scale, projection, self.phase, 0)

    def planned_costs(self, rows: PlannedRows, planned: Any) -> Costs:
        costs = rule_costs(rows, self.kernel, self.length_scale, self.gamma)
        if self.projection != "auto":
            return costs
        note = f"projection 'auto' takes {planned.projection!r} for {planned.n_features_in} columns"
        return costs + Costs(notes=(note,))


def whitening_matrix(C: np.ndarray) -> np.ndarray:
    """The matrix A that whitens rows of covariance C: A' C A = 1 on all directions in which the rows vary.

    A = S^(-1) R^(-1/2), where S is the diagonal matrix of standard deviations and R the correlation matrix: C = S R S.
    Directions are dropped if R has no variance along them. C^(-1/2) would instead drop columns that are small beside a
    column in large units.

    Parameters
    ----------
    C : array of shape (d, d)

    Returns
    -------
    Array of shape (d, d).

    Raises
    ------
    InputError : no column varies
    """
    deviations = np.sqrt(np.diag(C))
    varies = deviations > 0
    if not varies.any():
        raise InputError(
            "whiten=True needs columns that vary, got a covariance of zeros (n_samples = 1, or equal rows); "
            "drop whiten"
        )
    inverse = np.where(varies, 1.0 / np.where(varies, deviations, 1.0), 0.0)
    values, vectors = np.linalg.eigh(inverse[:, None] * C * inverse)
    keep = values > values.max() * len(values) * np.finfo(float).eps
    return inverse[:, None] * ((vectors[:, keep] / np.sqrt(values[keep])) @ vectors[:, keep].T)


def kernel_trial(map_: FeatureEstimator, D: int, seed: int) -> RandomFourierFeatures | None:
    """D Fourier features of the kernel of a map, for trials in its place; None if the kernel is not shift-invariant."""
    known = map_.get_params(deep=False)
    if not KERNEL.allows(known["kernel"]):
        return None
    parts = {name: known[name] for name in ("kernel", "nu", "whiten", "length_scale", "gamma") if name in known}
    return RandomFourierFeatures(**parts, n_components=D, random_state=seed)
