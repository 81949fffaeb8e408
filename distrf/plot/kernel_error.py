"""The error of kernel approximations by features and by time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..comparing import compare_projections
from ..errors import InputError
from .axes import MARKERS, Display, plain, set_round_ticks, set_size_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..features import RandomFourierFeatures
    from ..typing import ArrayLike

_X = ("n_components", "seconds")


class KernelErrorDisplay(Display):
    """Kernel error over the number of features or over seconds, a line for each map.

    Parameters
    ----------
    table : iterable of mappings
        Rows with the entries "map" (name), "n_components", "error", and "seconds" to draw these. Rows that repeat a map and
        a number of features (other seeds) are drawn as mean and standard deviation.

    Attributes
    ----------
    lines_ : dict of str to matplotlib container
        Line and error bars of each map.
    ax_, figure_ : matplotlib axes and figure
        What was drawn on.
    """

    def __init__(self, *, table: Iterable[Mapping[str, Any]]):
        self.table = [dict(row) for row in table]

    @classmethod
    def from_estimator(
        cls,
        estimator: RandomFourierFeatures,
        X: ArrayLike,
        *,
        x: str = "n_components",
        ax: Axes | None = None,
        **options: Any,
    ) -> KernelErrorDisplay:
        """Measure every projection that fits the kernel of a map, and draw the errors.

        Parameters
        ----------
        estimator : RandomFourierFeatures
            Not fitted: brings kernel, length scale and phase.
        X : {array, CSR matrix, Dask array} of shape (n, d)
            Rows; of a Dask array only sampled blocks are read.
        x : {"n_components", "seconds"}, default="n_components"
            Horizontal axis.
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.
        **options : dict
            Of `distrf.compare_projections`: `n_components`, `projections`, `n_draws`, `n_rows`.

        Returns
        -------
        KernelErrorDisplay
        """
        return cls.from_table(compare_projections(estimator, X, **options).table(), x=x, ax=ax)

    @classmethod
    def from_table(
        cls, table: Iterable[Mapping[str, Any]], *, x: str = "n_components", ax: Axes | None = None
    ) -> KernelErrorDisplay:
        """Draw errors that are known.

        Parameters
        ----------
        table : iterable of mappings
            As the constructor takes it.
        x : {"n_components", "seconds"}, default="n_components"
            Horizontal axis.
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.

        Returns
        -------
        KernelErrorDisplay

        Raises
        ------
        InputError
            The table is empty, or a row lacks an entry.
        """
        return cls(table=table).plot(ax, x=x)

    def plot(self, ax: Axes | None = None, *, x: str = "n_components") -> KernelErrorDisplay:
        """Draw on axes.

        Parameters
        ----------
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.
        x : {"n_components", "seconds"}, default="n_components"
            Horizontal axis.

        Returns
        -------
        KernelErrorDisplay
            This one.
        """
        groups = self._groups(x)
        ax = self._begin(ax)
        self.lines_ = {}
        for i, (name, points) in enumerate(groups.items()):
            D = sorted(points)
            mean = [float(np.mean(points[k][0])) for k in D]
            spread = [float(np.std(points[k][0], ddof=1)) if len(points[k][0]) > 1 else 0.0 for k in D]
            where = np.array([float(np.mean(points[k][1])) for k in D])
            if x == "n_components":
                # Lines of near-equal maps are told apart by a nudge of their points, not by colour alone.
                where = where * 1.02 ** (i - (len(groups) - 1) / 2)
            marker = MARKERS[i % len(MARKERS)]
            self.lines_[name] = ax.errorbar(
                where, mean, yerr=spread, label=plain(name), marker=marker, capsize=3, markersize=5
            )
        means = [np.mean(errors) for points in groups.values() for errors, _ in points.values()]
        if x == "n_components":
            set_size_ticks(ax, (k for points in groups.values() for k in points))
        else:
            ax.set_xscale("log")
            set_round_ticks(ax, (np.mean(s) for points in groups.values() for _, s in points.values()), "x")
        ax.set_yscale("log")
        set_round_ticks(ax, means)
        ax.set_xlabel("features D" if x == "n_components" else "seconds of one transform")
        ax.set_ylabel("kernel error")
        # Many names would stand on the lines.
        outside: dict[str, Any] = (
            {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} if len(groups) > 4 else {}
        )
        ax.legend(frameon=False, **outside)
        return self

    def _groups(self, x: str) -> dict[str, dict[int, tuple[list[float], list[float]]]]:
        """{map: {D: (errors, places on the horizontal axis)}}."""
        if x not in _X:
            raise InputError(f"x is 'n_components' or 'seconds', got {x!r}")
        groups: dict[str, dict[int, tuple[list[float], list[float]]]] = {}
        for row in self.table:
            lacking = {"map", "n_components", "error", x} - set(row)
            if lacking:
                raise InputError(
                    f"each row of the table has 'map', 'n_components', 'error' and {x!r}; one lacks {sorted(lacking)} "
                    f"and has {sorted(row)}"
                )
            points = groups.setdefault(str(row["map"]), {}).setdefault(int(row["n_components"]), ([], []))
            points[0].append(float(row["error"]))
            points[1].append(float(row[x]))
        if not groups:
            raise InputError("the table has no rows; give one for each map and number of features")
        return groups
