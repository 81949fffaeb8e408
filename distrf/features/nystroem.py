"""Nystroem features as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any, ClassVar

from ..execution.planned import Costs, PlannedRows
from ..kernels.base import AnyKernel, kernel_with
from ..kernels.dot_product import DOT_PRODUCTS
from ..kernels.registry import FAMILIES, get_kernel
from ..kernels.semigroup import SEMIGROUP_KERNELS
from ..kernels.shift_invariant import KERNELS, Kernel
from ..maps import FeatureMap
from ..maps.nystroem import NystroemMap
from ..parameters import JOBS, NONE, SEED, Rule, instance, name_in, number, one_of, whole
from ..randomness import draw_seed
from .base import FeatureEstimator, validate_rows
from .dot_product_scale import known_gamma, make_dot_product, resolve_dot_product
from .fourier import GAMMA, NU
from .landmarks import RULES, choose_landmarks
from .laplace import SEMIGROUP_PARAMETER, planned_semigroup_kernel, resolve_semigroup_kernel
from .length_scale import LENGTH_SCALE, resolve_length_scale, rule_note


class NystroemFeatures(FeatureEstimator):
    """Features of any kernel from its values at landmark rows (Williams & Seeger 2001).

    Unlike random features these learn from the data: for kernels whose spectrum falls fast on them, fewer
    features reach the same error. Each row costs n_components kernel values and D multiply-adds each.

    Parameters
    ----------
    kernel : any kernel by name: "gaussian", "laplacian", "cauchy", "matern" | "polynomial", "homogeneous",
        "exponential" | "exponential_semigroup", "reciprocal_semigroup"; or a kernel object of
        `distrf.kernels.shift_invariant`, `distrf.kernels.dot_product` or `distrf.kernels.semigroup`
    length_scale : of the first four, a number or a rule, as in RandomFourierFeatures
    gamma : scikit-learn's parameter: of the gaussian and laplacian kernels instead of a length scale; of the
        dot-product kernels a number, by default 1 / mean |x|^2
    degree, coef0 : of the polynomial kernels
    beta, lam : of the semigroup kernels, a number or "median", as in RandomLaplaceFeatures
    nu : smoothness of the Matern kernel, 1/2, 3/2 or 5/2
    n_components : m, landmarks; fewer where X has fewer rows
    landmarks : "uniform" (distinct rows) | "k-means++" | "kmeans" | "leverage", see
        `distrf.features.landmarks.choose_landmarks`: the last three choose within 10 m sampled rows
    rank : most directions to keep, by default all above rounding; their number is the number of features
    n_jobs : threads for NumPy and CSR input; -1 takes all cores. Dask decides for Dask arrays
    random_state : seed. None draws one

    Attributes
    ----------
    map_ : NystroemMap, with arrays `landmarks` of shape (m, d) and `normalization` of shape (m, D)
    n_features_in_ : int, d
    """

    map_: NystroemMap

    parameter_rules: ClassVar[dict[str, Rule]] = {
        "kernel": name_in(*(family.registry for family in FAMILIES)) | instance(AnyKernel, "a kernel object"),
        "length_scale": LENGTH_SCALE,
        "gamma": GAMMA,
        "degree": whole(),
        "coef0": number(0),
        "beta": SEMIGROUP_PARAMETER,
        "lam": SEMIGROUP_PARAMETER,
        "nu": NU,
        "n_components": whole(),
        "landmarks": one_of(*RULES),
        "rank": whole() | NONE,
        "n_jobs": JOBS,
        "random_state": SEED,
    }

    def __init__(
        self,
        kernel: str | AnyKernel = "gaussian",
        *,
        length_scale: float | str = "knn",
        gamma: float | None = None,
        degree: int = 2,
        coef0: float = 1.0,
        beta: float | str = "median",
        lam: float | str = "median",
        nu: float = 1.5,
        n_components: int = 512,
        landmarks: str = "uniform",
        rank: int | None = None,
        n_jobs: int | None = -1,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.length_scale = length_scale
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.beta = beta
        self.lam = lam
        self.nu = nu
        self.n_components = n_components
        self.landmarks = landmarks
        self.rank = rank
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> NystroemFeatures:
        """Set the kernel's parameters, choose landmarks, and decompose their kernel matrix.

        Reads seeded samples of rows and nothing else: O(m^2 d + m^3) operations, O(m (d + m)) numbers.
        """
        X = validate_rows(self, X, reset=True)
        m, rank = int(self.n_components), self.rank and int(self.rank)
        seed = draw_seed(self.random_state)
        kernel, length_scale = self._resolve_kernel(X, seed)
        chosen = choose_landmarks(self.landmarks, kernel, length_scale, X, m, seed)
        self.map_ = NystroemMap.of_landmarks(kernel, length_scale, chosen, rank)
        return self

    def _resolve_kernel(self, X: Any, seed: int) -> tuple[AnyKernel, float]:
        """The kernel with its parameters, and the length scale (1 for families without one)."""
        name = self.kernel if isinstance(self.kernel, str) else None
        if name in KERNELS or isinstance(self.kernel, Kernel):
            kernel = kernel_with(self.kernel, vars(self), Kernel)
            return kernel, resolve_length_scale(kernel, self.length_scale, self.gamma, X, seed)
        if name in DOT_PRODUCTS:
            return resolve_dot_product(name, self.degree, self._dot_gamma, self.coef0, X, seed), 1.0
        if name in SEMIGROUP_KERNELS:
            return resolve_semigroup_kernel(name, self.beta, self.lam, X, seed), 1.0
        return get_kernel(self.kernel), 1.0  # an object, or a refusal

    @property
    def _dot_gamma(self) -> float | str:
        return "norm" if self.gamma is None else self.gamma

    def _planned_map(self, d: int) -> NystroemMap:
        """The map that `fit` would make on d columns, but for numbers that it takes from the rows."""
        m = int(self.n_components)
        kernel: AnyKernel
        if self.kernel in SEMIGROUP_KERNELS:
            kernel = planned_semigroup_kernel(self.kernel, self.beta, self.lam)
        elif self.kernel in DOT_PRODUCTS:
            kernel = make_dot_product(self.kernel, self.degree, known_gamma(self._dot_gamma), self.coef0)
        else:
            kernel = kernel_with(self.kernel, vars(self))
        if isinstance(kernel, Kernel) and self.gamma is not None:
            kernel.length_scale_of_gamma(self.gamma)
        return NystroemMap(d, m if self.rank is None else min(m, self.rank), kernel, 1.0, m)

    def planned_costs(self, rows: PlannedRows, planned: FeatureMap) -> Costs:
        return Costs(notes=rule_note(self.kernel, self.length_scale, self.gamma))
