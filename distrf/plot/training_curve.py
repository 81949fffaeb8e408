"""Loss and validation score of each epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from ..errors import InputError
from .axes import MARKERS, Display, plain, set_round_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: About the most markers of a line.
_MARKED = 40


class TrainingCurveDisplay(Display):
    """The loss of each epoch, and the validation score where there is one, on an axis of its own at the right.

    Parameters
    ----------
    histories : dict of str to list of dict
        By name of the model, its `history_`. A single one may be named "".

    Attributes
    ----------
    right_ : matplotlib axes or None
        The axes of the validation scores.
    ax_, figure_ : matplotlib axes and figure
        The axes of the losses.
    """

    def __init__(self, *, histories: Mapping[str, list[dict[str, Any]]]):
        self.histories = dict(histories)

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator | Mapping[str, BaseEstimator],
        *,
        x: str = "epochs",
        ax: Axes | None = None,
    ) -> TrainingCurveDisplay:
        """Draw the epochs of fitted models.

        Parameters
        ----------
        estimator : fitted model, Pipeline or dict
            A fitted SGD model, a Pipeline that ends in one, or {name: model} to compare several.
        x : {"epochs", "seconds"}, default="epochs"
            Horizontal axis: epochs, or seconds of training.
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.

        Returns
        -------
        TrainingCurveDisplay

        Raises
        ------
        InputError
            A model has no history, there is no model, or `x` is another word.
        """
        named = dict(estimator) if isinstance(estimator, Mapping) else {"": estimator}
        return cls(histories={name: _history(fitted) for name, fitted in named.items()}).plot(ax, x=x)

    def plot(self, ax: Axes | None = None, *, x: str = "epochs") -> TrainingCurveDisplay:
        """Draw on axes.

        Parameters
        ----------
        ax : matplotlib axes or None, default=None
            Axes to draw on. None makes new ones.
        x : {"epochs", "seconds"}, default="epochs"
            Horizontal axis.

        Returns
        -------
        TrainingCurveDisplay
            This one.

        Raises
        ------
        InputError
            There is no model, or `x` is another word.
        """
        if x not in ("epochs", "seconds"):
            raise InputError(f"x is 'epochs' or 'seconds', got {x!r}")
        if not self.histories:
            raise InputError("a training curve needs at least one model, got an empty mapping")
        ax = self._begin(ax)
        scored = any(e["validation_score"] is not None for curve in self.histories.values() for e in curve)
        self.right_ = ax.twinx() if scored else None
        lines = self._lines(ax, x)
        losses = [e["loss"] for curve in self.histories.values() for e in curve]
        if min(losses) > 0 and max(losses) > 5 * min(losses):
            ax.set_yscale("log")
            set_round_ticks(ax, losses)
        if x == "epochs":
            locator: Any = ax.xaxis.get_major_locator()
            locator.set_params(integer=True)
        ax.set_xlabel("epoch" if x == "epochs" else "seconds of training")
        ax.set_ylabel("loss with penalty, rows of the epoch")
        if self.right_ is not None:
            self.right_.set_ylabel("score on held-out rows")
        if len(lines) > 1:
            ax.legend(handles=lines, frameon=False, loc="best" if self.right_ is None else "center right")
        return self

    def _lines(self, ax: Axes, x: str) -> list[Any]:
        lines: list[Any] = []
        several = len(self.histories) > 1
        for i, (name, curve) in enumerate(self.histories.items()):
            where = dict(zip((e["epoch"] for e in curve), _along(curve, x), strict=True))
            # Markers of hundreds of epochs would hide the line.
            every = max(1, len(curve) // _MARKED)
            style: dict[str, Any] = {"marker": MARKERS[i % len(MARKERS)], "markersize": 5, "markevery": every}
            named = f"{plain(name)}: " if name else ""
            # Losses and scores of one model: one colour and marker where there are several models.
            lines += ax.plot(
                list(where.values()), [e["loss"] for e in curve], label=f"{named}loss",
                color=f"C{i if several else 0}", **style,
            )  # fmt: skip
            scored = [e for e in curve if e["validation_score"] is not None]
            if self.right_ is not None and scored:
                lines += self.right_.plot(
                    [where[e["epoch"]] for e in scored], [e["validation_score"] for e in scored],
                    label=f"{named}validation score", color=f"C{i if several else 1}", linestyle="--", **style,
                )  # fmt: skip
        return lines


def _history(model: Any) -> list[dict[str, Any]]:
    if isinstance(model, Pipeline):
        model = model[-1]
    history = getattr(model, "history_", None)
    if not history:
        raise InputError(
            f"a training curve is of a model fitted by SGD; this {type(model).__name__} has no history_"
        )
    return list(history)


def _along(curve: list[dict[str, Any]], x: str) -> list[float]:
    if x == "epochs":
        return [entry["epoch"] for entry in curve]
    return np.cumsum([entry["seconds"] for entry in curve]).tolist()
