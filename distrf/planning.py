"""`plan`: what a job will read, write and hold, composed from what the objects that will run say of themselves, before anything runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from dask.base import is_dask_collection
from dask.utils import format_bytes, parse_bytes
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from .errors import InputError, MemoryPlanError
from .execution.memory import PassMemory, Workers, check_client, machine_memory
from .execution.passes import RowCount
from .execution.planned import Costs, Phase, PlannedRows
from .execution.row_blocks import take_blocks
from .execution.sampling import sampled_rows, take_rows
from .execution.scheduler import current_client
from .parameters import NONE, one_of, ruled, whole
from .pipeline.evaluating import empty_sums
from .pipeline.options import auto_components
from .pipeline.rows import Rows, open_input
from .pipeline.sample import as_rows
from .pipeline.target import Target, look_at
from .projections.base import CACHE_BYTES
from .scores.passes import ROW_FLOPS, SumsReduction
from .store.csv_format import reads_csv
from .targets import as_columns

#: How many blocks a plan reads targets of, spread over all, and how many targets.
_BLOCKS, _LABELS = 8, 10_000
JOBS = ("train", "fit", "featurize", "predict", "evaluate")


#: What `Plan.to_dict` has under the name of its attribute.
_NAMED = (
    "job", "rows", "blocks", "block_rows", "passes", "tasks", "bytes_read", "bytes_written", "fits", "notes"
)  # fmt: skip


@dataclass(repr=False)
class Plan:
    """What a job will read, write and hold, worked out before any of it runs."""

    job: str
    rows: int
    blocks: int
    block_rows: int
    phases: tuple[Phase, ...]
    sweep_bytes: int
    bytes_written: int
    memory: PassMemory
    client_peak: int
    workers: Workers
    notes: list[str] = field(default_factory=list)

    @property
    def passes(self) -> int:
        """All passes, over rows or over targets alone."""
        return sum(phase.passes for phase in self.phases)

    @property
    def tasks(self) -> int:
        return sum(phase.tasks for phase in self.phases)

    @property
    def bytes_read(self) -> int:
        return round(sum(phase.sweeps for phase in self.phases) * self.sweep_bytes)

    @property
    def at_once(self) -> tuple[int, int]:
        """Tasks that can run at once in the narrowest pass over the rows, and in the widest; of SGD gradients of a batch."""
        parts = [phase.parts for phase in self.phases if phase.parts]
        return min(parts, default=1), max(parts, default=1)

    @property
    def fits(self) -> bool:
        try:
            self.check()
        except MemoryPlanError:
            return False
        return True

    def check(self) -> None:
        """Raise MemoryPlanError where a worker or the client cannot hold its peak."""
        self.memory.check(self.workers, self.job)
        check_client(self.client_peak, self.job)

    def lines(self) -> list[tuple[str, str]]:
        """(what, how much) in words, as it is printed."""
        limit = self.workers.memory_limit
        held = f"{format_bytes(self.memory.peak)} of {format_bytes(limit) if limit else 'no limit'}"
        return [
            ("rows", f"{self.rows:,} in {self.blocks} blocks of up to {self.block_rows:,}"),
            ("tasks", f"{self.tasks} in {self.passes} passes"),
            ("read", format_bytes(self.bytes_read)),
            ("written", format_bytes(self.bytes_written)),
            ("peak per worker", held),
            *((f"  {part}", format_bytes(size)) for part, size in self.memory.parts.items() if size),
            ("peak of the client", format_bytes(self.client_peak)),
            ("workers", f"{self.workers.count} x {self.workers.threads} threads"),
            ("tasks at once", " to ".join(f"{count:,}" for count in dict.fromkeys(self.at_once))),
            *(("note", note) for note in self.notes),
        ]

    def __repr__(self) -> str:
        lines = [f"plan: {self.job}", *(f"{what:<20}{value}" for what, value in self.lines())]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {name: getattr(self, name) for name in _NAMED} | {
            "peak_bytes_per_worker": self.memory.peak,
            "peak_parts": self.memory.parts,
            "peak_bytes_client": self.client_peak,
            "memory_limit_per_worker": self.workers.memory_limit,
            "workers": self.workers.count,
            "threads_per_worker": self.workers.threads,
            "tasks_at_once": list(self.at_once),
        }


@reads_csv
@ruled(
    job=one_of(*JOBS) | NONE, classes=whole(1) | NONE, n_components=one_of("auto") | NONE, workers=whole(1) | NONE
)  # fmt: skip
def plan(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    job: str | None = None,
    classes: int | None = None,
    n_components: str | None = None,
    workers: int | None = None,
    cluster: str | os.PathLike[str] | None = None,
    memory_limit: str | int | None = None,
    tls: str | os.PathLike[str] | None = None,
) -> Plan:
    """Say what a job will read, write and hold. Nothing of it runs; of the data a few labels are read.

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
    cluster : str, PathLike or None, default=None
        As of `distrf.connect`. None is the Dask client in use, else the local cluster that `connect()` would
        start; this process for rows in memory.
    memory_limit : str, int or None, default=None
        As of `distrf.connect`.
    tls : str, PathLike or None, default=None
        As of `distrf.connect`.
    {csv}

    Returns
    -------
    Plan
        Prints as a table. `plan.check()` raises MemoryPlanError where a worker or the client cannot hold its peak;
        `plan.to_dict()` is plain JSON; `plan.notes` says what was assumed.

    Raises
    ------
    InputError
        The estimator is not of distrf, a parameter breaks its rule, or the job does not go with it.
    NotFittedError
        A model that predicts is not fitted.
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
    job = _job_of(steps, job)
    known = classes or 0
    if isinstance(X, (str, os.PathLike)):
        X = open_input(os.fspath(X))
    if isinstance(X, Rows):
        known = known or len((X.info and X.info.classes) or ())
        X, own = X.rows()
        y = own if y is None else y
    X, y = as_rows(X), None if y is None else as_columns(y)
    client, lazy = current_client(), is_dask_collection(X)
    if cluster is None and memory_limit is None and (client is not None or not lazy):
        size = Workers.of_client(client)
    else:
        size = planned_workers(cluster, memory_limit, tls)
    if n_components is not None:
        D = auto_components(X.shape[0], size.memory_limit)
        steps = [_with_size(step, D) for step in steps]
    rows = PlannedRows.of(X, replace(size, count=workers or size.count), labelled=y is not None)
    outputs, notes = _outputs(job, steps, y, known)
    planned = plan_job(job, steps, replace(rows, outputs=outputs))
    if not size.memory_limit:
        notes += [
            "the memory limit of workers is not known (none are there yet, or they have none): the peak is not checked"
        ]
    planned.notes[:0] = notes
    return planned


