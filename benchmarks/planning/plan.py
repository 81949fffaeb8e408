"""Memory that `distrf.plan` says, beside what jobs of every kind take."""

from __future__ import annotations

import math
import statistics
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import distrf
from benchmarks.benchmark import MIB, UNKNOWN, Benchmark, Claim, Part, Record, Run, judged, markdown
from benchmarks.planning.jobs import JOBS, Job, make_rows, small
from benchmarks.workers import connected, measured
from distrf.planning.summary import Plan

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
    for name in SMALL if run.small else JOBS:
        job = small(JOBS[name]) if run.small else JOBS[name]
        planned, found = do(job, run.small)
        about = {key: value for key, value in vars(job).items() if key != "steps"} | {"job": name}
        figures = {"planned_bytes": planned.memory.peak, "bytes": found["bytes"], "seconds": found["wall"]}
        yield about | figures | {"parts": planned.memory.parts}


def show(records: list[Record]) -> str:
    rows = []
    for r in records:
        what = f"{r['job']}: {r['kind']}, {r['rows']:,} x {r['columns']:,}, D = {r['size']:,}"
        said, taken = r["planned_bytes"] / MIB, r["bytes"] / MIB
        rows.append([what, f"{said:,.0f}", f"{taken:,.0f}", f"{said / taken:.2f}", f"{r['seconds']:.1f}"])
    return markdown(["job", "plan MiB", "MiB", "ratio", "s"], rows)


def claims(found: dict[str, list[Record]]) -> list[Claim]:
    """Whether plans say enough, and not far too much."""
    ratios = {r["job"]: r["planned_bytes"] / r["bytes"] for r in found.get("jobs", [])}
    if not ratios:
        return []
    enough = claim("No worker takes more memory than the plan says: planned / measured", ratios, low=1)
    return [
        enough,
        claim("A plan is not far above the memory that is taken: planned / measured", ratios, high=1.5),
    ]


def claim(said: str, found: dict[str, float], low: float = -math.inf, high: float = math.inf) -> Claim:
    """A claim on figures of cases, which are to lie between two bars."""
    beyond = [f"{case} {x:.2f}" for case, x in found.items() if not low <= x <= high]
    held, middle = len(found) - len(beyond), statistics.median(found.values())
    ours = (
        f"{held} of {len(found)}, {min(found.values()):.2f} to {max(found.values()):.2f}, median {middle:.2f}"
    )
    bars = [f"at least {low:g}"] * (low > -math.inf) + [f"at most {high:g}"] * (high < math.inf)
    why = f"{UNKNOWN}: {', '.join(beyond)}" if beyond else ""
    return Claim(said, " and ".join(bars), ours, judged(held, len(found)), why)


ABOUT = """
Memory that `distrf.plan` says before a job, and what the job then takes, for jobs of every kind: each on a fresh local cluster of worker processes
with one thread. Measured is the largest size of a worker process (`VmHWM`); a plan is to be no less, and at most 1.5 times as much. Every job runs
once; its seconds are those on the clock.
"""

BENCHMARK = Benchmark("plan", "Plan and measurement", ABOUT, (Part("jobs", jobs, show, data=False),), claims)
