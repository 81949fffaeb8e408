"""All that one pass sums up of the predictions of a classifier, and the scores as plain data. Number code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..execution.passes import StateOfStates
from .errors import ProbabilitySums
from .labels import LabelCounts, as_labels, codes_of
from .ranking import BINS, Ranking

#: A class is rare if it has less than this share of what it would have if all classes had as many rows.
_RARE = 0.1


def rare_class(shares: np.ndarray) -> int | None:
    """The number of the rarest class, if it is rare: it has fewer than a tenth of the rows that an even share would be.

    Of two classes that is fewer than 5 %: a constant has an accuracy above 95 %, a useful model hardly more. Of c classes it
    is fewer than 0.1 / c, and a model that never predicts such a class loses no more accuracy than that.

    shares : array of shape (c,), share or weight of the rows of each class; those without rows are left out
    """
    there = np.flatnonzero(shares > 0)
    if len(there) < 2:
        return None
    rarest = there[np.argmin(shares[there])]
    return int(rarest) if shares[rarest] * len(there) < _RARE * shares.sum() else None


def headline(shares: np.ndarray) -> str:
    """The score that says most: "accuracy"; where a class is rare "average_precision" of two, "balanced_accuracy" of more.

    shares : as of `rare_class`, of all classes of the model
    """
    if rare_class(shares) is None:
        return "accuracy"
    return "average_precision" if len(shares) == 2 else "balanced_accuracy"


@dataclass
class ClassifierSums(StateOfStates):
    """Sums over the rows of a classifier: labels, rankings, probabilities.

    Parameters
    ----------
    classes : array of shape (c,)
        Of the model, in ascending order.
    bins : int, default 65536
        Of each ranking; 0: nothing is ranked.

    Attributes
    ----------
    labels : LabelCounts
    rankings : list of Ranking
        Of the second of two classes, or of each class against the rest, by its own score.
    probabilities : ProbabilitySums
    """

    classes: np.ndarray
    bins: int = BINS

    #: Whether the model has two classes, which share one decision value.
    two = property(lambda self: len(self.classes) == 2)
    rows = property(lambda self: self.labels.rows)

    def __post_init__(self) -> None:
        self.labels, self.probabilities = LabelCounts(self.classes), ProbabilitySums(self.classes)
        ranked = self.classes[1:] if self.two else self.classes
        self.rankings = [Ranking(self.bins) for _ in ranked] if self.bins else []
        self.states = [self.labels, self.probabilities, *self.rankings]

    def add(
        self,
        y: np.ndarray,
        predicted: np.ndarray | None = None,
        decisions: np.ndarray | None = None,
        probabilities: np.ndarray | None = None,
        weight: np.ndarray | None = None,
    ) -> None:
        """Count the rows of a block.

        Parameters
        ----------
        y : array of shape (rows,), labels
        predicted : array of shape (rows,), labels, optional
            None: of the largest decision value.
        decisions : array of shape (rows,) for two classes, else (rows, c), optional
            By which rows are ranked; None: by probabilities.
        probabilities : array of shape (rows, c), optional
        weight : array of shape (rows,), optional
        """
        if predicted is None:
            assert decisions is not None
            best = decisions > 0 if self.two else decisions.argmax(axis=1)
            predicted = self.classes[best.astype(np.intp)]
        self.labels.add(y, predicted, weight)
        if probabilities is not None:
            self.probabilities.add(y, probabilities, weight)
            if decisions is None:
                decisions = probabilities[:, 1] if self.two else probabilities
        if decisions is not None and self.rankings:
            codes = codes_of(self.classes, as_labels(y)) - self.two
            for k, (ranking, scores) in enumerate(zip(self.rankings, np.atleast_2d(decisions.T), strict=True)):
                ranking.add(scores, codes == k, weight)

    @property
    def class_weights(self) -> np.ndarray:
        """Weight of the rows of each class of the model."""
        return self.labels.truth[np.searchsorted(self.labels.labels, self.classes)]

    @property
    def positive(self) -> int:
        """Of two classes, the one whose average precision is told: the second, unless the first is rare."""
        return 0 if rare_class(self.class_weights) == 0 else 1

    def scores(self) -> dict[str, float | None]:
        """The scores by name.

        They are None where they are not defined, or the model does not say what they need. AUC and average precision are the
        means over the classes for which they are defined.
        """
        of_others = self.two and self.positive == 0
        areas = [ranking.roc_auc() for ranking in self.rankings]
        precisions = [ranking.average_precision(of_others) for ranking in self.rankings]
        ranked = {"roc_auc": _mean(areas), "average_precision": _mean(precisions)}
        scores = self.labels.scores() | ranked | self.probabilities.scores()
        return dict(zip(scores, _plain(scores.values()), strict=True))

    def report(self) -> dict[str, Any]:
        """All scores, those of each class, the confusion matrix and the calibration, as plain JSON."""
        known, scores, first = self.labels, self.scores(), headline(self.class_weights)
        each = (_plain(score.tolist()) for score in (known.precisions, known.recalls, known.f1s))
        observed, predicted, weight = self.probabilities.calibration
        first, shares = first if scores[first] is not None else "accuracy", known.truth / known.weight
        constant = {
            "accuracy": float(shares.max()), "balanced_accuracy": 1.0 / np.count_nonzero(shares),
            "average_precision": float(self.class_weights[self.positive] / known.weight) if self.two else None,
        }  # fmt: skip
        classes = zip(known.labels.tolist(), _counts(known.truth), *each, strict=True)
        bins = zip(predicted.tolist(), observed.tolist(), _counts(weight), strict=True)
        return {
            "score": first,
            "rows": self.rows,
            **scores,
            "score_of_constant": constant[first],
            "positive": self.classes[self.positive].item() if self.two else None,
            "classes": _records("label rows precision recall f1", classes),
            "confusion_matrix": None if known.matrix is None else [_counts(row) for row in known.matrix],
            "calibration": _records("predicted observed rows", bins) or None,
        }


def _counts(sums: np.ndarray) -> list[int | float]:
    """Numbers of rows, or sums of their weights, which need not be whole."""
    return [int(value) if value == int(value) else float(value) for value in sums]


def _mean(scores: list[float]) -> float:
    known = [score for score in scores if score == score]
    return float(np.mean(known)) if known else np.nan


def _plain(values: Any) -> list[float | None]:
    return [None if value != value else value for value in values]


def _records(names: str, rows: Any) -> list[dict[str, Any]]:
    return [dict(zip(names.split(), row, strict=True)) for row in rows]
