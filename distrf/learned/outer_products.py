r"""The average outer product of the gradients of a ridge fit, from the second moments of its features. Number code.

Let f_c(x) = sum_j p_jc C_j + q_jc S_j + l_c . x + b_c be the function of target c, with C_j = s cos(w_j . x),
S_j = s sin(w_j . x) and s = sqrt(2 / D): paired features with the weights p and q, and the columns with the weights l. The
derivative of C_j with respect to the phase is -S_j and that of S_j is C_j, which both are features again. So

    grad f_c(x) = sum_j u_jc w_j + l_c    with    u_jc = q_jc C_j - p_jc S_j,

and the mean of grad f_c grad f_c' over the rows is W' U_c W + (W' m_c) l_c' + l_c (W' m_c)' + l_c l_c', where W has the
rows w_j, and entry by entry

    U_c = mean u_c u_c' = E[C C'] * q q' + E[S S'] * p p' - E[C S'] * q p' - E[S C'] * p q',    m_c = q_c * E[C] - p_c * E[S].

The second moments E[z z'] and the means E[z] are what the pass of a ridge fit adds up. Rows with weights, several targets,
frequencies of any kernel, metric and order: all the same, as the identity holds row by row. It needs the sine with each
cosine: of offset features cos(w . x + b) the products of sines are no function of those of cosines, since
2 cos a cos b = cos(a - b) + cos(a + b) holds their sum and 2 sin a sin b their difference.

References
----------
Radhakrishnan, Beaglehole, Pandit & Belkin, "Mechanism for feature learning in neural networks and backpropagation-free machine
learning models", Science 383, 2024: M = mean of grad f grad f' as the metric of the next fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..maps.phase_precision import times_root
from ..maps.rules import median_distance

#: What is added to a metric, in units of its mean over columns of unit variance: no direction is lost for good.
_FLOOR = 1e-6


def average_outer_product(
    S: np.ndarray,
    mean: np.ndarray,
    weights: np.ndarray,
    W: np.ndarray,
    linear: Any = 0.0,
    *,
    diagonal: bool = False,
) -> np.ndarray:
    """Mean over rows of the outer products of the gradients, summed over targets.

    Parameters
    ----------
    S, mean : second moments, shape (D, D), and means, shape (D,), of paired features, cosines at even columns
    weights : of the features, shape (D, C), for C targets
    W : frequencies in radians, shape (D / 2, d)
    linear : weights of the columns themselves, shape (d, C); 0 where there are none
    diagonal : whether only the diagonal is made

    Returns
    -------
    Array of shape (d, d), or (d,).
    """
    cos, sin, p, q = slice(0, None, 2), slice(1, None, 2), weights[0::2], weights[1::2]
    cross = S[cos, sin] * (q @ p.T)
    U = S[cos, cos] * (q @ q.T) + S[sin, sin] * (p @ p.T) - cross - cross.T
    drift = W.T @ (q * mean[cos, None] - p * mean[sin, None])
    if diagonal:
        return ((U @ W) * W).sum(axis=0) + ((2.0 * drift + linear) * linear + np.zeros_like(drift)).sum(axis=1)
    linear = np.broadcast_to(linear, drift.shape)
    mixed = drift @ linear.T
    return W.T @ U @ W + mixed + mixed.T + linear @ linear.T


def metric_root(M: np.ndarray, rows: np.ndarray, before: np.ndarray | None, norm: str) -> np.ndarray:
    """The root of a metric in which the median distance of rows is that before.

    Parameters
    ----------
    M : average outer product, shape (d, d), or its diagonal, shape (d,)
    rows : shape (n, d)
    before : root of the metric before, or its diagonal; None is the identity
    norm : in which distances are measured, as of a kernel

    Returns
    -------
    A matrix A of shape (d, d), where A A' is the metric, or its diagonal, shape (d,).
    """
    spread = rows.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    mean = float(np.mean((M if M.ndim == 1 else np.diag(M)).clip(0.0) * spread**2)) or 1.0
    if M.ndim == 1:
        root = np.sqrt(M.clip(0.0) * spread**2 / mean + _FLOOR) / spread
    else:
        values, vectors = np.linalg.eigh(spread[:, None] * M * spread / mean)
        root = (vectors * np.sqrt(np.maximum(values, 0.0) + _FLOOR)) @ vectors.T / spread[:, None]
    old, new = (median_distance(rows if A is None else times_root(rows, A), norm) for A in (before, root))
    scaled: np.ndarray = root * (old / new if old > 0 < new else 1.0)
    return scaled