def plan_job(job: str, steps: Sequence[Any], rows: PlannedRows) -> Plan:
    """The plan of a job, one of `JOBS`, by the steps of a pipeline in their order."""
    model = _model_of(steps)
    total = Costs()
    for step in steps if model is None else steps[:-1]:
        map_ = getattr(step, "map_", None)
        if map_ is None:
            map_ = step.planned_map(rows.width)
            total += step.planned_costs(rows, map_)
        rows = rows.after(map_)
    if job in ("fit", "train"):
        final = model.planned_costs(rows)
    else:
        rows = rows if getattr(model, "map_", None) is None else rows.after(model.map_)
        final = _writing(job, replace(rows, outputs=len(np.atleast_2d(getattr(model, "coef_", 0.0)))), model)
    if sum(map_.work()[1] for map_ in rows.maps) > CACHE_BYTES:
        note = "weights exceed the cache and are made anew for every block; a structured projection avoids it"
        total += Costs(notes=(note,))
    total += final
    if job == "train":
        total = _with_choices(total, rows, steps)
    return Plan(
        job, rows.n, rows.blocks, rows.block_rows, total.phases, rows.nbytes, total.written,
        total.memory, total.client_bytes, rows.workers, list(total.notes),
    )  # fmt: skip


def planned_target(y: Any, known: int, seed: int = 0) -> Target:
    """What a plan knows of a target: by labels of a few blocks, or of none where `known` says the number of classes.

    Then whole numbers and texts are taken for labels, and no rows are looked at.
    """
    if y is not None and not known:
        if is_dask_collection(y):
            y = take_blocks(y, np.unique(np.linspace(0, y.numblocks[0] - 1, _BLOCKS).astype(int)).tolist())
        seen = look_at(take_rows(y, sampled_rows(y.shape[0], _LABELS, seed, "target")))
        if seen.distinct > 1:
            return seen
    return Target(y is None or y.dtype.kind != "f", known or 2, 0, "it is not looked at")


def _model_of(steps: Sequence[Any]) -> Any:
    return steps[-1] if is_classifier(steps[-1]) or is_regressor(steps[-1]) else None


def _job_of(steps: Sequence[Any], job: str | None) -> str:
    """The job, or the one that fits the steps. Raises InputError, or NotFittedError, for one that does not."""
    for step in steps:
        if not hasattr(step, "planned_costs"):
            raise InputError(
                f"a plan is made of estimators of distrf, got {type(step).__name__}; wrap a transformer in Blockwise"
            )
    model = _model_of(steps)
    if job is None:
        job = "featurize" if model is None else "predict" if hasattr(model, "coef_") else "fit"
    if (model is None) != (job == "featurize"):
        raise InputError(
            f"job 'featurize' is of transformers alone, all others are of a classifier or a regressor behind them; got "
            f"job={job!r} and {type(steps[-1]).__name__} as the last step"
        )
    if job in ("predict", "evaluate"):
        check_is_fitted(model)
    return job


