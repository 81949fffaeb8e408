"""Whether a model that is there already is of the job that is asked for."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator

from ..errors import SpecMismatchError
from ..pipeline.inputs import Input
from ..store import read_spec
from ..store.spec import differences, to_json


def job_of(data: Input, scaler: Any, learner: Any, chosen: dict[str, Any]) -> dict[str, Any]:
    """What a training is asked for, as JSON: equal for options that mean the same, however they are typed.

    learner : without its checkpoint, which changes no model; chosen : by `TrainMapOptions.chosen`
    """
    parts = {"input": data.identity, "scale": scaler, "model": learner, **chosen}
    return {name: _plain(part) for name, part in parts.items()}


def _plain(value: Any) -> Any:
    """The JSON of an unfitted estimator, of a kernel, or of what is JSON."""
    if isinstance(value, BaseEstimator):
        parameters = value.get_params(deep=False)
        return {"class": type(value).__name__} | {name: _plain(v) for name, v in parameters.items()}
    return to_json(value.spec() if hasattr(value, "spec") else value)


def check_same_job(out: str, job: dict[str, Any]) -> None:
    """Raise SpecMismatchError where the model in `out` is not the one of this job; it is started again with --resume."""
    found = read_spec(out).get("job")
    if found is None:
        raise SpecMismatchError(
            f"{out!r} holds a model that does not say of which job it is; give another path, or --overwrite"
        )
    changed = differences(found, job)
    if changed:
        raise SpecMismatchError(
            f"{out!r} holds a model of another job ({'; '.join(changed[:12])}); give the options it was made with, or "
            "another path, or --overwrite"
        )
