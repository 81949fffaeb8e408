"""What a training leaves to draw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import InputError
from .alphas import AlphaDisplay
from .axes import missing
from .spectrum import SpectrumDisplay
from .training_curve import TrainingCurveDisplay


def training_displays(pipeline: Any) -> dict[str, Callable[..., Any]]:
    """{caption: display}: the spectrum of a TEFM, the epochs of SGD or the errors of several alphas of ridge."""
    model = pipeline[-1]
    found: dict[str, Callable[..., Any]] = {}
    if any(hasattr(step, "explained_energy_") for step in pipeline):
        found["Spectrum of the features"] = SpectrumDisplay.from_estimator
    if hasattr(model, "history_"):
        found["Loss and score by epoch"] = TrainingCurveDisplay.from_estimator
    elif getattr(model, "cv_errors_", None) is not None:
        found["Held-out error of each penalty"] = AlphaDisplay.from_estimator
    return found


def plot_training(pipeline: Any) -> Any:
    """Draw what a training leaves: its epochs or the errors of several alphas, and the spectrum of a TEFM.

    Parameters
    ----------
    pipeline : Pipeline
        A fitted one whose last step is a model, or a loaded one, which keeps what is drawn.

    Returns
    -------
    matplotlib.axes.Axes
        The first of the axes.

    Raises
    ------
    InputError
        There is nothing to draw: ridge with one alpha.
    """
    displays = list(training_displays(pipeline).values())
    if not displays:
        raise InputError(
            "a training is drawn by its epochs, several alphas or a TEFM; this is ridge with one alpha"
        )
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise missing(error) from error
    size = (6.4 * len(displays), 4.8)
    _, axes = pyplot.subplots(1, len(displays), figsize=size, layout="constrained", squeeze=False)
    for display, ax in zip(displays, axes[0], strict=True):
        display(pipeline, ax=ax)
    return axes[0][0]
