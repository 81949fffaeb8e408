"""All that one pass sums up of the predictions of a model, and the scores as plain data. Number code."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..execution.passes import StateOfStates
from ..randomness import mixed_words
from ..targets import float_columns
from .errors import ErrorSums
from .headline import headline, rare_class
from .labels import MATRIX_LABELS, LabelCounts
from .probabilities import ProbabilitySums
from .ranking import BINS, ClassRankings
from .samples import RowSample

#: Rows of a sample, and outputs of each that are kept, the first ones: there may be thousands.
SAMPLED, OUTPUTS = 1000, 10
#: Scores of slices that are shown, beside the first one.
SLICE_SCORES = ("accuracy", "balanced_accuracy", "roc_auc", "log_loss", "rmse", "mae")


@dataclass
class ClassifierSums(StateOfStates):
    """Sums over the rows of a classifier: labels, rankings, probabilities.

    Parameters
    ----------
    classes : array of shape (c,)
        Of the model, in ascending order.
    given : tuple of str
        What `add` gets beside the labels, in this order: "decisions", "predicted", "probabilities". Labels are predicted
        by decision values or as "predicted" says. Two classes are ranked by decision values, more by probabilities:
        decision values of several classes do not compare across rows. Either stands in where the other is not given.
    bins : int, default 65536
        Of each ranking; 0: nothing is ranked.
    matrix : bool, default True
        Whether pairs of labels are counted.

    Attributes
    ----------
    rows : int
    labels : LabelCounts
    rankings : ClassRankings
        Of the second of two classes, or of each class against the rest; of no class if nothing is ranked.
    probabilities : ProbabilitySums
    """

    classes: np.ndarray
    given: tuple[str, ...]
    bins: int = BINS
    matrix: bool = True
    rows: int = 0
    labels: LabelCounts = field(init=False)
    rankings: ClassRankings = field(init=False)
    probabilities: ProbabilitySums = field(init=False)

    def __post_init__(self) -> None:
        ranked = self.classes[1:] if self.two else self.classes
        if not self.bins or not {"decisions", "probabilities"} & set(self.given):
            ranked = ranked[:0]
        self.labels = LabelCounts(self.classes, MATRIX_LABELS if self.matrix else 0)
        self.rankings = ClassRankings(ranked, self.bins)
        self.probabilities = ProbabilitySums(self.classes)

    @property
    def two(self) -> bool:
        """Whether the model has two classes, which share one decision value."""
        return len(self.classes) == 2

    @property
    def states(self) -> list[Any]:  # type: ignore[override]
        return [self.labels, self.rankings, self.probabilities]

    def add(self, y: np.ndarray, *blocks: np.ndarray) -> None:
        """Count the rows of a block.

        Parameters
        ----------
        y : array of shape (rows,), labels
        *blocks : arrays
            As `given` says: decision values, of shape (rows,) for two classes, else (rows, c); predicted labels, of shape
            (rows,); probabilities, of shape (rows, c); weights, of shape (rows,).
        """
        found = dict(zip(self.given, blocks, strict=True))
        decisions, probabilities = found.get("decisions"), found.get("probabilities")
        predicted, weight = found.get("predicted"), found.get("weights")
        if predicted is None:
            assert decisions is not None
            best = (decisions > 0).astype(np.intp) if decisions.ndim == 1 else decisions.argmax(axis=1)
            predicted = self.classes[best]
        self.rows += len(y)
        self.labels.add(y, predicted, weight)
        if probabilities is not None:
            self.probabilities.add(y, probabilities, weight)
            if decisions is None or not self.two:
                decisions = probabilities[:, 1] if self.two else probabilities
        if self.rankings.states:
            assert decisions is not None
            self.rankings.add(y, decisions, weight)

    def merge(self, other: ClassifierSums) -> None:
        """Count the rows of another state, which is left as it is."""
        self.rows += other.rows
        super().merge(other)

    @property
    def class_weights(self) -> np.ndarray:
        """Weight of the rows of each class of the model."""
        return self.labels.truth[np.searchsorted(self.labels.labels, self.classes)]

    @property
    def positive(self) -> int:
        """Of two classes, the one whose average precision is told: the second, unless the first is rare."""
        return 0 if rare_class(self.class_weights) == 0 else 1

    def scores(self, whole: ClassifierSums | None = None) -> dict[str, float | None]:
        """The scores by name, those of a slice of the rows of `whole` if that is given.

        They are None where they are not defined, or the model does not say what they need.
        """
        known, held, positive = self.labels, self.probabilities, (whole or self).positive
        auc, precision = self.rankings.roc_auc(), self.rankings.average_precision(self.two and positive == 0)
        scores = {
            "accuracy": known.accuracy,
            "balanced_accuracy": known.balanced_accuracy,
            "f1_macro": known.mean_of(known.f1s),
            "roc_auc": auc[0],
            "roc_auc_error": auc[1],
            "average_precision": precision[0],
            "average_precision_error": precision[1],
            "log_loss": held.log_loss,
            "brier": held.brier,
        }
        return dict(zip(scores, _plain(scores.values()), strict=True))

    def report(self) -> dict[str, Any]:
        """All scores, those of each class, the confusion matrix and the calibration, as plain JSON."""
        known, scores, first = self.labels, self.scores(), headline(self.class_weights)
        each = (_plain(score.tolist()) for score in (known.precisions, known.recalls, known.f1s))
        observed, predicted, weight = self.probabilities.calibration
        classes = zip(known.labels.tolist(), _counts(known.truth), *each, strict=True)
        bins = zip(predicted.tolist(), observed.tolist(), _counts(weight), strict=True)
        return {
            "score": first if scores[first] is not None else "accuracy",
            "rows": self.rows,
            **scores,
            "positive": self.classes[self.positive].item() if self.two else None,
            "classes": _records("label rows precision recall f1", classes),
            "confusion_matrix": None if known.matrix is None else [_counts(row) for row in known.matrix],
            "calibration": _records("predicted observed rows", bins) or None,
        }


@dataclass
class RegressorSums(StateOfStates):
    """Sums over the rows of a regressor.

    Parameters
    ----------
    given : tuple of str
        What `add` gets beside the targets, in this order: "predicted", "weights", "rows". With "rows" some rows are kept.

    Attributes
    ----------
    rows : int
    errors : ErrorSums
    sample : RowSample
        Targets of some rows, of the first outputs, and beside them the predictions; of no rows without "rows".
    """

    given: tuple[str, ...] = ("predicted",)
    rows: int = 0
    errors: ErrorSums = field(default_factory=ErrorSums)
    sample: RowSample = field(default_factory=lambda: RowSample(SAMPLED, 2 * OUTPUTS))

    @property
    def states(self) -> list[Any]:  # type: ignore[override]
        return [self.errors, self.sample]

    def add(self, y: np.ndarray, *blocks: np.ndarray) -> None:
        """Count the rows of a block.

        Parameters
        ----------
        y : array of shape (rows,) or (rows, outputs)
        *blocks : arrays
            As `given` says: predicted numbers, of the shape of y; weights and row numbers, of shape (rows,).
        """
        found = dict(zip(self.given, blocks, strict=True))
        self.rows += len(y)
        self.errors.add(y, found["predicted"], found.get("weights"))
        if "rows" in found:
            weight = found.get("weights")
            counts = np.ones(len(y), dtype=bool) if weight is None else weight > 0
            values = np.hstack([float_columns(block)[counts, :OUTPUTS] for block in (y, found["predicted"])])
            self.sample.add(mixed_words(1 + found["rows"][counts].astype(np.uint64)), values)

    def merge(self, other: RegressorSums) -> None:
        """Count the rows of another state, which is left as it is."""
        self.rows += other.rows
        super().merge(other)

    def scores(self, whole: RegressorSums | None = None) -> dict[str, float | None]:
        """The scores by name, of a slice of the rows of `whole` too; None where they are not defined."""
        return {name: getattr(self.errors, name) for name in ("r2", "rmse", "relative_rmse", "mae")}

    def report(self) -> dict[str, Any]:
        """All scores as plain JSON."""
        return {"score": "r2", "rows": self.rows, **self.scores()}


def _counts(sums: np.ndarray) -> list[int | float]:
    """Numbers of rows, or sums of their weights, which need not be whole."""
    return [int(value) if value == int(value) else float(value) for value in sums]


def _plain(values: Any) -> list[float | None]:
    return [None if value != value else value for value in values]


def _records(names: str, rows: Any) -> list[dict[str, Any]]:
    return [dict(zip(names.split(), row, strict=True)) for row in rows]
