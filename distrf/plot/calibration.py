"""Probabilities against how often they come true."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..errors import InputError
from ..metrics.arguments import classes_of, labelled, positive_label
from ..parameters import whole
from ..scores.passes import sum_pass
from ..scores.probabilities import ProbabilitySums
from .scores import ScoreDisplay, classifier_sums

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..pipeline.evaluating import Evaluation
    from ..typing import ArrayLike

_BINS = whole(1)


class CalibrationDisplay(ScoreDisplay):
    """How often probabilities come true, in bins of equal width; below, the share of the rows of each bin.

    The fewer rows a bin has, the smaller its point.

    Parameters
    ----------
    prob_true, prob_pred : arrays of shape (bins,)
        Share of the rows of each bin that have the class, and their mean probability.
    rows : array of shape (bins,)
        Rows of each bin, or their weight.
    of : str
        Whose probabilities they are, in words.

    Attributes
    ----------
    line_, diagonal_ : matplotlib lines
        The curve, and where perfect probabilities would lie.
    points_ : matplotlib collection
        The points of the curve, with areas as the bins have rows.
    bars_ : matplotlib container
        Shares of the rows.
    ax_, figure_ : matplotlib axes and figure
        What was drawn on.
    """

    def __init__(self, *, prob_true: np.ndarray, prob_pred: np.ndarray, rows: np.ndarray, of: str):
        self.prob_true = prob_true
        self.prob_pred = prob_pred
        self.rows = rows
        self.of = of

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = 1,
        n_bins: int = 5,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the calibration of probabilities, in one pass.

        Parameters
        ----------
        y_true : array or Dask array of shape (n,)
            True labels, of two kinds.
        y_proba : array or Dask array of shape (n,)
            Probabilities of `pos_label`.
        sample_weight : array or Dask array of shape (n,), default=None
            Weight of each row. None weighs all alike.
        pos_label : int, str or bool, default=1
            The label whose probabilities they are.
        n_bins : int, default=5
            Bins of [0, 1].
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.

        Returns
        -------
        CalibrationDisplay

        Raises
        ------
        InputError
            As `distrf.metrics.calibration_curve` does.
        """
        _BINS.check("n_bins", n_bins)
        y_true, y_proba = labelled(y_true, y_proba)
        if y_proba.ndim != 1:
            raise InputError(f"a calibration curve is of one column of probabilities, got {y_proba.shape}")
        label = positive_label(classes_of(y_true, None), pos_label)
        sums = sum_pass(ProbabilitySums(np.asarray([label]), n_bins), [y_true, y_proba, sample_weight])
        return cls._summed(sums, f"probability of {label!r}").plot(ax)

    @classmethod
    def _of(cls, evaluation: Evaluation) -> Self:
        sums = classifier_sums(evaluation, "calibration")
        of = f"probability of {sums.classes[1].item()!r}" if sums.two else "largest probability"
        return cls._summed(sums.probabilities, of)

    @classmethod
    def _summed(cls, sums: ProbabilitySums, of: str) -> Self:
        if not sums.weight > 0:
            raise InputError(
                "calibration is of a model with probabilities, on rows of positive weight; give calibrate=True where the "
                "model is trained"
            )
        true, said, rows = sums.calibration
        return cls(prob_true=true, prob_pred=said, rows=rows, of=of)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw on axes.

        Parameters
        ----------
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.

        Returns
        -------
        CalibrationDisplay
            This one.
        """
        ax = self._begin(ax)
        share = self.rows / self.rows.sum()
        self.bars_ = ax.bar(self.prob_pred, share, width=0.03, color="0.8", label="share of the rows")
        (self.diagonal_,) = ax.plot([0, 1], [0, 1], "k--", linewidth=1, label="perfectly calibrated")
        (self.line_,) = ax.plot(self.prob_pred, self.prob_true, "-", color="C0", linewidth=1)
        # A bin of few rows is drawn small: what it says is chance.
        self.points_ = ax.scatter(
            self.prob_pred, self.prob_true, s=3 + 90 * share / share.max(), color="C0", zorder=3, label="this model",
        )  # fmt: skip
        ax.set(xlabel=f"mean {self.of}", ylabel="share for which it came true")
        ax.set(xlim=(-0.02, 1.02), ylim=(0.0, 1.02), aspect="equal")
        ax.legend(frameon=False, loc="upper left", fontsize="small")
        return self
