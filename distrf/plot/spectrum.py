"""The energy of features by direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from ..errors import InputError
from .axes import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class SpectrumDisplay(Display):
    """The share of the features' energy along each direction, and what the first l directions leave out.

    Parameters
    ----------
    explained_energy : array of shape (directions,)
        Shares of |F|^2, the largest first.

    Attributes
    ----------
    lines_ : (matplotlib line, matplotlib line)
        The shares, and what is left.
    ax_, figure_ : matplotlib axes and figure
        What was drawn on.
    """

    def __init__(self, *, explained_energy: np.ndarray):
        self.explained_energy = explained_energy

    @classmethod
    def from_estimator(cls, estimator: BaseEstimator, *, ax: Axes | None = None) -> SpectrumDisplay:
        """Draw the spectrum that a TEFM found.

        Parameters
        ----------
        estimator : fitted TEFM or Pipeline
            A fitted TEFM, or a Pipeline that holds one.
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.

        Returns
        -------
        SpectrumDisplay

        Raises
        ------
        InputError
            The model has no spectrum.
        """
        steps = list(estimator) if isinstance(estimator, Pipeline) else [estimator]
        found = [step.explained_energy_ for step in steps if hasattr(step, "explained_energy_")]
        if not found:
            raise InputError(
                f"a spectrum is of a fitted TEFM; this {type(estimator).__name__} has no explained_energy_"
            )
        return cls(explained_energy=np.asarray(found[0], dtype=np.float64)).plot(ax)

    def plot(self, ax: Axes | None = None) -> SpectrumDisplay:
        """Draw on axes.

        Parameters
        ----------
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.

        Returns
        -------
        SpectrumDisplay
            This one.
        """
        shares = self.explained_energy
        count = np.arange(1, len(shares) + 1)
        # Rounding leaves a few 1e-8 where everything is explained, or less than nothing.
        left = np.maximum(1.0 - np.cumsum(shares), 1e-8)
        ax = self._begin(ax)
        (along,) = ax.plot(count, np.maximum(shares, 1e-12), label="along direction l")
        (beyond,) = ax.plot(count, left, linestyle="--", label="beyond the first l")
        self.lines_ = along, beyond
        ax.set_yscale("log")
        ax.set_xlabel("direction l")
        ax.set_ylabel("share of the energy |F|²")
        ax.legend(frameon=False)
        return self
