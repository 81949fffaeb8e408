"""TensorSketch as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

from ..kernels.dot_product import Polynomial
from ..maps.tensor_sketch import TensorSketchMap
from ..parameters import JOBS, SEED, estimator, learned, number, param, whole
from ..typing import RandomState
from .base import FeatureEstimator
from .length_scale import DOT_GAMMA, resolve_gamma


@estimator
class TensorSketchFeatures(FeatureEstimator):
    """Random features of the polynomial kernel (gamma x.y + coef0)^degree by TensorSketch.

    A row takes O(d + D log D) operations, a CSR row O(nonzeros + D log D). The fitted map is a seed.

    Parameters
    ----------
    degree : int, default=2
        Power, at least 1.
    gamma : float or {"norm"}, default="norm"
        Factor on x.y. "norm" is 1 / mean |x|^2 over at most 1,000 sampled rows, so that gamma x.x is 1 on
        average.
    coef0 : float, default=1.0
        Weight of the lower powers against the highest. 0 leaves the highest alone.
    n_components : int, default=1024
        D, the number of features. Products of small primes are fastest, since D is the length of an FFT.
    n_jobs : int or None, default=-1
        Threads for NumPy and CSR input: -1 takes all cores, None takes one. Dask decides for Dask arrays.
    random_state : int, Generator, RandomState or None, default=None
        Seed of all draws. None draws one seed and keeps it in the map.

    Attributes
    ----------
    map_ : TensorSketchMap
        The frozen map.
    gamma_ : float
        The gamma in use.
    n_features_in_ : int
        Number of input columns, d.

    References
    ----------
    .. [1] N. Pham and R. Pagh, "Fast and Scalable Polynomial Kernels via Explicit Feature Maps", KDD 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import TensorSketchFeatures
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> TensorSketchFeatures(degree=3, n_components=256, random_state=7).fit_transform(X).shape
    (100, 256)
    """

    map_: TensorSketchMap = learned()

    degree: int = param(default=2, rule=whole(), kw_only=False)
    gamma: float | str = param(default="norm", rule=DOT_GAMMA)
    coef0: float = param(default=1.0, rule=number(0))
    n_components: int = param(default=1024, rule=whole())
    n_jobs: int | None = param(default=-1, rule=JOBS)
    random_state: RandomState = param(default=None, rule=SEED)

    def _make_map(self, d: int, seed: int, X: Any = None) -> TensorSketchMap:
        gamma = resolve_gamma(self.gamma, X, seed)
        if X is not None:
            self.gamma_ = gamma
        kernel = Polynomial(self.degree, gamma, self.coef0)
        return TensorSketchMap(d, int(self.n_components), kernel, seed)
