"""Memory that `distrf.plan` says, beside what jobs of every kind take: rows that are made by a function, and what is done with them."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import distrf
from benchmarks.benchmark import MIB, Part, Record, Run, lines
from benchmarks.workers import connected, measured
from distrf.pipeline.rows import open_training
from distrf.planning import Plan


@dataclass(frozen=True)
class Job:
    """A job on one worker of one thread, unless it says otherwise.

    kind : what is planned and run: "fit" and "train" (distrf.train) of the steps; "featurize", "predict" and "evaluate" by them
    steps : makes the estimators, the model last
    rows, columns, block : of the store
    classes : of the target; 0 are numbers
    form : how rows are stored: "float32", "float64", "csr" (1 % of the entries), "table" (Parquet, a column of text)
    """

    kind: str
    steps: Callable[[int], list[Any]]
    rows: int
    columns: int = 64
    block: int = 4096
    classes: int = 10
    form: str = "float32"
    size: int = 2048
    workers: int = 1


RIDGE = distrf.StreamingRidgeClassifier(1e-6)


def mapped(name: str, *models: Any, **options: Any) -> Callable[[int], list[Any]]:
    """Steps: the map of that class, and a model, if there is one."""
    return lambda D: [getattr(distrf, name)(n_components=D, random_state=0, **options), *models]


def fourier(*models: Any) -> Callable[[int], list[Any]]:
    return mapped("RandomFourierFeatures", *models, gamma=0.01)


CHOSEN = distrf.StreamingRidgeClassifier("auto", calibrate=True)
BATCHES: dict[str, Any] = {"alpha": 1e-6, "n_epochs": 5, "tol": None, "random_state": 0}
JOBS: dict[str, Job] = {
    "train": Job("train", fourier(CHOSEN), 60_000),
    "wide": Job("fit", fourier(RIDGE), 12_000, size=8192),
    "classes": Job("fit", fourier(RIDGE), 100_000, classes=1000, size=1024),
    "passes": Job("fit", fourier(distrf.StreamingRidgeClassifier(1e-4, solver="passes")), 20_000, size=8192),
    "tefm": Job("fit", lambda D: [distrf.TEFM(*fourier()(16 * D), D, random_state=0), RIDGE], 30_000, size=256),
    "cnm": Job("fit", mapped("CompactNonlinearMap", RIDGE, objective="logistic", n_epochs=8), 60_000, size=512),
    "svm": Job("fit", fourier(distrf.StreamingSGDClassifier("hinge", **BATCHES)), 100_000),
    "sgd_regressor": Job("fit", fourier(distrf.StreamingSGDRegressor(**BATCHES)), 100_000, classes=0),
    "csr": Job("fit", fourier(RIDGE), 60_000, 5000, classes=2, form="csr"),
    "table": Job("train", fourier(CHOSEN), 60_000, 16, classes=2, form="table"),
    "float64": Job("fit", fourier(RIDGE), 60_000, form="float64"),
    "tiny_blocks": Job("fit", fourier(RIDGE), 100_000, block=256),
    "huge_blocks": Job("fit", fourier(RIDGE), 200_000, block=100_000),
    "two_workers": Job("fit", fourier(RIDGE), 150_000, workers=2),
    "laplace": Job("fit", mapped("RandomLaplaceFeatures", RIDGE, beta=0.1), 60_000),
    "binning": Job("fit", mapped("RandomBinningFeatures", RIDGE, length_scale=8.0), 60_000),
    "nystroem": Job("fit", mapped("NystroemFeatures", RIDGE, gamma=0.01), 40_000, size=1024),
    "polynomial": Job("fit", mapped("TensorSketchFeatures", RIDGE, degree=2, gamma=0.1), 60_000),
    "featurize": Job("featurize", fourier(), 100_000, size=4096),
    "predict": Job("predict", fourier(RIDGE), 400_000, size=4096),
    "evaluate": Job("evaluate", fourier(RIDGE), 400_000, size=4096),
}


SMALL: dict[str, Any] = {"rows": 600, "columns": 16, "block": 200, "classes": 2, "size": 32, "workers": 1}


def block_of(d: int, dtype: np.dtype, sparse: bool, block_info: Any = None) -> Any:
    first, last = block_info[None]["array-location"][0]
    rng = np.random.default_rng(first)
    if sparse:
        return sp.random(last - first, d, 0.01, format="csr", dtype=dtype, random_state=rng)
    return np.abs(rng.normal(size=(last - first, d))).astype(dtype)


def labels_of(X: Any, classes: int) -> np.ndarray:
    first = X[:, :8].toarray() if sp.issparse(X) else X[:, :8]
    value = np.asarray(first, np.float64) @ np.arange(1, 1 + first.shape[1])
    return (np.abs(value) * 1e4).astype(np.int32) % classes if classes else np.sin(value).astype(np.float32)


def make_rows(folder: Path, job: Job) -> tuple[Any, Any, Any]:
    """The rows of a job in a store, and their targets, lazy; and the encoder of a table in a list. They are written by this process alone."""
    if job.form == "table":
        coded = open_training(make_table(folder, job), target="y")
        return coded.X, coded.y, [coded.encoder]
    chunks = tuple(min(job.block, job.rows - a) for a in range(0, job.rows, job.block))
    dtype, sparse = np.dtype(np.float64 if job.form == "float64" else np.float32), job.form == "csr"
    size, meta = (chunks, (job.columns,)), (sp.csr_matrix if sparse else np.empty)((0, 0), dtype=dtype)
    X = da.map_blocks(block_of, job.columns, dtype, sparse, dtype=dtype, chunks=size, meta=meta)
    y_type = np.dtype(np.int32 if job.classes else np.float32)
    y = X.map_blocks(labels_of, job.classes, drop_axis=1, dtype=y_type, meta=np.empty(0, y_type))
    distrf.write_rows(X, folder / "rows.zarr", y)
    return *distrf.open_rows(folder / "rows.zarr"), []


def make_table(folder: Path, job: Job) -> Path:
    """Parquet files of a block each: numbers, every fourth of them missing in one row of 20, and a column of text."""
    import pandas as pd  # which workers do not need

    for first in range(0, job.rows, job.block):
        rng = np.random.default_rng(first)
        X = rng.normal(size=(min(job.block, job.rows - first), job.columns))
        frame = pd.DataFrame(X).add_prefix("x")
        frame.iloc[rng.random(len(X)) < 0.05, ::4] = np.nan
        frame["letter"] = np.array(list("abcdefgh"))[rng.integers(8, size=len(X))]
        frame.assign(y=labels_of(X, job.classes)).to_parquet(folder / f"{first:09d}.parquet")
    return folder


def run_job(job: Job, pipeline: Any, X: Any, y: Any, out: Path) -> None:
    """Run what was planned."""
    if job.kind == "train":
        scale = pipeline[0] if job.form == "table" else None
        distrf.train(X, y, scale=scale, map=pipeline[-2], model=pipeline[-1], n_components=None)
    elif job.kind in ("featurize", "predict"):
        getattr(distrf, job.kind)(pipeline, X, out)
    else:
        pipeline.fit(X, y) if job.kind == "fit" else distrf.evaluate(pipeline, X, y)


def do(job: Job, in_process: bool) -> tuple[Plan, Record]:
    """The plan of a job, and what it took."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
        X, y, encoder = make_rows(Path(folder), job)
        pipeline = make_pipeline(*encoder, *(clone(step) for step in job.steps(job.size)))
        if job.kind in ("predict", "evaluate"):
            pipeline.fit(X[:4096].compute(), y[:4096].compute())
        with connected(job.workers, in_process) as client:
            planned = distrf.plan(pipeline, X, y, job=job.kind)
            few = clone(pipeline) if job.kind in ("fit", "train") else pipeline
            run_job(job, few, X[:2048], y[:2048], Path(folder) / "few.zarr")  # imports, compiled loops
            found, _ = measured(client, lambda: run_job(job, pipeline, X, y, Path(folder) / "out.zarr"))
    return planned, found


def jobs(run: Run) -> Iterator[Record]:
    """Memory of a worker that `distrf.plan` says, and what the job takes (`VmHWM`): each on fresh worker processes of one thread, once."""
    for name in ("csr", "featurize") if run.small else JOBS:
        job = replace(JOBS[name], **run.pick({}, SMALL))
        planned, found = do(job, run.small)
        about = {key: value for key, value in vars(job).items() if key != "steps"} | {"job": name}
        figures = {"planned_bytes": planned.memory.peak, "bytes": found["bytes"], "seconds": found["wall"]}
        yield about | figures | {"parts": planned.memory.parts}


PARTS = (Part(jobs, lines({
    "job": "{job}: {kind}, {rows:,} x {columns:,}, D = {size:,}", "plan MiB": lambda r: f"{r['planned_bytes'] / MIB:,.0f}",
    "MiB": lambda r: f"{r['bytes'] / MIB:,.0f}", "ratio": lambda r: f"{r['planned_bytes'] / r['bytes']:.2f}", "s": "{seconds:.1f}",
}), data=False),)  # fmt: skip
