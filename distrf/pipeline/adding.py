"""`add_rows`: more rows to a ridge model that keeps the sums of its fit."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any

import dask.array as da

from .. import store
from ..errors import InputError, InUseError, SpecMismatchError
from ..persistence import save_model
from ..store.csv_format import reads_csv
from ..store.outputs import hold
from .loaded import Loaded
from .rows import Parts, around_job, path_of


@reads_csv
def add_rows(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    target: str | None = None,
    again: bool = False,
) -> Any:
    """Add rows to a fitted ridge model, exactly and in one pass over them.

    The model must have been fitted with `keep_state`. It is as if its linear model had been fitted to all rows together;
    scaling and map stay as they are. A model in a folder is written anew, whole or not at all: a job that is killed leaves
    the old one.

    Parameters
    ----------
    model : str, PathLike, estimator or Pipeline
        Folder of a model, which is written anew. Or the fitted model itself, which is changed.
    X : str, PathLike or array of shape (n, d)
        Path of a Zarr store or of Parquet, read as the training rows were. Or rows, lazy or in memory.
    y : array of shape (n,) or (n, C), or None, default=None
        Targets of rows that are no path.
    sample_weight : str, array of shape (n,) or None, default=None
        Weight of each row; or the column (of a table) or array (Zarr) of the weights. None is the column of the training rows at a
        path, if they had one, and else weighs all alike.
    target : str or None, default=None
        The column (Parquet) or array (Zarr) of the targets. None is that of the training rows.
    again : bool, default=False
        Add rows that the model has seen once more. A model in a folder knows them by the fingerprints of files, of rows
        that were appended to a store, and of arrays, and else leaves them out.
    {csv}

    Returns
    -------
    estimator or Pipeline
        The model with the rows added; `state_.rows` of its last step is their number so far.

    Raises
    ------
    InputError
        The model keeps no sums, the rows have no target, another width, or labels that are not known.
    SpecMismatchError
        The model has seen all these rows.
    MemoryPlanError
        The job cannot fit into memory.

    Warns
    -----
    DriftWarning
        Rows of a table differ from those of the training: see `TableEncoder.find_drift`.

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import RandomFourierFeatures, StreamingRidge, add_rows
    >>> from sklearn.pipeline import make_pipeline
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = make_pipeline(RandomFourierFeatures(n_components=64, random_state=0), StreamingRidge(keep_state=True))
    >>> add_rows(model.fit(X[:200], X[:200, 0]), X[200:], X[200:, 0])[-1].state_.rows
    300
    """
    path = path_of(model)
    with hold(path):
        loaded = Loaded.of(model)
        estimator = loaded.pipeline[-1]
        if not hasattr(estimator, "state_"):
            raise InputError(
                f"rows are added to the sums of the rows before, which only ridge keeps, and this {type(estimator).__name__} has "
                "none; train it again with set={'model__keep_state': True} and model='ridge' or 'ridge-classifier'"
            )
        if path_of(X) is not None:
            store.check_apart(path, [X], what="the model")
            sample_weight = loaded.reading.get("weight") if sample_weight is None else sample_weight
        data = loaded.open(X, y, needs_target=True, target=target, sample_weight=sample_weight)
        rows, truth = loaded.labelled(data, "adding rows")
        weights, parts = data.weights, [] if path is None else data.parts
        new = _new_rows(loaded, parts, again)
        if len(new) < len(parts):
            rows, truth, weights = (
                None if a is None else da.concatenate([a[first:last] for first, last in new])
                for a in (rows, truth, weights)
            )
        before, classes = estimator.state_.rows, len(getattr(estimator, "classes_", ())) or None
        with around_job.get()("fit", loaded.pipeline, data, classes=classes):
            for _, step in loaded.pipeline.steps[:-1]:
                rows = step.transform(rows)
            estimator.partial_fit(rows, truth, sample_weight=weights)
        if path is not None:
            _save(loaded, parts, data.path, estimator.state_.rows - before)
    return loaded.fitted


def _new_rows(loaded: Loaded, parts: Parts, again: bool) -> list[tuple[int, int]]:
    """First row and row after the last of each part that the model has not seen, or of all where they are wanted `again`.

    Raises SpecMismatchError where there is nothing new.
    """
    known = set() if again else {part["data"] for part in loaded.details.get("trained_on", [])}
    ends = itertools.accumulate(rows for _, rows in parts)
    ranges = [(end - rows, end) for (data, rows), end in zip(parts, ends, strict=True) if data not in known]
    if parts and not ranges:
        n = sum(rows for _, rows in parts)
        raise SpecMismatchError(
            f"all {n:,} rows are in the model already, and would count twice; give other rows, or again=True"
        )
    return ranges


def _save(loaded: Loaded, parts: Parts, source: str | None, added: int) -> None:
    """Write the model in place of the old one, which is read until the new one is there."""
    now = store.read_spec(str(loaded.path))
    if any(now.get(name) != loaded.details.get(name) for name in ("trained_on", "added")):
        # Object stores have no locks.
        raise InUseError(
            f"another job has changed the model {loaded.path!r} while this one added rows; add them again"
        )
    seen = loaded.details.get("trained_on", [])
    known = {part["data"] for part in seen}
    more = [{"data": data, "rows": rows} for data, rows in parts if data not in known]
    entry = {"source": source, "rows": added, "created": datetime.now(UTC).isoformat(timespec="seconds")}
    details = {k: v for k, v in loaded.details.items() if k not in ("distrf", "model")}
    details |= {"trained_on": [*seen, *more], "added": [*loaded.details.get("added", []), entry]}
    save_model(loaded.fitted, str(loaded.path), overwrite=True, **details)
