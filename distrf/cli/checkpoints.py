"""A checkpoint folder belongs to one job: its rows, its map, its model."""

from __future__ import annotations

import os
from typing import Any

from ..errors import SpecMismatchError
from ..pipeline.inputs import Input
from ..store import files, is_model_folder, read_spec, write_model_folder
from ..store.spec import differences, to_json
from .model_options import CheckpointOptions
from .session import UsageError

#: What a state needs to be taken up again: that of SGD, the passes of cg and those of a map that learns.
_PARTS = ("sgd", "cg", "subspace")


def claim_checkpoint(
    kept: CheckpointOptions, learner: Any, estimator: Any, data: Input, overwrite: bool
) -> None:
    """Note in the folder of `--checkpoint` whose state it keeps, before anything runs; map and model learn of it.

    They compare their own options. Raises SpecMismatchError for a folder of another job, and for one that holds a
    state which neither --resume nor --overwrite speaks of; UsageError for a job without anything to keep.
    """
    path = kept.checkpoint
    if path is None:
        return
    in_batches, learns = hasattr(learner, "n_epochs"), hasattr(estimator, "checkpoint")
    if not (in_batches or learns or learner.solver == "cg"):
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
        for part in _PARTS:  # without it no state is taken up
            fs, root = files.filesystem(files.normalise(f"{path.rstrip('/')}/{part}"))
            files.remove(fs, root)
    if not (ours and kept.resume):
        write_model_folder(place, spec, {}, overwrite=True)
    if learns:
        estimator.set_params(checkpoint=f"{path.rstrip('/')}/subspace")
    if hasattr(estimator, "resume"):
        estimator.set_params(resume=kept.resume)
    if in_batches or learner.solver != "gram":
        learner.set_params(checkpoint=f"{path.rstrip('/')}/{'sgd' if in_batches else 'cg'}")
