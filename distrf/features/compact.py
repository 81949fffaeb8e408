"""Compact random features as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.base import clone

from ..errors import InputError
from ..execution.planned import Costs, PlannedRows
from ..maps.compact import CompactMap
from ..parameters import JOBS, NONE, SEED, Rule, number, whole
from ..randomness import draw_seed
from .base import BASE, FeatureEstimator, seed_base, validate_rows
from .tensor_sketch import TensorSketchFeatures


class CompactRandomFeatures(FeatureEstimator):
    """Many features of a cheap map, brought down to D by a subsampled Hadamard transform (Hamid et al. 2014).

    Parameters
    ----------
    base : feature estimator that is cloned and fitted for up_factor * D features, polynomial or Fourier or
        other; None is TensorSketchFeatures()
    up_factor : E / D, at least 1; the D features have nearly the variance of E ones and then that of the
        way down
    n_components : D
    n_jobs : threads for NumPy and CSR input; -1 takes all cores. Dask decides for Dask arrays
    random_state : seed; the base gets one derived from it unless it has its own

    Attributes
    ----------
    map_ : CompactMap; `map_.base` is that of the base
    n_features_in_ : int, d
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
        random_state: Any = None,
    ):
        self.base = base
        self.up_factor = up_factor
        self.n_components = n_components
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> CompactRandomFeatures:
        """Fit a clone of the base for up_factor * D features, and freeze both maps as one."""
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
        """A clone of the base for up_factor * D features."""
        base = TensorSketchFeatures() if self.base is None else clone(self.base)
        if "n_components" not in base.get_params():
            raise InputError(
                f"base must be a feature estimator of distrf with n_components, got {type(base).__name__}"
            )
        wanted = round(self.up_factor * int(self.n_components))
        return base.set_params(n_components=wanted + wanted % 2)  # pairs of Fourier features are even
