"""Nystroem features as a scikit-learn transformer."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..execution.planned import Costs, PlannedRows
from ..execution.sampling import sampled_rows, take_rows
from ..kernels import FAMILIES
from ..kernels.base import AnyKernel, kernel_with
from ..kernels.dot_product import DOT_PRODUCTS
from ..kernels.exact import lean
from ..kernels.semigroup import SEMIGROUP_KERNELS
from ..kernels.shift_invariant import Kernel
from ..maps import FeatureMap
from ..maps.nystroem import NystroemMap
from ..parameters import (
    JOBS,
    NONE,
    SEED,
    estimator,
    instance,
    learned,
    name_in,
    number,
    one_of,
    param,
    whole,
)
from ..randomness import raw_words, sample_indices
from ..typing import ArrayLike, RandomState
from .base import FeatureEstimator
from .fourier import GAMMA, NU, kernel_trial
from .laplace import SEMIGROUP_PARAMETER, resolve_semigroup_kernel
from .length_scale import LENGTH_SCALE, refuse_not_finite, resolve_gamma, resolve_length_scale, rule_costs

#: How landmarks are chosen.
LANDMARKS = ("uniform", "k-means++", "kmeans")
#: The rules but "uniform" choose from a sample: so many rows for each landmark, and so many bytes at most.
_PER_LANDMARK = 10
_SAMPLE_BYTES = 256 * 2**20


@estimator
class NystroemFeatures(FeatureEstimator):
    """Features of any kernel from its values at landmark rows.

    Unlike random features these learn from the data: where the spectrum of the kernel falls fast on them, fewer
    features reach the same error. A row costs one kernel value for each of the m landmarks and m D
    multiply-adds.

    Parameters
    ----------
    kernel : str or kernel object, default="gaussian"
        Any kernel by name: "gaussian", "laplacian", "cauchy", "matern"; "polynomial", "exponential";
        "exponential_semigroup", "reciprocal_semigroup". Or an object of
        `distrf.kernels.shift_invariant`, `distrf.kernels.dot_product` or `distrf.kernels.semigroup`.
    length_scale : float or {"knn", "knn-cnm", "median", "scale"}, default="knn"
        l of a shift-invariant kernel, in the units of the columns, or a rule, as in RandomFourierFeatures.
    gamma : float or None, default=None
        scikit-learn's parameter. It sets l of the gaussian and laplacian kernels. For dot-product kernels
        it is the factor on x.y, with None 1 / mean |x|^2.
    degree : int, default=2
        Power, at least 1. Read by the polynomial kernel alone.
    coef0 : float, default=1.0
        Weight of the lower powers, 0 leaves the highest alone. Read by the polynomial kernel alone.
    beta : float or {"median"}, default="median"
        Rate of the exponential semigroup kernel. "median" is 1 over the median, over sampled pairs, of
        sum_j sqrt(x_j + y_j): the median pair has k = 1/e.
    lam : float or {"median"}, default="median"
        Parameter of the reciprocal semigroup kernel. "median" solves sum_j log(1 + (x_j + y_j) / lam) = 1
        for the median sampled pair, which has k = 1/e.
    nu : {0.5, 1.5, 2.5}, default=1.5
        Smoothness of the Matern kernel. Read by that kernel alone.
    n_components : int, default=512
        m, the number of landmarks; fewer where X has fewer rows.
    landmarks : {"uniform", "k-means++", "kmeans"}, default="uniform"
        "uniform" draws distinct rows. The others choose within 10 m sampled rows, see
        `distrf.features.nystroem.choose_landmarks`.
    rank : int or None, default=None
        Most directions to keep; their number is D, the number of features. None keeps all above rounding.
    n_jobs : int or None, default=-1
        Threads for NumPy and CSR input: -1 takes all cores, None takes one. Dask decides for Dask arrays.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the sample of rows. None draws one seed.

    Attributes
    ----------
    map_ : NystroemMap
        The frozen map, with the arrays `landmarks` of shape (m, d) and `normalization` of shape (m, D).
    n_features_in_ : int
        Number of input columns, d.

    References
    ----------
    .. [1] C. Williams and M. Seeger, "Using the Nystroem Method to Speed Up Kernel Machines", NIPS 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import NystroemFeatures
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> NystroemFeatures(length_scale=2.0, n_components=20, random_state=7).fit_transform(X).shape
    (100, 20)
    """

    map_: NystroemMap = learned()

    kernel: str | AnyKernel = param(
        default="gaussian",
        rule=name_in(*(family.registry for family in FAMILIES)) | instance(AnyKernel, "a kernel object"),
        kw_only=False,
    )
    length_scale: float | str = param(default="knn", rule=LENGTH_SCALE)
    gamma: float | None = param(default=None, rule=GAMMA)
    degree: int = param(default=2, rule=whole())
    coef0: float = param(default=1.0, rule=number(0))
    beta: float | str = param(default="median", rule=SEMIGROUP_PARAMETER)
    lam: float | str = param(default="median", rule=SEMIGROUP_PARAMETER)
    nu: float = param(default=1.5, rule=NU)
    n_components: int = param(default=512, rule=whole())
    landmarks: str = param(default="uniform", rule=one_of(*LANDMARKS))
    rank: int | None = param(default=None, rule=whole() | NONE)
    n_jobs: int | None = param(default=-1, rule=JOBS)
    random_state: RandomState = param(default=None, rule=SEED)

    def trial_map(self, D: int, seed: int) -> FeatureEstimator:
        return kernel_trial(self, D, seed) or super().trial_map(D, seed)

    def _make_map(self, d: int, seed: int, X: Any = None) -> NystroemMap:
        m, rank = int(self.n_components), self.rank and int(self.rank)
        kernel, length_scale = self._resolve_kernel(X, seed)
        if X is None:
            return NystroemMap(d, m if rank is None else min(m, rank), kernel, length_scale, m)
        chosen = choose_landmarks(self.landmarks, X, m, seed)
        return NystroemMap.of_landmarks(kernel, length_scale, chosen, rank)

    def _resolve_kernel(self, X: Any, seed: int) -> tuple[AnyKernel, float]:
        """The kernel with its parameters, and the length scale (1 for families without one)."""
        name = self.kernel if isinstance(self.kernel, str) else None
        if name in SEMIGROUP_KERNELS:
            return resolve_semigroup_kernel(name, self.beta, self.lam, X, seed), 1.0
        known = dict(vars(self))
        if name in DOT_PRODUCTS:
            known["gamma"] = resolve_gamma("norm" if self.gamma is None else self.gamma, X, seed)
        kernel: AnyKernel = kernel_with(self.kernel, known)
        if not isinstance(kernel, Kernel):
            return kernel, 1.0
        return kernel, resolve_length_scale(kernel, self.length_scale, self.gamma, X, seed)

    def planned_costs(self, rows: PlannedRows, planned: FeatureMap) -> Costs:
        return rule_costs(rows, self.kernel, self.length_scale, self.gamma)


def choose_landmarks(rule: str, X: ArrayLike, m: int, seed: int) -> np.ndarray:
    """Choose landmark rows from the rows of X.

    Parameters
    ----------
    rule : "uniform" (distinct rows), or, within a sample of 10 m rows (fewer where they pass 256 MiB):
        "k-means++" (spread out by squared distance: scikit-learn's seeding), "kmeans" (centres of
        scikit-learn's MiniBatchKMeans: Zhang, Tsang & Kwok 2008)
    X : array, CSR matrix or Dask array of shape (n, d)
    m : int, number of landmarks
    seed : int, of all draws

    Returns
    -------
    Rows of shape (min(m, n), d), in the dtype of X.

    Raises
    ------
    InputError : an unknown rule, or sampled rows that are not finite
    """
    n, d = X.shape
    m = min(m, n)
    if rule == "uniform":
        rows = take_rows(X, sample_indices(seed, "landmarks", n, m))
    else:
        size = max(m, min(_PER_LANDMARK * m, _SAMPLE_BYTES // (8 * d)))
        # Sampling eight neighbours at a time reads fewer blocks, but may leave out seven of the m rows wanted.
        rows = take_rows(X, sampled_rows(n, size + 8, seed, "landmarks"))
    refuse_not_finite(rows)
    if rule == "uniform" or len(rows) <= m:
        return rows
    state = int(raw_words(seed, "landmarks", 1, 1)[0] >> 32)
    if rule == "k-means++":
        from sklearn.cluster import kmeans_plusplus  # on first use: cold workers start quickly

        return rows[np.sort(kmeans_plusplus(lean(rows), m, random_state=state)[1])]
    return _centres(rows, m, state)


def _centres(rows: np.ndarray, m: int, state: int) -> np.ndarray:
    from sklearn.cluster import MiniBatchKMeans

    batch = max(1024, min(len(rows), 4 * m))
    clusters = MiniBatchKMeans(
        m, n_init=1, max_iter=20, batch_size=batch, init_size=len(rows), random_state=state
    )
    with warnings.catch_warnings():
        # Fewer distinct rows than landmarks: the map drops the directions that repeat.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clusters.fit(lean(rows)).cluster_centers_.astype(rows.dtype, copy=False)
