"""Scalings of columns and of rows as frozen maps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils import Tags
from sklearn.utils.sparsefuncs import mean_variance_axis, min_max_axis

from ..errors import InputError
from ..execution.passes import SizedState, run_pass
from ..execution.planned import Costs, PlannedRows
from ..execution.row_blocks import blocks_are_csr, rows_per_block
from ..execution.sampling import sampled_rows, take_rows
from ..parameters import estimator, learned, number, one_of, param
from ..typing import ArrayLike, Rows
from .base import FeatureMap, check_rows, dense, working_dtype
from .estimator import FeatureEstimator, validate_rows


@dataclass
class Moments(SizedState):
    """Moments of the columns over the rows seen so far.

    Attributes
    ----------
    count : int
        Rows.
    mean, squares, low, high : float64 arrays of shape (d,)
        Mean, sum of squared deviations from the mean, least and greatest value of each column. `squares` may have shape (d, d):
        then it has the products of the deviations of two columns.
    """

    count: int
    mean: np.ndarray
    squares: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def variance(self) -> np.ndarray:
        return self.squares / max(self.count, 1)


@dataclass(frozen=True)
class MomentsReduction:
    """Merges block moments by the pairwise update of Chan, Golub & LeVeque 1983.

    products : whether deviations are multiplied by those of all columns
    """

    d: int
    products: bool = False

    @property
    def nbytes(self) -> int:
        return 24 * self.d + self.scratch_bytes if self.products else 32 * self.d

    @property
    def flops_per_row(self) -> float:
        return 2.0 * self.d**2 if self.products else 6.0 * self.d

    @property
    def scratch_bytes(self) -> int:
        return 8 * self.d**2 if self.products else 0  # the products, before they are added

    @property
    def scratch_per_row(self) -> int:
        """Deviations from the mean, in float64."""
        return 8 * self.d

    @property
    def csr_scratch_bytes(self) -> int:
        return 40 * self.d

    def initial(self) -> Moments:
        squares = np.zeros((self.d, self.d) if self.products else self.d)
        return Moments(0, np.zeros(self.d), squares, np.full(self.d, np.inf), np.full(self.d, -np.inf))

    @np.errstate(over="ignore", invalid="ignore")  # which StreamingScaler refuses
    def update(self, state: Moments, first_row: int, X: Any) -> Moments:
        X = check_rows(X, self.d)
        n = X.shape[0]
        if n == 0:
            return state
        if sp.issparse(X) and not self.products:
            X = sp.csr_array(X, dtype=np.float64)
            mean, variance = mean_variance_axis(X, axis=0)
            squares = np.maximum(n * variance, 0)
            low, high = min_max_axis(X, axis=0)
        else:
            X = dense(X)
            mean = X.mean(axis=0, dtype=np.float64)
            D = X - mean
            squares = D.T @ D if self.products else np.square(D, out=D).sum(axis=0)
            low, high = X.min(axis=0), X.max(axis=0)
        low, high = low.astype(np.float64), high.astype(np.float64)  # differences of int8 would wrap
        return self.combine(state, Moments(n, mean, squares, low, high))

    @np.errstate(over="ignore", invalid="ignore")
    def combine(self, left: Moments, right: Moments) -> Moments:
        n = left.count + right.count
        if left.count == 0 or right.count == 0:
            return left if right.count == 0 else right
        delta = right.mean - left.mean
        between = np.outer(delta, delta) if self.products else delta**2
        return Moments(
            n,
            left.mean + delta * (right.count / n),
            left.squares + right.squares + between * (left.count * right.count / n),
            np.minimum(left.low, right.low),
            np.maximum(left.high, right.high),
        )


def column_moments(X: Any, products: bool = False) -> Moments:
    """Moments of the columns, in one pass.

    Parameters
    ----------
    X : array, CSR matrix or Dask array of shape (n, d)
    products : whether those of two columns too

    Returns
    -------
    Moments

    Raises
    ------
    InputError
        A value is not finite.
    """
    reduction = MomentsReduction(X.shape[1], products)
    return run_pass(reduction, [X], label="moments", block_rows=rows_per_block(8 * X.shape[1]))


def covariance(X: Any) -> np.ndarray:
    """Covariance of the columns, in one pass.

    Parameters
    ----------
    X : array, CSR matrix or Dask array of shape (n, d)

    Returns
    -------
    float64 array of shape (d, d)
        A column that varies by rounding alone counts as constant: its row and its column here are exactly zero.

    Raises
    ------
    InputError
        A value is not finite.
    """
    moments = column_moments(X, products=True)
    C = moments.variance
    same = moments.high - moments.low <= _ROUNDING * np.maximum(abs(moments.low), abs(moments.high))
    C[same] = C[:, same] = 0.0
    return C


#: Methods that scale columns: linear ones, and those that bend them.
LINEAR, ROBUST = ("standard", "minmax", "maxabs"), ("robust", "robust-zeros")
#: Those that shift columns, so that zeros would not stay zeros: they refuse CSR rows.
SHIFTING = ("standard", "minmax", "robust")
METHODS = (*LINEAR, *ROBUST, "l1-rows", "l2-rows", "divide")
METHOD, DIVISOR = one_of(*METHODS), number(above=0) | number(below=0)


@dataclass(frozen=True)
class ScalingMap(FeatureMap):
    """Rows in other units: their columns scaled, or each row divided by its norm.

    Parameters
    ----------
    n_features_in : d
    n_components : d
    method : "standard", "minmax" or "maxabs": (x - shift) / scale, column by column; "robust": the arcsinh of that;
        "robust-zeros": the same less its value at 0;
        "l1-rows" or "l2-rows": each row divided by its norm, rows of zeros stay as they are; "divide": x / divisor
    divisor : number other than 0, for "divide"
    shift, scale : arrays of shape (d,), for the methods that scale columns
    """

    method: str = field(metadata={"rule": METHOD})
    divisor: float = field(default=1.0, metadata={"rule": DIVISOR})
    shift: np.ndarray | None = field(default=None, compare=False, repr=False)
    scale: np.ndarray | None = field(default=None, compare=False, repr=False)

    kind: ClassVar[str] = "scaling"
    label: ClassVar[str] = "scale"  # type: ignore[misc]
    same_columns: ClassVar[bool] = True

    @property
    def learned(self) -> bool:
        """Whether the method needs `shift` and `scale`."""
        return self.method in LINEAR + ROBUST

    def __call__(self, X: Rows) -> Rows:
        X = check_rows(X, self.n_features_in)
        dtype = working_dtype(X.dtype)
        if isinstance(X, np.ndarray):
            return self._scaled(X.astype(dtype, copy=False), ..., None)
        if self.method in SHIFTING:
            raise InputError(
                f"scaling {self.method!r} shifts columns and would fill a sparse block; "
                "use 'maxabs', 'l1-rows' or 'l2-rows', or dense rows"
            )
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        data = self._scaled(X.data.astype(dtype, copy=False), X.indices, rows)
        return sp.csr_array((data, X.indices, X.indptr), shape=X.shape)

    def _scaled(self, values: np.ndarray, columns: Any, rows: np.ndarray | None) -> np.ndarray:
        """Rows, or the entries of CSR rows in such rows and columns, in other units, in their dtype."""
        if self.method == "divide":
            return values / values.dtype.type(self.divisor)
        if self.learned:
            return self._in_units(values, columns).astype(values.dtype)
        exponents = np.frexp(_by_row(np.maximum, abs(values), rows))[1]
        values = np.ldexp(values, -exponents)  # so that no square overflows
        norms = _by_row(np.add, abs(values) if self.method == "l1-rows" else values * values, rows)
        norms = norms if self.method == "l1-rows" else np.sqrt(norms)
        return values / np.where(norms == 0, norms.dtype.type(1), norms)  # a row of zeros stays one

    def _in_units(self, values: np.ndarray, columns: Any = ...) -> np.ndarray:
        """Rows, or entries of the columns of such numbers. `shift` is float64, so that the difference is too: a float32
        column of large mean keeps its digits.
        """
        assert self.shift is not None
        assert self.scale is not None
        units = (values - self.shift[columns]) / self.scale[columns]
        if self.method not in ROBUST:
            return units
        zero = np.arcsinh(self.shift / self.scale)[columns] if self.method == "robust-zeros" else 0.0
        return np.arcsinh(units) + zero

    def columns(self, X: Rows, start: int, stop: int) -> Rows:
        return self(X)[:, start:stop]

    def work(self) -> tuple[float, float]:
        return 4.0 * self.n_features_in, 16.0 * self.n_features_in


def _by_row(function: np.ufunc, values: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
    """The sums or maxima of rows, from 0, each beside all values of its row."""
    if rows is None:
        return function.reduce(values, axis=1, keepdims=True, initial=0)
    made = np.zeros(rows.max(initial=-1) + 1, dtype=values.dtype)
    function.at(made, rows, values)
    return made[rows]


#: Rows that the medians of "robust" are taken from.
_SAMPLE = 10_000
_SAMPLE_BYTES = 2**27
#: Interquartile range of the standard normal law: divided by it, a range is a standard deviation.
_NORMAL_RANGE = 1.3489795003921634
#: A spread of so many parts of the largest value is rounding.
_ROUNDING = 10 * np.finfo(np.float64).eps
#: Columns of a size between these have squares, and sums of them, that float64 holds.
_SQUARES = 1e-140, 1e140


@estimator
class StreamingScaler(OneToOneFeatureMixin, FeatureEstimator):
    """Scale the columns or the rows of data larger than memory.

    Column scalings take one pass to fit, robust ones a sample of rows; row norms and "divide" learn nothing.

    Parameters
    ----------
    method : str, default="standard"
        "standard" gives columns zero mean and unit variance, "minmax" maps them to [0, 1], "maxabs" to [-1,
        1] and keeps zeros. "robust" takes arcsinh of the distance from the median in spreads: linear near
        the median, a logarithm far out, so that one far value squashes neither the others nor the kernel.
        "robust-zeros" subtracts what "robust" gives to 0. So zeros stay zeros, and CSR rows can be scaled.
        "l1-rows" and "l2-rows" give each row unit norm. "divide" divides by `divisor`.
    divisor : float, default=1.0
        The number that "divide" divides by, such as 255 for grey values.

    Attributes
    ----------
    map_ : ScalingMap
        The frozen map, with the arrays `shift` and `scale` of shape (d,) where columns were learned.
    n_features_in_ : int
        Number of input columns, d.

    Notes
    -----
    A column without spread is shifted and not scaled. CSR blocks stay CSR; "standard", "minmax" and "robust"
    refuse them. Robust ones read at most 10,000 sampled rows. Their spread is the interquartile range over that of
    the normal law, 1.349. For a column that is mostly one value, it is the median distance of the other values
    from that one.

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import StreamingScaler
    >>> X = np.array([[0.0, 10.0], [1.0, 30.0], [2.0, 20.0]])
    >>> StreamingScaler("minmax").fit_transform(X)
    array([[0. , 0. ],
           [0.5, 1. ],
           [1. , 0.5]])
    """

    map_: ScalingMap = learned()

    method: str = param(default="standard", rule=METHOD, kw_only=False)
    divisor: float = param(default=1.0, rule=DIVISOR)

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> StreamingScaler:
        """Learn the scaling from the rows of X.

        Parameters
        ----------
        X : {array, CSR matrix, Dask array} of shape (n, d)
            Input rows. A Dask array is read block by block.
        y : ignored, default=None
            Not used; it is there so that the estimator fits into a Pipeline.

        Returns
        -------
        StreamingScaler
            The fitted estimator itself.

        Raises
        ------
        InputError
            A parameter breaks a rule, X holds NaN or infinity, or a scaling that shifts columns meets
            sparse rows.
        """
        X = validate_rows(self, X, reset=True)
        if blocks_are_csr(X) and self.method in SHIFTING:
            raise InputError(
                f"scaling {self.method!r} shifts columns and would fill a sparse matrix; use 'robust-zeros', 'maxabs', "
                "'l1-rows' or 'l2-rows', or dense rows"
            )
        d = X.shape[1]
        shift = scale = None
        if self.method in ROBUST:
            shift, scale = _robust_units(X)
        elif self.method in LINEAR:
            moments = column_moments(X)
            size, spread = np.maximum(abs(moments.low), abs(moments.high)), moments.high - moments.low
            far = (size > 0) & ~((size > _SQUARES[0]) & (size < _SQUARES[1]))
            if far.any() and self.method == "standard":  # their squares overflow or vanish
                column = int(far.argmax())
                raise InputError(
                    f"scaling 'standard' takes columns of a size between {_SQUARES[0]} and {_SQUARES[1]}, got column {column} "
                    f"with values up to {size[column]:g}; multiply it by a power of ten, or take 'maxabs'"
                )
            if self.method == "maxabs":
                shift, scale = np.zeros(d), size
            else:
                standard = self.method == "standard"
                shift = moments.mean if standard else moments.low
                # A spread of a few roundings is none; the variance of equal numbers need not come out as 0.
                varies = spread > _ROUNDING * size
                scale = np.where(varies, np.sqrt(moments.variance) if standard else spread, 0.0)
            scale = np.where(scale > 0, scale, 1.0)
            if not np.isfinite(scale).all():
                raise InputError(
                    f"columns must span less than 1.8e308, got column {int(np.argmax(scale))} of more; divide it first"
                )
        self.map_ = ScalingMap(d, d, self.method, self.divisor, shift, scale)
        return self

    def _planned_map(self, d: int) -> ScalingMap:
        return ScalingMap(d, d, self.method, self.divisor)

    def planned_costs(self, rows: PlannedRows, planned: FeatureMap) -> Costs:
        if self.method in ROBUST:
            note = f"scale {self.method!r}, from at most {_SAMPLE:,} sampled rows"
            return rows.sample_costs(_SAMPLE, note)
        by_column = self.method in LINEAR
        return rows.costs_of(MomentsReduction(planned.n_features_in)) if by_column else Costs()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.method not in SHIFTING
        return tags


def _robust_units(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Median and spread of the columns of X, shape (d,) each, from seeded rows.

    Raises InputError where these are not finite.
    """
    size = max(1000, min(_SAMPLE, _SAMPLE_BYTES // (8 * X.shape[1])))
    taken = take_rows(X, sampled_rows(X.shape[0], size, 0, "robust units"), sparse=True)
    rows: Any = check_rows(taken.astype(np.float64), taken.shape[1])
    if not sp.issparse(rows):
        return _dense_units(rows)
    columns, d = rows.tocsc(), rows.shape[1]
    counts, middle, spread = np.diff(columns.indptr), np.zeros(d), np.ones(d)
    often = 4 * counts >= rows.shape[0]  # the quartiles of the others are 0
    middle[often], spread[often] = _dense_units(columns[:, often].toarray())
    for j in np.flatnonzero(~often & (counts > 0)):
        entries = np.abs(columns.data[columns.indptr[j] : columns.indptr[j + 1]])
        spread[j] = _others(entries, _ROUNDING * entries.max())
    return middle, spread


def _dense_units(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Median and spread of the columns of float64 rows."""
    low, middle, high = np.quantile(rows, [0.25, 0.5, 0.75], axis=0)
    spread = (high - low) / _NORMAL_RANGE
    rounding = _ROUNDING * np.abs(rows).max(axis=0)
    for j in np.flatnonzero(spread <= rounding):
        spread[j] = _others(np.abs(rows[:, j] - middle[j]), rounding[j])
    return middle, spread


def _others(distances: np.ndarray, rounding: float) -> float:
    """Median distance of the values that are not those of most rows, which CSR rows may store; 1 where there are none."""
    others = distances[distances > rounding]
    return float(np.median(others)) if len(others) else 1.0
