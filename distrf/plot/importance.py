"""Which columns a model needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..inspection.importance import Importance, permutation_importance
from ..parameters import whole
from .axes import Display, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST = whole(1)


class ImportanceDisplay(Display):
    """What a model loses where each column is permuted, the most important at the top.

    Parameters
    ----------
    importance : Importance
        What `distrf.permutation_importance` returned. Bars are means over the repeats, lines their standard deviations.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
        What was drawn on.
    """

    def __init__(self, *, importance: Importance):
        self.importance = importance

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        target: str | None = None,
        most: int = 20,
        ax: Axes | None = None,
        **options: Any,
    ) -> ImportanceDisplay:
        """Measure what a fitted model loses where each column is permuted, and draw it.

        Parameters
        ----------
        estimator : str, PathLike, estimator or Pipeline
            Folder of a model. Or the fitted model itself.
        X : str, PathLike, table or array of shape (n, d)
            Path of rows, read as the training rows were. Or rows, lazy or in memory; of a model of a table a data frame.
        y : array of shape (n,) or (n, C), or None, default=None
            Targets of rows that are no path.
        sample_weight : array of shape (n,) or None, default=None
            Weights of rows that are no path. None weighs all alike.
        target : str or None, default=None
            The column of the targets at a path or of a data frame. None is that of the training.
        most : int, default=20
            Columns or groups that are drawn; the others are left out, and counted below.
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.
        **options : dict
            Of `distrf.permutation_importance`, such as `n_repeats`, `columns` and `score`.

        Returns
        -------
        ImportanceDisplay

        Raises
        ------
        InputError
            `most` is below 1; or as `distrf.permutation_importance` does.
        """
        _MOST.check("most", most)  # before the rows are read
        found = permutation_importance(estimator, X, y, sample_weight=sample_weight, target=target, **options)
        return cls.from_importance(found, most=most, ax=ax)

    @classmethod
    def from_importance(
        cls, importance: Importance, *, most: int = 20, ax: Axes | None = None
    ) -> ImportanceDisplay:
        """Draw what `distrf.permutation_importance` returned.

        Parameters
        ----------
        importance : Importance
            As the constructor takes it.
        most : int, default=20
            Columns or groups that are drawn; the others are left out, and counted below.
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.

        Returns
        -------
        ImportanceDisplay

        Raises
        ------
        InputError
            `most` is below 1.
        """
        return cls(importance=importance).plot(ax, most=most)

    def plot(self, ax: Axes | None = None, *, most: int = 20) -> ImportanceDisplay:
        """Draw on axes.

        Parameters
        ----------
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.
        most : int, default=20
            Columns or groups that are drawn.

        Returns
        -------
        ImportanceDisplay
            This one.

        Raises
        ------
        InputError
            `most` is below 1.
        """
        _MOST.check("most", most)
        importance = self.importance
        drawn = importance.order[:most]
        ax = self._begin(ax)
        ax.grid(visible=False, axis="y")
        places = np.arange(len(drawn))
        ax.barh(
            places,
            importance.importances_mean[drawn],
            xerr=importance.importances_std[drawn],
            height=0.7,
            error_kw={"capsize": 3, "linewidth": 1},
        )
        ax.set_yticks(places, [plain(importance.names[i]) for i in drawn])
        ax.invert_yaxis()
        ax.axvline(0.0, color="black", linewidth=1)
        less = importance.score in ("accuracy", "r2")
        what = (
            f"{importance.score.replace('_', ' ')} {'lost' if less else 'gained'} where the column is permuted"
        )
        left = len(importance.names) - len(drawn)
        ax.set_xlabel(f"{what}\n{left:,} less important ones are not drawn" if left else what)
        return self
