"""The columns beside random features, as a scikit-learn transformer."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from ..execution.planned import Costs, PlannedRows
from ..execution.sampling import sampled_rows, take_rows
from ..maps.with_columns import WithColumnsMap
from ..parameters import JOBS, NONE, SEED, estimator, learned, number, one_of, param
from ..randomness import draw_seed
from ..typing import ArrayLike, RandomState
from .base import BASE, FeatureEstimator, seed_base, validate_rows
from .fourier import RandomFourierFeatures

_SAMPLE = 1000


@estimator
class WithColumns(FeatureEstimator):
    """The columns beside random features: [x / s, z(x)].

    A linear model on this output is a linear model on the columns plus a kernel machine.

    Parameters
    ----------
    base : feature estimator or None, default=None
        Its clone makes the features, which must be dense. None is RandomFourierFeatures().
    scale : float or {"norm"}, default="norm"
        s, in the units of the columns. "norm" is the root of the mean squared norm of 1,000 sampled rows,
        so that the columns weigh as much as features with |z(x)| = 1.
    n_jobs : int or None, default=-1
        Threads for NumPy and CSR input: -1 takes all cores, None takes one. Dask decides for Dask arrays.
    random_state : int, Generator, RandomState or None, default=None
        Seed of all draws. The base gets a seed derived from this one unless it has its own. None draws one
        seed.

    Attributes
    ----------
    base_ : feature estimator
        The fitted base, with what it learned.
    scale_ : float
        s.
    map_ : WithColumnsMap
        The frozen map. `map_.base` is that of the base.
    n_features_in_ : int
        Number of input columns, d.

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import RandomFourierFeatures, WithColumns
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> base = RandomFourierFeatures(length_scale=2.0, n_components=64)
    >>> WithColumns(base, random_state=7).fit_transform(X).shape
    (100, 69)
    """

    base_: FeatureEstimator = learned()
    scale_: float = learned()

    base: FeatureEstimator | None = param(default=None, rule=BASE | NONE, kw_only=False)
    scale: float | str = param(default="norm", rule=number(above=0) | one_of("norm"))
    n_jobs: int | None = param(default=-1, rule=JOBS)
    random_state: RandomState = param(default=None, rule=SEED)

    def fit(self, X: ArrayLike, y: ArrayLike | None = None, folds: ArrayLike | None = None) -> WithColumns:
        """Fit a clone of the base and the scale of the columns.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, d)
            Input rows. A Dask array is read block by block.
        y : array or Dask array of shape (n,), default=None
            Targets, handed to a base that learns from them.
        folds : array or Dask array of shape (n,) of int, default=None
            Fold of each row, handed to a base that holds out rows.

        Returns
        -------
        WithColumns
            The fitted estimator itself.

        Raises
        ------
        InputError
            A parameter breaks a rule, the base makes sparse features, or X holds NaN or infinity.
        """
        X = validate_rows(self, X, reset=True)
        seed, base = draw_seed(self.random_state), self.planned_base()
        seed_base(base, seed, "columns base")
        given = {} if folds is None or "folds" not in signature(base.fit).parameters else {"folds": folds}
        fitted = base.fit(X, y, **given)
        scale = column_scale(X, seed) if isinstance(self.scale, str) else self.scale
        WithColumnsMap.over(fitted.map_, scale)  # or an error, before anything is set
        self.base_, self.scale_ = fitted, float(scale)
        return self

    @property
    def map_(self) -> WithColumnsMap:  # type: ignore[override]
        return WithColumnsMap.over(self.base_.map_, self.scale_)

    def facts(self) -> dict[str, Any]:
        return self.base_.facts()

    def _planned_map(self, d: int) -> WithColumnsMap:
        return WithColumnsMap.over(
            self.planned_base().planned_map(d), 1.0 if isinstance(self.scale, str) else self.scale
        )

    def planned_costs(self, rows: PlannedRows, planned: Any) -> Costs:
        return self.planned_base().planned_costs(rows, planned.base)

    def planned_base(self) -> FeatureEstimator:
        """A clone of the base.

        Returns
        -------
        FeatureEstimator
            The clone, not fitted.
        """
        return clone(RandomFourierFeatures() if self.base is None else self.base)


def column_scale(X: ArrayLike, seed: int) -> float:
    """Root of the mean squared norm of at most 1,000 sampled rows; 1 for rows of zeros."""
    rows = take_rows(X, sampled_rows(X.shape[0], _SAMPLE, seed, "column scale"), sparse=True)
    values = (rows.data if sp.issparse(rows) else rows).astype(np.float64).ravel()
    mean = float(values @ values) / max(1, rows.shape[0])
    return float(np.sqrt(mean)) if 0 < mean < float("inf") else 1.0
