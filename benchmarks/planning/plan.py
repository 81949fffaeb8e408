"""Memory and time that `distrf.plan` says, beside what jobs of every kind take."""

from __future__ import annotations

import dataclasses
import math
import statistics
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import distrf
from benchmarks.benchmark import MIB, Benchmark, Part, Record, Run, markdown
from benchmarks.planning.jobs import JOBS, Job, make_rows, small
from benchmarks.planning.plan_claims import BAR, claims, ratio
from benchmarks.planning.speeds import measured_speeds
from benchmarks.workers import connected, measured
from distrf.execution.timing import Speeds
from distrf.planning.summary import Plan

#: Jobs of a small run.
SMALL = ("csr", "featurize")


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


def measure(name: str, job: Job, speeds: Speeds, in_process: bool) -> Record:
    """A job once."""
    planned, found = do(job, in_process)
    about = {
        key: getattr(job, key)
        for key in ("kind", "form", "workers", "rows", "columns", "block", "classes", "size")
    }
    return about | {
        "job": name, "planned_bytes": planned.memory.peak, "bytes": found["bytes"],
        "parts": {part: size for part, size in planned.memory.parts.items() if size}, "planned_seconds": planned.seconds(speeds),
        "uncalibrated_seconds": planned.seconds(), "seconds": found["wall"], "processor": found["seconds"],
        "client": found["client"], "bound": planned.bound(speeds), "speeds": dataclasses.asdict(speeds),
    }  # fmt: skip


def jobs(run: Run) -> Iterator[Record]:
    with tempfile.TemporaryDirectory() as folder, connected(1, run.small) as client:
        speeds = measured_speeds(client, Path(folder), run.pick(64, 1))
    for name, job in JOBS.items():
        if not run.small:
            yield measure(name, job, speeds, False)
        elif name in SMALL:
            yield measure(name, small(job), speeds, True)


def show(records: list[Record]) -> str:
    rows = []
    for r in records:
        rows.append(
            [
                f"{r['job'].replace('_', ' ')}: {what(r)}", f"{r['planned_bytes'] / MIB:,.0f}", f"{r['bytes'] / MIB:,.0f}",
                f"{ratio(r, 'bytes'):.2f}", f"{r['planned_seconds']:.1f}", f"{r['seconds']:.1f}", f"{ratio(r, 'seconds'):.2f}",
                f"{r['uncalibrated_seconds'] / r['seconds']:.2f}", f"{r['processor']:.1f}",
            ]
        )  # fmt: skip
    speeds = records[0]["speeds"]
    said = (
        f"The machine: {speeds['flops'] / 1e9:.0f} GF/s, {speeds['read'] / 1e6:,.0f} MB/s read and {speeds['write'] / 1e6:,.0f} written, "
        f"{1000 * speeds['block']:.1f} ms a block, {speeds['network'] / 1e6:,.0f} MB/s sent, "
        f"{1000 * speeds['task']:.1f} ms a task, {1000 * speeds['step']:.0f} ms a step."
    )
    head = ["job", "plan MiB", "MiB", "ratio", "plan s", "s", "ratio", "uncalibrated", "processor s"]
    missing = [name.replace("_", " ") for name in JOBS if name not in {r["job"] for r in records}]
    rest = f"\n\nNot measured: {', '.join(missing)}." if missing else ""
    return said + "\n\n" + markdown(head, rows) + rest


def what(r: Record) -> str:
    """Rows and columns of a job in words."""
    form = {"csr": ", CSR", "float64": ", float64", "table": ", Parquet"}.get(r["form"], "")
    classes = f", {r['classes']:,} classes" if r["classes"] else ", numbers"
    workers = f", {r['workers']} workers" if r["workers"] > 1 else ""
    block = f", blocks of {r['block']:,}" if r["block"] != 4096 else ""
    return f"{r['kind']}, {r['rows']:,} x {r['columns']:,}{form}{block}{classes}, D = {r['size']:,}{workers}"


