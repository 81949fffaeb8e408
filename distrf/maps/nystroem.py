"""Nystroem features (Williams & Seeger 2001): the kernel between rows and m landmark rows L.

With K = k(L, L) = V diag(w) V', w in descending order,

    z(x) = k(x, L) V_r diag(w_r)^(-1/2),    z(x).z(y) = k(x, L) (K)_r^+ k(L, y).

In the space of the kernel's own features that is the projection onto the span of the landmarks; for rows within
that span the kernel is exact if r is the rank of K. Directions with w <= m eps w_1 are left out: they are
rounding. So landmarks that are equal cost time and nothing else.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from ..errors import InputError
from ..execution.planned import Costs, PlannedRows
from ..execution.sampling import sampled_rows, take_rows
from ..kernels import FAMILIES
from ..kernels.base import AnyKernel, get_kernel
from ..kernels.dot_product import DOT_PRODUCTS
from ..kernels.exact import kernel_block, kernel_with_rows, lean
from ..kernels.semigroup import SEMIGROUP_KERNELS
from ..kernels.shift_invariant import Kernel
from ..parameters import NONE, estimator, instance, learned, name_in, number, one_of, param, whole
from ..randomness import raw_words, sample_indices
from ..typing import ArrayLike, Rows
from .base import FeatureMap, row_tiles
from .estimator import DrawnFeatures, FeatureEstimator
from .fourier import GAMMA, NU, kernel_trial
from .laplace import SEMIGROUP_PARAMETER, resolve_semigroup_kernel
from .rules import LENGTH_SCALE, refuse_not_finite, resolve_gamma, resolve_length_scale, rule_costs


@dataclass(frozen=True)
class NystroemMap(FeatureMap):
    """Features k(x, landmarks) @ normalization, computed in float64 and cast last: small w magnify rounding.

    Parameters
    ----------
    n_features_in : d
    n_components : r, the number of directions
    kernel : AnyKernel
    length_scale : that of a shift-invariant kernel
    n_landmarks : m
    landmarks : array of shape (m, d)
    normalization : V_r diag(w_r)^(-1/2), array of shape (m, r), float64

    References
    ----------
    Williams & Seeger, "Using the Nystroem method to speed up kernel machines", NIPS 2000.
    """

    kernel: AnyKernel
    length_scale: float
    n_landmarks: int
    landmarks: np.ndarray | None = field(default=None, compare=False, repr=False)
    normalization: np.ndarray | None = field(default=None, compare=False, repr=False)

    kind: ClassVar[str] = "nystroem"

    @classmethod
    def of_landmarks(
        cls, kernel: AnyKernel, length_scale: float, landmarks: np.ndarray, rank: int | None = None
    ) -> NystroemMap:
        """The map of some landmark rows.

        Parameters
        ----------
        kernel : AnyKernel
        length_scale : that of a shift-invariant kernel
        landmarks : array of shape (m, d)
        rank : the most directions to keep; None keeps all that are not rounding

        Returns
        -------
        NystroemMap

        Raises
        ------
        InputError : the kernel is zero between all landmarks, or not finite
        """
        with np.errstate(over="ignore"):  # refused below
            used = np.flatnonzero(landmarks.any(axis=0))  # columns of zeros change no kernel; in text most are
            points = lean(landmarks[:, used if used.size else slice(1)])
            K = kernel_block(kernel, points, points, length_scale)
        if not np.isfinite(K).all():
            raise InputError(
                "the kernel overflows between landmarks; scale the rows or the kernel's parameters"
            )
        values, vectors = scipy.linalg.eigh((K + K.T) / 2)
        values, vectors = values[::-1], vectors[:, ::-1]
        r = int((values > len(values) * np.finfo(np.float64).eps * max(values[0], 0.0)).sum())
        if r == 0:
            raise InputError(
                "the kernel is zero between all landmarks, so there is nothing to project on; "
                "use another kernel, or rows that are not all zeros"
            )
        r = r if rank is None else min(r, rank)
        normalization = np.ascontiguousarray(vectors[:, :r] / np.sqrt(values[:r]))
        # The sign that LAPACK gives an eigenvector differs between machines: here its largest entry is positive.
        largest = abs(normalization).argmax(axis=0)
        normalization *= np.where(normalization[largest, np.arange(r)] < 0, -1.0, 1.0)
        m, d = landmarks.shape
        return cls(d, r, kernel, float(length_scale), m, landmarks, normalization)

    def fill_columns(self, X: Rows, out: np.ndarray, start: int, stop: int) -> None:
        assert self.landmarks is not None
        assert self.normalization is not None
        self.kernel.check_rows(X)
        M = self.normalization[:, start:stop]
        values = kernel_with_rows(self.kernel, self.landmarks, self.length_scale, sp.issparse(X))
        # Of 512 rows a half for each doubling of the landmarks beyond 4,096: kernels of a tile take 16 MiB.
        rows = max(64, 512 >> max(0, (self.n_landmarks - 1).bit_length() - 12))
        for a, b in row_tiles(X.shape[0], rows):
            out[a:b] = values(X[a:b]) @ M

    def work(self) -> tuple[float, float]:
        m, d, r = self.n_landmarks, self.n_features_in, self.n_components
        # The plan counts operations in float32; those in float64 take twice the time.
        return 4.0 * m * (d + r) + 40.0 * m, 8.0 * m * (d + r)


#: How landmarks are chosen.
LANDMARKS = ("uniform", "k-means++", "kmeans")
#: The rules but "uniform" choose from a sample: so many rows for each landmark, and so many bytes at most.
_PER_LANDMARK = 10
_SAMPLE_BYTES = 256 * 2**20


@estimator
class NystroemFeatures(DrawnFeatures):
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
        `distrf.maps.nystroem.choose_landmarks`.
    rank : int or None, default=None
        Most directions to keep; their number is D, the number of features. None keeps all above rounding.

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
        kernel: AnyKernel = get_kernel(self.kernel, values=known)
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
    from sklearn.cluster import MiniBatchKMeans, kmeans_plusplus  # on first use: cold workers start quickly

    if rule == "k-means++":
        return rows[np.sort(kmeans_plusplus(lean(rows), m, random_state=state)[1])]
    batch = max(1024, min(len(rows), 4 * m))
    clusters = MiniBatchKMeans(
        m, n_init=1, max_iter=20, batch_size=batch, init_size=len(rows), random_state=state
    )
    with warnings.catch_warnings():
        # Fewer distinct rows than landmarks: the map drops the directions that repeat.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clusters.fit(lean(rows)).cluster_centers_.astype(rows.dtype, copy=False)