def _outputs(job: str, steps: Sequence[Any], y: Any, known: int) -> tuple[int, list[str]]:
    """Columns of the encoded target, and in words what was seen of its labels."""
    model = _model_of(steps)
    labels = (
        any(get_tags(step).target_tags.required for step in steps) if model is None else is_classifier(model)
    )
    if not labels or job in ("predict", "evaluate"):
        return 1 if y is None or y.ndim == 1 else int(y.shape[1]), []
    seen = planned_target(y, known)
    notes = [f"classes: at least {seen.distinct:,}, in {seen.rows:,} sampled rows"] if seen.rows else []
    notes += ["train may take these whole numbers for numbers: one output"] if seen.either else []
    return 1 if seen.distinct == 2 else seen.distinct, notes


def _with_size(step: Any, D: int) -> Any:
    """An unfitted map with so many features; other steps as they are."""
    if hasattr(step, "map_") or not hasattr(step, "take_size"):
        return step
    made = clone(step)
    made.take_size(D)
    return made


def _writing(job: str, rows: PlannedRows, model: Any) -> Costs:
    """The costs of writing features or predictions block by block, or of adding up scores."""
    state = empty_sums(model, rows.n).nbytes if job == "evaluate" else 0
    block = rows.block_rows * rows.entries * rows.itemsize
    # Zarr holds the compressed bytes of a block twice: as its codec gives them, and with their checksum behind.
    scratch = 2 * block if job == "featurize" else block + 2 * rows.block_rows * rows.outputs * rows.itemsize
    of_row = rows.entries * rows.itemsize + (8 if rows.labelled else 0)
    written = {"featurize": rows.n * of_row, "predict": 8 * rows.n}.get(job, 0)
    flops = sum(map_.work()[0] for map_ in rows.maps) + rows.outputs * (2.0 * rows.width + ROW_FLOPS)
    reduction = SumsReduction(None, state, flops) if job == "evaluate" else RowCount()
    memory = rows.pass_memory(reduction)
    memory = replace(memory, scratch=max(memory.scratch, scratch))
    return Costs((rows.passes(1, reduction),), written, memory)


def _with_choices(costs: Costs, rows: PlannedRows, steps: Sequence[Any]) -> Costs:
    """The costs of `train`: samples are read first; of labels it may take another model than ridge."""
    note = "choices read a sample of at most 6,000 rows and 10,000 targets, from all blocks at most"
    note += "; labels may be fitted by up to 50 passes of the logistic loss" * is_classifier(steps[-1])
    if any(getattr(step, "numbers", "") == "auto" for step in steps):
        note += "; encodings of numbers are chosen, and with their width what projection 'auto' takes"
        costs = replace(costs, notes=tuple(n for n in costs.notes if not n.startswith("projection 'auto'")))
    of_rows, of_targets = (rows.sample_costs(size).phases[0] for size in (6_000, 10_000))
    phases = of_rows, replace(of_targets, sweeps=0.0), *costs.phases
    return replace(costs, phases=phases, notes=(*costs.notes, note))


def planned_workers(
    cluster: str | os.PathLike[str] | None = None,
    memory_limit: str | int | None = None,
    tls: str | os.PathLike[str] | None = None,
) -> Workers:
    """The workers of the cluster that `distrf.connect` would give. A running cluster is asked, none is started.

    Parameters
    ----------
    cluster, memory_limit, tls : as `distrf.connect` takes them

    Returns
    -------
    Workers
        Their number, threads and memory limit; the limit is 0 if only the running cluster would tell it.
    """
    if cluster == "none" and memory_limit is None:
        return Workers.of_client(None)
    from dask.system import CPU_COUNT

    from .cluster import asked_spec, connect

    spec = asked_spec(os.fspath(cluster or "local"), memory_limit)
    if not spec:
        with connect(cluster, tls=tls) as client:
            return Workers.of_client(client)
    arguments = spec["arguments"]
    count = int(arguments.get("n_workers") or CPU_COUNT)
    threads = int(arguments.get("threads_per_worker") or 1)
    limit = arguments.get("memory_limit", "auto") if spec["class"].endswith("LocalCluster") else "auto"
    if isinstance(limit, float) and limit <= 1:  # to Dask a share of the machine
        limit *= machine_memory()
    # Others are known once the cluster runs.
    return Workers(count, threads, 0 if limit in (None, "auto") else parse_bytes(limit))
