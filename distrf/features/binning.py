"""Random binning features as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any, ClassVar

from ..execution.planned import Costs, PlannedRows
from ..kernels.base import kernel_with
from ..kernels.shift_invariant import Kernel
from ..maps.base import FeatureMap
from ..maps.binning import BinningMap, check_pitch
from ..parameters import JOBS, SEED, estimator, learned, param, whole
from ..typing import RandomState
from .base import FeatureEstimator
from .fourier import GAMMA, KERNEL
from .length_scale import LENGTH_SCALE, resolve_length_scale, rule_costs


@estimator
class RandomBinningFeatures(FeatureEstimator):
    """Random binning features of the Laplacian kernel: sparse rows with one entry for each random grid.

    Two rows share an entry of a grid when they fall into the same bin, which happens with probability k(x, y).

    Parameters
    ----------
    kernel : {"laplacian"} or Kernel, default="laplacian"
        "laplacian" is exp(-|x - y|_1 / l). Kernels whose factors are not convex (gaussian, cauchy) and
        kernels that are no product (matern) are refused.
    length_scale : float or {"knn", "knn-cnm", "median", "scale"}, default="knn"
        l, in the units of the columns, or a rule that sets it from at most 1,000 sampled rows: "knn" is the
        mean distance to the 50th neighbour, "knn-cnm" half of that, "median" the median distance between
        rows, "scale" scikit-learn's rule.
    gamma : float or None, default=None
        scikit-learn's parameter 1 / l, which sets l. With it, leave `length_scale` at its default.
    n_grids : int, default=128
        P, the number of grids. A row has P entries, and the kernel estimate has variance k (1 - k) / P.
    n_components : int, default=4096
        D, the columns that bins are hashed into, about D / P for each grid. Hashing adds a variance of (1 -
        k) / D and no bias.
    n_jobs : int or None, default=-1
        Threads for NumPy and CSR input: -1 takes all cores, None takes one. Dask decides for Dask arrays.
    random_state : int, Generator, RandomState or None, default=None
        Seed of all draws. None draws one seed and keeps it in the map.

    Attributes
    ----------
    map_ : BinningMap
        The frozen map, a few hundred bytes.
    length_scale_ : float
        l, in the units of the columns.
    n_features_in_ : int
        Number of input columns, d.

    References
    ----------
    .. [1] A. Rahimi and B. Recht, "Random Features for Large-Scale Kernel Machines", NIPS 2007, Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import RandomBinningFeatures
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> Z = RandomBinningFeatures(n_grids=32, n_components=256, random_state=7).fit_transform(X)
    >>> Z.shape, Z.nnz
    ((100, 256), 3200)
    """

    map_: BinningMap = learned()

    joins_columns: ClassVar[bool] = False
    kernel: str | Kernel = param(default="laplacian", rule=KERNEL, kw_only=False)
    length_scale: float | str = param(default="knn", rule=LENGTH_SCALE)
    gamma: float | None = param(default=None, rule=GAMMA)
    n_grids: int = param(default=128, rule=whole())
    n_components: int = param(default=4096, rule=whole())
    n_jobs: int | None = param(default=-1, rule=JOBS)
    random_state: RandomState = param(default=None, rule=SEED)

    def _make_map(self, d: int, seed: int, X: Any = None) -> BinningMap:
        kernel = kernel_with(self.kernel, vars(self), Kernel)
        check_pitch(kernel)
        scale = resolve_length_scale(kernel, self.length_scale, self.gamma, X, seed)
        if X is not None:
            self.length_scale_ = scale
        return BinningMap(d, self.n_components, kernel, scale, self.n_grids, seed)

    def planned_costs(self, rows: PlannedRows, planned: FeatureMap) -> Costs:
        return rule_costs(rows, self.kernel, self.length_scale, self.gamma)
