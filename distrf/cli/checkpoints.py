"""A checkpoint folder belongs to one job: its rows, its map, its model."""

from __future__ import annotations

import os
from typing import Any

from ..errors import SpecMismatchError
from ..pipeline.inputs import Input
from ..store import files, is_model_folder, read_spec, write_model_folder
from ..store.spec import differences, to_json
from .options import CheckpointOptions
from .usage import UsageError

#: What a state needs to be taken up again: that of SGD, the passes of cg and those of a map that learns.
_FOLDERS = ("sgd", "cg", "subspace")


def claim_checkpoint(
    kept: CheckpointOptions, learner: Any, estimator: Any, data: Input, overwrite: bool
) -> None:
    """Note in the folder of `--checkpoint` whose state it keeps, before anything runs; map and model learn of it.

    They compare their own options. Raises SpecMismatchError for a folder of another job, and for one that holds a
    state which neither --resume nor --overwrite speaks of; UsageError for a job without anything to keep.
    """
    steps = [step for step in (estimator, learner) if step is not None]
    _check_options(kept, steps)
    if kept.checkpoint is None:
        return
    path, keeping = kept.checkpoint.rstrip("/"), _keeping(steps)
    if os.path.exists(path) and not os.path.isdir(path):
        raise UsageError(f"--checkpoint is a folder, but {path!r} is a file")
    parameters = {} if estimator is None else estimator.get_params(deep=True)
    spec = to_json({"input": data.identity, "map": {k: str(v) for k, v in parameters.items()}})
    ours = is_model_folder(f"{path}/job")
    if ours:
        _check_job(path, spec, kept.resume, overwrite)
        if not kept.resume:
            _forget_states(path)
    if not (ours and kept.resume):
        write_model_folder(f"{path}/job", spec, {}, overwrite=True)
    given = {"resume": kept.resume, "checkpoint_every": kept.checkpoint_every}
    for step in keeping:
        asked = {
            name: value for name, value in given.items() if value is not None and name in step.parameter_rules
        }
        step.set_params(checkpoint=f"{path}/{step.checkpoint_folder}", **asked)


def _check_options(kept: CheckpointOptions, steps: list[Any]) -> None:
    """Raise UsageError for --resume and --checkpoint-every where there is nothing that they could mean."""
    in_batches = any("checkpoint_every" in step.parameter_rules for step in steps)
    if kept.checkpoint_every is not None and not in_batches:
        raise UsageError("--checkpoint-every is for models and maps that learn in batches: SGD, --map cnm")
    if kept.checkpoint is None and (kept.checkpoint_every is not None or (kept.resume and in_batches)):
        what = "--resume" if kept.resume else "--checkpoint-every"
        raise UsageError(f"{what} needs --checkpoint FOLDER, the one that keeps the state")


def _keeping(steps: list[Any]) -> list[Any]:
    """The steps that keep a state. Raises UsageError for none: one pass is not worth it."""
    keeping = [step for step in steps if getattr(step, "checkpoint_folder", "")]
    if not keeping or (keeping == steps[-1:] and getattr(steps[-1], "solver", "") == "auto"):
        raise UsageError(
            "--checkpoint is for jobs of many passes: --model sgd-classifier, sgd-regressor, svm or logistic, "
            "--solver cg, --map tefm or cnm"
        )
    return keeping


def _check_job(path: str, spec: Any, resume: bool, overwrite: bool) -> None:
    """Raise SpecMismatchError for the state of another job, and for one of which nothing is said."""
    if resume and (changed := differences(read_spec(f"{path}/job"), spec)):
        raise SpecMismatchError(
            f"the checkpoint {path!r} is of another job ({'; '.join(changed)}); give the options it was "
            "started with, or another folder, or leave out --resume to start anew"
        )
    if not (resume or overwrite):
        raise SpecMismatchError(
            f"the checkpoint {path!r} holds the state of a training; --resume continues it, "
            "--overwrite starts anew"
        )


def _forget_states(path: str) -> None:
    """Remove what a job of the command line resumes from."""
    for folder in _FOLDERS:
        fs, root = files.filesystem(files.normalise(f"{path}/{folder}"))
        files.remove(fs, root)
