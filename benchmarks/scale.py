"""How memory and time of a job grow with rows, and how its work spreads over workers: many, which sleep where they would read a block."""

from __future__ import annotations

import hashlib
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import zarr
from distributed import SchedulerPlugin, get_worker
from sklearn.pipeline import make_pipeline

from benchmarks.benchmark import MIB, Part, Record, Run, lines
from benchmarks.workers import connected, measured
from distrf import RandomFourierFeatures, StreamingRidge, StreamingSGDRegressor, featurize, plan

#: Rows of a block, so few that arithmetic is small beside the naps; seconds after which workers come or go.
ROWS, LATER = 4096, 5.0
#: A job and its workers. slow : factor of the naps of one of them; later : workers after `LATER`; grows : up to that number, as Dask decides
CASES: list[dict[str, Any]] = [
    *({"job": job, "workers": workers} for job in ("ridge", "featurize") for workers in (1, 16, 32, 64)),
    {"job": "ridge", "workers": 8, "slow": 5}, {"job": "ridge", "workers": 2, "later": 8}, {"job": "ridge", "workers": 1, "later": 16},
    {"job": "ridge", "workers": 8, "later": 4}, {"job": "ridge", "workers": 1, "later": 8, "grows": True},
    *({"job": "sgd", "workers": workers} for workers in (1, 2, 8, 32)),
]  # fmt: skip
#: The seconds of the nap of a block, on the worker "0" and on others.
NAPS = [0.0, 0.0]


class States(SchedulerPlugin):
    """The most states that one worker held at a time for tasks to come: results of the pass "gram", whose keys begin with its name."""

    def __init__(self, scheduler: Any):
        self.scheduler, self.most = scheduler, 0
        scheduler.add_plugin(self)

    def transition(self, key: Any, start: str, finish: str, *args: Any, **more: Any) -> None:
        if finish == "memory" and str(key).startswith("gram"):
            for worker in self.scheduler.workers.values():
                held = [t.dependents for t in worker.has_what if str(t.key).startswith("gram")]
                self.most = max(self.most, sum(any(u.state != "memory" for u in users) for users in held))


def block(width: int, naps: bool, block_info: Any = None) -> np.ndarray:
    """Rows, made where they are needed, after a nap."""
    first, last = block_info[None]["array-location"][0]
    if naps and any(NAPS):
        time.sleep(NAPS[str(get_worker().name) != "0"])
    return np.random.default_rng(first).normal(size=(last - first, width)).astype(np.float32)


def target(block_info: Any = None) -> np.ndarray:
    """Their targets. A function of its own: a target made of the block that X is made of would hold that block."""
    return np.sin(block(2, False, block_info).sum(axis=1))


def rows_of(n: int, step: int, width: int = 4, naps: bool = False) -> tuple[da.Array, da.Array]:
    """Lazy rows in no file, and their targets."""
    chunks = tuple(min(step, n - a) for a in range(0, n, step))
    X = da.map_blocks(block, width, naps, chunks=(chunks, (width,)), dtype="f4", meta=np.empty((0, 0), "f4"))
    return X, da.map_blocks(target, chunks=(chunks,), dtype="f4", meta=np.empty(0, "f4"))


def pipeline(job: str, D: int) -> Any:
    sgd = StreamingSGDRegressor(alpha=1e-6, n_epochs=1, tol=None, batch_size=1024, random_state=0)
    last = {"ridge": [StreamingRidge(1e-6)], "featurize": [], "sgd": [sgd]}[job]
    return make_pipeline(RandomFourierFeatures(gamma=0.05, n_components=D, random_state=0), *last)


def do(job: str, X: da.Array, y: da.Array, out: Path) -> tuple[np.ndarray, float | None]:
    """Run a job; some numbers that it made, and the seconds of a step of SGD."""
    if job == "featurize":
        featurize(pipeline(job, 32), X, out)
        return np.asarray(zarr.open_group(out, mode="r")["X"][-1000:]), None
    model = pipeline(job, 256 if job == "sgd" else 32).fit(X, y)[-1]
    return model.coef_, model.history_[0]["seconds"] / model.history_[0]["batches"] if job == "sgd" else None


