"""Exact values of any kernel for blocks of rows, through one matrix product where the kernel allows it."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from ..compiled.csr_products import row_products, square_distances
from ..typing import Rows
from .base import AnyKernel, as_float64
from .shift_invariant import Kernel

#: Rows with a smaller share of nonzeros are kept as CSR.
_FEW = 0.05
#: If both rows of a pair are farther than this from the centre, in length scales, their distance is computed from
#: differences: |x|^2 - 2 x.y + |y|^2 would err by more than 1e-9 squared length scales.
_FAR = 1e3
#: How many rows the median is taken over that is the centre; how many far CSR rows are made dense at a time.
_MIDDLE, _DENSE_ROWS = 65, 64


def middle(Y: np.ndarray) -> np.ndarray:
    """Medians of the columns over at most 65 rows spread over Y, shape (d,), float64.

    Distances are computed about this centre. It is not the mean, which a few far rows could move anywhere, at the cost of
    the digits of all others.
    """
    return np.median(Y[:: max(1, len(Y) // _MIDDLE)].astype(np.float64), axis=0)


def kernel_block(
    kernel: AnyKernel, X: Rows, Y: Rows, length_scale: float, centre: np.ndarray | None = None
) -> np.ndarray:
    """k(x, y) for a block of rows, through one matrix product where the kernel allows it.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    Y : array of shape (m, d), or CSR where X is
    length_scale : that of a shift-invariant kernel; the others carry their parameters
    centre : `middle(Y)` where it is known

    Returns
    -------
    Array of shape (n, m), float64. Squared distances are |x|^2 - 2 x.y + |y|^2. Dense rows are first centred by
    `middle(Y)`, so that an offset common to all rows costs no digits. If both rows of a pair lie far from that centre,
    their distance is computed from differences. Squared distances then err by rounding. A kernel that depends on their
    root near 0, such as exp(-|v|), computes all values from differences, see `AnyKernel.exact_from`.
    """
    X = sp.csr_array(X, dtype=np.float64) if sp.issparse(X) else np.ascontiguousarray(X, dtype=np.float64)
    Y = sp.csr_array(Y, dtype=np.float64) if sp.issparse(Y) else as_float64(Y)
    if kernel.exact_from == "products":
        return kernel.of_products(_products(X, Y))
    if kernel.exact_from == "differences":
        return kernel(X, Y, length_scale)
    rows = X, Y
    if not sp.issparse(X):
        centre = middle(Y) if centre is None else centre
        X, Y = X - centre, Y - centre
    squares = _products(X, Y)
    squares *= -2.0
    x_squares, y_squares = _square_norms(X), _square_norms(Y)
    squares += x_squares[:, None]
    squares += y_squares
    bound = (_FAR * length_scale) ** 2
    _compare_far(*rows, np.flatnonzero(~(x_squares <= bound)), np.flatnonzero(~(y_squares <= bound)), squares)
    return kernel.of_squares(squares, length_scale)


def _compare_far(X: Rows, Y: Rows, far_x: np.ndarray, far_y: np.ndarray, squares: np.ndarray) -> None:
    """Overwrite the squared distances between far rows of X and far rows of Y with those from differences."""
    if not (far_x.size and far_y.size):
        return
    them = as_float64(Y[far_y])
    for a in range(0, far_x.size, _DENSE_ROWS):
        tile = far_x[a : a + _DENSE_ROWS]
        squares[np.ix_(tile, far_y)] = cdist(as_float64(X[tile]), them, "sqeuclidean")


def exact_kernel(kernel: AnyKernel, X: np.ndarray, length_scale: float) -> np.ndarray:
    """k(x, y) of all pairs of rows of an array of shape (n, d), float64, from differences and not from squared norms.

    So the small eigenvalues of the matrix keep their digits.
    """
    # Columns of zeros change no kernel. In text most columns are zero in a few rows.
    used = np.flatnonzero(X.any(axis=0))
    X = X[:, used if used.size else slice(1)].astype(np.float64)
    points = lean(X)
    if isinstance(kernel, Kernel) and kernel.isotropic and sp.issparse(points):
        squares = square_distances(points)
        return kernel.of_distances(np.sqrt(squares, out=squares), length_scale)
    return kernel(X, None, length_scale)


def lean(X: np.ndarray) -> Rows:
    """X as CSR if it has so few nonzeros that sparse products are faster than dense ones, else X itself."""
    return sp.csr_array(X) if np.count_nonzero(X) < _FEW * X.size else X


def _products(X: Rows, Y: Rows) -> np.ndarray:
    """X Y' as a new array."""
    return row_products(X, Y) if sp.issparse(X) and sp.issparse(Y) else np.asarray(X @ Y.T)


def _square_norms(X: Rows) -> np.ndarray:
    return np.asarray((X * X).sum(axis=1)).ravel() if sp.issparse(X) else np.einsum("ij,ij->i", X, X)
