"""Fit a pipeline on described rows and save it with how its input was read."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from ..errors import InputError
from ..features import TEFM
from ..models import save_model
from .inputs import Input
from .jobs import command_line
from .session import UsageError


@dataclass(frozen=True)
class Trained:
    """A fitted pipeline on raw rows, and what fitting took."""

    pipeline: Pipeline
    seconds: float
    rows: int

    def summary(self) -> dict[str, Any]:
        """Facts for the report."""
        model = self.pipeline[-1]
        history = getattr(model, "history_", None)
        rows = self.rows if history is None else sum(entry["rows"] for entry in history)
        facts: dict[str, Any] = {"rows_per_second": rows / self.seconds}
        if history is None:
            facts |= {"alpha": model.alpha_, "solver": model.solver_}
            if model.solver_ != "gram":
                facts["passes"] = model.n_iter_ + model.n_finder_passes_
        else:
            facts |= {"alpha": model.alpha, "loss": model.loss, "epochs": model.n_iter_, "rounds": model.t_}
            facts["rows_per_round"] = model.round_rows_
            facts |= {"final_loss": history[-1]["loss"], "validation_score": history[-1]["validation_score"]}
            facts["history"] = history
        if getattr(model, "cv_errors_", None) is not None:
            facts["cv_errors"] = [float(e) for e in model.cv_errors_]
        for step in self.pipeline:
            if hasattr(step, "length_scale_"):
                facts["length_scale"] = step.length_scale_
            if hasattr(step, "projection_"):
                facts["projection"] = step.projection_
            if hasattr(step, "kernel_"):
                facts["kernel"] = step.kernel_.spec()
            if isinstance(step, TEFM):
                facts |= {"subspace_solver": step.solver_, "subspace_residual": step.residual_}
        return facts

    def draw(self) -> Any:
        """Axes with the learning curve or the errors of several alphas, beside the spectrum of a subspace."""
        from ..plot import plot_alphas, plot_learning_curve, plot_spectrum

        model = self.pipeline[-1]
        displays: list[Callable[..., Any]] = []
        if any(hasattr(step, "explained_energy_") for step in self.pipeline):
            displays.append(plot_spectrum)
        if hasattr(model, "history_"):
            displays.append(plot_learning_curve)
        elif model.cv_errors_ is not None:
            displays.append(plot_alphas)
        if len(displays) == 1:
            return displays[0](self.pipeline)
        from matplotlib import pyplot

        _, axes = pyplot.subplots(1, len(displays), figsize=(6.4 * len(displays), 4.8), layout="constrained")
        for display, ax in zip(displays, axes, strict=True):
            display(self.pipeline, ax)
        return axes[0]


def check_drawable(learner: Any, estimator: Any) -> None:
    """Raise UsageError for a model that leaves nothing to draw."""
    if not (isinstance(estimator, TEFM) or hasattr(learner, "n_epochs") or np.size(learner.alphas) > 1):
        raise UsageError(
            "--plot draws epochs of SGD, the errors of several --alpha, or the spectrum of --map tefm; this is "
            "ridge with one"
        )


def fit_pipeline(data: Input, estimator: Any, learner: Any) -> Trained:
    """Fit map and model on the rows as the store scales them; the scaling becomes the first step."""
    X, y = data.rows()
    if y is None:
        raise InputError(
            f"training needs a target: {data.info.path!r} has none; give --target, or ingest with --target"
        )
    start = time.perf_counter()
    steps = ([] if estimator is None else [("map", estimator)]) + [("model", learner)]
    fitted = Pipeline(steps).fit(X, y)
    scaler = data.scaler()
    whole = Pipeline(([] if scaler is None else [("scale", scaler)]) + fitted.steps)
    return Trained(whole, time.perf_counter() - start, data.info.n)


def save_trained(trained: Trained, data: Input, source: str, out: str, overwrite: bool) -> None:
    """Write the model folder: spec and arrays, the reading of its input, provenance."""
    provenance = {
        "source": source,
        "command": command_line(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": sys.version.split()[0],
        "seconds": round(trained.seconds, 3),
    }
    save_model(trained.pipeline, out, overwrite=overwrite, input=data.description, provenance=provenance)
