"""Candidates on the sample: ridge on their features, judged by held-out rows. In memory, a second or so each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from threadpoolctl import threadpool_limits

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
#: Fourier features of a candidate, of the last comparison, and of long length scales: few features favour these.
SCOUT_COMPONENTS, COMPONENTS, FINE_COMPONENTS = 512, 1024, 2048
#: Standard errors by which the labels at another alpha must be better: the best of eight is one or two by chance.
_MISLED = 4.0


@dataclass(frozen=True)
class Verdict:
    """One candidate with its best alpha, judged by each held-out row, and its accuracy or R^2.

    losses : squared error of each row, shape (rows,), mean over the outputs; of a classifier that of decisions cut off
        at -1 and 1, so that no row far out decides; times the weight of the row, which is 1 on average
    missed : whether the label of each row is wrong, shape (rows,), times its weight; None for numbers
    unlike : share of the rows that are not copies of others: those that count as independent
    misled : whether the alpha of least squared error, as it is, misses far more labels
    decisions : decision value of each row, shape (rows,), for two classes; else None
    groups : of the rows, as numbers, if rows of one may be alike: then groups count as independent, not rows; else None
    """

    losses: np.ndarray
    missed: np.ndarray | None
    score: float
    alpha: float
    unlike: float = 1.0
    misled: bool = False
    decisions: np.ndarray | None = None
    groups: np.ndarray | None = None

    @property
    def error(self) -> float:
        return float(self.losses.mean())

    def leads(self, other: Verdict, errors: float = 1.0) -> int:
        """1 or -1 where either misses fewer labels by more than so many standard errors of the difference, else 0."""
        if self.missed is None or other.missed is None:
            return 0
        return int(self._apart(other.missed * 1.0 - self.missed, errors))

    def better(self, other: Verdict) -> bool:
        """Whether it leads in labels; where they are level, whether its squared error is lower."""
        return (self.leads(other) or np.sign(other.error - self.error)) > 0

    def beats(self, other: Verdict) -> bool:
        """Whether it is better, in labels or else in squared error, by a standard error of the difference."""
        return (self.leads(other) or self._apart(other.losses - self.losses)) > 0

    def margin(self, other: Verdict) -> float:
        """Standard error of the difference of the scores: of accuracies, or of R^2 where `other` is the constant."""
        if self.missed is not None and other.missed is not None:
            return self.standard_error(other.missed * 1.0 - self.missed)
        return self.standard_error(other.losses - self.losses) / (other.error or 1.0)

    def standard_error(self, values: np.ndarray) -> float:
        """Of the mean of values of the rows."""
        if self.groups is not None:  # Liang & Zeger 1986: the sums of groups are independent
            places = np.unique(self.groups, return_inverse=True)[1]
            sums = np.bincount(places, values - values.mean())
            return float(np.sqrt((sums @ sums) * len(sums) / max(1, len(sums) - 1)) / len(values))
        return float(np.std(values)) / np.sqrt(max(1.0, self.unlike * len(values)))

    def _apart(self, differences: np.ndarray, errors: float = 1.0) -> float:
        """The sign of a mean that is more than so many standard errors from 0, else 0."""
        mean = float(differences.mean())
        return np.sign(mean) if abs(mean) > errors * self.standard_error(differences) else 0.0

    def __str__(self) -> str:
        if self.missed is None:
            return f"squared error {self.error:.4g}"
        return f"accuracy {self.score:.4f} ± {self.standard_error(self.missed):.4f}"


def judge(sample: Sample, targets: Targets, features: Callable[[Any], Any], width: int) -> Verdict:
    """Ridge on features(X), shape (rows, width), of the training rows of each split; the rest judges it."""
    # A hundred small factorisations: threads of BLAS would wait for each other, on a busy machine for six times as long as
    # one thread computes. And the verdict is then the same on any number of cores.
    with threadpool_limits(1, user_api="blas"):
        return _judge(sample, targets, features, width)


def _judge(sample: Sample, targets: Targets, features: Callable[[Any], Any], width: int) -> Verdict:
    losses, missed, spread, decisions, plain = [], [], [], [], []
    for train, held in sample.splits:
        weight = sample.weights_of(train)
        path = ridge_path(features, width, sample.X[train], sample.y[train], targets, ALPHAS, True, weight)
        A, C = len(path), targets.width
        for a in range(0, len(held), BLOCK_ROWS):
            rows = held[a : a + BLOCK_ROWS]
            Z = features(sample.X[rows])
            F = np.stack([np.asarray(Z @ s.weights) + s.intercept for s in path], axis=1)
            Y, _ = targets.encode(sample.y[rows], None)
            if targets.classes is not None:
                wrong = (F > 0) != (Y[:, None] > 0) if C == 1 else F.argmax(2) != Y.argmax(1)[:, None]
                missed.append(wrong.reshape(len(rows), A))
                if C == 1:
                    decisions.append(F[:, :, 0].copy())
                plain.append(((F - Y[:, None]) ** 2).sum(axis=2))
                np.clip(F, -1.0, 1.0, out=F)
            losses.append(((F - Y[:, None]) ** 2).mean(axis=2))
            spread.append((Y**2).mean(axis=1))
    weights, unlike = sample.held_weights, 1.0 - sample.copies
    table = np.concatenate(losses) * weights[:, None]
    if not missed:
        total = float((np.concatenate(spread) * weights).mean())  # targets are centred
        k = int(np.argmin(table.mean(axis=0)))
        score = 1.0 - float(table[:, k].mean()) / total if total > 0 else 0.0
        return Verdict(table[:, k], None, score, ALPHAS[k], unlike, groups=sample.held_groups)
    labels = np.concatenate(missed) * weights[:, None]
    ranked = list(np.concatenate(decisions).T) if decisions else [None] * len(ALPHAS)
    verdicts = [
        Verdict(
            table[:, k],
            labels[:, k],
            1.0 - float(labels[:, k].mean()),
            ALPHAS[k],
            unlike,
            False,
            ranked[k],
            sample.held_groups,
        )
        for k in range(len(ALPHAS))
    ]
    best = max(verdicts, key=lambda v: (v.score, -v.error))
    chosen = min((v for v in verdicts if not best.leads(v)), key=lambda v: v.error)
    return replace(
        chosen, misled=chosen.leads(verdicts[int(np.argmin(weights @ np.concatenate(plain)))], _MISLED) > 0
    )


def judge_constant(sample: Sample, targets: Targets) -> Verdict:
    """The mean of the training rows' targets, hence their most frequent label."""
    losses, missed = [], []
    for train, held in sample.splits:
        mean = np.average(targets.encode(sample.y[train], None)[0], axis=0, weights=sample.weights_of(train))
        Y, _ = targets.encode(sample.y[held], None)
        losses.append(((Y - mean) ** 2).mean(axis=1))
        if targets.classes is not None:
            wrong = (mean > 0) != (Y > 0) if targets.width == 1 else mean.argmax() != Y.argmax(axis=1)
            missed.append(np.ravel(wrong))
    weights = sample.held_weights
    labels = np.concatenate(missed) * weights if missed else None
    score = 0.0 if labels is None else 1.0 - float(labels.mean())
    decisions = np.zeros(len(labels)) if labels is not None and targets.width == 1 else None
    return Verdict(
        np.concatenate(losses) * weights,
        labels,
        score,
        0.0,
        1.0 - sample.copies,
        False,
        decisions,
        sample.held_groups,
    )


