"""What a training leaves on disk: its model, which is made once, and the state from which it resumes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sklearn.base import BaseEstimator

from ..errors import InputError, SpecMismatchError
from ..persistence import check_output, save_model
from ..store import check_apart, check_writable, files, is_model_folder, read_spec, write_model_folder
from ..store.outputs import hold
from ..store.spec import differences, to_json
from .rows import Parts

#: What a state needs to be taken up again: that of SGD, the passes of linear models, and those of a map that learns.
_FOLDERS = ("sgd", "passes", "subspace")


@dataclass(frozen=True)
class Outputs:
    """Where a training keeps its model, and beside it the state of its fit; see `distrf.train`."""

    out: str | None = None
    resume: bool = False
    overwrite: bool = False

    @property
    def checkpoint(self) -> str | None:
        """The folder of the state."""
        return None if self.out is None else f"{self.out.rstrip('/')}-state"

    @property
    def done(self) -> bool:
        """Whether the model is there, and is to be left as it is."""
        return self.resume and not self.overwrite and self.out is not None and is_model_folder(self.out)

    def check_places(self, source: str | None) -> None:
        """Raise for outputs that cannot be written, or lie in each other or in the rows."""
        check_apart(self.out, [source], what="the model")
        check_apart(self.checkpoint, [source], what="the state of the fit")
        if not self.done:
            check_writable(self.out)
            if self.out is not None:
                check_output(self.out, self.overwrite)

    def held(self) -> AbstractContextManager[None]:
        """While it lasts, no other job writes here; raises InUseError where one does."""
        return hold(self.out)

    def check_same_job(self, job: dict[str, Any]) -> None:
        """Raise SpecMismatchError where the model that is there is not the one of this job (see `job_of`)."""
        if (found := read_spec(str(self.out)).get("job")) is None:
            raise SpecMismatchError(
                f"{self.out!r} holds a model that does not say of which job it is; give another path, or overwrite=True"
            )
        _check_same(found, job, f"{self.out!r} holds a model", "another path")

    def keep_state(self, estimator: Any, learner: Any, identity: dict[str, Any]) -> None:
        """Note in the folder of the checkpoint whose state it keeps, before anything runs; map and model learn of it.

        They compare their own options. Raises SpecMismatchError for a folder of another job, and for one that holds a
        state which neither `resume` nor `overwrite` speaks of.

        identity : of the rows
        """
        keeping = _keeping([step for step in (estimator, learner) if step is not None])
        if self.checkpoint is None or not keeping:
            return
        path = self.checkpoint
        if os.path.exists(path) and not os.path.isdir(path):
            raise InputError(f"the state of the fit is kept in {path!r}, which is a file; give another out")
        parameters = {} if estimator is None else estimator.get_params(deep=True)
        spec = to_json({"input": identity, "map": {k: str(v) for k, v in parameters.items()}})
        ours = is_model_folder(f"{path}/job")
        if ours and self.resume:
            _check_same(read_spec(f"{path}/job"), spec, f"the state in {path!r} is", "another out")
        elif ours and not self.overwrite:
            raise SpecMismatchError(
                f"{path!r} holds the state of a training; resume=True continues it, overwrite=True starts anew"
            )
        else:
            self.forget_state()
            write_model_folder(f"{path}/job", spec, {}, overwrite=True)
        for step in keeping:
            step.set_params(checkpoint=f"{path}/{step.checkpoint_folder}")

    def forget_state(self) -> None:
        """Remove the state, of a fit that is done or is not resumed."""
        path = f"{self.checkpoint}"
        if self.checkpoint is None or not is_model_folder(f"{path}/job"):
            return
        for folder in ("job", *_FOLDERS):
            files.remove(*files.filesystem(files.normalise(f"{path}/{folder}")))
        with suppress(OSError):  # what others keep there stays
            os.rmdir(path)

    def save(
        self,
        pipeline: Any,
        reading: dict[str, Any],
        job: dict[str, Any],
        seconds: float,
        parts: Callable[[], Parts],
        **provenance: Any,
    ) -> None:
        """Save the model with how its rows were read, of which job it is, and where it comes from.

        parts : of the rows, by which a model that takes more of them knows these again
        """
        made = {
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "python": sys.version.split()[0],
            "seconds": round(seconds, 3),
        }
        details: dict[str, Any] = {"input": reading, "job": job, "provenance": provenance | made}
        if hasattr(pipeline[-1], "state_"):
            details["trained_on"] = [{"data": data, "rows": rows} for data, rows in parts()]
        save_model(pipeline, self.out, overwrite=self.overwrite, **details)  # type: ignore[arg-type]


def _check_same(found: dict[str, Any], job: dict[str, Any], what: str, other: str) -> None:
    if changed := differences(found, job):
        raise SpecMismatchError(
            f"{what} of another job ({'; '.join(changed[:12])}); give the options it was made with, or {other}, or overwrite=True "
            "to start anew"
        )


def job_of(identity: dict[str, Any], options: Any) -> dict[str, Any]:
    """What a training is asked for, as JSON: equal for options that mean the same.

    identity : of the rows; options : of `make_model`, without a checkpoint, which changes no model
    """
    return {name: _plain(part) for name, part in ({"input": identity} | vars(options)).items()}


def _plain(value: Any) -> Any:
    """The JSON of an unfitted estimator, of a kernel, or of what is JSON."""
    if isinstance(value, BaseEstimator):
        parameters = value.get_params(deep=False)
        return {"class": type(value).__name__} | {name: _plain(v) for name, v in parameters.items()}
    return to_json(value.spec() if hasattr(value, "spec") else value)


def _keeping(steps: list[Any]) -> list[Any]:
    """The steps that keep a state; none where the model alone would, of one pass."""
    keeping = [step for step in steps if getattr(step, "checkpoint_folder", "")]
    return [] if keeping == steps[-1:] and getattr(steps[-1], "solver", "") == "auto" else keeping
