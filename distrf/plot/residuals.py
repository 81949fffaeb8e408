"""Errors of predicted numbers, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from dask.base import is_dask_collection

from ..errors import InputError
from ..metrics.arguments import aligned
from ..parameters import one_of
from ..pipeline.evaluating import row_numbers
from ..scores.models import RegressorSums
from ..scores.passes import check_numbers, sum_pass
from ..targets import float_columns
from .scores import ScoreDisplay

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..pipeline.evaluating import Evaluation
    from ..typing import ArrayLike

_KIND = one_of("residual_vs_predicted", "actual_vs_predicted")


class ResidualsDisplay(ScoreDisplay):
    """Residuals y - prediction over predictions, or y over predictions, for a uniform sample of at most 1,000 rows.

    Parameters
    ----------
    y_true, y_pred : arrays of shape (k,) or (k, outputs)
        Targets and predictions of the rows that are drawn. Of more than 10 outputs the first 10 are.
    n : int
        Rows of which they are a sample.

    Attributes
    ----------
    points_ : list of matplotlib lines
        For each output.
    line_ : matplotlib line
        Where perfect predictions would lie.
    ax_, figure_ : matplotlib axes and figure
        What was drawn on.
    """

    def __init__(self, *, y_true: np.ndarray, y_pred: np.ndarray, n: int):
        self.y_true = y_true
        self.y_pred = y_pred
        self.n = n

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        *,
        kind: str = "residual_vs_predicted",
        ax: Axes | None = None,
    ) -> Self:
        """Draw numbers against predicted numbers.

        Parameters
        ----------
        y_true, y_pred : arrays or Dask arrays of shape (n,) or (n, outputs)
            Targets and predictions; Dask arrays take one pass.
        kind : {"residual_vs_predicted", "actual_vs_predicted"}, default="residual_vs_predicted"
            What is drawn.
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.

        Returns
        -------
        ResidualsDisplay

        Raises
        ------
        InputError
            Shapes differ, there are no rows, or the targets are text.
        """
        y_true, y_pred = aligned(y_true, y_pred)
        check_numbers(y_true)
        base = y_pred if is_dask_collection(y_pred) or not is_dask_collection(y_true) else y_true
        sums = sum_pass(RegressorSums(("predicted", "rows")), [y_true, y_pred, row_numbers(base)])
        return cls._sampled(sums).plot(ax, kind=kind)

    @classmethod
    def _of(cls, evaluation: Evaluation) -> Self:
        if not isinstance(evaluation.sums, RegressorSums):
            raise InputError("residuals are of a regressor; this model predicts classes")
        return cls._sampled(evaluation.sums)

    @classmethod
    def _sampled(cls, sums: RegressorSums) -> Self:
        if not len(sums.sample.rows):
            raise InputError("residuals need rows of positive weight, got none")
        return cls(y_true=sums.sample.y, y_pred=sums.sample.predicted, n=sums.rows)

    def plot(self, ax: Axes | None = None, *, kind: str = "residual_vs_predicted") -> Self:
        """Draw on axes.

        Parameters
        ----------
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.
        kind : {"residual_vs_predicted", "actual_vs_predicted"}, default="residual_vs_predicted"
            What is drawn.

        Returns
        -------
        ResidualsDisplay
            This one.
        """
        _KIND.check("kind", kind)
        true, said = float_columns(self.y_true), float_columns(self.y_pred)
        ax = self._begin(ax)
        actual = kind == "actual_vs_predicted"
        drawn = true if actual else true - said
        several = true.shape[1] > 1
        style: dict[str, Any] = {
            "linestyle": "",
            "marker": ".",
            "markersize": 4,
            "alpha": 0.5,
            "rasterized": True,
        }
        self.points_ = [
            ax.plot(said[:, k], drawn[:, k], label=f"target {k}" if several else None, **style)[0]
            for k in range(true.shape[1])
        ]
        if actual:
            ends = [min(said.min(), true.min()), max(said.max(), true.max())]
            (self.line_,) = ax.plot(ends, ends, "k--", linewidth=1)
        else:
            self.line_ = ax.axhline(0.0, color="black", linestyle="--", linewidth=1)
        sampled = f", {len(true):,} of {self.n:,} rows" if len(true) < self.n else ""
        ax.set(xlabel=f"prediction{sampled}", ylabel="target" if actual else "target - prediction")
        if 1 < true.shape[1] <= 10:
            ax.legend(frameon=False, fontsize="small")
        return self
