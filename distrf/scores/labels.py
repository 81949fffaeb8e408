"""Labels against predicted labels: weights of the rows by class, and the scores that follow from them. Number code."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import InputError
from ..execution.passes import SizedState
from ..targets import checked_weights, is_missing

#: Labels of which every pair of truth and prediction is counted; beyond, only hits and totals of each.
MATRIX_LABELS = 100
#: More are no labels. The state would grow with the rows.
_MOST_LABELS = 100_000


@dataclass
class LabelCounts(SizedState):
    """Weight of the rows of each label, true, predicted, and both.

    Labels that come with the rows join those that are known.

    Parameters
    ----------
    labels : array of shape (k,), default empty
        Known labels, in ascending order.

    Attributes
    ----------
    rows : int
    counts : float64 array of shape (3, k)
        Weight of the rows with a label (`truth`); for which it was predicted (`predicted`); of which it is both (`hits`).
    matrix : float64 array of shape (k, k), or None
        Weight of the rows with one label for which another was predicted; None beyond 100 labels.
    """

    labels: np.ndarray = field(default_factory=lambda: np.empty(0))
    rows: int = field(default=0, init=False)
    counts: np.ndarray = field(init=False)
    matrix: np.ndarray | None = field(init=False)

    truth = property(lambda self: self.counts[0])
    predicted = property(lambda self: self.counts[1])
    hits = property(lambda self: self.counts[2])
    weight = property(lambda self: float(self.truth.sum()))

    def __post_init__(self) -> None:
        k = len(self.labels)
        self.counts = np.zeros((3, k))
        self.matrix = np.zeros((k, k)) if k <= MATRIX_LABELS else None

    @property
    def nbytes(self) -> int:
        """Bytes of the state with these labels, or with a few."""
        k = max(len(self.labels), 16)
        return self.labels.nbytes + 8 * k * (3 + (k if k <= MATRIX_LABELS else 0))

    def add(self, y: np.ndarray, predicted: np.ndarray, weight: np.ndarray | None = None) -> None:
        """Count the rows of a block.

        Parameters
        ----------
        y, predicted : arrays of shape (rows,), labels
        weight : array of shape (rows,), optional

        Raises
        ------
        InputError
            Labels have several columns, are of two kinds or not finite, or a weight is negative or not finite.
        """
        y, predicted = as_labels(y), as_labels(predicted)
        w = None if weight is None else checked_weights(weight, y)
        self._learn(predicted)
        self._learn(y)
        k = len(self.labels)
        self.rows += len(y)
        true, told = np.searchsorted(self.labels, y), np.searchsorted(self.labels, predicted)
        hits = (true == told) if w is None else w * (true == told)
        self.counts += np.stack([np.bincount(true, w, k), np.bincount(told, w, k), np.bincount(true, hits, k)])
        if self.matrix is not None:
            self.matrix += np.bincount(true * k + told, w, k * k).reshape(k, k)

    def merge(self, other: LabelCounts) -> None:
        """Count the rows of another state, which is left as it is."""
        self._learn(other.labels)
        self.rows += other.rows
        place = np.searchsorted(self.labels, other.labels)
        self.counts[:, place] += other.counts
        if self.matrix is None or other.matrix is None:
            self.matrix = None
        else:
            self.matrix[np.ix_(place, place)] += other.matrix

    def _learn(self, values: np.ndarray) -> None:
        """Let labels that are not known join."""
        unknown = np.unique(values[codes_of(self.labels, values) < 0])
        if len(unknown):
            known, self.rows = copy.copy(self), 0
            self.labels = np.union1d(known.labels, unknown) if len(known.labels) else unknown
            if len(self.labels) > _MOST_LABELS:
                raise InputError(
                    f"labels are at most {_MOST_LABELS:,} different ones, got {len(self.labels):,}: numbers have errors "
                    "(rmse, r2), not labels"
                )
            self.__post_init__()
            self.merge(known)

    # --- scores ----------------------------------------------------------------------------------------------

    def scores(self) -> dict[str, float]:
        """The share of the rows whose label is predicted, the mean recall of the labels that have rows, and the mean F1.

        F1 is of the labels that occur, in the rows or among the predictions; where it is not defined it counts as 0.
        """
        return {
            "accuracy": float(self.hits.sum() / self.weight),
            "balanced_accuracy": float(np.nanmean(self.recalls)),
            "f1_macro": float(np.nan_to_num(self.f1s)[self.truth + self.predicted > 0].mean()),
        }

    #: Of the rows of each label the share that is predicted; of those for which it is predicted the share that has it; the
    #: harmonic mean of both. NaN of no rows.
    recalls = property(lambda self: _ratio(self.hits, self.truth))
    precisions = property(lambda self: _ratio(self.hits, self.predicted))
    f1s = property(lambda self: _ratio(2 * self.hits, self.truth + self.predicted))


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)


def codes_of(labels: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The place of each value among sorted labels; -1 for those that are not there."""
    if not len(labels):
        return np.full(len(values), -1)
    if len(values):
        check_kinds(values, labels)
    place = np.minimum(np.searchsorted(labels, values), len(labels) - 1)
    return np.where(labels[place] == values, place, -1)


def as_labels(y: Any) -> np.ndarray:
    """A block of labels as an array of shape (rows,), text as strings. Raises InputError for what is none."""
    labels = np.asarray(y)
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.ndim != 1 or labels.dtype.kind not in "biufUSO":
        raise InputError(
            f"labels are one column of numbers, booleans or text, got shape {labels.shape} and dtype {labels.dtype}"
        )
    objects = labels.tolist() if labels.dtype.kind == "O" else []
    labels = np.array(objects or np.empty(0)) if labels.dtype.kind == "O" else labels
    missing = any(is_missing(v) or v != v for v in objects)
    if missing or (labels.dtype.kind == "f" and not np.isfinite(labels).all()):
        raise InputError("labels must be finite, but a row of the block has NaN, infinity or none")
    return labels if labels.dtype.kind in "biufU" else labels.astype(str)


def check_kinds(y: Any, predicts: Any) -> None:
    """Raise InputError where one of two arrays holds text and the other numbers, as far as their dtypes tell."""
    texts = [labels.dtype.kind in "US" for labels in (y, predicts) if labels.dtype.kind != "O"]
    if len({*texts}) == 2:
        predicted, held = ("text", "numbers") if texts[1] else ("numbers", "text")
        raise InputError(
            f"labels are compared with labels of one kind, text or numbers; the model predicts {predicted}, the target "
            f"holds {held}; give the target that the model was trained on, or turn it into the names of its classes"
        )
