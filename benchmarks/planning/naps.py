"""Many workers on one machine: threads of this process, that sleep where they would read a block."""

from __future__ import annotations

import hashlib
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import zarr
from distributed import SchedulerPlugin, get_worker
from sklearn.pipeline import make_pipeline

from benchmarks.benchmark import Record, Run, markdown
from benchmarks.workers import connected
from distrf import RandomFourierFeatures, StreamingRidge, StreamingSGDRegressor, featurize

#: Rows of a block, so few that arithmetic is small beside the naps; seconds after which workers come or go.
ROWS, LATER = 4096, 5.0


@dataclass(frozen=True)
class Case:
    """A job and its workers. slow : factor of the naps of one worker; later : workers after some seconds; grows : to as many as Dask asks for"""

    job: str
    workers: int
    slow: float = 1.0
    later: int = 0
    grows: bool = False

    @property
    def said(self) -> str:
        if self.later:
            return (
                f"{self.workers} to {self.later}, adaptive"
                if self.grows
                else f"{self.workers}, then {self.later}"
            )
        return f"{self.workers}, one {self.slow:g} times slower" if self.slow > 1 else f"{self.workers}"


CASES = (
    *(Case(job, workers) for job in ("ridge", "featurize") for workers in (1, 16, 32, 64)),
    Case("ridge", 8, slow=5.0), Case("ridge", 2, later=8), Case("ridge", 1, later=16), Case("ridge", 8, later=4),
    Case("ridge", 1, later=8, grows=True), *(Case("sgd", workers) for workers in (1, 2, 8, 32)),
)  # fmt: skip


class Naps:
    """The seconds of a nap, those slept so far, and the factor of the worker "0"."""

    def __init__(self, seconds: float = 0.0, slow: float = 1.0):
        self.seconds, self.slow, self.slept, self.lock = seconds, slow, 0.0, threading.Lock()

    def take(self) -> None:
        time.sleep(self.seconds * (self.slow if str(get_worker().name) == "0" else 1.0))
        with self.lock:
            self.slept += self.seconds


now = [Naps()]


class States(SchedulerPlugin):
    """The most states that one worker held at a time: results of tasks of a pass over features, whose keys begin with its name."""

    def __init__(self, scheduler: Any):
        self.scheduler, self.most = scheduler, 0

    def transition(self, key: Any, start: str, finish: str, *args: Any, **more: Any) -> None:
        if finish == "memory" and str(key).startswith("gram"):
            held = (
                sum(str(task.key).startswith("gram") for task in w.has_what)
                for w in self.scheduler.workers.values()
            )
            self.most = max(self.most, *held)


def block(width: int, naps: bool, block_info: Any = None) -> np.ndarray:
    """Rows, made where they are needed, after a nap."""
    first, last = block_info[None]["array-location"][0]
    if naps and now[0].seconds:
        now[0].take()
    return np.random.default_rng(first).normal(size=(last - first, width)).astype(np.float32)


def target(block_info: Any = None) -> np.ndarray:
    """Their targets. A function of its own: a target made of the block that X is made of would hold that block."""
    return np.sin(block(2, False, block_info).sum(axis=1))


def rows_of(n: int, step: int, width: int = 4, naps: bool = False) -> tuple[da.Array, da.Array]:
    """Lazy rows in no file, and their targets."""
    chunks, dtype = tuple(min(step, n - a) for a in range(0, n, step)), np.float32
    X = da.map_blocks(block, width, naps, chunks=(chunks, (width,)), dtype=dtype, meta=np.empty((0, 0), dtype))
    return X, da.map_blocks(target, chunks=(chunks,), dtype=dtype, meta=np.empty(0, dtype))


def fitted(job: str, D: int) -> Any:
    """The pipeline of a job, before it is fitted."""
    last = {"ridge": [StreamingRidge(1e-6)], "featurize": []}
    sgd = [StreamingSGDRegressor(alpha=1e-6, n_epochs=1, tol=None, batch_size=1024, random_state=0)]
    return make_pipeline(RandomFourierFeatures(gamma=0.05, n_components=D, random_state=0), *last.get(job, sgd))


def do(job: str, X: da.Array, y: da.Array, out: Path) -> tuple[np.ndarray, float | None]:
    """Run a job; some numbers that it made, and the seconds of a step of SGD."""
    if job == "featurize":
        featurize(fitted(job, 32), X, out)
        return np.asarray(zarr.open_group(out, mode="r")["X"][-1000:]), None
    model = fitted(job, 32 if job == "ridge" else 256).fit(X, y)[-1]
    history = getattr(model, "history_", [])
    return model.coef_, sum(e["seconds"] for e in history) / sum(
        e["batches"] for e in history
    ) if history else None


def measure(case: Case, each: int, seconds: float) -> Record:
    """A run with so many blocks for each worker that ever is, and naps of so many seconds; SGD has 256 blocks and no naps."""
    now[0] = naps = Naps(0.0 if case.job == "sgd" else seconds, case.slow)
    most, moment = max(case.workers, case.later), [0.0]
    X, y = rows_of((each * most if case.job != "sgd" else 10 * each) * ROWS, ROWS, naps=True)
    with tempfile.TemporaryDirectory() as folder, connected(case.workers, True, 0) as client:
        client.wait_for_workers(case.workers)
        states, began = States(client.cluster.scheduler), time.perf_counter()
        client.cluster.scheduler.add_plugin(states)

        def change() -> None:
            moment[0] = time.perf_counter() - began
            client.cluster.scale(case.later)

        timer = threading.Timer(LATER * min(seconds, 1.0), change)
        if case.grows:
            client.cluster.adapt(minimum=case.workers, maximum=case.later)
        elif case.later:
            timer.start()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made, step = do(case.job, X, y, Path(folder) / "store.zarr")
        wall = time.perf_counter() - began
        timer.cancel()
    before = moment[0] * case.workers
    ideal = moment[0] + (naps.slept - before) / (
        most if case.grows else case.later or case.workers - 1 + 1 / case.slow
    )
    return {
        "job": case.job, "workers": case.workers, "case": case.said, "wall": wall, "efficiency": ideal / wall, "step": step, "states": states.most,
        "nap": seconds, "blocks": each, "bits": hashlib.sha256(np.ascontiguousarray(made)).hexdigest()[:12],
    }  # fmt: skip


def cluster(run: Run) -> Iterator[Record]:
    for case in run.pick(CASES, (Case("ridge", 2), Case("featurize", 2), Case("sgd", 1))):
        yield measure(case, *run.pick((24, 1.0), (2, 0.01)))


def where_steady(records: list[Record]) -> list[Record]:
    """Equal workers that stay."""
    return [r for r in records if r["case"] == str(r["workers"]) and r["job"] != "sgd"]


def show_cluster(records: list[Record]) -> str:
    cells = [
        [
            f"{r['job']}, {r['case']}", f"{r['wall']:.1f}", "-" if r["step"] else f"{r['efficiency']:.2f}", r["states"] or "-",
            f"{1000 * r['step']:.0f}" if r["step"] else "-", r["bits"],
        ]
        for r in records
    ]  # fmt: skip
    return (
        f"Blocks take {records[0]['nap']:g} s to read, {records[0]['blocks']} for each worker. Efficiency is the least time in which these workers can sleep through "
        "all blocks, over that of the job. Workers come or go after 5 s; those that go finish their block. States are the most that one worker held "
        "at a time. Every case runs once.\n\n"
        + markdown(["job, workers", "s", "efficiency", "states", "ms a step", "bits"], cells)
    )
