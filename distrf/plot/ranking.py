"""ROC and precision-recall curves from sums of one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..errors import InputError
from ..metrics.arguments import classes_of, labelled, positive_label
from ..metrics.classification import rankings_of
from .axes import plain
from .scores import ScoreDisplay, classifier_sums

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..pipeline.evaluating import Evaluation
    from ..scores.ranking import Ranking
    from ..typing import ArrayLike

#: Curves that are drawn, those of the smallest areas; points of each.
_CURVES, _POINTS = 10, 1000


class _CurvesDisplay(ScoreDisplay):
    """A curve for the positive one of two classes, or for each class against the rest."""

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_score: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = 1,
        labels: ArrayLike | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the curves of scores, in one pass.

        Parameters
        ----------
        y_true : array or Dask array of shape (n,)
            True labels.
        y_score : array or Dask array of shape (n,) or (n, c)
            Decision values or probabilities of `pos_label`. Or one column for each of c labels, in ascending order.
        sample_weight : array or Dask array of shape (n,), default=None
            Weight of each row. None weighs all alike.
        pos_label : int, str or bool, default=1
            The class, of two labels.
        labels : array of shape (c,), default=None
            The labels. None finds them in a pass over `y_true`.
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.

        Returns
        -------
        display

        Raises
        ------
        InputError
            Scores are not finite, or there is not one column for each label; a label has no rows; `pos_label` is none of
            two labels; or lengths differ.
        """
        y_true, y_score = labelled(y_true, y_score)
        classes = classes_of(y_true, labels)
        if y_score.ndim == 1:
            classes = np.asarray([positive_label(classes, pos_label)])
        found = rankings_of(y_true, y_score, sample_weight, classes)
        return cls._ranked(dict(zip(classes.tolist(), found.each, strict=True))).plot(ax)

    @classmethod
    def _ranked(cls, rankings: dict[Any, Ranking], of_others: bool = False) -> Self:
        raise NotImplementedError

    def _curves(
        self, ax: Axes, x: list[np.ndarray], y: list[np.ndarray], area: list[float], short: str
    ) -> None:
        """Lines and legend: all curves, or those of the smallest areas."""
        names: list[Any] = self.labels  # type: ignore[attr-defined]
        order = list(range(len(names)))
        if len(order) > _CURVES:
            order = sorted(order, key=lambda k: area[k])[:_CURVES]
            ax.set_title(f"{_CURVES} of {len(names)} classes, those of the smallest area", fontsize="medium")
        self.lines_ = [
            ax.plot(*thinned(x[k], y[k]), label=f"{plain(names[k], 20)} ({short} = {area[k]:.3f})")[0]
            for k in order
        ]

    def _frame(self, ax: Axes) -> None:
        """Limits and legend: beside the curves where they are several, so that it covers none of them."""
        ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
        if len(self.lines_) > 1:  # beside axes of equal scales there would be no room
            ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")
        else:
            ax.set_aspect("equal")
            ax.legend(frameon=False, loc="best", fontsize="small")


