"""What the displays of scores share: they are drawn from one pass over rows, and from an evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from ..errors import InputError
from ..pipeline.evaluating import Evaluation, evaluate
from ..scores.models import ClassifierSums
from .axes import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ScoreDisplay(Display):
    """A display of how a model does on rows with known targets, larger than memory or not."""

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        target: str | None = None,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Draw how a fitted model does, in one pass over the rows.

        Parameters
        ----------
        estimator : str, PathLike, estimator or Pipeline
            Folder of a model. Or the fitted model itself.
        X : str, PathLike or array of shape (n, d)
            Path of rows, read as the training rows were. Or rows, lazy or in memory.
        y : array of shape (n,) or (n, C), or None, default=None
            Targets of rows that are no path.
        sample_weight : array of shape (n,) or None, default=None
            Weights of rows that are no path. None weighs all alike.
        target : str or None, default=None
            The column of the targets at a path. None is that of the training.
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.
        **options : dict
            As of `plot`.

        Returns
        -------
        display

        Raises
        ------
        InputError
            As `distrf.evaluate` does, and for a model that does not say what is drawn.
        """
        found = evaluate(estimator, X, y, sample_weight=sample_weight, target=target)
        return cls.from_evaluation(found, ax=ax, **options)

    @classmethod
    def from_evaluation(cls, evaluation: Evaluation, *, ax: Axes | None = None, **options: Any) -> Self:
        """Draw what `distrf.evaluate` returned, without another pass.

        Parameters
        ----------
        evaluation : Evaluation
            What `distrf.evaluate` returned.
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.
        **options : dict
            As of `plot`.

        Returns
        -------
        display
        """
        return cls._of(evaluation).plot(ax, **options)

    @classmethod
    def _of(cls, evaluation: Evaluation) -> Self:
        """The numbers of an evaluation; raises InputError where it has none of the kind."""
        raise NotImplementedError

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw on axes."""
        raise NotImplementedError


def classifier_sums(evaluation: Evaluation, what: str) -> ClassifierSums:
    """The sums of a classifier. Raises InputError for those of a regressor."""
    if not isinstance(evaluation.sums, ClassifierSums):
        raise InputError(f"{what} is of a classifier; this model predicts numbers")
    return evaluation.sums
