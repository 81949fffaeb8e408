"""Whether an output can be written, and whether it is there already: asked before anything is computed."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from sklearn.base import BaseEstimator, is_classifier

from ..errors import SpecMismatchError, StoreError
from ..pipeline.inputs import Input
from ..store import read_spec
from ..store.files import is_local
from ..store.spec import differences, to_json
from .estimator_options import TrainMapOptions


def check_writable(*paths: str | None) -> None:
    """Raise StoreError for a local path that cannot be made or replaced: no folder above it, or none can be made."""
    for path in paths:
        if path is None or not is_local(path):
            continue
        place = os.path.abspath(os.path.expanduser(path))
        try:
            there = place
            while not os.path.lexists(there):
                there = os.path.dirname(there)
            os.lstat(place)  # a name that is too long
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            raise StoreError(f"{path!r} cannot be written: {error}; choose another path") from error
        folder = os.path.dirname(place) if there == place else there
        if not os.path.isdir(folder):
            raise StoreError(f"{path!r} cannot be written: {folder!r} is no folder; choose another path")
        try:  # permissions do not tell all: a disk may be read-only or full, and /proc takes no folder from anyone
            os.rmdir(tempfile.mkdtemp(prefix=".distrf-", dir=folder))
        except OSError as error:
            raise StoreError(
                f"{path!r} cannot be written: {error.strerror} in {folder!r}; choose another path"
            ) from error


def job_of(data: Input, map: TrainMapOptions, scaler: Any, learner: Any) -> dict[str, Any]:
    """What a training is asked for, as JSON: equal for options that mean the same, however they are typed.

    learner : without its checkpoint, which changes no model
    """
    # What a worker's memory would choose is no part of the job: "auto" stands beside it.
    estimator = map.planned(None, data.n, 0)
    map.follow_target(estimator, is_classifier(learner))
    parts = {"input": data.identity, "scale": scaler, "model": learner, **map.chosen(estimator)}
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
