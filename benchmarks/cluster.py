"""Efficiency on many workers, on one machine: blocks sleep where they would be read.

    python benchmarks/cluster.py --jobs ridge featurize --workers 1 8 16 32 --repeats 5
    python benchmarks/cluster.py --jobs ridge --workers 8 --slow 5          # one worker sleeps five times as long
    python benchmarks/cluster.py --jobs ridge --workers 2 --join 6          # six more workers after a third of the time
    python benchmarks/cluster.py --jobs ridge --workers 8 --leave 4         # four leave after a third of the time

Workers are threads of this process, one thread each, so the numbers hold the cost of the scheduler and of the client too, on
the same processors. Each block of rows sleeps `--seconds` when it is read. There are `--blocks` blocks for each worker.

model : seconds that `distrf.plan` says, from the seconds of a nap and the number of workers
efficiency : with workers that come, go or are slow, the least time that the naps need on them, else naps / threads;
    divided by the time of the job
bits : a checksum of the result, which must be the same for all workers
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cluster_naps
import dask.array as da
import numpy as np
import zarr
from distributed import Client, LocalCluster
from sklearn.pipeline import make_pipeline

from distrf import (
    CompactNonlinearClassifier,
    RandomFourierFeatures,
    StreamingRidge,
    StreamingSGDClassifier,
    plan,
)
from distrf.execution.timing import Speeds
from distrf.execution.write_zarr import write_rows

#: Rows of a block: so few that arithmetic is small beside the naps, since all workers share these processors.
ROWS = {"ridge": 4096, "featurize": 4096, "sgd": 64, "cnm": 256}
COLUMNS, D_SGD = 4, 4096


def fourier(n_components: int) -> RandomFourierFeatures:
    return RandomFourierFeatures(gamma=0.1, n_components=n_components, random_state=0)


#: The steps of each job.
JOBS: dict[str, Callable[[], list[Any]]] = {
    "ridge": lambda: [fourier(32), StreamingRidge(1e-3)],
    "featurize": lambda: [fourier(32)],
    "sgd": lambda: [
        fourier(D_SGD),
        StreamingSGDClassifier(alpha=1e-4, n_epochs=1, tol=None, random_state=0),
    ],
    "cnm": lambda: [CompactNonlinearClassifier(n_components=16, n_epochs=1, random_state=0)],
}


def run(job: str, X: da.Array, y: np.ndarray, folder: Path) -> np.ndarray:
    """Run a job; some numbers that it made."""
    pipeline = make_pipeline(*JOBS[job]())
    if job == "featurize":
        write_rows(str(folder), {"X": pipeline.fit_transform(X)}, kind="features", spec={"of": "a benchmark"})
        return np.asarray(zarr.open_group(folder, mode="r")["X"][-1000:])
    return pipeline.fit(X, y.astype(np.float32) if job == "ridge" else y)[-1].coef_


def change_workers(cluster: LocalCluster, workers: int, after: float, moment: list[float]) -> threading.Timer:
    """Let workers come or go later; `moment` gets the time."""

    def change() -> None:
        moment.append(time.perf_counter())
        cluster.scale(workers)

    timer = threading.Timer(after, change)
    timer.start()
    return timer


def least_seconds(naps_seconds: float, args: argparse.Namespace, workers: int, before: float) -> float:
    """The least time that naps need, on workers of which some are slow, or change in number after `before` seconds."""
    rate = workers - 1 + 1 / args.slow
    later = workers + args.join - args.leave
    return naps_seconds / rate if later == workers else before + (naps_seconds - before * rate) / later


def measure(job: str, workers: int, args: argparse.Namespace) -> tuple[float, float, float, float, str]:
    """Efficiency, seconds, seconds slept, seconds that the plan says, and the checksum of one run."""
    naps = cluster_naps.begin(args.seconds, args.slow)
    blocks = args.blocks * (workers + args.join)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(blocks * ROWS[job], COLUMNS)).astype(np.float32)
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    lazy = da.from_array(X, chunks=(ROWS[job], COLUMNS)).map_blocks(cluster_naps.nap, dtype=X.dtype, meta=X[:0])
    options: dict[str, Any] = {"threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(n_workers=workers, silence_logs=50, memory_limit=0, **options) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(workers)
        moment: list[float] = []
        expected = args.blocks * (workers + args.join) * args.seconds / workers
        timer = change_workers(cluster, workers + args.join - args.leave, expected / 3, moment)
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = run(job, lazy, y, Path(folder) / "store")
            wall = time.perf_counter() - began
            planned = plan(make_pipeline(*JOBS[job]()), lazy, y)
        timer.cancel()
    before = moment[0] - began if moment else wall
    least = least_seconds(naps.slept, args, workers, before)
    speeds = Speeds(read=ROWS[job] * COLUMNS * X.itemsize / max(args.seconds, 1e-9))
    return (
        least / wall,
        wall,
        naps.slept,
        planned.seconds(speeds),
        hashlib.sha256(np.ascontiguousarray(result)).hexdigest()[:12],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", nargs="+", choices=list(JOBS), default=["ridge", "featurize"])
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 8, 16])
    parser.add_argument("--blocks", type=int, default=16, help="for each worker")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--slow", type=float, default=1.0, help="factor of the naps of one worker")
    parser.add_argument("--join", type=int, default=0)
    parser.add_argument("--leave", type=int, default=0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    records = []
    print(f"{'job':<10} {'workers':>7} {'naps s':>8} {'wall s':>8} {'model s':>8} {'efficiency':>10}  bits")
    for job in args.jobs:
        for workers in args.workers:
            runs = [measure(job, workers, args) for _ in range(args.repeats)]
            efficiency, wall, slept, model = (statistics.median(one[i] for one in runs) for i in range(4))  # type: ignore[misc]
            bits = sorted({one[4] for one in runs})
            shown = f"{job:<10} {workers:>7} {slept:>8.1f} {wall:>8.2f} {model:>8.2f} {efficiency:>10.3f}"
            print(f"{shown}  {' '.join(bits)}", flush=True)
            records.append(
                {"job": job, "workers": workers, "wall": wall, "model": model, "efficiency": efficiency}
                | {"bits": bits}
            )
    if args.json:
        args.json.write_text(json.dumps(records, indent=1))


if __name__ == "__main__":
    main()
