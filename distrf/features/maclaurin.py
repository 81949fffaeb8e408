"""Random Maclaurin features as a scikit-learn transformer."""

from __future__ import annotations

from ..kernels.dot_product import DOT_PRODUCTS, DotProductKernel
from ..maps.maclaurin import MaclaurinMap
from ..parameters import JOBS, SEED, estimator, instance, learned, name_in, number, one_of, param, whole
from ..randomness import draw_seed
from ..typing import ArrayLike, RandomState
from .base import FeatureEstimator, validate_rows
from .dot_product_scale import DOT_GAMMA, known_gamma, make_dot_product, resolve_dot_product


@estimator
class RandomMaclaurinFeatures(FeatureEstimator):
    """Random features of any dot-product kernel with nonnegative Maclaurin coefficients.

    A feature of degree n is a product of n random signed sums of the columns. Its degree is drawn at random.

    Parameters
    ----------
    kernel : {"polynomial", "homogeneous", "exponential"} or DotProductKernel, default="polynomial"
        "polynomial" is (gamma x.y + coef0)^degree, "homogeneous" (gamma x.y)^degree, "exponential"
        exp(gamma x.y). An object of `distrf.kernels.dot_product` brings its own parameters.
    degree : int, default=2
        Power, at least 1. Read by the polynomial kernels alone.
    gamma : float or {"norm"}, default="norm"
        Factor on x.y. "norm" is 1 / mean |x|^2 over at most 1,000 sampled rows, so that gamma x.x is 1 on
        average.
    coef0 : float, default=1.0
        Weight of the lower powers against the highest. 0 leaves the highest alone.
    base : float, default=2.0
        Degrees n are drawn with probability proportional to base^-(n+1). 2 is the paper's choice.
    exact : {-1, 0, 1}, default=0
        Degrees up to this one get columns of their own instead of random ones. -1 gives none (the paper's
        Algorithm 1), 0 one constant column, which frees half of the features for base=2, and 1 gives d
        columns more (the paper's H0/1 heuristic).
    n_components : int, default=1024
        D, the number of features, exact columns included.
    n_jobs : int or None, default=-1
        Threads for NumPy and CSR input: -1 takes all cores, None takes one. Dask decides for Dask arrays.
    random_state : int, Generator, RandomState or None, default=None
        Seed of all draws. None draws one seed and keeps it in the map.

    Attributes
    ----------
    map_ : MaclaurinMap
        The frozen map.
    n_features_in_ : int
        Number of input columns, d.

    References
    ----------
    .. [1] P. Kar and H. Karnick, "Random Feature Maps for Dot Product Kernels", AISTATS 2012, Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import RandomMaclaurinFeatures
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> RandomMaclaurinFeatures(degree=3, n_components=256, random_state=7).fit_transform(X).shape
    (100, 256)
    """

    map_: MaclaurinMap = learned()

    kernel: str | DotProductKernel = param(
        default="polynomial",
        rule=name_in(DOT_PRODUCTS)
        | instance(DotProductKernel, "a distrf.kernels.dot_product.DotProductKernel"),
        kw_only=False,
    )
    degree: int = param(default=2, rule=whole())
    gamma: float | str = param(default="norm", rule=DOT_GAMMA)
    coef0: float = param(default=1.0, rule=number(0))
    base: float = param(default=2.0, rule=number(above=1))
    exact: int = param(default=0, rule=one_of(-1, 0, 1))
    n_components: int = param(default=1024, rule=whole())
    n_jobs: int | None = param(default=-1, rule=JOBS)
    random_state: RandomState = param(default=None, rule=SEED)

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> RandomMaclaurinFeatures:
        """Set gamma from at most 1,000 rows (from none when it is a number), and freeze the map.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, d)
            Input rows. A Dask array is read block by block.
        y : ignored, default=None
            Not used; it is there so that the estimator fits into a Pipeline.

        Returns
        -------
        RandomMaclaurinFeatures
            The fitted estimator itself.

        Raises
        ------
        InputError
            A parameter breaks a rule, X holds NaN or infinity, or the sampled rows are all zero.
        """
        X = validate_rows(self, X, reset=True)
        D = int(self.n_components)
        seed = draw_seed(self.random_state)
        kernel = resolve_dot_product(self.kernel, self.degree, self.gamma, self.coef0, X, seed)
        self.map_ = MaclaurinMap(X.shape[1], D, kernel, self.base, int(self.exact), seed)
        return self

    def _planned_map(self, d: int) -> MaclaurinMap:
        kernel = make_dot_product(self.kernel, self.degree, known_gamma(self.gamma), self.coef0)
        return MaclaurinMap(d, int(self.n_components), kernel, self.base, int(self.exact), 0)
