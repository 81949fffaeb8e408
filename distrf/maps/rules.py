"""Rules that set a kernel's length scale, or its gamma, from a seeded sample of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import row_norms

from ..errors import InputError, first_not_finite
from ..execution.planned import Costs, PlannedRows
from ..execution.row_blocks import blocks_are_csr
from ..execution.sampling import sampled_rows, take_rows
from ..kernels.shift_invariant import KERNELS, Kernel
from ..parameters import NONE, Rule, number, one_of, several
from ..typing import ArrayLike, Rows
from .base import times_root

RULES = ("median", "knn", "knn-cnm", "scale")
LENGTH_SCALE = number(above=0) | one_of(*RULES)
#: Of gamma, the factor on x.y in a dot-product kernel.
DOT_GAMMA = number(above=0) | one_of("norm")
LENGTH_SCALES = LENGTH_SCALE | several(number(above=0))
WEIGHTS = several(number(0)) | NONE
SAMPLE = 1000
_NEIGHBOUR = 50
#: Distances of so many parts of the norm of a row are rounding: |x|^2 - 2 x.y + |y|^2 is not 0 for copies.
_ROUNDING = 1e-7
#: Squares of differences of entries up to it are finite, and so are their sums.
_LARGEST = 1e149


def _is_symmetric(value: Any) -> bool:
    M: Any = np.asarray(value) if np.ndim(value) == 2 else np.empty(0)
    return M.dtype.kind in "iuf" and M.shape == (len(M), len(M)) and np.allclose(M, M.T)


METRIC = one_of("whiten") | Rule(("a symmetric matrix of shape (d, d)",), _is_symmetric) | NONE


def rule_costs(rows: PlannedRows, kernel: Any, length_scale: Any, gamma: float | None) -> Costs:
    """The costs of the rule that sets the length scale, for a plan; none if a number does.

    Parameters
    ----------
    rows : PlannedRows
    kernel, length_scale, gamma : as RandomFourierFeatures has them
    """
    if gamma or not isinstance(length_scale, str) or not (isinstance(kernel, Kernel) or kernel in KERNELS):
        return Costs()
    note = f"length scale by the rule {length_scale!r}, from at most {SAMPLE:,} sampled rows"
    return rows.sample_costs(SAMPLE, note)


def refuse_huge(X: Rows) -> None:
    """Raise InputError for rows whose squared distances overflow."""
    values = X.data if sp.issparse(X) else X
    largest = float(np.abs(values).max(initial=0.0))
    if largest > _LARGEST:
        raise InputError(
            f"columns of X are too large, squared distances of rows overflow: up to {largest:g}; give them in other units"
        )


def refuse_not_finite(rows: Rows) -> None:
    """Raise InputError for sampled rows with NaN or infinity."""
    if first_not_finite(rows):
        raise InputError("X must be finite, but the sampled rows hold NaN or infinity; impute or drop them")


def sample_of(X: Any, seed: int, stream: str, sparse: bool = False) -> Rows:
    """At most 1,000 seeded rows of X in float64, as CSR where `sparse`. Raises InputError for rows with NaN or infinity."""
    rows = take_rows(X, sampled_rows(X.shape[0], SAMPLE, seed, stream), sparse=sparse).astype(np.float64)
    refuse_not_finite(rows)
    return rows


def resolve_length_scale(
    kernel: Kernel,
    length_scale: float | str,
    gamma: float | None,
    X: ArrayLike | None,
    seed: int,
    root: np.ndarray | None = None,
) -> float:
    """The number that `length_scale` or `gamma` stands for on the rows of X.

    Parameters
    ----------
    kernel : Kernel, whose norm measures distances
    length_scale : number, or "knn" (mean distance, in the kernel's norm, to the 50th neighbour within
        1,000 sampled rows), "knn-cnm" (half of it: Yu et al. 2015 use exp(-2 |v|^2 / sigma^2)),
        "median" (median distance within the sample) or "scale" (scikit-learn's gamma = 1 / (d var X))
    gamma : scikit-learn's parameter in place of `length_scale`; for the gaussian and laplacian kernels
    X : array, CSR matrix or Dask array of shape (n, d); only a rule reads rows. None in place of rows is a plan: a rule gives 1
    seed : int, of the sample
    root : matrix of shape (d, d), or its diagonal, by which the rows are multiplied first

    Returns
    -------
    float, in the units of the columns, or of those after the root

    Raises
    ------
    InputError : the sampled rows are all equal, too large, or not finite
    """
    if gamma is not None:
        return kernel.length_scale_of_gamma(float(gamma))
    if not isinstance(length_scale, str):
        return float(length_scale)
    if X is None:
        return 1.0
    sparse = blocks_are_csr(X) and kernel.metric == "euclidean"
    rows: Any = sample_of(X, seed, "length-scale", sparse and root is None and length_scale != "scale")
    refuse_huge(rows)
    if root is not None:
        rows = times_root(rows, root)
    if length_scale == "scale":
        value = kernel.length_scale_of_gamma(1.0 / (rows.shape[1] * rows.var())) if rows.var() > 0 else 0.0
    else:
        value = _measured(rows, kernel.metric, length_scale)
        # If columns have few values, most rows have copies, and the kernel tells apart those that differ.
        if not value > 0:
            value = _measured(_distinct(rows), kernel.metric, length_scale)
    if not value > 0:
        raise InputError(
            f"the rule length_scale={length_scale!r} needs at least 2 distinct rows, got n_samples = {X.shape[0]} "
            "with all sampled rows equal; give a number"
        )
    return value


def _measured(rows: Any, metric: str, rule: str) -> float:
    """The distance by the rule "median", "knn" or "knn-cnm"; 0 if the 50th neighbour of a row is its copy."""
    if rule == "median":
        return median_distance(rows, metric)
    k = min(_NEIGHBOUR, rows.shape[0] - 1)
    if k == 0:
        return 0.0
    rows = _centred(rows)
    from sklearn.neighbors import NearestNeighbors  # late: a third of a second

    near = NearestNeighbors(n_neighbors=k, metric=metric).fit(rows).kneighbors()[0][:, -1]  # not the row itself
    copies = near <= _ROUNDING * row_norms(rows)
    return 0.0 if copies.any() else float(near.mean()) * (0.5 if rule == "knn-cnm" else 1.0)


def _distinct(rows: Any) -> Any:
    """The rows of the sample without copies."""
    if not sp.issparse(rows):
        return np.unique(rows, axis=0)
    rows.sort_indices()
    ends = zip(rows.indptr[:-1], rows.indptr[1:], strict=True)
    first = {(rows.indices[a:b].tobytes(), rows.data[a:b].tobytes()): i for i, (a, b) in enumerate(ends)}
    return rows[sorted(first.values())]


def median_distance(rows: Rows, metric: str) -> float:
    """Median distance over all pairs of rows; 0 for a single row, and if it is that of copies but for rounding."""
    n = rows.shape[0]
    if n < 2:
        return 0.0
    rows = _centred(rows)
    from sklearn.metrics import pairwise_distances

    middle = float(np.median(pairwise_distances(rows, metric=metric)[np.triu_indices(n, 1)]))
    return middle if middle > _ROUNDING * np.median(row_norms(rows)) else 0.0


def _centred(rows: Any) -> Any:
    """Dense rows about their medians, so that products cancel less; a mean would follow one far row."""
    return rows if sp.issparse(rows) else rows - np.median(rows, axis=0)


def resolve_gamma(gamma: float | str, X: ArrayLike | None, seed: int) -> float:
    """The number that `gamma` stands for on the rows of X.

    Parameters
    ----------
    gamma : a number, which is returned, or "norm": 1 / mean |x|^2 over at most 1,000 sampled rows, so that gamma x.x
        is 1 on average
    X : array, CSR matrix or Dask array of shape (n, d); only a rule reads rows. None in place of rows is a plan: a rule gives 1
    seed : int, of the sample

    Raises
    ------
    InputError : the sampled rows are all zero, or not finite
    """
    if gamma != "norm":
        return float(gamma)
    if X is None:
        return 1.0
    rows: Any = sample_of(X, seed, "length-scale", sparse=True)  # hashed text has a million columns
    refuse_huge(rows)
    squares = rows.multiply(rows) if sp.issparse(rows) else rows * rows
    mean = float(squares.sum(axis=1).mean())
    if mean == 0.0:
        raise InputError("the rule gamma='norm' needs a row that is not all zeros, got none; give a number")
    return 1.0 / mean
