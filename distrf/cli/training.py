"""Fit a pipeline on described rows and save it with how its input was read."""

from __future__ import annotations

import sys
import warnings
from datetime import UTC, datetime
from typing import Any, TypeVar

from sklearn.pipeline import Pipeline

from ..errors import InputError
from ..features import TEFM
from ..pipeline.inputs import Input
from ..pipeline.sample import sample_targets
from ..pipeline.target import Target, check_misread, check_target, look_at
from ..pipeline.training import BaselineWarning, train
from ..planning.classes import planned_target
from ..planning.workers import planned_workers
from ..registry import named_model
from .estimator_options import ModelOptions, TrainMapOptions
from .jobs import command_line
from .session import RunOptions, running
from .usage import UsageError


def check_drawable(learner: Any, estimator: Any) -> None:
    """Raise UsageError for a model that leaves nothing to draw."""
    if not (isinstance(estimator, TEFM) or hasattr(learner, "n_epochs") or learner.compares_alphas):
        raise UsageError(
            "--plot draws epochs of SGD, the errors of several --alpha, or the spectrum of --map tefm; this is "
            "ridge with one"
        )


def rows_with_target(data: Input) -> tuple[Any, Any]:
    """Lazy (X, y). Raises InputError for rows without a target."""
    X, y = data.rows()
    if y is None:
        raise InputError(
            f"training needs a target: {data.info.path!r} has none; give --target, or ingest with --target"
        )
    return X, y


def look_at_target(data: Input, seed: int) -> Target:
    """What the target is, from a seeded sample of it: before any cluster starts. Raises InputError for none."""
    return look_at(sample_targets(rows_with_target(data)[1], seed))


_Options = TypeVar("_Options", bound=ModelOptions)


def follow_target(model: _Options, target: Target) -> _Options:
    """The options with a model that goes with the target.

    Raises InputError for a classifier of a continuous target and for a regressor of strings.
    """
    if model.model == "auto":
        check_misread(target)
    model = model.for_target(target.labels)
    check_target(model.model, named_model(model.model).classifier, target)
    return model


def planned_model(model: ModelOptions, data: Input, classes: int, seed: int) -> Any:
    """For a plan: the unfitted model that goes with the target.

    Reads targets of a few blocks alone, and none where `classes` or the store say how many there are: then whole
    numbers and texts are taken for labels.
    """
    _, y = data.rows()
    target = planned_target(y, classes or len(data.info.classes or ()), seed)
    if target.seen is not None:
        model = follow_target(model, target.seen)
    else:
        model = model.for_target(y is None or y.dtype.kind != "f")
    return model.make(seed=seed)


def planned_estimator(map: TrainMapOptions, data: Input, run: RunOptions) -> Any:
    """The unfitted map that the options stand for, with numbers in place of what is chosen later; None for none."""
    memory = 0
    if map.is_auto("n_components") and not running(run.cluster):  # one that runs is asked when all is checked
        memory = planned_workers(run.cluster, run.memory_limit).memory_limit
    return map.planned(data.d, data.info.n, memory)


def fit_pipeline(data: Input, map: TrainMapOptions, scaler: Any, estimator: Any, model: Any) -> Pipeline:
    """Choose what is left to choose, fit, and compare with a linear model on the columns.

    model : "auto", or the unfitted linear model that the options ask for
    """
    X, y = rows_with_target(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BaselineWarning)  # in the report
        return train(X, y, model=model, scale=scaler, **map.chosen(estimator))


def facts_of(pipeline: Pipeline, rows: int, seconds: float) -> dict[str, Any]:
    """What fitting took, chose and reached, for the report."""
    facts: dict[str, Any] = {}
    for step in reversed(list(pipeline)):
        facts |= step.facts()
    history = facts.get("history")
    read = rows if history is None else sum(entry["rows"] for entry in history)
    return {"rows_per_second": read / seconds} | facts | pipeline.training_.to_dict()


def provenance_of(X: str, seconds: float) -> dict[str, Any]:
    """Where a model comes from."""
    return {
        "source": X,
        "command": command_line(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": sys.version.split()[0],
        "seconds": round(seconds, 3),
    }
