"""Candidates on the sample: ridge on their features, judged by held-out rows. In memory, a second or so each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from ..features.length_scale import resolve_length_scale
from ..features.with_columns import column_scale
from ..kernels.base import kernel_with
from ..kernels.shift_invariant import KERNELS, Kernel
from ..ridge.path import BLOCK_ROWS, ridge_path
from ..targets import Targets
from .sample import Sample

#: Penalties of features whose rows have norm 1.
ALPHAS = tuple(10.0**k for k in range(-8, 0))
#: What a rule's length scale is multiplied by.
MULTIPLES = (0.2, 0.35, 0.6, 1.0, 1.7, 2.8, 4.6, 7.6)
#: Fourier features of a candidate, and of the last comparison.
SCOUT_COMPONENTS, COMPONENTS = 512, 1024


@dataclass(frozen=True)
class Verdict:
    """Of one candidate: the squared error of each held-out row with its best alpha, and accuracy or R^2.

    losses : shape (rows,), mean over the outputs
    """

    losses: np.ndarray
    score: float
    alpha: float

    @property
    def error(self) -> float:
        return float(self.losses.mean())

    def beats(self, other: Verdict, errors: float = 1.0) -> bool:
        """Whether the mean loss is below that of `other` by so many standard errors of their difference."""
        difference = other.losses - self.losses
        return float(difference.mean()) > errors * float(difference.std()) / np.sqrt(len(difference))


def judge(sample: Sample, targets: Targets, features: Callable[[Any], Any], width: int) -> Verdict:
    """Ridge on features(X), shape (rows, width), of the training rows of each split; the rest judges it."""
    losses, hits, spread = [], [], []
    for train, held in sample.splits:
        path = ridge_path(features, width, sample.X[train], sample.y[train], targets, ALPHAS, True)
        W = np.hstack([s.weights for s in path])
        b = np.concatenate([s.intercept for s in path])
        A, C = len(path), targets.width
        for a in range(0, len(held), BLOCK_ROWS):
            rows = held[a : a + BLOCK_ROWS]
            F = (np.asarray(features(sample.X[rows]) @ W) + b).reshape(-1, A, C)
            Y, _ = targets.encode(sample.y[rows], None)
            losses.append(((F - Y[:, None]) ** 2).mean(axis=2))
            spread.append((Y**2).mean(axis=1))
            if targets.classes is not None:
                right = (F > 0) == (Y[:, None] > 0) if C == 1 else F.argmax(2) == Y.argmax(1)[:, None]
                hits.append(right.reshape(len(rows), A))
    table = np.concatenate(losses)
    best = int(np.argmin(table.mean(axis=0)))
    if targets.classes is not None:
        score = float(np.concatenate(hits)[:, best].mean())
    else:
        total = float(np.concatenate(spread).mean())  # targets are centred
        score = 1.0 - float(table[:, best].mean()) / total if total > 0 else 0.0
    return Verdict(table[:, best], score, ALPHAS[best])


def judge_constant(sample: Sample, targets: Targets) -> Verdict:
    """The mean of the training rows' targets, hence their most frequent label."""
    losses, hits = [], []
    for train, held in sample.splits:
        mean = targets.encode(sample.y[train], None)[0].mean(axis=0)
        Y, _ = targets.encode(sample.y[held], None)
        losses.append(((Y - mean) ** 2).mean(axis=1))
        if targets.classes is not None:
            right = (mean > 0) == (Y > 0) if targets.width == 1 else mean.argmax() == Y.argmax(axis=1)
            hits.append(np.ravel(right))
    score = float(np.concatenate(hits).mean()) if hits else 0.0
    return Verdict(np.concatenate(losses), score, 0.0)


def judge_columns(sample: Sample, targets: Targets, seed: int) -> Verdict:
    """The columns themselves."""
    scale = column_scale(sample.X, seed)
    return judge(sample, targets, lambda X: X * (1.0 / scale), sample.X.shape[1])


def judge_map(
    sample: Sample, targets: Targets, estimator: Any, columns: bool = False, seed: int = 0
) -> Verdict:
    """The features of an unfitted map that learns without targets, alone or with the columns beside them."""
    made = clone(estimator).fit(sample.X)
    D = made.map_.n_components
    if not columns:
        return judge(sample, targets, made.transform, D)
    scale = column_scale(sample.X, seed)

    def both(X: Any) -> np.ndarray:
        return np.hstack([(X.toarray() if sp.issparse(X) else X) / scale, made.transform(X)])

    return judge(sample, targets, both, D + sample.X.shape[1])


def rule_length_scale(rule: str, parts: dict[str, Any], sample: Sample, seed: int) -> float | None:
    """The number of a length-scale rule on the sample; None for a kernel without length scale."""
    kernel = parts.get("kernel", "gaussian")
    if not (isinstance(kernel, Kernel) or kernel in KERNELS):
        return None
    chosen = kernel_with(kernel, parts, Kernel)
    return resolve_length_scale(chosen, rule, None, sample.X, seed)


def search_length_scale(at: Callable[[float], Verdict], first: Verdict) -> float:
    """The best multiple, going down or else up from 1 as long as the error falls; `first` is that of 1.

    1 is kept where the best one is not better by a standard error: few held-out rows say little.
    """
    best = start = MULTIPLES.index(1.0)
    verdict = first
    for step in (-1, 1):
        i = start + step
        while 0 <= i < len(MULTIPLES) and (tried := at(MULTIPLES[i])).error < verdict.error:
            best, verdict = i, tried
            i += step
        if best != start:
            break
    return MULTIPLES[best] if verdict.beats(first) else 1.0
