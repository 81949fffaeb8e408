"""Rows that are fewer than their columns, turned into as many columns. Number code."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import qr

#: Columns beyond which fewer rows are turned into as many columns, and the most bytes of such rows: below, nothing is gained.
_WIDE, _SHORT_BYTES = 1024, 2**27


def is_short(n_rows: int, n_features: int) -> bool:
    """Whether systems of as many unknowns as rows should take the place of those of the features."""
    return n_features > max(n_rows, _WIDE) and 8 * n_rows * n_features <= _SHORT_BYTES


def turned_rows(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Short rows (n, D), dense or CSR, as Z (n, n) with the same products of rows, and the basis Q (D, n) with Z = X Q.

    Ridge weights lie in the span of the rows: of any of the rows, for any penalty, those of X are Q times those of Z.
    """
    Q, R = qr((X.toarray() if sp.issparse(X) else X).astype(np.float64).T, mode="economic", check_finite=False)
    return np.ascontiguousarray(R.T), Q
