"""Fit a pipeline on described rows and save it with how its input was read."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sklearn.pipeline import Pipeline

from ..errors import InputError
from ..models import save_model
from .inputs import Input


@dataclass(frozen=True)
class Trained:
    """A fitted pipeline on raw rows, and what fitting took."""

    pipeline: Pipeline
    seconds: float
    rows: int

    def summary(self) -> dict[str, Any]:
        """Facts for the report."""
        model = self.pipeline[-1]
        facts: dict[str, Any] = {"rows_per_second": self.rows / self.seconds, "alpha": model.alpha_}
        if model.cv_errors_ is not None:
            facts["cv_errors"] = [float(e) for e in model.cv_errors_]
        for step in self.pipeline:
            if hasattr(step, "length_scale_"):
                facts["length_scale"] = step.length_scale_
            if hasattr(step, "kernel_"):
                facts["kernel"] = step.kernel_.spec()
        return facts


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
        "command": " ".join(sys.argv[1:]),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": sys.version.split()[0],
        "seconds": round(trained.seconds, 3),
    }
    save_model(trained.pipeline, out, overwrite=overwrite, input=data.description, provenance=provenance)
