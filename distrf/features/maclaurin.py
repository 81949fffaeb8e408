"""Random Maclaurin features as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any, ClassVar

from ..kernels.dot_product import DOT_PRODUCTS, DotProductKernel
from ..maps.maclaurin import MaclaurinMap
from ..parameters import JOBS, SEED, Rule, instance, name_in, number, one_of, whole
from ..randomness import draw_seed
from .base import FeatureEstimator, validate_rows
from .dot_product_scale import DOT_GAMMA, known_gamma, make_dot_product, resolve_dot_product


class RandomMaclaurinFeatures(FeatureEstimator):
    """Random features of any dot-product kernel with nonnegative Maclaurin coefficients (Kar & Karnick 2012).

    Parameters
    ----------
    kernel : "polynomial" (gamma x.y + coef0)^degree | "homogeneous" (gamma x.y)^degree | "exponential"
        exp(gamma x.y) | a `distrf.kernels.dot_product.DotProductKernel`, which brings its own parameters
    degree, coef0 : of the polynomial kernels
    gamma : number, or "norm": 1 / mean |x|^2 over at most 1,000 sampled rows, so that gamma x.x is 1 on average
    base : degrees n are drawn with probability proportional to base^-(n+1); 2 is the paper's choice
    exact : degrees up to this get columns of their own instead of random ones: -1 (none, the paper's
        Algorithm 1), 0 (one constant column, the default: it frees half of the features for base = 2) or
        1 (d more columns, the paper's H0/1 heuristic)
    n_components : D, in all
    n_jobs : threads for NumPy and CSR input; -1 takes all cores. Dask decides for Dask arrays
    random_state : seed. None draws one and keeps it in the map

    Attributes
    ----------
    map_ : MaclaurinMap
    n_features_in_ : int, d
    """

    map_: MaclaurinMap

    parameter_rules: ClassVar[dict[str, Rule]] = {
        "kernel": name_in(DOT_PRODUCTS)
        | instance(DotProductKernel, "a distrf.kernels.dot_product.DotProductKernel"),
        "degree": whole(),
        "gamma": DOT_GAMMA,
        "coef0": number(0),
        "base": number(above=1),
        "exact": one_of(-1, 0, 1),
        "n_components": whole(),
        "n_jobs": JOBS,
        "random_state": SEED,
    }

    def __init__(
        self,
        kernel: str | DotProductKernel = "polynomial",
        *,
        degree: int = 2,
        gamma: float | str = "norm",
        coef0: float = 1.0,
        base: float = 2.0,
        exact: int = 0,
        n_components: int = 1024,
        n_jobs: int | None = -1,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.base = base
        self.exact = exact
        self.n_components = n_components
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> RandomMaclaurinFeatures:
        """Set gamma from at most 1,000 rows (none when it is a number), and freeze the map."""
        X = validate_rows(self, X, reset=True)
        D = int(self.n_components)
        seed = draw_seed(self.random_state)
        kernel = resolve_dot_product(self.kernel, self.degree, self.gamma, self.coef0, X, seed)
        self.map_ = MaclaurinMap(X.shape[1], D, kernel, float(self.base), self.exact, seed)
        return self

    def _planned_map(self, d: int) -> MaclaurinMap:
        kernel = make_dot_product(self.kernel, self.degree, known_gamma(self.gamma), self.coef0)
        return MaclaurinMap(d, int(self.n_components), kernel, float(self.base), self.exact, 0)
