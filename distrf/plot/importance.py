"""Which columns a model needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from .axes import Display, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..inspection.importance import Importance


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
        if most < 1:
            raise InputError(f"most is at least 1, got {most}")
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
