"""Many workers on one machine: threads of this process, that sleep where they would read a block.

The numbers hold the cost of the scheduler and of the client too, on the same processors. They are seconds on the clock, for a machine
that does nothing else.
"""

from __future__ import annotations

import hashlib
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import zarr
from sklearn.pipeline import make_pipeline

from benchmarks.benchmark import Record, Run, markdown
from benchmarks.planning import nap
from benchmarks.workers import connected
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


@dataclass(frozen=True)
class Case:
    """A job and its workers. slow : factor of the naps of one worker; join, leave : workers that do so after a third of the time"""

    job: str
    workers: int
    slow: float = 1.0
    join: int = 0
    leave: int = 0

    @property
    def later(self) -> int:
        return self.workers + self.join - self.leave


CASES = (
    *(Case(job, workers) for job in ("ridge", "featurize", "sgd", "cnm") for workers in (16, 32)),
    Case("ridge", 8, slow=5.0),
    Case("ridge", 2, join=6),
    Case("ridge", 8, leave=4),
)


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


def do(job: str, X: da.Array, y: np.ndarray, folder: Path) -> np.ndarray:
    """Run a job; some numbers that it made."""
    pipeline = make_pipeline(*JOBS[job]())
    if job == "featurize":
        write_rows(str(folder), {"X": pipeline.fit_transform(X)}, kind="features", spec={"of": "a benchmark"})
        return np.asarray(zarr.open_group(folder, mode="r")["X"][-1000:])
    return pipeline.fit(X, y.astype(np.float32) if job == "ridge" else y)[-1].coef_


def change_workers(cluster: Any, workers: int, after: float, moment: list[float]) -> threading.Timer:
    """Let workers come or go later; `moment` gets the time."""

    def change() -> None:
        moment.append(time.perf_counter())
        cluster.scale(workers)

    timer = threading.Timer(after, change)
    timer.start()
    return timer


def least_seconds(slept: float, case: Case, before: float) -> float:
    """The least time that naps need, on workers of which some are slow, or change in number after `before` seconds."""
    rate = case.workers - 1 + 1 / case.slow
    return slept / rate if case.later == case.workers else before + (slept - before * rate) / case.later


def measure(case: Case, each: int, seconds: float) -> Record:
    """A run with so many blocks for each worker, and naps of so many seconds."""
    job, naps = case.job, nap.begin(seconds, case.slow)
    blocks = each * (case.workers + case.join)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(blocks * ROWS[job], COLUMNS)).astype(np.float32)
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    lazy = da.from_array(X, chunks=(ROWS[job], COLUMNS)).map_blocks(nap.nap, dtype=X.dtype, meta=X[:0])
    with tempfile.TemporaryDirectory() as folder, connected(case.workers, True, 0) as client:
        client.wait_for_workers(case.workers)
        moment: list[float] = []
        timer = change_workers(client.cluster, case.later, blocks * seconds / case.workers / 3, moment)
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = do(job, lazy, y, Path(folder) / "store")
            wall = time.perf_counter() - began
            planned = plan(make_pipeline(*JOBS[job]()), lazy, y)
        timer.cancel()
    speeds = Speeds(read=ROWS[job] * COLUMNS * X.itemsize / seconds, block=0.0)
    return {
        "job": job, "workers": case.workers, "slow": case.slow, "later": case.later, "nap": seconds, "blocks": each, "wall": wall,
        "model": planned.seconds(speeds), "efficiency": least_seconds(naps.slept, case, moment[0] - began if moment else wall) / wall,
        "bits": hashlib.sha256(np.ascontiguousarray(result)).hexdigest()[:12],
    }  # fmt: skip


def cluster(run: Run) -> Iterator[Record]:
    each, seconds = run.pick((24, 1.0), (2, 0.01))
    for case in run.pick(CASES, (Case("ridge", 2), Case("featurize", 2))):
        yield measure(case, each, seconds)


def show_cluster(records: list[Record]) -> str:
    rows = []
    for r in records:
        steady = r["slow"] == 1 and r["later"] == r["workers"]
        slow = f", one {r['slow']:g} times slower" if r["slow"] != 1 else ""
        later = f"{r['workers']}" if r["later"] == r["workers"] else f"{r['workers']}, then {r['later']}"
        model = f"{r['wall'] / r['model']:.2f}" if steady else "-"
        rows.append([r["job"] + slow, later, f"{r['wall']:.1f}", f"{r['efficiency']:.2f}", model])
    first = records[0]
    return (
        f"Blocks take {first['nap']:g} s to read, {first['blocks']} for each worker. Efficiency is sleeping time / total time: the least in which "
        "these workers can sleep through all blocks, over that of the job. Every case runs once. Workers that leave finish their block first, which "
        "may give more than 1. -: the model counts on equal workers that stay.\n\n"
        + markdown(["job", "workers", "s", "efficiency", "measured / model"], rows)
    )
