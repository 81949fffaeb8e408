"""`plan`: what a job will read, write and hold."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from dask.base import is_dask_collection
from dask.utils import format_bytes
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from ..errors import InputError
from ..execution.block_graphs import is_held
from ..execution.csr_rows import stored_row_bytes
from ..execution.labelled import plain_rows
from ..execution.memory import PassMemory, Workers
from ..execution.planned import Costs, Phase, PlannedRows
from ..execution.row_blocks import blocks_are_csr, check_dask_rows, rows_per_block
from ..execution.scheduler import current_client
from ..execution.states import RowCount
from ..gram_tiles import tiles_nbytes
from ..maps import working_dtype
from ..parameters import NONE, one_of, ruled, whole
from ..pipeline.deciding import auto_components
from ..pipeline.evaluating import empty_sums
from ..pipeline.inputs import Input, described, open_input
from ..pipeline.sample import as_rows, look_at_target
from ..pipeline.target import Target
from ..pipeline.training import compares_all
from ..projections.cache import CACHE_BYTES
from ..scores.passes import ROW_FLOPS, SumsReduction
from ..splits import SPLIT
from ..store.csv_format import reads_csv
from ..targets import target_segments
from .measured import measured_seconds
from .summary import Plan
from .workers import planned_workers

#: How many blocks a plan reads targets of. They are spread over all blocks.
_BLOCKS = 8
JOBS = ("train", "fit", "featurize", "predict", "evaluate")


@reads_csv
@ruled(classes=whole(1) | NONE, n_components=one_of("auto") | NONE, workers=whole(1) | NONE, split=SPLIT)
def plan(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    job: str | None = None,
    classes: int | None = None,
    n_components: str | None = None,
    workers: int | None = None,
    split: str = "random",
    measure: bool = False,
    cluster: str | os.PathLike[str] | None = None,
    memory_limit: str | int | None = None,
    tls: str | os.PathLike[str] | None = None,
) -> Plan:
    """Say what a job will read, write and hold. Nothing of it runs, unless asked to; of the data a few labels are read.

    Parameters
    ----------
    estimator : estimator or Pipeline
        Of distrf, fitted or not.
    X : str, PathLike or array of shape (n, d)
        Path of a store or of Parquet; or rows, lazy or in memory.
    y : array or None, default=None
        Targets. None takes those of the store at a path.
    job : {"train", "fit", "featurize", "predict", "evaluate"} or None, default=None
        "fit" is `estimator.fit`. "train" is `distrf.train`, which also reads samples to choose, and fits a linear
        model on the columns beside. None is "fit" for a model that is not fitted, "predict" for one that is, and
        "featurize" for maps, whose `fit` is counted where it is still to come.
    classes : int or None, default=None
        Number of classes, where it is known. None counts those in a sample of the labels.
    n_components : "auto" or None, default=None
        "auto" gives the map the number of features that `distrf.train` would choose.
    workers : int or None, default=None
        Number of workers. None is that of the cluster; a number asks what so many like these would do.
    split : {"random", "stratified", "group", "time", "blocks"}, default="random"
        As of `distrf.train`. "stratified", "group" and "time" read one more column.
    measure : bool, default=False
        Run the job on one segment of the rows, and say how many seconds all of them take if others take as long. It runs on
        the Dask client in use, else in one thread of this process. What `distrf.planning.measured` leaves out, such as the
        network, is not in the figure.
    cluster : str, PathLike or None, default=None
        As of `distrf.connect`. None is the Dask client in use, else the local cluster that `connect()` would
        start; this process for rows in memory.
    memory_limit : str, int or None, default=None
        As of `distrf.connect`.
    tls : str, PathLike or None, default=None
        As of `distrf.connect`.

    Returns
    -------
    Plan
        Prints as a table. `plan.check()` raises MemoryPlanError where a worker or the client cannot hold its peak;
        `plan.to_dict()` is plain JSON; `plan.notes` says what was assumed.

    Raises
    ------
    InputError
        The estimator is not of distrf, a parameter breaks its rule, or the job does not go with it. To be measured, it
        cannot be fitted to the first rows.
    MemoryPlanError
        `measure=True`, and a worker or the client cannot hold its peak.
    StoreError
        There is no store at the path.

    Examples
    --------
    >>> import numpy as np
    >>> from distrf import RandomFourierFeatures, plan
    >>> plan(RandomFourierFeatures(n_components=256), np.zeros((1000, 8), np.float32)).bytes_written
    1024000
    """
    steps = list(estimator) if isinstance(estimator, Pipeline) else [estimator]
    job = _job_of(steps) if job is None else job
    if isinstance(X, (str, os.PathLike)):
        X = open_input(os.fspath(X), plan=True)
    known = classes or 0
    if isinstance(X, Input):
        y = X.rows()[1] if y is None else y
        known = known or len(X.info.classes or ())
    elif y is not None:
        y = plain_rows(y, "y")
        y = y if is_dask_collection(y) else np.asarray(y)
    learns = job in ("fit", "train", "featurize") and _learns_labels(steps)
    target = planned_target(y if learns else None, known)
    if cluster is None and memory_limit is None and _in_use(X):
        size = Workers.of_client(current_client())
    else:
        size = planned_workers(cluster, memory_limit, tls)
    size = replace(size, count=workers or size.count)
    if n_components is not None:
        D = auto_components(described(X).n, size.memory_limit)
        steps = [_with_size(step, D) for step in steps]
    columns = 1 if y is None or y.ndim == 1 else int(y.shape[1])
    planned = plan_job(job, steps, X, size, target.distinct if learns else 0, columns, y is not None)
    if target.rows:
        seen = f"classes: at least {target.distinct:,}, in {target.rows:,} sampled rows"
        planned = replace(planned, notes=[seen, *planned.notes])
    if split != "random" and job not in ("train", "fit"):
        raise InputError(f"split={split!r} says which rows a training holds out; job={job!r} holds out none")
    planned = planned if split in ("random", "blocks") else _with_split(planned, split)
    if not measure:
        return planned
    planned.check()
    rows = X.rows()[0] if isinstance(X, Input) else X
    seconds, note = measured_seconds(planned, steps, rows, y)
    return replace(planned, seconds=seconds, notes=[*planned.notes, note])


def plan_job(
    job: str,
    steps: Sequence[Any],
    X: Any,
    workers: Workers,
    classes: int = 2,
    columns: int = 1,
    labelled: bool = False,
) -> Plan:
    """The plan of a job.

    Parameters
    ----------
    job : str, one of `JOBS`
    steps : estimators, in the order of the pipeline
    X : Input, Dask array, array or CSR matrix: the rows
    workers : Workers
    classes : int, of the target of a classifier
    columns : int, of the target of a regressor
    labelled : bool, whether there is a target that is written beside features
    """
    last = steps[-1]
    model = last if is_classifier(last) or is_regressor(last) else None
    _check_job(job, model)
    transformers = [step for step in steps if step is not model]
    labels = is_classifier(model) if model is not None else classes > 0
    outputs = columns if not labels else 1 if classes == 2 else classes
    rows = _described(X, workers, outputs, labelled)
    total = Costs()
    for step in transformers:
        map_ = getattr(step, "map_", None)
        if map_ is None:
            if not hasattr(step, "planned_map"):
                raise _not_ours(step)
            map_ = step.planned_map(rows.width)
            total += step.planned_costs(rows, map_)
        rows = rows.after(map_)
    if model is not None and job in ("fit", "train"):
        if not hasattr(model, "planned_costs"):
            raise _not_ours(model)
        final = model.planned_costs(rows)
    else:
        if getattr(model, "map_", None) is not None:
            rows = rows.after(model.map_)  # type: ignore[union-attr]
        state = empty_sums(model, ("decisions", "rows"), rows.n, None).nbytes if job == "evaluate" else 0
        rows = replace(rows, outputs=len(np.atleast_2d(getattr(model, "coef_", 0.0))))
        final = _writing(job, rows, state)
    if rows.weights > CACHE_BYTES:
        note = "weights exceed the cache and are made anew for every block; a structured projection avoids it"
        total += Costs(notes=(note,))
    assert final.memory is not None
    total += replace(final, memory=rows.with_held(final.memory))
    assert total.memory is not None
    planned = Plan(
        job, rows.n, rows.blocks, rows.block_rows, total.phases, rows.nbytes, rows.stored_blocks, total.written,
        total.memory, total.client_bytes, workers, list(total.notes),
    )  # fmt: skip
    if planned.idle and (isinstance(X, Input) or is_dask_collection(X)):
        planned.notes.insert(0, planned.idle)
    return _with_choices(planned, rows, model) if job == "train" else planned


def planned_target(y: Any, known: int, seed: int = 0) -> Target:
    """What a plan knows of a target: by labels of a few blocks, or of none where `known` says the number of classes.

    Then whole numbers and texts are taken for labels, and no rows are looked at.
    """
    if y is not None and not known:
        blocks = None
        if is_dask_collection(y):
            blocks = np.unique(np.linspace(0, y.numblocks[0] - 1, _BLOCKS).astype(int)).tolist()
        seen = look_at_target(y, seed, blocks)
        if seen.distinct > 1:
            return seen
    return Target(y is None or y.dtype.kind != "f", known or 2, 0, "it is not looked at", doubtful=True)


def _with_split(plan: Plan, split: str) -> Plan:
    """The plan with the folds of rows: a number of eight bytes and a fold of one for each row, beside the rows of each pass."""
    passes, each = 2, 9
    sweep = each * plan.rows / max(plan.sweep_bytes, 1)  # in sweeps over the rows
    again = sum(phase.sweeps for phase in plan.phases)
    phases = tuple(replace(phase, sweeps=phase.sweeps * (1.0 + sweep)) for phase in plan.phases)
    first = Phase.of_passes(passes, min(target_segments(plan.rows), plan.blocks), passes * sweep)
    read = format_bytes(int(each * plan.rows * (passes + again)))
    note = f"split by {split}: a column is read {passes} times before, and beside the rows of each pass, {read} in all"
    memory = replace(plan.memory, block=plan.memory.block + each * plan.block_rows)
    return replace(plan, phases=(first, *phases), memory=memory, notes=[*plan.notes, note])


def _with_size(step: Any, D: int) -> Any:
    """An unfitted map with so many features; other steps as they are."""
    if hasattr(step, "map_") or not hasattr(step, "take_size"):
        return step
    made = clone(step)
    made.take_size(D)
    return made


def _job_of(steps: Sequence[Any]) -> str:
    """The job that fits the steps: "featurize" without a model, "fit" or "predict" with one."""
    if not (is_classifier(steps[-1]) or is_regressor(steps[-1])):
        return "featurize"
    return "predict" if _is_fitted(steps[-1]) else "fit"


def _is_fitted(model: Any) -> bool:
    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    return True


def _check_job(job: str, model: Any) -> None:
    if job not in JOBS:
        raise InputError(f"job is one of {', '.join(JOBS)}, got {job!r}")
    if model is None and job != "featurize":
        raise InputError(
            f"job {job!r} is of a classifier or a regressor; of transformers alone it is 'featurize'"
        )
    if job == "evaluate" and not _is_fitted(model):
        raise InputError(
            "job 'evaluate' is of a fitted model: what is kept of its scores depends on the classes"
        )
    if model is not None and job == "featurize":
        raise InputError("job 'featurize' is of transformers, but the last step is a model; leave it out")


def _not_ours(step: Any) -> InputError:
    return InputError(
        f"a plan is made of estimators of distrf, got {type(step).__name__}; wrap a transformer in Blockwise"
    )


def _learns_labels(steps: Sequence[Any]) -> bool:
    """Whether the cost of a step depends on the number of classes."""
    last = steps[-1]
    if is_classifier(last) or is_regressor(last):
        return is_classifier(last)
    return any(get_tags(step).target_tags.required for step in steps)


def _in_use(X: Any) -> bool:
    """Whether the job would run with what is here: a Dask client is connected, or the rows are in memory."""
    return current_client() is not None or not (isinstance(X, Input) or is_dask_collection(X))


def _described(X: Any, workers: Workers, outputs: int, labelled: bool) -> PlannedRows:
    if isinstance(X, Input):
        info = X.info
        return PlannedRows(
            info.n, X.d, X.dtype.itemsize, X.dtype.itemsize, info.block_rows, info.nbytes, workers, info.sparse, outputs,
            X.target is not None,
        )  # fmt: skip
    held = False
    if is_dask_collection(X):
        X = check_dask_rows(X)
        held = is_held(X)
        sparse, block = blocks_are_csr(X), max(X.chunks[0])
        nbytes = int(X.shape[0] * stored_row_bytes(X)) if sparse else X.nbytes
    else:
        X = as_rows(X)
        sparse, block = sp.issparse(X), min(X.shape[0], rows_per_block(X.dtype.itemsize * X.shape[1]))
        nbytes = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes if sparse else X.nbytes
    n, d = X.shape
    if not n:
        raise InputError(f"X: Found array with 0 sample(s), at least 1 is required; got shape {(n, d)}")
    size = working_dtype(X.dtype).itemsize
    return PlannedRows(n, d, size, size, block, int(nbytes), workers, sparse, outputs, labelled, held=held)


def _writing(job: str, rows: PlannedRows, state: int) -> Costs:
    """The costs of writing features or predictions block by block, or of adding up scores in a state of so many bytes."""
    block = rows.block_rows * rows.entries * rows.itemsize
    # Zarr holds the compressed bytes of a block twice: as its codec gives them, and with their checksum behind.
    scratch = 2 * block if job == "featurize" else block + 2 * rows.block_rows * rows.outputs * rows.itemsize
    memory = PassMemory(
        rows.block_bytes, max(scratch, rows.reading), state, rows.cached, rows.blocks, rows.workers.threads
    )
    of_row = rows.entries * rows.itemsize + (8 if rows.labelled else 0)
    written = {"featurize": rows.n * of_row, "predict": 8 * rows.n}.get(job, 0)
    flops = sum(map_.work()[0] for map_ in rows.maps) + rows.outputs * (2.0 * rows.width + ROW_FLOPS)
    reduction = SumsReduction(None, state, flops) if job == "evaluate" else RowCount()
    return Costs((rows.passes(1, reduction),), written, memory)


def _with_choices(plan: Plan, rows: PlannedRows, model: Any) -> Plan:
    """The plan of `train`: samples are read first, and a linear model on the columns may be fitted beside."""
    note = "choices read a sample of at most 6,000 rows and 10,000 targets, from all blocks at most"
    of_rows, of_targets = (rows.sample_costs(size).phases[0] for size in (6_000, 10_000))
    samples = of_rows, replace(of_targets, sweeps=0.0)
    planned = replace(plan, phases=(*samples, *plan.phases), notes=[*plan.notes, note])
    if not compares_all(model, bool(rows.widening), rows.sparse, rows.d):
        return planned
    share = tiles_nbytes(rows.d) / tiles_nbytes(
        rows.width
    )  # bytes of its Gram matrices to those of the features
    return replace(
        planned,
        memory=replace(planned.memory, partial=int((1 + share) * planned.memory.partial)),
        client_peak=int((1 + share) * planned.client_peak),
        notes=[*planned.notes, "a linear model on the columns is fitted beside it, in the same pass"],
    )
