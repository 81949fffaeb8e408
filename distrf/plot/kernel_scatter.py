"""Estimated against exact kernel values, pair by pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..features.base import FeatureEstimator
from ..maps import FeatureMap
from .axes import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class KernelScatterDisplay(Display):
    """Estimated against exact kernel values of pairs of rows (Feng et al. 2015, Figure 1 a to c).

    Each pair is a point (k(x, y), z(x).z(y)); the diagonal is where exact features would lie.

    Parameters
    ----------
    exact, estimated : arrays of shape (pairs,)
        Kernel values, and products of the features.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
        What was drawn on.
    """

    def __init__(self, *, exact: np.ndarray, estimated: np.ndarray):
        self.exact = exact
        self.estimated = estimated

    @classmethod
    def from_estimator(
        cls, estimator: FeatureEstimator | FeatureMap, X: np.ndarray, *, ax: Axes | None = None
    ) -> KernelScatterDisplay:
        """Draw all pairs of some rows.

        Parameters
        ----------
        estimator : fitted feature estimator or FeatureMap
            A fitted feature estimator or its `map_`, which must know its kernel.
        X : array of shape (n, d)
            Rows; n (n - 1) / 2 points are drawn.
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.

        Returns
        -------
        KernelScatterDisplay

        Raises
        ------
        InputError
            The map is not fitted, or X has fewer than two rows.
        """
        map_ = getattr(estimator, "map_", estimator)
        if not isinstance(map_, FeatureMap):
            raise InputError(
                f"a kernel scatter takes a fitted feature estimator or its map_, got {type(map_).__name__}; "
                "call fit first"
            )
        if len(X) < 2:
            raise InputError(f"a kernel scatter needs pairs of rows, got {len(X)} row(s)")
        Z = map_(X)
        return cls.from_predictions(map_.exact_kernel(X), Z @ Z.T, ax=ax)

    @classmethod
    def from_predictions(cls, K: Any, K_estimated: Any, *, ax: Axes | None = None) -> KernelScatterDisplay:
        """Draw all pairs of two kernel matrices.

        Parameters
        ----------
        K, K_estimated : arrays of shape (n, n)
            Exact and estimated kernel matrix; of each pair one value counts.
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.

        Returns
        -------
        KernelScatterDisplay

        Raises
        ------
        InputError
            They are no square matrices of one shape with two rows or more.
        """
        K, K_estimated = np.asarray(K), np.asarray(K_estimated)
        if K.ndim != 2 or K.shape != K_estimated.shape or K.shape[0] != K.shape[1] or len(K) < 2:
            raise InputError(
                f"a kernel scatter takes two kernel matrices of one shape (n, n), n > 1, got {K.shape} and "
                f"{K_estimated.shape}"
            )
        pairs = np.triu_indices(len(K), 1)
        return cls(exact=K[pairs], estimated=K_estimated[pairs]).plot(ax)

    def plot(self, ax: Axes | None = None) -> KernelScatterDisplay:
        """Draw on axes.

        Parameters
        ----------
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.

        Returns
        -------
        KernelScatterDisplay
            This one.
        """
        ax = self._begin(ax)
        (self.points_,) = ax.plot(self.exact, self.estimated, ".", markersize=2, alpha=0.4, rasterized=True)
        ends = [
            min(self.exact.min(), self.estimated.min()), max(self.exact.max(), self.estimated.max())
        ]  # fmt: skip
        ax.plot(ends, ends, color="black", linewidth=1)
        ax.set_xlabel("kernel k(x, y)")
        ax.set_ylabel("estimate z(x) · z(y)")
        return self
