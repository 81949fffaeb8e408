"""How long a job takes, by running it on one segment of its rows.

The seconds of its passes are multiplied: by the segments that there are, over those that run at once. Batches of SGD follow
one after the other, so that an epoch of theirs is multiplied by the epochs, and by all rows over those of the run. What the
client does besides, such as a solve, is counted once.

Not modelled are: the network, a disk that many workers share, workers that wait for each other, for memory or for the
scheduler, the sums of the states of segments, features that SGD makes ahead on other threads, and workers that are faster or
slower than where the run takes place. Of `train` the fit is run, not its choices.
"""

from __future__ import annotations

import math
import tempfile
import time
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import dask
import numpy as np
from dask.base import is_dask_collection
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from ..errors import InputError
from ..execution.progress import listening
from ..execution.scheduler import current_client
from ..pipeline.evaluating import evaluate
from ..pipeline.predicting import predict
from ..pipeline.writing import featurize
from .summary import Plan

#: A shorter run of some rows is done again, in seconds: the first one also imports modules and loads compiled loops.
_LONG = 10.0
#: Rows of a run of SGD at least: fewer have smaller batches, and a smaller sample for the spectrum of the features.
_SGD_ROWS = 20_000
#: A run on rows in memory, which no segment is, is on one of so many parts of them.
_IN_MEMORY = 16


def measured_seconds(plan: Plan, steps: Sequence[Any], X: Any, y: Any) -> tuple[float, str]:
    """The seconds of a job on all rows and the workers of its plan, and in words what was run.

    Parameters
    ----------
    plan : Plan
    steps : estimators, in the order of the pipeline
    X, y : rows and targets, lazy or in memory; y may be None

    Raises
    ------
    InputError
        The job does not run on the first rows, such as a classifier where they are all of one class.
    """
    lazy, n = is_dask_collection(X), plan.rows
    epochs = max((phase.passes for phase in plan.phases if phase.batches), default=0)
    parts = [phase.parts for phase in plan.phases if phase.parts and not phase.batches] or [plan.sweep_blocks]
    rows = min(n, max(math.ceil(n / (max(parts) if lazy else _IN_MEMORY)), _SGD_ROWS if epochs else 1))
    if lazy:
        ends = np.cumsum(X.chunks[0])
        rows = int(ends[np.searchsorted(ends, rows)])  # of whole blocks
    first = plan.job, steps, X[:rows], None if y is None else y[:rows]
    began = time.perf_counter()
    try:
        found = _run(*first)
        if rows < n and time.perf_counter() - began < _LONG:
            found = _run(*first)
    except InputError as error:
        raise InputError(
            f"measure=True runs the job on the first {rows:,} rows, which failed: {error}; leave it out, or shuffle sorted rows"
        ) from error
    # A segment is the work of a thread; on rows in memory all threads work already.
    waves = math.ceil(min(parts) / plan.threads) / min(parts) if lazy else 1.0
    seconds = found["passes"] * waves * n / rows + found["batches"] * epochs * n / rows + found["once"]
    left_out = "network, waiting" + (", choices" if plan.job == "train" else "")
    return seconds, f"time is that of {rows:,} rows, multiplied; not in it: {left_out}"


def _run(job: str, steps: Sequence[Any], X: Any, y: Any) -> dict[str, float]:
    """Seconds of the passes of a run, of an epoch of its batches, and of all else."""
    begun: dict[str, float] = {}
    passes = []

    def listen(label: str, done: int, total: int) -> None:
        if done == 0:
            begun[label] = time.perf_counter()
        if done >= total and label in begun:
            passes.append(time.perf_counter() - begun.pop(label))

    alone = nullcontext() if current_client() is not None else dask.config.set(scheduler="synchronous")
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), alone, listening(listen):
        warnings.simplefilter("ignore")
        fitted = _do(job, steps, X, y, Path(folder) / "out.zarr")
    history = [epoch["seconds"] for step in fitted for epoch in getattr(step, "history_", ())]
    once = time.perf_counter() - began - sum(passes) - sum(history)
    return {"passes": sum(passes), "batches": sum(history) / max(len(history), 1), "once": max(0.0, once)}


def _do(job: str, steps: Sequence[Any], X: Any, y: Any, out: Path) -> list[Any]:
    """Run a job, without its checkpoints; the steps that it fitted."""
    pipeline = make_pipeline(*steps)
    if job in ("fit", "train", "featurize") and not all(hasattr(step, "map_") for step in steps):
        pipeline = clone(pipeline)
        off, names = {"checkpoint": None, "resume": False}, pipeline.get_params()
        pipeline.set_params(**{n: off[last] for n in names if (last := n.rpartition("__")[2]) in off})
    if job in ("fit", "train"):
        return [step for _, step in pipeline.fit(X, y).steps]
    if job == "featurize":
        featurize(pipeline, X, out, y)
    elif job == "predict":
        predict(pipeline, X, out)
    else:
        evaluate(pipeline, X, y)
    return []
