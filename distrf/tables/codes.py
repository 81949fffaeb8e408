"""Codes: whole numbers of which rows share each, such as the number of a shop, whose levels may tell more than their order."""

from __future__ import annotations

import numpy as np

from ..maps.table_missing import MISSING
from .frequent import FrequentCodes
from .summary import TableSummary

#: Bins of the line, the standard errors by which levels must be better, and the share of the variance of the targets.
_BINS, _ERRORS, _SHARE = 16, 3.0, 1e-3


def levels_tell(levels: FrequentCodes, summary: TableSummary) -> bool:
    """Whether the levels of a number tell the target what a line through the number does not, by rows of other folds.

    The line is the least-squares fit that is linear over 16 bins of like weight. A level of w rows has its value b, drawn to the
    mean of its rows as an empirical Bayes estimate: l = b + (mean - b) w T / (w T + V), V the variance within levels, T that of
    their means about the line (Morris 1983). Both are of the rows without a fold, which then judges them. All of it follows
    from the sums of the targets by level and fold, so from one pass over the rows.

    Parameters
    ----------
    levels : FrequentCodes
        Of a column, with sums of targets; MISSING may be one of them.
    summary : TableSummary

    Returns
    -------
    bool
        Whether squared errors fall by three standard errors and a thousandth of the variance; False where some level was lost.
    """
    if levels.lost or not levels.n_outputs or len(levels.codes) < 4:
        return False
    n, total = levels.sums[:, :, 0].sum(axis=1), levels.sums[:, :, 1:].sum(axis=1)
    within = (summary.squares - (total**2 / n[:, None]).sum(axis=0)) / max(n.sum() - len(n), 1.0)
    within = np.maximum(within, 1e-12 * summary.squares / n.sum() + 1e-300)
    held = levels.codes != MISSING
    codes, sums, n = levels.codes[held], levels.sums[held], n[held]
    shares = np.linspace(0.0, 1.0, _BINS + 1) * n.sum()
    edges = np.unique(codes[np.minimum(np.searchsorted(np.cumsum(n), shares), len(n) - 1)])
    line = np.stack([np.interp(codes, edges, one) for one in np.eye(len(edges))], axis=1)
    gain = variance = 0.0
    for fold in range(sums.shape[1]):
        rest, judged = sums.sum(axis=1) - sums[:, fold], sums[:, fold]
        w = rest[:, :1]
        A = line.T @ (w * line) + 1e-9 * n.sum() * np.eye(len(edges))
        b = line @ np.linalg.solve(A, line.T @ rest[:, 1:])
        apart = np.where(w > 0, rest[:, 1:] / np.maximum(w, 1.0) - b, 0.0)
        spread = ((w * apart**2).sum(axis=0) - np.count_nonzero(w) * within) / max(w.sum(), 1.0)
        spread = np.maximum(spread, 0.0)
        moved = apart * (w * spread / (w * spread + within))
        gain += float((2 * judged[:, 1:] * moved - judged[:, :1] * moved * (2 * b + moved)).sum())
        variance += float((4 * judged[:, :1] * moved**2 * within).sum())
    every = summary.totals.sum(axis=0)
    of_all = float((summary.squares - every[1:] ** 2 / max(every[0], 1.0)).sum())
    return bool(gain > max(_ERRORS * variance**0.5, _SHARE * of_all))
