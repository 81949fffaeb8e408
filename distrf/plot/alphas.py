"""The error of several penalties."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from ..errors import InputError
from .axes import Display, set_round_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Errors whose largest is more times the least are drawn on a logarithmic axis.
_WIDE = 10.0


def _end(alphas: np.ndarray, chosen: float) -> str:
    """Says of a penalty at an end of several that a better one may lie beyond."""
    if len(alphas) < 2 or alphas.min() < chosen < alphas.max() or chosen == 0:
        return ""
    return ", the largest tried" if chosen == alphas.max() else ", the smallest tried"


class AlphaDisplay(Display):
    """Cross-validation error over alpha, the chosen one marked; the legend says where it is an end of the list.

    The errors are on a logarithmic axis where the largest is more than ten times the least.

    Parameters
    ----------
    alphas, errors : arrays of shape (a,)
        Penalties, and the mean squared error of each on held-out rows.
    chosen : float
        The alpha that was taken.

    Attributes
    ----------
    line_, mark_ : matplotlib lines
        The curve, and the mark of the chosen alpha.
    ax_, figure_ : matplotlib axes and figure
        What was drawn on.
    """

    def __init__(self, *, alphas: np.ndarray, errors: np.ndarray, chosen: float):
        self.alphas = alphas
        self.errors = errors
        self.chosen = chosen

    @classmethod
    def from_estimator(cls, estimator: BaseEstimator, *, ax: Axes | None = None) -> AlphaDisplay:
        """Draw what a model compared.

        Parameters
        ----------
        estimator : fitted model or Pipeline
            A model fitted with several alphas, or a Pipeline that ends in one.
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.

        Returns
        -------
        AlphaDisplay

        Raises
        ------
        InputError
            The model was not cross-validated.
        """
        model = estimator[-1] if isinstance(estimator, Pipeline) else estimator
        errors = getattr(model, "cv_errors_", None)
        if errors is None:
            raise InputError(
                f"errors over alpha are of a model fitted with several alphas; this {type(model).__name__} has no "
                "cv_errors_"
            )
        alphas = np.asarray(model.alphas_, dtype=np.float64)
        return cls(alphas=alphas, errors=np.asarray(errors), chosen=float(model.alpha_)).plot(ax)

    def plot(self, ax: Axes | None = None) -> AlphaDisplay:
        """Draw on axes.

        Parameters
        ----------
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.

        Returns
        -------
        AlphaDisplay
            This one.
        """
        alphas, errors, order = self.alphas, self.errors, np.argsort(self.alphas)
        chosen = int(np.flatnonzero(alphas == self.chosen)[0])
        ax = self._begin(ax)
        (self.line_,) = ax.plot(alphas[order], errors[order], marker="o", markersize=5)
        (self.mark_,) = ax.plot(
            alphas[chosen], errors[chosen], "o", markersize=12, fillstyle="none", color="C3",
            label=f"chosen: {alphas[chosen]:g}{_end(alphas, self.chosen)}",
        )  # fmt: skip
        # A penalty of 0 has no place on a logarithmic axis.
        if (alphas > 0).all():
            ax.set_xscale("log")
        else:
            ax.set_xscale("symlog", linthresh=min(alphas[alphas > 0], default=1.0))
        # One huge error would press the others flat.
        if 0 < _WIDE * errors.min() < errors.max():
            ax.set_yscale("log")
            set_round_ticks(ax, errors)
        ax.set_xlabel("alpha")
        ax.set_ylabel("mean squared error, held-out rows")
        ax.legend(frameon=False)
        return self
