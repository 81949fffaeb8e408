"""Exact values of any kernel for blocks of rows, through one matrix product where the kernel allows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from ..typing import Rows
from .base import AnyKernel, as_float64
from .dot_product import DotProductKernel
from .shift_invariant import Kernel

#: Rows with a smaller share of nonzeros are kept as CSR.
_FEW = 0.05
#: How many rows the median is taken over that is the centre.
_MIDDLE = 65


def kernel_with_rows(
    kernel: AnyKernel, Y: Rows, length_scale: float, of_csr: bool
) -> Callable[[Rows], np.ndarray]:
    """k(x, y) for the rows y of Y, as a function of blocks of rows x.

    Distances are |x|^2 - 2 x.y + |y|^2 and err by rounding. Dense rows are first centred by the medians of the columns over at most 65
    rows of Y: so an offset common to all rows costs no digits, and one far row not those of all others, as a mean would. A kernel that is
    not smooth at 0, such as exp(-|v|), is computed from differences.

    Parameters
    ----------
    kernel : AnyKernel
    Y : array or CSR matrix of shape (m, d)
    length_scale : that of a shift-invariant kernel; the others carry their parameters
    of_csr : whether the blocks are CSR

    Returns
    -------
    Function from an array or CSR matrix of shape (n, d) to an array of shape (n, m), float64.
    """
    if not isinstance(kernel, DotProductKernel) and not (isinstance(kernel, Kernel) and kernel.smooth):
        them = as_float64(Y)
        return lambda X: kernel(X, them, length_scale)
    others: Any = lean(Y) if of_csr else as_float64(Y)
    if isinstance(
        others, np.ndarray
    ):  # SciPy reads the transpose of the array row by row: stored column by column
        others = np.array(others, dtype=np.float64, order="F" if of_csr else "C")
    if isinstance(kernel, DotProductKernel):
        return lambda X: kernel.of_products(safe_sparse_dot(_float64(X), others.T, dense_output=True))
    centre = 0.0
    if not of_csr:
        centre = np.median(others[:: max(1, len(others) // _MIDDLE)], axis=0)
        others -= centre
    others = others.astype(np.float64) / length_scale
    norms = row_norms(others, squared=True)[None]

    def values(X: Rows) -> np.ndarray:
        rows = _float64(X) / length_scale if of_csr else (_float64(X) - centre) / length_scale
        from sklearn.metrics.pairwise import euclidean_distances  # late: a tenth of a second

        squares = euclidean_distances(rows, others, Y_norm_squared=norms, squared=True)
        return kernel.of_squares(squares)

    return values


def kernel_block(kernel: AnyKernel, X: Rows, Y: Rows, length_scale: float) -> np.ndarray:
    """k(x, y) of all pairs of rows, shape (n, m), float64; see `kernel_with_rows`."""
    return kernel_with_rows(kernel, Y, length_scale, sp.issparse(X))(X)


def lean(X: Rows) -> Rows:
    """X as CSR if it has so few nonzeros that sparse products are faster than dense ones, else as it is."""
    return sp.csr_array(X) if sp.issparse(X) or np.count_nonzero(X) < _FEW * X.size else X


def _float64(X: Rows) -> Any:
    return sp.csr_array(X, dtype=np.float64) if sp.issparse(X) else np.ascontiguousarray(X, dtype=np.float64)
