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
    path, steps = kept.checkpoint, [step for step in (estimator, learner) if step is not None]
    in_batches = [step for step in steps if "checkpoint_every" in step.parameter_rules]
    if kept.checkpoint_every is not None and not in_batches:
        raise UsageError("--checkpoint-every is for models and maps that learn in batches: SGD, --map cnm")
    if path is None:
        if kept.checkpoint_every is not None or (kept.resume and in_batches):
            what = "--resume" if kept.resume else "--checkpoint-every"
            raise UsageError(f"{what} needs --checkpoint FOLDER, the one that keeps the state")
        return
    keep = [step for step in steps if getattr(step, "checkpoint_folder", "")]
    if not keep or (keep == [learner] and getattr(learner, "solver", "") == "auto"):
        raise UsageError(
            "--checkpoint is for jobs of many passes: --model sgd-classifier, sgd-regressor, svm or logistic, "
            "--solver cg, --map tefm or cnm"
        )
    if os.path.exists(path) and not os.path.isdir(path):
        raise UsageError(f"--checkpoint is a folder, but {path!r} is a file")
    place = f"{path.rstrip('/')}/job"
    parameters = {} if estimator is None else estimator.get_params(deep=True)
    spec = to_json({"input": data.identity, "map": {k: str(v) for k, v in parameters.items()}})
    ours = is_model_folder(place)
    if ours and kept.resume:
        changed = differences(read_spec(place), spec)
        if changed:
            raise SpecMismatchError(
                f"the checkpoint {path!r} is of another job ({'; '.join(changed)}); give the options it was "
                "started with, or another folder, or leave out --resume to start anew"
            )
    elif ours:
        if not overwrite:
            raise SpecMismatchError(
                f"the checkpoint {path!r} holds the state of a training; --resume continues it, "
                "--overwrite starts anew"
            )
        for folder in _FOLDERS:  # without it no state is taken up
            fs, root = files.filesystem(files.normalise(f"{path.rstrip('/')}/{folder}"))
            files.remove(fs, root)
    if not (ours and kept.resume):
        write_model_folder(place, spec, {}, overwrite=True)
    given = {"resume": kept.resume, "checkpoint_every": kept.checkpoint_every}
    for step in keep:
        asked = {
            name: value for name, value in given.items() if value is not None and name in step.parameter_rules
        }
        step.set_params(checkpoint=f"{path.rstrip('/')}/{step.checkpoint_folder}", **asked)
