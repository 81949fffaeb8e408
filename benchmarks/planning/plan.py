"""Memory that `distrf.plan` says, beside what jobs of every kind take."""

from __future__ import annotations

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

#: Jobs of a small run, and the most that a plan is to be of what is taken.
SMALL, BAR = ("csr", "featurize"), 1.5


def run_job(job: Job, pipeline: Any, X: Any, y: Any, out: Path) -> None:
    """Run what was planned."""
    if job.kind == "fit":
        pipeline.fit(X, y)
    elif job.kind == "train":
        steps = [step for _, step in pipeline.steps]
        scale = steps[0] if job.form == "table" else None
        distrf.train(X, y, scale=scale, map=steps[-2], model=steps[-1], n_components=None)
    elif job.kind == "featurize":
        distrf.featurize(pipeline, X, out)
    elif job.kind == "predict":
        distrf.predict(pipeline, X, out)
    else:
        distrf.evaluate(pipeline, X, y)


def do(job: Job, in_process: bool) -> tuple[Plan, Record]:
    """The plan of a job, and what it took."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X, y, encoder = make_rows(Path(folder), job)
        pipeline = make_pipeline(*([] if encoder is None else [encoder]), *job.steps(job.size))
        if job.kind in ("predict", "evaluate"):
            pipeline.fit(X[:4096].compute(), y[:4096].compute())
        with connected(job.workers, in_process) as client:
            planned = distrf.plan(pipeline, X, y, job=job.kind)
            few = clone(pipeline) if job.kind in ("fit", "train") else pipeline
            run_job(job, few, X[:2048], y[:2048], Path(folder) / "few.zarr")  # imports, compiled loops
            found, _ = measured(client, lambda: run_job(job, pipeline, X, y, Path(folder) / "out.zarr"))
    return planned, found


def jobs(run: Run) -> Iterator[Record]:
    for name, job in JOBS.items():
        if not run.small or name in SMALL:
            job = small(job) if run.small else job
            planned, found = do(job, run.small)
            about = {key: value for key, value in vars(job).items() if key != "steps"}
            parts = {part: size for part, size in planned.memory.parts.items() if size}
            bytes_ = {"planned_bytes": planned.memory.peak, "bytes": found["bytes"], "parts": parts}
            yield about | {"job": name, **bytes_, "seconds": found["wall"]}


def ratio(r: Record) -> float:
    """Planned over measured."""
    return float(r["planned_bytes"] / r["bytes"])


def show(records: list[Record]) -> str:
    rows = [
        [f"{named(r)}: {what(r)}", *(f"{r[key] / MIB:,.0f}" for key in ("planned_bytes", "bytes")), f"{ratio(r):.2f}", f"{r['seconds']:.1f}"]
        for r in records
    ]  # fmt: skip
    missing = [name.replace("_", " ") for name in JOBS if name not in {r["job"] for r in records}]
    rest = f"\n\nNot measured: {', '.join(missing)}." if missing else ""
    return markdown(["job", "plan MiB", "MiB", "ratio", "s"], rows) + rest


def named(r: Record) -> str:
    return str(r["job"]).replace("_", " ")


def what(r: Record) -> str:
    """Rows and columns of a job in words."""
    form = {"csr": ", CSR", "float64": ", float64", "table": ", Parquet"}.get(r["form"], "")
    classes = f", {r['classes']:,} classes" if r["classes"] else ", numbers"
    workers = f", {r['workers']} workers" if r["workers"] > 1 else ""
    block = f", blocks of {r['block']:,}" if r["block"] != 4096 else ""
    return f"{r['kind']}, {r['rows']:,} x {r['columns']:,}{form}{block}{classes}, D = {r['size']:,}{workers}"


def draw(records: list[Record], figure: Any) -> None:
    """Planned over measured of each job, between the bars."""
    figure.set_size_inches(6, 4.5)
    ax = figure.subplots()
    ax.axvspan(1, BAR, color="0.92")
    ax.barh([named(r) for r in records], [ratio(r) for r in records], height=0.6)
    ax.set(xlabel="memory of a worker, planned / measured", ylim=(len(records) - 0.4, -0.6))


def claims(found: dict[str, list[Record]]) -> list[Claim]:
    """Plans that say too little, and those that say far too much."""
    records = found.get("jobs", [])
    made = []
    for said, theirs, good in (
        ("No worker takes more memory than the plan says", "at least 1", lambda x: x >= 1),
        (f"A plan is at most {BAR:g} times the memory that is taken", f"at most {BAR:g}", lambda x: x <= BAR),
    ):
        beyond = [f"{named(r)} {ratio(r):.2f}" for r in records if not good(ratio(r))]
        held, middle = (
            len(records) - len(beyond),
            statistics.median(map(ratio, records or [{"planned_bytes": 1, "bytes": 1}])),
        )
        ours = ", beyond: ".join(
            [f"{held} of {len(records)} jobs, median {middle:.2f}", *([", ".join(beyond)] if beyond else [])]
        )
        made.append(
            Claim(
                said,
                f"planned / measured {theirs}",
                ours,
                judged(held, len(records)),
                UNKNOWN if beyond else "",
            )
        )
    return made if records else []


ABOUT = """
Memory that `distrf.plan` says before a job, and what the job then takes, for jobs of every kind: each on a fresh local cluster of worker processes
with one thread. Measured is the largest size of a worker process (`VmHWM`); a plan is to be no less, and at most 1.5 times as much. Every job runs
once; its seconds are those on the clock.
"""

BENCHMARK = Benchmark(
    "plan", "Plan and measurement", ABOUT, (Part("jobs", jobs, show, draw, data=False),), claims
)
