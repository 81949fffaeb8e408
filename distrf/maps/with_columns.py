"""The columns of the rows themselves, beside the features of another map."""

from __future__ import annotations

from dataclasses import dataclass, field
from inspect import signature
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from ..errors import InputError
from ..execution.planned import Costs, PlannedRows
from ..execution.sampling import sampled_rows, take_rows
from ..kernels.base import as_float64
from ..parameters import NONE, estimator, learned, number, one_of, param
from ..randomness import draw_seed
from ..typing import ArrayLike, Rows
from .base import FeatureMap, dense
from .estimator import BASE, DrawnFeatures, FeatureEstimator, seed_base, validate_rows
from .fourier import RandomFourierFeatures

#: Bytes of features that are copied beside the columns at a time, and the rows of which there are whole multiples.
_TILE_BYTES, _TILE_ROWS = 2**24, 1024
SCALE = number(above=0)


@dataclass(frozen=True)
class WithColumnsMap(FeatureMap):
    """Features z(x) = [x / scale, base(x)]: the kernel of the base map plus x.y / scale^2.

    Parameters
    ----------
    n_features_in : d, that of the base map
    n_components : d plus the number of features of the base map
    base : FeatureMap of dense features
    scale : a positive number
    """

    base: FeatureMap
    scale: float = field(metadata={"rule": SCALE})

    kind: ClassVar[str] = "with-columns"

    def __post_init__(self) -> None:
        super().__post_init__()
        d, D = self.base.n_features_in, self.base.n_components
        if (self.n_features_in, self.n_components) != (d, d + D):
            raise InputError(
                f"columns beside {D} features of {d} columns are {d + D}, got {self.n_components} of "
                f"{self.n_features_in} columns"
            )
        if self.base.sparse_output:
            raise InputError(f"columns join dense features, but those of {self.base.kind!r} are sparse")

    @classmethod
    def over(cls, base: FeatureMap, scale: float) -> WithColumnsMap:
        """The map of the columns and the features of `base`."""
        d = base.n_features_in
        return cls(d, d + base.n_components, base, float(scale))

    @property
    def label(self) -> str:
        return self.base.label

    def held_bytes(self, itemsize: int) -> int:
        return self.base.held_bytes(itemsize)

    def scratch_bytes(self, itemsize: int) -> int:
        return self.base.scratch_bytes(itemsize) + max(
            _TILE_BYTES, _TILE_ROWS * self.base.n_components * itemsize
        )

    @property
    def whole_rows(self) -> bool:  # type: ignore[override]
        return self.base.whole_rows

    def fill_columns(self, X: Rows, out: np.ndarray, start: int, stop: int) -> None:
        split = min(max(self.n_features_in, start), stop)  # the first feature of the base map
        np.divide(
            dense(X[:, start:split]), out.dtype.type(self.scale), out=out[:, : split - start], casting="unsafe"
        )
        first, last = split - self.n_features_in, stop - self.n_features_in
        if first < last:
            step = _TILE_ROWS * max(1, _TILE_BYTES // (_TILE_ROWS * (last - first) * out.itemsize))
            for a in range(0, X.shape[0], step):
                out[a : a + step, split - start :] = self.base.columns(X[a : a + step], first, last)

    def exact_kernel(self, X: Rows, Y: Rows | None = None) -> np.ndarray:
        A = as_float64(X)
        B = A if Y is None else as_float64(Y)
        return self.base.exact_kernel(X, Y) + A @ B.T / self.scale**2

    def work(self) -> tuple[float, float]:
        operations, parameters = self.base.work()
        return operations + 2.0 * self.n_features_in, parameters


_SAMPLE = 1000


@estimator
class WithColumns(DrawnFeatures):
    """The columns beside random features: [x / s, z(x)].

    A linear model on this output is a linear model on the columns plus a kernel machine.

    Parameters
    ----------
    base : feature estimator or None, default=None
        Its clone makes the features, which must be dense. None is RandomFourierFeatures().
    scale : float or {"norm"}, default="norm"
        s, in the units of the columns. "norm" is the root of the mean squared norm of 1,000 sampled rows,
        so that the columns weigh as much as features with |z(x)| = 1.

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
    scale: float | str = param(default="norm", rule=SCALE | one_of("norm"))

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
