"""Factorizations of small dense matrices that always come to an end."""

from __future__ import annotations

import numpy as np
from scipy import linalg


def svd(A: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """U (m, k), singular values (k,) falling, and V' (k, n) of finite A (m, n) = U diag(s) V', with k = min(m, n).

    LAPACK's divide and conquer (gesdd) does not converge on some finite matrices; its QR iteration (gesvd), several times
    slower, then does.
    """
    try:
        return linalg.svd(A, full_matrices=False, check_finite=False)
    except linalg.LinAlgError:
        return linalg.svd(A, full_matrices=False, check_finite=False, lapack_driver="gesvd")
