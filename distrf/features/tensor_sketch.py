"""TensorSketch as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any, ClassVar

from ..kernels.dot_product import Polynomial
from ..maps.tensor_sketch import TensorSketchMap
from ..parameters import JOBS, SEED, Rule, number, whole
from ..randomness import draw_seed
from .base import FeatureEstimator, validate_rows
from .dot_product_scale import DOT_GAMMA, known_gamma, resolve_gamma


class TensorSketchFeatures(FeatureEstimator):
    """Random features of the polynomial kernel (gamma x.y + coef0)^degree (Pham & Pagh 2013).

    O(d + D log D) for a row, and O(nonzeros + D log D) for a CSR row. The fitted map is a seed.

    Parameters
    ----------
    degree : power, at least 1
    gamma : number, or "norm": 1 / mean |x|^2 over at most 1,000 sampled rows, so that gamma x.x is 1 on average
    coef0 : weight of the lower powers against the highest; 0 leaves the highest alone
    n_components : D, fastest as a product of small primes (an FFT of that length)
    n_jobs : threads for NumPy and CSR input; -1 takes all cores. Dask decides for Dask arrays
    random_state : seed. None draws one and keeps it in the map

    Attributes
    ----------
    map_ : TensorSketchMap
    gamma_ : float
    n_features_in_ : int, d
    """

    map_: TensorSketchMap

    parameter_rules: ClassVar[dict[str, Rule]] = {
        "degree": whole(),
        "gamma": DOT_GAMMA,
        "coef0": number(0),
        "n_components": whole(),
        "n_jobs": JOBS,
        "random_state": SEED,
    }

    def __init__(
        self,
        degree: int = 2,
        *,
        gamma: float | str = "norm",
        coef0: float = 1.0,
        n_components: int = 1024,
        n_jobs: int | None = -1,
        random_state: Any = None,
    ):
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.n_components = n_components
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> TensorSketchFeatures:
        """Set gamma from at most 1,000 rows (none when it is a number), and freeze the map."""
        X = validate_rows(self, X, reset=True)
        D = int(self.n_components)
        seed = draw_seed(self.random_state)
        self.gamma_ = resolve_gamma(self.gamma, X, seed)
        self.map_ = TensorSketchMap(X.shape[1], D, Polynomial(self.degree, self.gamma_, self.coef0), seed)
        return self

    def _planned_map(self, d: int) -> TensorSketchMap:
        kernel = Polynomial(self.degree, known_gamma(self.gamma), self.coef0)
        return TensorSketchMap(d, int(self.n_components), kernel, 0)
