"""Memory that `distrf.plan` says, beside what jobs of every kind take."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import distrf
from benchmarks.benchmark import MIB, Part, Record, Run, lines
from benchmarks.planning.jobs import JOBS, Job, make_rows, small
from benchmarks.workers import connected, measured
from distrf.planning import Plan

#: Jobs of a small run.
SMALL = ("csr", "featurize")


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
    for name in SMALL if run.small else JOBS:
        job = small(JOBS[name]) if run.small else JOBS[name]
        planned, found = do(job, run.small)
        about = {key: value for key, value in vars(job).items() if key != "steps"} | {"job": name}
        figures = {"planned_bytes": planned.memory.peak, "bytes": found["bytes"], "seconds": found["wall"]}
        yield about | figures | {"parts": planned.memory.parts}


PARTS = (Part(jobs, lines({
    "job": "{job}: {kind}, {rows:,} x {columns:,}, D = {size:,}", "plan MiB": lambda r: f"{r['planned_bytes'] / MIB:,.0f}",
    "MiB": lambda r: f"{r['bytes'] / MIB:,.0f}", "ratio": lambda r: f"{r['planned_bytes'] / r['bytes']:.2f}", "s": "{seconds:.1f}",
}), data=False),)  # fmt: skip