def draw(records: list[Record], figure: Any) -> None:
    """Plan against measured, with the bars."""
    from matplotlib.ticker import LogLocator, NullLocator, ScalarFormatter

    figure.set_size_inches(9, 4.2)
    for ax, (key, scale, unit) in zip(
        figure.subplots(1, 2), (("bytes", MIB, "MiB"), ("seconds", 1, "s")), strict=True
    ):
        found = [(r[key] / scale, r[f"planned_{key}"] / scale) for r in records]
        x, y = [a for a, _ in found], [b for _, b in found]
        low, high = min(x + y) / 1.3, max(x + y) * 1.3
        ax.plot([low, high], [low, high], color="0.6", linewidth=1)
        ax.fill_between(
            [low, high],
            [low if key == "bytes" else low / BAR, high if key == "bytes" else high / BAR],
            [BAR * low, BAR * high],
            color="0.92",
        )
        ax.plot(x, y, "o", markersize=5)
        names = [r["job"].replace("_", " ") for r in records]
        for i, side in readable(names, found, low, high).items():
            style = {"xytext": (5 * side, -3), "ha": "left" if side > 0 else "right", "fontsize": 7}
            ax.annotate(names[i], found[i], textcoords="offset points", **style)
        ax.set(
            xscale="log",
            yscale="log",
            xlim=(low, high),
            ylim=(low, high),
            xlabel=f"measured, {unit}",
            ylabel=f"planned, {unit}",
        )
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(ScalarFormatter())
            axis.set_minor_locator(NullLocator())
        ax.set_title("memory of a worker" if key == "bytes" else "time")


def readable(
    names: list[str], points: list[tuple[float, float]], low: float, high: float
) -> dict[int, Literal[-1, 1]]:
    """The points whose names stand clear of each other and of points, on the right, 1, or the left, -1.

    Those farthest from the middle ratio have the first choice. low, high : ends of both logarithmic axes
    """
    at = [
        (math.log(a / low) / math.log(high / low), math.log(b / low) / math.log(high / low)) for a, b in points
    ]
    middle = statistics.median(y - x for x, y in at)
    kept: dict[int, Literal[-1, 1]] = {}
    taken: list[tuple[float, float, float]] = []
    sides: tuple[Literal[-1, 1], ...] = (1, -1)
    for i in sorted(range(len(at)), key=lambda i: -abs(at[i][1] - at[i][0] - middle)):
        x, y = at[i]
        for side in sides:
            left, right = sorted((x + 0.005 * side, x + side * (0.03 + 0.0155 * len(names[i]))))  # of the panel
            free = all(abs(y - b) > 0.035 or right < a or c < left for a, b, c in taken)
            clear = all(abs(y - b) > 0.025 or not left < a < right for j, (a, b) in enumerate(at) if j != i)
            if free and clear and i not in kept and left > 0 and right < 1:
                taken.append((left, y, right))
                kept[i] = side
    return kept


ABOUT = """
`distrf.plan` before a job, and what the job then takes, for jobs of every kind: each on a fresh local cluster of worker processes
with one thread. *Memory* is the largest size of a worker process (`VmHWM`); a plan is to be no less, and at most 1.5 times as much.
*Time* is to be within a factor of 1.5, after calibration: before the first job the speeds of the machine are measured (a matrix product, rows written and read,
small blocks, a message, empty tasks, the shortest pass) in some ten seconds. "uncalibrated" is the ratio with the speeds that a plan assumes.

Seconds are those on the clock of a machine that does nothing else, with a core for the worker and one for the client. Processor
seconds are those of the client and of the worker that takes most. Every job runs once. [Rows, features and workers](scale.md) holds plans of
up to a million features against the same bar of memory.
"""

BENCHMARK = Benchmark(
    "plan", "Plan and measurement", ABOUT, (Part("jobs", jobs, show, draw, data=False),), claims
)
