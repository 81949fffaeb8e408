"""What a training is asked for, and what it says of itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline, make_pipeline

from ..features import TEFM
from ..pipeline.inputs import Input
from ..pipeline.target import Target
from ..record import pipeline_facts
from .estimator_options import ModelOptions, ScaleOptions, TrainMapOptions
from .usage import UsageError


def check_drawable(learner: Any, estimator: Any) -> None:
    """Raise UsageError for a model that leaves nothing to draw."""
    if not (isinstance(estimator, TEFM) or hasattr(learner, "n_epochs") or learner.compares_alphas):
        raise UsageError(
            "--plot draws epochs of SGD, the errors of several --alpha, or the spectrum of --map tefm; this is "
            "ridge with one"
        )


def unfitted(
    data: Input, map: TrainMapOptions, model: ModelOptions, scale: ScaleOptions, target: Target
) -> tuple[Any, Any, Any]:
    """Scaler, map and model that the options stand for, with numbers in place of what is chosen later."""
    estimator, learner = map.planned(data.d, data.n), model.for_target(target).make(seed=map.seed)
    map.follow_target(estimator, is_classifier(learner))
    return getattr(data, "encoder", None) or scale.make(), estimator, learner


def chained(steps: Iterable[Any]) -> Pipeline:
    """The pipeline of steps, without those that are none or chosen later."""
    return make_pipeline(*(step for step in steps if step not in (None, "auto")))


def facts_of(pipeline: Pipeline, rows: int, seconds: float) -> dict[str, Any]:
    """What fitting took, chose and reached, for the report."""
    facts = pipeline_facts(pipeline)
    history = facts.get("history")
    read = rows if history is None else sum(entry["rows"] for entry in history)
    return {"rows_per_second": read / seconds} | facts
