"""The checkpoint of training: the options that determine its numbers, and sampled rows by which it knows its data."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..checkpoint import COMPARED_ROWS, COMPARED_TARGETS, Checkpoint
from ..execution.sampling import sampled_rows, take_rows
from ..targets import Targets
from .rows import Rows, two_dimensional

#: Parameters of an SGD estimator that do not determine the numbers, or of which more than the parameter counts.
_FREE = (
    "checkpoint", "checkpoint_every", "n_epochs", "random_state", "verbose", "class_weight",
)  # fmt: skip


def job_of(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of an SGD estimator that determine the numbers."""
    return {name: value for name, value in parameters.items() if name not in _FREE} | {"kind": "sgd"}


def open_checkpoint(
    path: str | os.PathLike[str] | None,
    options: Callable[[], dict[str, Any]],
    rows: Rows,
    targets: Targets,
    seed: int,
) -> Checkpoint:
    """Open the checkpoint of a fit to these rows, and check that what it holds belongs to this fit.

    Parameters
    ----------
    path : str or PathLike, the folder or URL; None keeps nothing
    options : function that returns all options that determine the numbers, as JSON; called only if there is a path
    rows, targets : Rows and Targets of the fit
    seed : int, of the rows that are compared

    Returns
    -------
    Checkpoint.

    Raises
    ------
    SpecMismatchError : the folder holds the state of another job, or of other rows
    """
    if path is None:
        return Checkpoint(None, {})
    job = {
        "state": 4,  # counts the forms that the arrays of a step have had
        "blocks": list(rows.blocks),
        "columns": int(rows.arrays[0].shape[1]),
        "dtype": np.dtype(rows.arrays[0].dtype).name,
        "weighted": len(rows.arrays) > 2,
        "maps": [function.spec() for function in rows.maps],
        "classes": None if targets.classes is None else targets.classes.tolist(),
        "class_weight": None if targets.class_weight is None else targets.class_weight.tolist(),
        "seed": seed,
    }
    if rows.folds is not None:
        job["folds"] = [*rows.folds.counts, rows.folds.never]
    checkpoint = Checkpoint(path, options() | job)
    n = sum(rows.blocks)
    some = sampled_rows(n, min(COMPARED_ROWS, n), seed, "identity")
    checkpoint.check_rows(take_rows(rows.arrays[0], some))
    some = sampled_rows(n, min(COMPARED_TARGETS, n), seed, "targets")
    y, *weight = (take_rows(two_dimensional(a), some) for a in rows.arrays[1:])
    checkpoint.check_rows(targets.encode(y if rows.arrays[1].ndim == 2 else y[:, 0], None)[0], "targets")
    for w in weight:
        checkpoint.check_rows(w, "sample_weight")
    if rows.folds is not None:
        checkpoint.check_rows(rows.folds.take(some), "folds")
    return checkpoint