def judge_columns(sample: Sample, targets: Targets, seed: int) -> Verdict:
    """The columns themselves."""
    scale = column_scale(sample.X, seed)
    return judge(sample, targets, lambda X: X * (1.0 / scale), sample.X.shape[1])


def judge_map(
    sample: Sample, targets: Targets, estimator: Any, columns: bool = False, seed: int = 0
) -> Verdict:
    """The features of an unfitted map that learns without targets, alone or with the columns beside them."""
    return judge(sample, targets, *map_features(sample, estimator, columns, seed))


def map_features(
    sample: Sample, estimator: Any, columns: bool = False, seed: int = 0
) -> tuple[Callable[[Any], Any], int]:
    """What `judge_map` judges: a function from rows to features, and their number."""
    fitted = clone(estimator).fit(sample.X)
    D = fitted.map_.n_components
    if not columns:
        return fitted.transform, D
    scale = column_scale(sample.X, seed)

    def both(X: Any) -> np.ndarray:
        return np.hstack([(X.toarray() if sp.issparse(X) else X) / scale, fitted.transform(X)])

    return both, D + sample.X.shape[1]


def rule_length_scale(rule: str, parts: dict[str, Any], sample: Sample, seed: int) -> float | None:
    """The number of a length-scale rule on the sample; None for a kernel without length scale."""
    kernel = parts.get("kernel", "gaussian")
    if not (isinstance(kernel, Kernel) or kernel in KERNELS):
        return None
    chosen = kernel_with(kernel, parts, Kernel)
    return resolve_length_scale(chosen, rule, None, sample.X, seed)


def search_length_scale(judge_multiple: Callable[[float], Verdict]) -> float:
    """The best multiple of a length scale, going down or else up from 1 as long as candidates get better.

    1 is kept where the best one is not better by a standard error: few held-out rows say little.

    Parameters
    ----------
    judge_multiple : function of a multiple that returns the Verdict on it
    """
    best = start = MULTIPLES.index(1.0)
    verdict = first = judge_multiple(1.0)
    for step in (-1, 1):
        i = start + step
        while 0 <= i < len(MULTIPLES) and (candidate := judge_multiple(MULTIPLES[i])).better(verdict):
            best, verdict = i, candidate
            i += step
        if best != start:
            break
    return MULTIPLES[best] if verdict.beats(first) else 1.0


def shorten_multiple(multiple: float, judge_multiple: Callable[[float], Verdict]) -> float:
    """The best multiple of a length scale, going down from this one as long as candidates get better."""
    i = MULTIPLES.index(multiple)
    verdict = judge_multiple(multiple)
    while i > 0 and (candidate := judge_multiple(MULTIPLES[i - 1])).better(verdict):
        i, verdict = i - 1, candidate
    return MULTIPLES[i]