def measure(each: int, nap: float, job: str, workers: int, slow=1, later=0, grows=False) -> Record:
    """A run with so many blocks for each worker that ever is, and such naps; of SGD with 10 times as many, and none."""
    NAPS[:] = [0.0, 0.0] if job == "sgd" else [nap * slow, nap]
    blocks = each * (10 if job == "sgd" else max(workers, later))
    X, y = rows_of(ROWS * blocks, ROWS, naps=True)
    quiet = warnings.catch_warnings(action="ignore")  # SGD on the few rows of a small run
    with tempfile.TemporaryDirectory() as folder, connected(workers, True, 0) as client, quiet:
        states, began = States(client.cluster.scheduler), time.perf_counter()
        timer = threading.Timer(LATER, client.cluster.scale, [later])
        if grows:
            client.cluster.adapt(minimum=workers, maximum=later)
        elif later:
            timer.start()
        made, step = do(job, X, y, Path(folder) / "store.zarr")
        wall = time.perf_counter() - began
        timer.cancel()
    before = LATER if later and not grows else 0.0
    ideal = before + (nap * blocks - before * workers) / (later or workers - 1 + 1 / slow)
    said = f"{workers}{f', one {slow} times slower' * (slow > 1)}{f', then {later}' * (later > 0)}{' at most' * grows}"
    bits = hashlib.sha256(np.ascontiguousarray(made)).hexdigest()[:12]
    about = {"job": job, "workers": workers, "case": said, "nap": nap, "blocks": each, "wall": wall}
    return about | {"efficiency": ideal / wall, "step": step, "states": states.most, "bits": bits}


def cluster(run: Run) -> Iterator[Record]:
    """Blocks take 1 s to read, 24 for each worker. Efficiency is the least time in which these workers can sleep through all blocks, over
    that of the job. Workers come or go after 5 s; those that go finish their block. States are the most that one worker held at a
    time. Every case runs once.
    """
    for case in CASES:
        if not run.small or (case["workers"] == 1 and "later" not in case):
            yield measure(*run.pick((24, 1.0), (2, 0.01)), **case)


def fit(n: int, step: int) -> None:
    pipeline("ridge", 256).fit(*rows_of(n, step, 16))


def warm() -> None:
    """Imports and compiled loops, in the process that calls it, without the cluster of the worker that is warmed."""
    with dask.config.set(scheduler="threads"):
        fit(256, 256)


def rows(run: Run) -> Iterator[Record]:
    """Ridge, 16 columns, D = 256, of ever more rows, on a fresh worker process each; seconds are processor seconds of client and worker."""
    for n in run.pick((100_000, 1_000_000, 10_000_000), (400, 800)):
        with connected(1, run.small) as client:
            planned = plan(pipeline("ridge", 256), *rows_of(n, 65_536, 16)).memory.peak
            client.run(warm)
            found, _ = measured(client, lambda n=n: fit(n, 65_536))
        yield {"rows": n, **found, "planned_bytes": planned}


PARTS = (
    Part(rows, lines({
        "rows": "{rows:,}", "MiB": lambda r: f"{r['bytes'] / MIB:,.0f}", "plan MiB": lambda r: f"{r['planned_bytes'] / MIB:,.0f}",
        "s": "{seconds:,.1f}", "wall s": "{wall:,.1f}",
    }), data=False),
    Part(cluster, lines({
        "job, workers": "{job}, {case}", "s": "{wall:.1f}", "efficiency": lambda r: "-" if r["step"] else f"{r['efficiency']:.2f}",
        "ms a step": lambda r: f"{1000 * r['step']:.0f}" if r["step"] else "-", "states": lambda r: r["states"] or "-", "bits": "{bits}",
    }), data=False),
)  # fmt: skip