class RocCurveDisplay(_CurvesDisplay):
    """ROC curves: how many rows of a class are found, at how many false alarms.

    The scores of rows are counted as `distrf.metrics.roc_auc` counts them, and the area under a curve is exactly that score.

    Parameters
    ----------
    fpr, tpr : lists of arrays
        For each class the shares of the others, and of its own rows, that score as high or higher.
    roc_auc : list of float
        Areas.
    labels : list
        The classes.

    Attributes
    ----------
    lines_ : list of matplotlib lines
        Curves, of at most 10 classes.
    chance_ : matplotlib line
        Scores that tell nothing.
    ax_, figure_ : matplotlib axes and figure
        What was drawn on.
    """

    def __init__(
        self, *, fpr: list[np.ndarray], tpr: list[np.ndarray], roc_auc: list[float], labels: list[Any]
    ):
        self.fpr = fpr
        self.tpr = tpr
        self.roc_auc = roc_auc
        self.labels = labels

    @classmethod
    def _of(cls, evaluation: Evaluation) -> Self:
        sums = classifier_sums(evaluation, "a ROC curve")
        return cls._ranked(_by_class(sums))

    @classmethod
    def _ranked(cls, rankings: dict[Any, Ranking], of_others: bool = False) -> Self:
        there = {label: ranking for label, ranking in rankings.items() if ranking.defined}
        if not there:
            raise InputError("a ROC curve needs rows of positive weight of a class, and others")
        curves = [ranking.roc_curve() for ranking in there.values()]
        return cls(
            fpr=[curve[0] for curve in curves],
            tpr=[curve[1] for curve in curves],
            roc_auc=[ranking.roc_auc()[0] for ranking in there.values()],
            labels=list(there),
        )

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw on axes.

        Parameters
        ----------
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.

        Returns
        -------
        RocCurveDisplay
            This one.
        """
        ax = self._begin(ax)
        self._curves(ax, self.fpr, self.tpr, self.roc_auc, "AUC")
        (self.chance_,) = ax.plot([0, 1], [0, 1], "k--", linewidth=1, label="chance (AUC = 0.5)")
        ax.set(xlabel="false positive rate", ylabel="true positive rate")
        self._frame(ax)
        return self


class PrecisionRecallDisplay(_CurvesDisplay):
    """Precision over recall.

    Parameters
    ----------
    precision, recall : lists of arrays
        For each class, from the lowest score up; at the end 1 and 0, as in scikit-learn.
    average_precision : list of float
        As of `distrf.metrics.average_precision`.
    prevalence : list of float
        Share of the rows of each class: the precision of scores that tell nothing.
    labels : list
        The classes.

    Attributes
    ----------
    lines_ : list of matplotlib lines
        Curves, of at most 10 classes.
    chance_ : matplotlib line or None
        Scores that tell nothing, where there is one curve.
    ax_, figure_ : matplotlib axes and figure
        What was drawn on.
    """

    def __init__(
        self,
        *,
        precision: list[np.ndarray],
        recall: list[np.ndarray],
        average_precision: list[float],
        prevalence: list[float],
        labels: list[Any],
    ):
        self.precision = precision
        self.recall = recall
        self.average_precision = average_precision
        self.prevalence = prevalence
        self.labels = labels

    @classmethod
    def _of(cls, evaluation: Evaluation) -> Self:
        sums = classifier_sums(evaluation, "a precision-recall curve")
        rankings = _by_class(sums)
        if sums.two and sums.positive == 0:  # it is the rare one
            return cls._ranked({sums.classes[0].item(): next(iter(rankings.values()))}, of_others=True)
        return cls._ranked(rankings)

    @classmethod
    def _ranked(cls, rankings: dict[Any, Ranking], of_others: bool = False) -> Self:
        there = {k: r for k, r in rankings.items() if (r.negative if of_others else r.positive).sum() > 0}
        if not there:
            raise InputError("a precision-recall curve needs rows of positive weight of a class")
        curves = [ranking.precision_recall_curve(of_others) for ranking in there.values()]
        return cls(
            precision=[curve[0] for curve in curves],
            recall=[curve[1] for curve in curves],
            average_precision=[ranking.average_precision(of_others)[0] for ranking in there.values()],
            prevalence=[float(precision[0]) for precision, _ in curves],
            labels=list(there),
        )

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw on axes.

        Parameters
        ----------
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.

        Returns
        -------
        PrecisionRecallDisplay
            This one.
        """
        ax = self._begin(ax)
        self._curves(ax, self.recall, self.precision, self.average_precision, "AP")
        for line in self.lines_:
            line.set_drawstyle("steps-post")
        self.chance_ = None
        if len(self.labels) == 1:
            label = f"chance (AP = {self.prevalence[0]:.3f})"
            (self.chance_,) = ax.plot([0, 1], self.prevalence * 2, "k--", linewidth=1, label=label)
        ax.set(xlabel="recall", ylabel="precision")
        self._frame(ax)
        return self


def _by_class(sums: Any) -> dict[Any, Ranking]:
    """{class: ranking}. Raises InputError for a model whose classes are not ranked."""
    each = sums.rankings.each
    if not each:
        raise InputError(
            "a curve needs decision values or probabilities, of at most 512 classes; this model has "
            f"{len(sums.classes):,} classes" + ("" if len(sums.classes) > 512 else ", and only predicts labels")
        )
    return dict(zip(sums.rankings.classes.tolist(), each, strict=True))


def thinned(x: np.ndarray, y: np.ndarray, most: int = _POINTS) -> tuple[np.ndarray, np.ndarray]:
    """At most so many points of a curve, its ends among them, at even distances along it."""
    if len(x) <= most:
        return x, y
    along = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y)))])
    taken = np.unique(np.searchsorted(along, np.linspace(0.0, along[-1], most)).clip(max=len(x) - 1))
    taken[0], taken[-1] = 0, len(x) - 1
    return x[taken], y[taken]
