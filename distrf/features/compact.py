"""Compact random features as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.base import clone

from ..errors import InputError
from ..execution.planned import Costs, PlannedRows
from ..maps.compact import CompactMap
from ..parameters import JOBS, NONE, SEED, Rule, number, whole
from ..randomness import draw_seed
from ..typing import ArrayLike, RandomState
from .base import BASE, FeatureEstimator, seed_base, validate_rows
from .tensor_sketch import TensorSketchFeatures


class CompactRandomFeatures(FeatureEstimator):
    """Many features of a cheap map, reduced to D by a subsampled Hadamard transform.

    The D features have nearly the variance of the many, at the width of the few.

    Parameters
    ----------
    base : feature estimator or None, default=None
        Its clone is fitted for E = up_factor D features. Polynomial, Fourier or other. None is
        TensorSketchFeatures().
    up_factor : float, default=8
        E / D, at least 1. The kernel estimate has the variance of E features plus that of the way down.
    n_components : int, default=1024
        D, the number of features.
    n_jobs : int or None, default=-1
        Threads for NumPy and CSR input: -1 takes all cores, None takes one. Dask decides for Dask arrays.
    random_state : int, Generator, RandomState or None, default=None
        Seed of all draws. The base gets a seed derived from this one unless it has its own. None draws one
        seed.

    Attributes
    ----------
    map_ : CompactMap
        The frozen map. `map_.base` is that of the base.
    n_features_in_ : int
        Number of input columns, d.

    References
    ----------
    .. [1] R. Hamid, Y. Xiao, A. Gittens and D. DeCoste, "Compact Random Feature Maps", ICML 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import CompactRandomFeatures, TensorSketchFeatures
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> features = CompactRandomFeatures(TensorSketchFeatures(degree=4), n_components=64, random_state=7)
    >>> features.fit_transform(X).shape
    (100, 64)
    """

    map_: CompactMap

    parameter_rules: ClassVar[dict[str, Rule]] = {
        "base": BASE | NONE,
        "up_factor": number(1),
        "n_components": whole(),
        "n_jobs": JOBS,
        "random_state": SEED,
    }

    def __init__(
        self,
        base: FeatureEstimator | None = None,
        *,
        up_factor: float = 8,
        n_components: int = 1024,
        n_jobs: int | None = -1,
        random_state: RandomState = None,
    ):
        self.base = base
        self.up_factor = up_factor
        self.n_components = n_components
        self.n_jobs = n_jobs
        self.random_state = random_state

    @classmethod
    def named_base(cls, n_components: int) -> FeatureEstimator:
        return TensorSketchFeatures()

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> CompactRandomFeatures:
        """Fit a clone of the base for up_factor D features, and freeze both maps as one.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, d)
            Input rows. A Dask array is read block by block.
        y : array or Dask array of shape (n,), default=None
            Targets, handed to a base that learns from them.

        Returns
        -------
        CompactRandomFeatures
            The fitted estimator itself.

        Raises
        ------
        InputError
            A parameter breaks a rule, the base has no `n_components`, or X holds NaN or infinity.
        """
        X = validate_rows(self, X, reset=True)
        D = int(self.n_components)
        seed, base = draw_seed(self.random_state), self.planned_base()
        seed_base(base, seed, "compact base")
        fitted = base.fit(X, y).map_
        self.map_ = CompactMap(X.shape[1], D, fitted, seed)
        return self

    def _planned_map(self, d: int) -> CompactMap:
        return CompactMap(d, int(self.n_components), self.planned_base().planned_map(d), 0)

    def planned_costs(self, rows: PlannedRows, planned: Any) -> Costs:
        return self.planned_base().planned_costs(rows, planned.base)

    def planned_base(self) -> FeatureEstimator:
        """A clone of the base for up_factor D features.

        Returns
        -------
        FeatureEstimator
            The clone, not fitted.

        Raises
        ------
        InputError
            The base has no `n_components`.
        """
        base = TensorSketchFeatures() if self.base is None else clone(self.base)
        if "n_components" not in base.get_params():
            raise InputError(
                f"base must be a feature estimator of distrf with n_components, got {type(base).__name__}"
            )
        D = round(self.up_factor * int(self.n_components))
        return base.set_params(n_components=D + D % 2)  # pairs of Fourier features are even
